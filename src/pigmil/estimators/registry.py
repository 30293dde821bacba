"""The list of all methods, by name, loaded when they are asked for."""

import importlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pigmil._core.text import did_you_mean

if TYPE_CHECKING:
    from pigmil.estimators._parameters import Card

# Class name -> module, in the order in which the methods are shown.
METHODS: dict[str, str] = {
    "PIGMIL": "pigmil.estimators.pigmil",
    "SoftPIGMIL": "pigmil.estimators.soft_pigmil",
    "KDEMin": "pigmil.estimators.kde",
    "KDE": "pigmil.estimators.kde",
    "KDEMax": "pigmil.estimators.kde",
    "APR": "pigmil.estimators.apr",
    "DD": "pigmil.estimators.diverse_density",
    "EMDD": "pigmil.estimators.diverse_density",
    "MiSVM": "pigmil.estimators.mi_svm",
    "MISVM": "pigmil.estimators.mi_svm",
    "BagKISVM": "pigmil.estimators.ki_svm",
    "InsKISVM": "pigmil.estimators.ki_svm",
    "MILD": "pigmil.estimators.mild",
    "MiSim": "pigmil.estimators.mi_sim",
    "MILIS": "pigmil.estimators.milis",
    "CitationKNN": "pigmil.estimators.citation_knn",
    "MIKernel": "pigmil.estimators.mi_kernel",
    "MILES": "pigmil.estimators.miles",
    "MiGraph": "pigmil.estimators.mi_graph",
    "MIGraph": "pigmil.estimators.mi_graph",
    "ClusteringMIL": "pigmil.estimators.clustering_mil",
    "MInD": "pigmil.estimators.mind",
    "SIL": "pigmil.estimators.sil",
    "MaxPoolingLR": "pigmil.estimators.max_pooling_lr",
    "MMIL": "pigmil.estimators.mmil",
    "SingleInstance": "pigmil.estimators.single_instance",
    "StatisticsSVC": "pigmil.estimators.statistics",
    "StatisticsBoosting": "pigmil.estimators.statistics",
}
# Methods that need torch to be fitted, listed on request only.
DEEP_METHODS: dict[str, str] = {
    "ABMIL": "pigmil.estimators.abmil",
    "MINet": "pigmil.estimators.mi_net",
}


def _modules() -> dict[str, str]:
    return {**METHODS, **DEEP_METHODS}


def all_estimators(
    *, detects: bool | None = None, classifies: bool | None = None, deep: bool = False
) -> "list[Card]":
    """Return the cards of all methods, or of those that detect or classify.

    Parameters
    ----------
    detects, classifies : bool, optional
        Keep only methods that do (True) or do not (False).
    deep : bool, default=False
        Whether to list the methods that need torch (extra ``deep``) too.

    Returns
    -------
    list of Card
        Each with name, paper, year, what it does and what it costs; the class is
        ``get_estimator(name)``.
    """
    cards = [card_of(name) for name in (_modules() if deep else METHODS)]
    return [
        card
        for card in cards
        if detects in (None, card.detects) and classifies in (None, card.classifies)
    ]


def get_estimator(name: str) -> Any:
    """Return the class of a method by class name or printed name, ignoring case."""
    modules = _modules()
    for class_name, module in modules.items():
        if class_name == name:
            return getattr(importlib.import_module(module), class_name)
    for class_name in modules:
        if card_of(class_name).name == name:
            return get_estimator(class_name)
    matches = [known for known in modules if known.lower() == name.lower().replace("-", "")]
    if len(matches) == 1:
        return get_estimator(matches[0])
    hint = did_you_mean(name, modules)
    raise ValueError(f"Unknown method {name!r}.{hint} Known methods: {', '.join(modules)}.")


def assumption_results(name: str) -> dict[str, dict[str, Any]]:
    """Return how a method did in the tests of assumptions, by test; empty if it was not run.

    See :func:`pigmil.evaluation.assumptions`; ``benchmarks/bench_assumptions.py`` made the file.
    """
    file = files("pigmil.estimators") / "assumptions.json"
    results: dict[str, dict[str, dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return results.get(card_of(name).name, {})


def card_of(name: str) -> "Card":
    """Return the card of a method."""
    card: Card = get_estimator(name).card
    return card
