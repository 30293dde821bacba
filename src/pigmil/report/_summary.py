"""Summaries of a detection and of a retrieval: plain dicts, from which reports are written."""

import hashlib
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from pigmil._core import __version__
from pigmil._core.segments import segment_argmax
from pigmil._core.text import count, probability, sanitize, to_json_safe
from pigmil.bags import Bags, mark_values
from pigmil.datasets import content_sha256
from pigmil.evaluation import diagnose
from pigmil.report._pictures import Thumbnails, feature_differences, heatmaps, instance_map
from pigmil.report._ranking import (
    column_title,
    detected_mask,
    info_columns,
    instance_fields,
    ranked_bags,
    ranked_rows,
    rounded,
)

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
_TOP_ROWS = 10


def detection_summary(
    model: Any,
    bags: Bags,
    *,
    original: Bags | None = None,
    source: str,
    seed: int = 0,
    command: str | None = None,
    selection: Any = None,
    images: str | None = None,
    image_folder: str | os.PathLike[str] | None = None,
    marks: Any = None,
) -> dict[str, Any]:
    """Summarise the instances that a method detected in its training bags.

    Parameters
    ----------
    model : fitted detecting method
        A method that detects instances.
    bags : Bags
        The training bags.
    original : Bags, optional
        The same bags before standardisation by :class:`pigmil.BagScaler`.
    source : str
        Name of the data, for the reader.
    seed : int, default=0
        Seed of the fit.
    command : str, optional
        The command that the user ran.
    selection : InstanceSelection, optional
        Instances called positive at a false-discovery level, and how far to trust them; the report
        opens with them.
    images : str, optional
        Column of ``instance_info`` with pictures of the instances: arrays, or paths of files.
    image_folder : path, optional
        Folder of relative paths in that column.
    marks : path, frame, mapping or array, optional
        Marks on instances that the model learned from, see :meth:`pigmil.Bags.with_marks`.

    Returns
    -------
    dict
        Dicts, lists, strings, finite numbers, booleans and None only; see :func:`write_report`.

    Examples
    --------
    >>> from pigmil import PIGMIL
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> model = PIGMIL(random_state=0).fit(bags)
    >>> summary = detection_summary(model, bags, source="RING")
    >>> summary["title"]
    'PIGMIL on RING'
    """
    if not model.card.detects:
        raise ValueError(f"{model.card.name} classifies bags but does not score instances.")
    if bags.y is None:
        raise ValueError("A report needs the bag labels; pass bags with y.")
    known = bags if original is None else original
    if known.n_instances != bags.n_instances or len(model.instance_scores_) != bags.n_instances:
        raise ValueError(
            f"The model scored {len(model.instance_scores_)} training instances, but these bags "
            f"have {bags.n_instances}; pass the bags it was fitted on."
        )
    positive = np.asarray(bags.y == model.positive_label_)
    values = None if marks is None else mark_values(known, marks)
    thumbnails = None if images is None else Thumbnails(known, images, folder=image_folder)
    ranking = ranked_bags(model, known, thumbnails, selection, values)
    called = model.detected_instances_ if selection is None else selection.called
    diagnosis = None if selection is None else selection.diagnosis
    checksum = content_sha256(known)
    return {
        "kind": "detection",
        "title": f"{model.card.name} on {sanitize(source)}",
        "method": model.card.name,
        "facts": _facts(model, bags, positive, called, selection, values),
        "answer": detection_answer(model, known, selection, thumbnails),
        "diagnosis": None if diagnosis is None else diagnosis.to_dict(),
        "bags": {
            "id": [sanitize(name) for name in known.ids],
            "label": [sanitize(label) for label in bags.y],
            "positive": positive.tolist(),
            "size": bags.sizes.tolist(),
        },
        "marks": _page_marks(known, values, checksum),
        "ranking": ranking,
        "heatmaps": heatmaps(model, known, [bag["bag"] for bag in ranking["bags"]], selection),
        "features": feature_differences(known, np.unique(called), positive),
        "map": instance_map(model, bags, known, selection),
        "provenance": provenance(
            command, seed, {sanitize(source): checksum}, model.get_params(deep=False)
        ),
    }


def _page_marks(bags: Bags, marks: Any, checksum: str) -> dict[str, Any]:
    """Return the marks given, the ids for the table that the page saves, and a storage key.

    The page begins with the marks given. The browser keeps changes under the key, which depends on
    the data and on the marks given.
    """
    rows = [] if marks is None else np.flatnonzero(~np.isnan(marks)).tolist()
    owner = bags.bag_index
    given = [
        [int(owner[row]), int(row - bags.offsets[owner[row]]), "yes" if marks[row] else "no"]
        for row in rows
    ]
    state = hashlib.sha256(repr(given).encode()).hexdigest()[:16]
    key = f"pigmil marks {checksum} {state}"
    return {"key": key, "ids": [str(name) for name in bags.ids], "given": given}


