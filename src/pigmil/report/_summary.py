"""The summary of a detection: a plain dict from which every form of report is made."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from pigmil._core.text import count, sanitize, to_json_safe
from pigmil._core.version import __version__
from pigmil.bags import Bags
from pigmil.evaluation._splits import data_checksum
from pigmil.report._answer import detection_answer, feature_differences
from pigmil.report._pictures import graph_picture, heatmaps, instance_map, updating_replay
from pigmil.report._predictions import bag_predictions
from pigmil.report._ranking import ranked_bags
from pigmil.report._text import probability
from pigmil.report._thumbnails import Thumbnails

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def detection_summary(
    model: Any,
    bags: Bags,
    *,
    original: Bags | None = None,
    source: str,
    seed: int = 0,
    command: str | None = None,
    folds: int | None = None,
    groups: Any = None,
    selection: Any = None,
    diagnosis: Any = None,
    images: str | None = None,
    image_folder: str | os.PathLike[str] | None = None,
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
        Seed of the fit, and of the folds for held-out predictions.
    command : str, optional
        The command that the user ran.
    folds : int, optional
        Folds for held-out predictions of bags, each a new fit; 0 for none. By default five for
        small data.
    groups : str, array or tuple of these, optional
        Column of ``bag_info``, or one value per bag; bags of a group stay in one fold.
    selection : InstanceSelection, optional
        Instances called positive at a false-discovery level; the report opens with them.
    diagnosis : Diagnosis, optional
        From :func:`pigmil.diagnose`; its verdict and reasons are added to the answer.
    images : str, optional
        Column of ``instance_info`` with pictures of the instances: arrays, or paths of files.
    image_folder : path, optional
        Folder of relative paths in that column.

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
    >>> summary = detection_summary(model, bags, source="RING", folds=0)
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
    predictions = bag_predictions(
        model, bags, original=original, folds=folds, seed=seed, groups=groups
    )
    thumbnails = None if images is None else Thumbnails(known, images, folder=image_folder)
    ranking = ranked_bags(model, known, thumbnails, selection)
    called = model.detected_instances_ if selection is None else selection.called
    summary = {
        "kind": "detection",
        "title": f"{model.card.name} on {sanitize(source)}",
        "method": model.card.name,
        "facts": _facts(model, bags, positive, predictions, called, selection, diagnosis),
        "answer": detection_answer(
            model,
            known,
            predictions,
            selection=selection,
            diagnosis=diagnosis,
            thumbnails=thumbnails,
        ),
        "diagnosis": None if diagnosis is None else diagnosis.to_dict(),
        "bags": {
            "id": [sanitize(name) for name in known.ids],
            "label": [sanitize(label) for label in bags.y],
            "positive": positive.tolist(),
            "size": bags.sizes.tolist(),
        },
        "predictions": predictions,
        "ranking": ranking,
        "heatmaps": heatmaps(model, known, [bag["bag"] for bag in ranking["bags"]], selection),
        "features": feature_differences(known, np.unique(called), positive),
        "map": instance_map(model, bags, known, selection),
        "graph": graph_picture(model, bags),
        "updating": updating_replay(model, bags),
        "provenance": provenance(
            command, seed=seed, checksums={sanitize(source): data_checksum(known)}
        ),
    }
    parameters = {**model.get_params(deep=False)}
    summary["provenance"]["parameters"] = {
        name: str(to_json_safe(value, text=sanitize)) for name, value in sorted(parameters.items())
    }
    return summary


def _facts(
    model: Any,
    bags: Bags,
    positive: Any,
    predictions: dict[str, Any],
    detected: Any,
    selection: Any,
    diagnosis: Any,
) -> list[dict[str, str]]:
    """Return the tiles under the title: a name, a short value and a note."""
    n_detected, n_bags = len(np.unique(detected)), len(np.unique(bags.bag_index[detected]))
    level = "" if selection is None else f", at a false-discovery rate of {100 * selection.fdr:g} %"
    facts = [
        ("Detected", count(n_detected, "instance"), f"in {count(n_bags, 'bag')}{level}"),
        (
            "Bags",
            f"{bags.n_bags:,}",
            f"{int(positive.sum()):,} positive ({sanitize(model.positive_label_)}), "
            f"{int((~positive).sum()):,} negative",
        ),
        (
            "Instances",
            f"{bags.n_instances:,}",
            f"{_span(bags.sizes)} per bag, {count(bags.n_features, 'feature')} each",
        ),
        ("Method", model.card.name, f"{model.card.title} ({model.card.year})"),
    ]
    if diagnosis is not None:
        note = f"confidence {diagnosis.confidence:.2f} of 1"
        facts.insert(1, ("How sure", diagnosis.verdict, note))
    figures = predictions.get("figures")
    if figures:
        facts.append(
            (
                "Held-out bags",
                probability(figures["area under the ROC curve"]),
                f"area under the ROC curve; accuracy {100 * figures['accuracy']:.0f} %",
            )
        )
    if bags.instance_labels is not None and n_detected:
        truth = bags.instance_labels == np.unique(bags.instance_labels)[-1]
        right = float(np.mean(truth[detected]))
        facts.append(
            ("Truth", f"{100 * right:.1f} %", "of the detected instances are labelled positive")
        )
    return [{"name": name, "value": value, "note": note} for name, value, note in facts]


def _span(sizes: Any) -> str:
    least, most = int(sizes.min()), int(sizes.max())
    return str(least) if least == most else f"{least} to {most}"


def provenance(command: str | None, *, seed: Any, checksums: dict[str, str]) -> dict[str, Any]:
    """Return the command, versions, seed, data checksums and date of a report."""
    versions = {"pigmil": __version__, "Python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "command": None if command is None else sanitize(command, limit=2000),
        "seed": to_json_safe(seed, text=sanitize),
        "versions": versions,
        "checksums": checksums,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "parameters": {},
    }
