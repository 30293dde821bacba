"""The summary of a detection: a plain dict from which every form of report is made."""

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from pigmil._core.json import to_json_safe
from pigmil._core.text import count, sanitize
from pigmil._core.version import __version__
from pigmil.bags import Bags
from pigmil.evaluation.splits import data_checksum
from pigmil.report.pictures import graph_picture, instance_map, updating_replay
from pigmil.report.predictions import bag_predictions
from pigmil.report.ranking import ranked_bags

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
    summary = {
        "kind": "detection",
        "title": f"{model.card.name} on {sanitize(source)}",
        "method": model.card.name,
        "facts": _facts(model, bags, positive, source),
        "bags": {
            "id": [sanitize(name) for name in known.ids],
            "label": [sanitize(label) for label in bags.y],
            "positive": positive.tolist(),
            "size": bags.sizes.tolist(),
        },
        "predictions": bag_predictions(model, bags, original=original, folds=folds, seed=seed),
        "ranking": ranked_bags(model, known),
        "map": instance_map(model, bags, known),
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


def _facts(model: Any, bags: Bags, positive: Any, source: str) -> list[dict[str, str]]:
    scored = int(np.isfinite(model.instance_scores_).sum())
    facts = {
        "Data": f"{sanitize(source)}: {count(bags.n_bags, 'bag')}, "
        f"{count(bags.n_instances, 'instance')}, {count(bags.n_features, 'feature')}",
        "Bags": f"{int(positive.sum()):,} positive ({sanitize(model.positive_label_)}), "
        f"{int((~positive).sum()):,} negative; "
        f"{_span(bags.sizes)} instances each",
        "Method": f"{model.card.name}: {model.card.title} ({model.card.year})",
        "Detected": f"{count(len(model.detected_instances_), 'instance')} in "
        f"{count(len(np.unique(bags.bag_index[model.detected_instances_])), 'bag')}",
    }
    if scored < bags.n_instances:
        facts["Scores"] = f"{scored:,} of {bags.n_instances:,} instances have a score"
    working = getattr(model, "working_bags_", None)
    if working is not None and not working.kept.all():
        aside = bags.ids[working.bags[~working.kept]]
        names = ", ".join(sanitize(name) for name in aside[:5])
        facts["Not used"] = (
            f"{len(aside)} of {len(working.kept)} positive bags, their best instances being much "
            "worse than the others': " + names + (", …" if len(aside) > 5 else "")
        )
    if bags.instance_labels is not None:
        truth = bags.instance_labels == np.unique(bags.instance_labels)[-1]
        right = float(np.mean(truth[model.detected_instances_]))
        facts["Truth"] = f"{100 * right:.1f} % of the detected instances are labelled positive"
    return [{"name": name, "value": value} for name, value in facts.items()]


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
