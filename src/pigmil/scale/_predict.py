"""Scores of lazy bags, block by block, in memory or in Parquet files."""

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, import_optional
from pigmil._core.files import atomic_write
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.bags._lazy import LazyBags
from pigmil.io._defence import check_readable, parsing
from pigmil.scale._engine import map_blocks

_PLAN = b"pigmil"  # metadata of each file, so that the folder holds nothing but Parquet files


def stream(model: Any, method: str, bags: LazyBags) -> NDArray[Any]:
    """Call a method of a fitted model on every block and join the results.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str
        Name of a method that returns one entry per bag or per instance.
    bags : LazyBags
        The bags.
    """
    call = partial(_call, without_training_scores(model), method)
    return np.concatenate(list(map_blocks(call, bags)))


def without_training_scores(model: Any) -> Any:
    """Return a shallow copy to be sent to workers, without what was kept of training instances."""
    light = copy.copy(model)
    for name in ("instance_scores_", "held_out_", "trace_"):
        if name in vars(light):
            delattr(light, name)
    if hasattr(light, "steps"):
        light.steps = [(name, without_training_scores(step)) for name, step in light.steps]
    return light


def _call(model: Any, method: str, block: Bags) -> Any:
    return getattr(model, method)(block)


def predict_to_parquet(
    model: Any, bags: LazyBags, folder: str | os.PathLike[str], *, info: bool = True
) -> list[Path]:
    """Write the scores of every block, and go on where a stopped call was.

    Each block becomes ``part-00000.parquet`` and so on, with one row per instance: ``bag``,
    ``instance`` (its position in the bag), ``score``, and further data on the instance such as
    coordinates; if the model classifies bags, also ``bag_score`` and ``predicted``. For a model
    that does not score instances there is one row per bag. With more than two classes there is a
    column for each, ``score_LABEL``. Files are written atomically; those that are there
    already are kept, so the same call after an interruption computes the rest. On a cluster the
    workers write, to a folder that they share. The folder holds nothing else, so that pandas,
    Arrow and polars read it as one table.

    Parameters
    ----------
    model : estimator or pipeline
        Fitted.
    bags : LazyBags
        The bags.
    folder : path
        Made if it does not exist. Of an earlier call, it must belong to the same bags and model.
    info : bool, default=True
        Whether to write the data that come with the instances.

    Returns
    -------
    list of Path
        The files, in the order of the bags.
    """
    first = _scores(model, bags[:1].load(info=False))
    scores = np.concatenate([np.ravel(values) for values in first.values()])
    plan = _plan(bags) | {"first_scores": scores.tolist()}
    column = "score" if "score" in first else "bag_score"
    return _write_missing(lambda: model, bags, Path(folder), plan, column, info=info)


def keep_scores(
    fit: Callable[[], Any], bags: LazyBags, folder: Path, note: dict[str, Any]
) -> FloatArray:
    """Return instance scores by a model, written to a folder so that they need no second fit.

    Parameters
    ----------
    fit : callable
        Returns the model; called unless all scores are there.
    bags : LazyBags
        The bags to score.
    folder : path
        As in :func:`predict_to_parquet`.
    note : dict
        On the model, written with the scores and compared with that of an earlier call.
    """
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Keeping scores")
    plan = _plan(bags) | {"note": note}
    files = _write_missing(fit, bags, Path(folder), plan, "score", info=True)
    with parsing(Path(folder), "parquet"):
        parts = [parquet.read_table(file, columns=["score"])["score"].to_numpy() for file in files]
    return np.concatenate(parts)


def _plan(bags: LazyBags) -> dict[str, Any]:
    """Return what files of scores belong to; it is written into each of them."""
    ids = [str(bag_id) for bag_id in bags.ids.tolist()]
    sizes = [part.n_bags for part in bags.partitions()]
    return {"bags": hashlib.sha256(json.dumps([ids, sizes]).encode()).hexdigest()}


