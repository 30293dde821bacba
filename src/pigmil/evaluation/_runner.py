"""``compare``: methods x data sets x repeats x folds, resumable, cell by cell."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from pigmil._core.errors import BagsError
from pigmil._core.text import to_json_safe
from pigmil.bags import Bags, as_bags
from pigmil.datasets import load_dataset
from pigmil.estimators import card_of, get_estimator
from pigmil.evaluation._audit import audit
from pigmil.evaluation._cells import Entry, compute_cell
from pigmil.evaluation._execution import Progress, Task, run_tasks
from pigmil.evaluation._executors import make_executor
from pigmil.evaluation._identity import estimator_identity
from pigmil.evaluation._results import Results
from pigmil.evaluation._splits import bag_groups, bag_splits, data_checksum
from pigmil.evaluation._store import Cell, Store, canonical_json

_logger = logging.getLogger("pigmil")


def compare(
    methods: str | Sequence[Any] | Mapping[str, Any],
    datasets: Any,
    *,
    repeats: int = 5,
    folds: int = 10,
    store: Any = "pigmil-results.sqlite",
    n_jobs: int | None = None,
    tune: bool = True,
    random_state: int = 0,
    groups: Any = None,
    pos_label: Any = None,
    strict: bool = False,
    retry_failed: bool = False,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Results:
    """Compare methods on data sets by repeated stratified cross-validation over bags.

    Preprocessing and tuning only use the training bags of a fold, and all methods have the same
    folds. Each finished cell (method, data set, repeat, fold) is saved immediately, so a
    call that was interrupted continues where it stopped. A cell that fails is saved with its error
    and does not stop the comparison.

    Parameters
    ----------
    methods : str, estimator, sequence of these, or mapping
        Names as in :func:`pigmil.all_estimators`: such a method is z-scored and tuned in every
        fold. Or estimators, pipelines and searches, which are fitted as they are. A mapping gives
        them labels: ``{"mine": make_pipeline(BagScaler(), MyMIL()), "MILES": "MILES"}``. A
        dictionary of parameters configures the method named by the label, up to a ``|``:
        ``{"PIGMIL|pool": {"prototypes": "pool"}}``.
    datasets : sequence of str, mapping of name to bags, or Bags
        Names as in :func:`pigmil.datasets.list_datasets`, or labelled bags under your own names.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    store : path, default="pigmil-results.sqlite"
        File of the results; several comparisons on one machine may share it.
    n_jobs : int, optional
        Number of worker processes. By default cells are computed in this process, or on the
        cluster of the active ``dask.distributed`` client. A worker that is killed, for example for
        lack of memory, fails its cell only. Only this process writes to the store.
    tune : bool, default=True
        Search the grid of a method's card by inner cross-validation.
    random_state : int, default=0
        Seed of folds and methods.
    groups : str, array, tuple of these, or mapping of data set to these, optional
        Bags that stay in one fold, outer and inner: ``"duplicates"`` for identical bags, a column
        of ``bag_info`` such as ``"patient"`` or ``"site"`` (site-preserving folds), or one value
        per bag. A tuple combines several.
    pos_label : label, or mapping of data set to label, optional
        The positive label of the bags; required where labels are text.
    strict : bool, default=False
        Raise an error if the audit of a data set has a severe finding.
    retry_failed : bool, default=False
        Compute cells again that failed before.
    time_limit, memory_limit : float, optional
        Seconds and mebibytes that a cell may take; cells are then computed in worker processes,
        and one that goes beyond its limit is recorded as failed.
    callback : callable, optional
        Called with a :class:`Progress` after every finished cell.

    Returns
    -------
    Results
        ``.table()``, ``.ranks()``, ``.significance()``, ``.export(path)``; write a report with
        :func:`pigmil.report.write_report`.

    Notes
    -----
    The key of a cell holds the import path of the estimator's class, the versions of the packages
    it comes from and its parameters, and of the data, the folds and the seed.

    Examples
    --------
    >>> import tempfile
    >>> from pigmil.datasets import make_ring
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = compare(
    ...         ["MILES"], {"ring": make_ring(random_state=0)}, repeats=1, folds=2,
    ...         store=folder + "/results.sqlite",
    ...     )
    ...     len(results.rows)
    2
    """
    executor = make_executor(n_jobs, time_limit=time_limit, memory_limit=memory_limit)
    entries = _check_methods(methods)
    given = _check_datasets(datasets)
    sets = {
        name: _with_positive_label(bags, _for_data_set(pos_label, name), name)
        for name, bags in given.items()
    }
    grouping = {name: bag_groups(bags, _for_data_set(groups, name)) for name, bags in sets.items()}
    with Store(store) as open_store:
        findings = _audit_all(sets, grouping, open_store, folds, repeats, random_state, strict)
        tasks = [
            task
            for name, bags in sets.items()
            for task in _tasks(
                name,
                bags,
                grouping[name],
                {label: _relabel(entry, given[name], bags) for label, entry in entries.items()},
                repeats,
                folds,
                tune,
                random_state,
            )
        ]
        # Repeat by repeat: if stopped early, every method has results on every data set.
        tasks.sort(key=lambda task: task.cell.repeat)
        if retry_failed:
            open_store.forget_failures(task.cell.key for task in tasks)
        rows = run_tasks(tasks, open_store, executor=executor, callback=callback)
    return Results(rows, findings=findings, path=Path(store))


def _tasks(
    name: str,
    bags: Bags,
    groups: Any,
    entries: Mapping[str, Entry],
    repeats: int,
    folds: int,
    tune: bool,
    random_state: int,
) -> Iterator[Task]:
    checksum = data_checksum(bags)
    splits = list(
        bag_splits(bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups)
    )
    for label, entry in entries.items():
        path, parameters, version = estimator_identity(entry.estimator)
        protocol = {
            "folds": folds,
            "seed": random_state,
            "groups": groups,
            "scale": entry.protocol,
            "tune": tune and entry.protocol,
            "fixed": sorted(entry.fixed),
        }
        for split in splits:
            cell = Cell(
                data=name,
                checksum=checksum,
                method=label,
                estimator=path,
                parameters=parameters,
                protocol=canonical_json(protocol),
                repeat=split.repeat,
                fold=split.fold,
                version=version,
            )
            arguments = {
                "split": split,
                "entry": entry,
                "groups": groups,
                "tune": tune,
                "seed": random_state + split.repeat,
            }
            yield Task(cell, compute_cell, arguments, {"bags": (checksum, bags)})


def _check_datasets(datasets: Any) -> dict[str, Bags]:
    if isinstance(datasets, Bags):
        sets = {"data": datasets}
    elif isinstance(datasets, Mapping):
        sets = {str(name): as_bags(bags) for name, bags in datasets.items()}
    else:
        names = [datasets] if isinstance(datasets, str) else list(datasets)
        sets = {name: load_dataset(name) for name in names}
    for name, bags in sets.items():
        if bags.y is None:
            raise BagsError(f"The data set '{name}' has no labels; pass bags with y.")
    return sets


def _for_data_set(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value


def _with_positive_label(bags: Bags, pos_label: Any, name: str) -> Bags:
    """Return the bags with labels 0 and 1 if a positive label is given, or raise if it is needed.

    Text labels have no order that could say which one is positive.
    """
    values, counts = np.unique(bags.y, return_counts=True)
    if pos_label is None:
        if len(values) == 2 and isinstance(values[-1], str):
            choices = " or ".join(
                f"pos_label={str(value)!r} ({count} bags)"
                for value, count in zip(values, counts, strict=True)
            )
            raise BagsError(
                f"The labels of '{name}' are text; say which one is positive: {choices}."
            )
        return bags
    if pos_label not in values:
        raise BagsError(
            f"pos_label={pos_label!r} is not among the labels {values.tolist()} of '{name}'."
        )
    labels = bags.instance_labels
    if labels is not None:
        known = labels == labels
        positive = pos_label if (labels[known] == pos_label).any() else max(labels[known])
        labels = np.where(known, (labels == positive).astype(np.float64), np.nan)
    return Bags(
        bags.instances,
        bags.offsets,
        ids=bags.ids,
        y=(bags.y == pos_label).astype(np.int64),
        instance_labels=labels,
        feature_names=bags.feature_names,
        instance_info=bags.instance_info,
        bag_info=bags.bag_info,
    )


def _relabel(entry: Entry, given: Bags, bags: Bags) -> Entry:
    """Return the entry with its own ``pos_label`` translated to the labels 0 and 1 of the bags."""
    if given is bags:
        return entry
    codes = dict(zip(given.y.tolist(), bags.y.tolist(), strict=True))
    translated = {
        name: codes[value]
        for name, value in entry.estimator.get_params().items()
        if name.rpartition("__")[2] == "pos_label" and value in codes
    }
    return replace(entry, estimator=clone(entry.estimator).set_params(**translated))


def _check_methods(methods: Any) -> dict[str, Entry]:
    if isinstance(methods, Mapping):
        entries = dict(_named_entry(str(label), value) for label, value in methods.items())
        n_given = len(methods)
    else:
        alone = isinstance(methods, str) or hasattr(methods, "fit")
        given = [methods] if alone else list(methods)
        entries = dict(
            _named_entry(one if isinstance(one, str) else type(one).__name__, one) for one in given
        )
        n_given = len(given)
    if len(entries) < n_given:
        raise ValueError("Two methods have the same label; give a mapping of labels to estimators.")
    return entries


def _named_entry(label: str, value: Any) -> tuple[str, Entry]:
    if isinstance(value, str):
        estimator = get_estimator(value)()
        return (card_of(value).name if label == value else label), Entry(estimator, protocol=True)
    if isinstance(value, Mapping):
        name, _, variant = label.partition("|")
        printed = card_of(name).name
        estimator = get_estimator(name)().set_params(**value)
        return (
            f"{printed}|{variant}" if variant else printed,
            Entry(estimator, protocol=True, fixed=tuple(value)),
        )
    if not (hasattr(value, "fit") and hasattr(value, "get_params")) or isinstance(value, type):
        raise TypeError(
            f"{label!r} must be an estimator, the name of a method or a dictionary of its "
            f"parameters; got {value!r}."
        )
    return label, Entry(value)


def _audit_all(
    sets: Mapping[str, Bags],
    grouping: Mapping[str, Any],
    store: Store,
    folds: int,
    repeats: int,
    random_state: int,
    strict: bool,
) -> dict[str, list[dict[str, Any]]]:
    findings: dict[str, list[dict[str, Any]]] = {}
    for name, bags in sets.items():
        audited = audit(
            bags, folds=folds, repeats=repeats, random_state=random_state, groups=grouping[name]
        )
        findings[name] = [to_json_safe(vars(finding)) for finding in audited]
        store.save_audit(data_checksum(bags), name, findings[name])
        for finding in audited:
            _logger.warning("%s: %s", name, finding.message)
    impossible = {"unlabelled", "classes", "small_class", "few_groups"}
    refused = [
        f"{name}: {finding['message']}"
        for name, audited in findings.items()
        for finding in audited
        if finding["severe"] and (strict or finding["kind"] in impossible)
    ]
    if refused:
        raise BagsError("The comparison is refused:\n" + "\n".join(f"- {line}" for line in refused))
    return findings


__all__ = ["Progress", "compare"]
