"""Detection on sets with labelled instances: one fit per cell, saved in the store."""

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pigmil.bags import Bags, BagScaler
from pigmil.datasets import load_dataset, make_basic, make_rhombus, make_ring
from pigmil.estimators import get_estimator
from pigmil.estimators.pigmil import PIGMIL
from pigmil.evaluation._cells import recorded_warnings
from pigmil.evaluation._execution import Task, run_tasks
from pigmil.evaluation._executors import make_executor
from pigmil.evaluation._identity import estimator_identity
from pigmil.evaluation._splits import data_checksum
from pigmil.evaluation._store import Cell, Store, canonical_json
from pigmil.graph import CSDG
from pigmil.metrics import detection_accuracy

FRESH = "RHOMBUS, fresh impostors"
MAKERS: dict[str, Callable[..., Bags]] = {
    "BASIC": make_basic,
    "RHOMBUS": make_rhombus,
    "RING": make_ring,
    FRESH: functools.partial(make_rhombus, impostors="fresh"),
}
# The three configurations of every table and figure, by their label, and how to write them.
CONFIGURATIONS: dict[str, Callable[..., PIGMIL]] = {
    "PIGMIL|paper": PIGMIL.paper,
    "PIGMIL|faithful": PIGMIL.faithful,
    "PIGMIL": PIGMIL,
}
DISPLAY_NAMES = {
    "PIGMIL|paper": "PIGMIL.paper()",
    "PIGMIL|faithful": "PIGMIL.faithful()",
    "PIGMIL": "PIGMIL()",
}


@dataclass(frozen=True)
class Detection:
    """One detection experiment: data set, noise, method and readings.

    Attributes
    ----------
    data : str
        A key of ``MAKERS``, or the name of a real set with labelled instances, which is z-scored.
    method : str
        Name of a method, or a key of ``CONFIGURATIONS``.
    x : float
        The quantity on the axis of a figure.
    parameters : tuple of (name, value)
        Of the method.
    weighing : tuple of (name, value)
        Of :class:`pigmil.PaperReading`, for PIGMIL.
    noise, noise_kind
        Of the set.
    """

    data: str
    method: str
    x: float = 0.0
    parameters: tuple[tuple[str, Any], ...] = ()
    weighing: tuple[tuple[str, Any], ...] = ()
    noise: int = 0
    noise_kind: str = "swap"


@functools.lru_cache(maxsize=256)
def labelled_bags(data: str, seed: int, noise: int = 0, noise_kind: str = "swap") -> Bags:
    """Return a draw of a synthetic set, or a real set with z-scored features."""
    if data in MAKERS:
        return MAKERS[data](random_state=seed, noise=noise, noise_kind=noise_kind)
    return _real_bags(data)


@functools.lru_cache(maxsize=16)
def _real_bags(name: str) -> Bags:
    bags = load_dataset(name)
    scaled: Bags = BagScaler().fit_transform(bags)
    return scaled


def fitted(what: Detection, seed: int) -> tuple[Bags, Any]:
    """Return the bags and the method fitted to them."""
    bags = labelled_bags(what.data, seed, what.noise, what.noise_kind)
    return bags, _method(what, seed).fit(bags)


def _method(what: Detection, seed: int) -> Any:
    parameters = dict(what.parameters)
    if what.method not in CONFIGURATIONS:
        method = get_estimator(what.method)(**parameters)
        known = "random_state" in method.get_params()
        return method.set_params(random_state=seed) if known else method
    # The bag classifier has no part in detection: nothing of it is searched.
    built = CONFIGURATIONS[what.method](
        C=1.0, embedding_decay=1.0, prototypes="pool", random_state=seed
    )
    readings = {f"reading__{name}": value for name, value in what.weighing}
    return built.set_params(**parameters, **readings)