def _write_missing(
    get_model: Callable[[], Any],
    bags: LazyBags,
    folder: Path,
    plan: dict[str, Any],
    column: str,
    *,
    info: bool,
) -> list[Path]:
    """Write the files that are not there yet, after checking those that are."""
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    parts = bags.partitions()
    files = [folder / f"part-{at:05d}.parquet" for at in range(len(parts))]
    sizes = [part.n_instances if column == "score" else part.n_bags for part in parts]
    n_rows = dict(zip(files, sizes, strict=True))
    for file in sorted(folder.glob("part-*.parquet")):
        _check_file(file, plan, column, n_rows.get(file))
    for leftover in folder.glob(".part-*.parquet"):  # of a write that was killed
        leftover.unlink()
    missing = [at for at, file in enumerate(files) if not file.exists()]
    if missing:
        write = partial(_write_part, without_training_scores(get_model()), json.dumps(plan))
        todo = [parts[at] for at in missing]
        for _ in map_blocks(write, todo, [files[at] for at in missing], info=info):
            pass
    return files


def _check_file(file: Path, plan: dict[str, Any], column: str, n_rows: int | None) -> None:
    """Refuse a file of an earlier call with other bags or another model, or that is not whole."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing Parquet")
    check_readable(file)
    with parsing(file, "parquet"), parquet.ParquetFile(file) as opened:
        schema, n_found = opened.schema_arrow, opened.metadata.num_rows
        earlier = json.loads((schema.metadata or {}).get(_PLAN, b"{}"))
        scores, expected = (
            np.asarray(found.get("first_scores", ()), dtype=float) for found in (earlier, plan)
        )
    same_scores = scores.shape == expected.shape and np.allclose(
        scores, expected, rtol=1e-6, atol=1e-12
    )
    checks = {
        "other bags": earlier.get("bags") == plan["bags"],
        "another estimator or of a fit on other bags": earlier.get("note") == plan.get("note"),
        "another model": same_scores,
    }
    for other, is_same in checks.items():
        if not is_same:
            raise BagsError(
                f"{file.parent} holds the scores of {other} ({file.name}); give another folder, or "
                "delete this one."
            )
    has_scores = any(name == column or name.startswith(f"{column}_") for name in schema.names)
    if n_rows is not None and (n_found != n_rows or not has_scores):
        raise BagsError(
            f"{file} has {n_found} rows, and {n_rows} with a {column} belong there; delete it to "
            "compute it again."
        )


def _scores(model: Any, block: Bags) -> dict[str, NDArray[Any]]:
    """Return what a model says about a block: scores of instances if it has them, and of bags."""
    method, seen = model, block
    if hasattr(model, "steps"):
        method, seen = model[-1], model[:-1].transform(block) if len(model) > 1 else block
    found = {}
    if hasattr(method, "decision_function_instances"):
        found["score"] = method.decision_function_instances(seen)
    if hasattr(method, "decision_function"):
        found["bag_score"] = method.decision_function(seen)
    return found


def _write_part(model: Any, plan: str, block: Bags, file: Path) -> None:
    pyarrow = import_optional("pyarrow", extra="io", purpose="Writing Parquet")
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing Parquet")
    method = model[-1] if hasattr(model, "steps") else model
    scores = _scores(model, block)
    by_instance = "score" in scores
    index = block.bag_index if by_instance else np.arange(block.n_bags)
    columns: dict[str, Any] = {"bag": block.ids[index]}
    if by_instance:
        columns["instance"] = np.arange(block.n_instances) - block.offsets[index]
        columns |= _columns("score", scores["score"], method.classes_)
    if "bag_score" in scores:
        columns |= _columns("bag_score", scores["bag_score"][index], method.classes_)
        columns["predicted"] = method._labels_of(scores["bag_score"])[index]
    if by_instance and block.instance_labels is not None:
        columns["instance_label"] = block.instance_labels
    for name, values in block.instance_info.items() if by_instance else ():
        name = f"info_{name}" if name in columns else name  # never in place of a score
        if values.ndim <= 2:
            columns |= _columns(name, values, range(values.shape[-1]))
    with atomic_write(file) as temporary:
        table = pyarrow.table(columns).replace_schema_metadata({_PLAN: plan})
        parquet.write_table(table, temporary)


def _columns(name: str, values: NDArray[Any], titles: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Return an array as a column, or each of its columns with a title of its own."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{title}": each for title, each in zip(titles, values.T, strict=True)}