def _facts(
    model: Any, bags: Bags, positive: Any, detected: Any, selection: Any, marks: Any
) -> list[dict[str, str]]:
    """Return the tiles under the title: a name, a short value and a note."""
    n_detected, n_bags = len(np.unique(detected)), len(np.unique(bags.bag_index[detected]))
    level = "" if selection is None else f", at a false-discovery rate of {100 * selection.fdr:g} %"
    labels = f"{int(positive.sum()):,} positive ({sanitize(model.positive_label_)}), "
    labels += f"{int((~positive).sum()):,} negative"
    least, most = int(bags.sizes.min()), int(bags.sizes.max())
    sizes = str(least) if least == most else f"{least} to {most}"
    sizes += f" per bag, {count(bags.n_features, 'feature')} each"
    facts = [
        ("Detected", count(n_detected, "instance"), f"in {count(n_bags, 'bag')}{level}"),
        ("Bags", f"{bags.n_bags:,}", labels),
        ("Instances", f"{bags.n_instances:,}", sizes),
        ("Method", model.card.name, f"{model.card.title} ({model.card.year})"),
    ]
    if selection is not None:
        note = f"confidence {selection.diagnosis.confidence:.2f} of 1"
        facts.insert(1, ("How sure", selection.diagnosis.verdict, note))
    if marks is not None:
        right, wrong = int((marks == 1).sum()), int((marks == 0).sum())
        note = f"{right:,} positive, {wrong:,} negative; the method learned from them"
        facts.append(("Marks", f"{right + wrong:,}", note))
    if bags.instance_labels is not None and n_detected:
        truth = bags.instance_labels == np.unique(bags.instance_labels)[-1]
        share = f"{100 * float(np.mean(truth[detected])):.1f} %"
        facts.append(("Truth", share, "of the detected instances are labelled positive"))
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def provenance(
    command: str | None, seed: Any, checksums: dict[str, str], parameters: Any = None
) -> dict[str, Any]:
    """Return the command, versions, seed, checksums, date and parameters behind a report."""
    versions = {"pigmil": __version__, "Python": platform.python_version()}
    return {
        "command": None if command is None else sanitize(command, limit=2000),
        "seed": to_json_safe(seed, text=sanitize),
        "versions": versions | {name: version(name) for name in _PACKAGES},
        "checksums": checksums,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parameters": {
            name: str(to_json_safe(value, text=sanitize))
            for name, value in sorted((parameters or {}).items())
        },
    }


def detection_answer(
    model: Any, bags: Bags, selection: Any = None, thumbnails: Thumbnails | None = None
) -> dict[str, Any]:
    """Return which instances make bags positive, and how sure that is.

    Parameters
    ----------
    model : fitted detecting method
        Fitted on these bags.
    bags : Bags
        The bags as the user provided them.
    selection : InstanceSelection, optional
        Instances called positive at a false-discovery level, and how far to trust them.
    thumbnails : Thumbnails, optional
        Pictures of the instances.

    Returns
    -------
    dict
        ``headline``, ``verdict``, ``sure`` (sentences), ``rows`` (the best instances),
        ``columns``, ``level`` and ``more``, the number of instances that are not listed.
    """
    positive = np.asarray(bags.y == model.positive_label_)
    called = np.flatnonzero(detected_mask(model, bags, selection))
    level = None if selection is None else float(selection.fdr)
    n_bags = len(np.unique(bags.bag_index[called]))
    headline = (
        f"{count(len(called), 'instance')} in {n_bags} of "
        f"{count(int(positive.sum()), 'positive bag')} {'is' if len(called) == 1 else 'are'} "
        f"{'detected' if level is None else 'called positive'}"
    )
    if level is not None:
        headline += f", at a false-discovery rate of {100 * level:g} %"
    sure = _calls(level, len(called), int(positive.sum()) - n_bags)
    if selection is not None:
        sure += [sanitize(note, limit=600) for note in selection.notes]
    scored = int(np.isfinite(model.instance_scores_).sum())
    if scored < bags.n_instances:
        sure.append(f"{scored:,} of {count(bags.n_instances, 'instance')} have a score.")
    names, same = info_columns(bags)
    names += same
    rows, more = _best_rows(model, bags, selection, names, thumbnails)
    lines = [] if selection is None else selection.diagnosis.lines
    return {
        "headline": headline + ".",
        "verdict": None if selection is None else selection.diagnosis.headline,
        "sure": [*(sanitize(line, limit=600) for line in lines), *sure],
        "level": level,
        "columns": [{**column_title(bags, name), "of_bag": name in same} for name in names],
        "rows": rows,
        "more": more,
    }