def detect(what: Detection, seed: int) -> dict[str, Any]:
    """Fit a method to a set with labelled instances and measure what it detects.

    Returns
    -------
    dict
        ``detection_accuracy``; ``covered``, the share of positive bags with a detected instance;
        ``every_bag_accuracy``, with the best-scored instance of every positive bag, also of those
        that PIGMIL sets aside; ``seconds`` of processor time of the fit; ``warnings``. For PIGMIL
        also ``working_set_purity``, the share of positives in the working sets,
        ``positives_in_working_sets``, the share of positives that are there, ``tries``, how many
        replacements were scored, and the fields of :func:`graph_measures`.
    """
    bags = labelled_bags(what.data, seed, what.noise, what.noise_kind)
    start = time.process_time()
    with recorded_warnings() as caught:
        bags, method = fitted(what, seed)
    seconds = time.process_time() - start
    detected = method.detected_instances_
    positive = bags.y == bags.y.max()
    covered = positive[bags.bag_index[detected]].sum() / positive.sum()
    best = getattr(method, "best_instances_", detected)
    working_sets: dict[str, Any] = {}
    if hasattr(method, "working_sets_"):
        working_sets |= {"tries": len(method.trace_), **graph_measures(method.csdg_)}
        inside = bags.instance_labels[np.concatenate(method.working_sets_)] == 1
        working_sets["working_set_purity"] = float(inside.mean())
        share = inside.sum() / (bags.instance_labels == 1).sum()
        working_sets["positives_in_working_sets"] = float(share)
    return {
        **working_sets,
        "detection_accuracy": detection_accuracy(detected, bags.instance_labels, pos_label=1),
        "every_bag_accuracy": detection_accuracy(best, bags.instance_labels, pos_label=1),
        "covered": float(covered),
        "seconds": seconds,
        "warnings": sorted(set(caught)),
    }


def graph_measures(graph: CSDG) -> dict[str, float]:
    """Return the share of pairs that are edges and the size of the three terms of their weights.

    Returns
    -------
    dict
        ``edge_share``; for a graph with edges also ``similarity_term``, ``consistency_term`` and
        ``discrimination_term``, the means of S, alpha C and beta |D|; ``largest_beta``; and
        ``heaviest_ranks_first``, whether the vertex with the largest sum of weights has the
        highest score.

    Examples
    --------
    >>> from pigmil import PIGMIL
    >>> from pigmil.datasets import make_ring
    >>> measures = graph_measures(PIGMIL.paper(random_state=0).fit(make_ring(0)).csdg_)
    >>> measures["similarity_term"] < measures["consistency_term"]
    True
    """
    n = len(graph.scores)
    rows, columns = np.nonzero(np.triu(graph.similarity > 0, 1))
    measures = {"edge_share": 2 * len(rows) / max(1, n * (n - 1))}
    s, c = graph.similarity[rows, columns], graph.consistency[rows, columns]
    d = np.minimum(graph.discrimination[rows], graph.discrimination[columns])
    usable = np.isfinite(d) & (d < 0)
    if not usable.any():
        return measures
    s, c, d = s[usable], c[usable], -d[usable]
    alpha = np.maximum(10.0, np.log(c / s))
    beta = np.maximum(10.0, np.log((alpha * s + c) / d))
    strength = graph.weights.sum(axis=1)
    top = strength[np.argmax(graph.scores)]
    return measures | {
        "similarity_term": float(s.mean()),
        "consistency_term": float((alpha * c).mean()),
        "discrimination_term": float((beta * d).mean()),
        "largest_beta": float(beta.max()),
        "heaviest_ranks_first": float(top >= strength.max() * (1 - 1e-9)),
    }


def run_detections(
    experiment: str,
    detections: Sequence[Detection],
    seeds: Iterable[int],
    store: Store,
    *,
    n_jobs: int | None = None,
    callback: Callable[..., None] | None = None,
) -> list[dict[str, Any]]:
    """Compute detections over seeds, those that the store does not hold.

    Returns
    -------
    list of dict
        The rows of the store, each with ``x`` and ``seed``, in the order of the detections and
        of the seeds.
    """
    pairs = [(what, seed) for what in detections for seed in seeds]
    tasks = [
        Task(_cell(experiment, what, seed), detect, {"what": what, "seed": seed})
        for what, seed in pairs
    ]
    rows = run_tasks(tasks, store, executor=make_executor(n_jobs), callback=callback)
    return [
        {**row, "x": what.x, "seed": seed, "noise_kind": what.noise_kind}
        for row, (what, seed) in zip(rows, pairs, strict=True)
    ]


def _cell(experiment: str, what: Detection, seed: int) -> Cell:
    settings = {
        "experiment": experiment,
        "weighing": dict(what.weighing),
        "noise": [what.noise, what.noise_kind],
    }
    path, parameters, version = estimator_identity(_method(what, seed))
    return Cell(
        data=what.data,
        checksum=_checksum(what.data, seed, what.noise, what.noise_kind),
        method=what.method,
        estimator=path,
        parameters=parameters,
        protocol=canonical_json(settings),
        repeat=seed,
        fold=0,
        version=version,
    )


@functools.lru_cache(maxsize=4096)
def _checksum(data: str, seed: int, noise: int, noise_kind: str) -> str:
    return data_checksum(labelled_bags(data, seed, noise, noise_kind))
