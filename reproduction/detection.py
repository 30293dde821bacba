"""Detection on sets with labelled instances: one fit per cell, each kept in a cache."""

import functools
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Memory, Parallel, delayed

from pigmil import PIGMIL, Bags, BagScaler, __version__
from pigmil.datasets import load_dataset, make_basic, make_rhombus, make_ring
from pigmil.estimators import get_estimator
from pigmil.graph import CSDG
from pigmil.metrics import detection_accuracy

Callback = Callable[[int, int, str], None]

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


def labelled_bags(what: Detection, seed: int) -> Bags:
    """Return a draw of a synthetic set, or a real set with z-scored features."""
    if what.data in MAKERS:
        return MAKERS[what.data](random_state=seed, noise=what.noise, noise_kind=what.noise_kind)
    return _real_bags(what.data)


@functools.lru_cache(maxsize=16)
def _real_bags(name: str) -> Bags:
    scaled: Bags = BagScaler().fit_transform(load_dataset(name))
    return scaled


def fitted(what: Detection, seed: int) -> tuple[Bags, Any]:
    """Return the bags and the method fitted to them."""
    bags = labelled_bags(what, seed)
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
        that PIGMIL sets aside; ``seconds`` of processor time of the fit. For PIGMIL
        also ``working_set_purity``, the share of positives in the working sets,
        ``positives_in_working_sets``, the share of positives that are there, ``tries``, how many
        replacements were scored, and the fields of :func:`graph_measures`.
    """
    bags = labelled_bags(what, seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = _method(what, seed).fit(bags)
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


@dataclass(frozen=True)
class Runner:
    """Runs functions in parallel and keeps each result in a folder: a run can be continued.

    Attributes
    ----------
    cache : Path
        The folder.
    n_jobs : int, optional
        Parallel calls.
    callback : callable, optional
        Called with (done, total, what) after every call.
    """

    cache: Path
    n_jobs: int | None = None
    callback: Callback | None = None

    def __call__(
        self, function: Callable[..., dict[str, Any]], calls: Sequence[tuple[str, tuple[Any, ...]]]
    ) -> list[dict[str, Any]]:
        """Return the result of each call, ``{"error": text}`` where it failed.

        ``calls`` are pairs of a description and the arguments.
        """
        cached = Memory(self.cache / __version__, verbose=0).cache(_attempt)
        jobs = (delayed(cached)(function, arguments) for _, arguments in calls)
        results = []
        for result in Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs):
            results.append(result)
            if self.callback is not None:
                self.callback(len(results), len(calls), calls[len(results) - 1][0])
        return results


def _attempt(function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    try:
        return function(*arguments)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def run_detections(
    detections: Sequence[Detection], seeds: Iterable[int], run: Runner
) -> list[dict[str, Any]]:
    """Compute detections over seeds.

    Returns
    -------
    list of dict
        What :func:`detect` returns with ``data``, ``method``, ``x`` and ``seed``, in the order of
        the detections and of the seeds. Fits that failed have ``error`` in place of the measures.
    """
    pairs = [(what, seed) for what in detections for seed in seeds]
    found = run(detect, [(f"{what.data} {what.method}", (what, seed)) for what, seed in pairs])
    return [
        {**measures, "data": what.data, "method": what.method, "x": what.x, "seed": seed}
        for measures, (what, seed) in zip(found, pairs, strict=True)
    ]