def _calls(level: float | None, n_called: int, n_without: int) -> list[str]:
    """Return what the level means for this number of calls."""
    if level is None:
        return [
            "No false-discovery level was computed: read the scores as a ranking, and the first "
            "instances of each bag as the best candidates."
        ]
    if not n_called:
        return [f"No instance stands out enough for a level of {100 * level:g} %."]
    missed = "Every positive bag has a call."
    if n_without:
        verb = "has" if n_without == 1 else "have"
        missed = f"{count(n_without, 'positive bag')} {verb} no call."
    return [
        f"On average at most {100 * level:g} % of the called instances are false: about "
        f"{level * n_called:,.0f} of {n_called:,}. {missed}"
    ]


def _best_rows(
    model: Any, bags: Bags, selection: Any, names: Sequence[str], thumbnails: Thumbnails | None
) -> tuple[list[dict[str, Any]], int]:
    """Return the instances called positive, or the best one of each positive bag."""
    order = ranked_rows(model, bags)
    levels = np.full(bags.n_instances, np.nan)
    if selection is None:
        _, first = np.unique(bags.bag_index[order], return_index=True)
        order = order[np.sort(first)]
    else:
        levels[selection.instances] = selection.adjusted
        order = order[np.isin(order, selection.called)]
        order = order[np.argsort(levels[order], kind="stable")]
    rows = [
        {
            "bag": sanitize(bags.ids[bags.bag_index[row]]),
            "bag_number": int(bags.bag_index[row]),
            "level": None if selection is None else probability(levels[row]),
            **instance_fields(model, bags, row, names, thumbnails),
        }
        for row in order[:_TOP_ROWS].tolist()
    ]
    return rows, len(order) - len(rows)


def retrieval_summary(
    index: Any,
    bags: Bags,
    queries: Sequence[Any],
    *,
    k: int = 10,
    source: str,
    command: str | None = None,
    images: str | None = None,
    image_folder: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Summarise the bags that resemble each query by their detected instances.

    Parameters
    ----------
    index : InstanceIndex
        Fitted on ``bags``.
    bags : Bags
        The indexed bags; labels are shown if they have any.
    queries : sequence of ids
        Ids of the bags to ask with.
    k : int, default=10
        Number of bags for each query.
    source : str
        Name of the data, for the reader.
    command : str, optional
        The command that the user ran.
    images : str, optional
        Column of ``instance_info`` with pictures of the instances: arrays, or paths of files.
    image_folder : path, optional
        Folder of relative paths in that column.

    Returns
    -------
    dict
        Dicts, lists, strings, finite numbers, booleans and None only; see :func:`write_report`.
    """
    thumbnails = None if images is None else Thumbnails(bags, images, folder=image_folder)
    names, _ = info_columns(bags)
    names = [name for name in names if name != images]
    best = segment_argmax(index.instance_scores_, bags.offsets)
    owners = {bag: at for at, bag in enumerate(bags.ids.tolist())}

    def fields(bag: Any, row: int) -> dict[str, Any]:
        label = None if bags.y is None else sanitize(bags.y[owners[bag]])
        values = instance_fields(index, bags, row, names, thumbnails)
        return {"bag": sanitize(bag), "label": label, **values}

    answers = [
        {
            **fields(query, int(best[owners[query]])),
            "rows": [
                {
                    **fields(match.bag, match.instance),
                    "similarity": rounded(match.similarity)[0],
                    "distance": rounded(match.distance)[0],
                }
                for match in index.query(query, k=k)
            ],
        }
        for query in queries
    ]
    n_found = max((len(answer["rows"]) for answer in answers), default=0)
    asked = "the query" if len(answers) == 1 else f"each of {len(answers)} queries"
    model = index.model[-1] if hasattr(index.model, "steps") else index.model
    sizes = f"{count(bags.n_bags, 'bag')}, {count(bags.n_instances, 'instance')}"
    facts = {"Model": model.card.name, "Indexed": sizes}
    with suppress(ValueError):  # not every fit holds out bags
        facts["How sure"] = diagnose(model).headline
    return {
        "kind": "retrieval",
        "title": f"Bags of {sanitize(source)} by detected instances",
        "headline": f"The {n_found} bags that are most similar to {asked}",
        "facts": [{"name": name, "value": value, "note": ""} for name, value in facts.items()],
        "columns": [column_title(bags, name) for name in names],
        "labelled": bags.y is not None,
        "pictured": thumbnails is not None,
        "queries": answers,
        "provenance": provenance(command, seed=None, checksums={}),
    }
