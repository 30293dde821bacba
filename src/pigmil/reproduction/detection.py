"""Detection on the synthetic sets: one fit per cell, saved in the store like any other."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pigmil.bags import Bags
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators import get_estimator
from pigmil.estimators.pigmil import PIGMIL
from pigmil.evaluation.cells import recorded_warnings
from pigmil.evaluation.execution import Task, run_tasks
from pigmil.evaluation.executors import make_executor
from pigmil.evaluation.identity import estimator_identity
from pigmil.evaluation.splits import data_checksum
from pigmil.evaluation.store import Cell, Store, canonical_json
from pigmil.metrics import detection_accuracy

MAKERS: dict[str, Callable[..., Bags]] = {
    "BASIC": make_basic,
    "RHOMBUS": make_rhombus,
    "RING": make_ring,
}
# The two configurations shown everywhere, by the label they carry.
CONFIGURATIONS: dict[str, Callable[..., PIGMIL]] = {
    "PIGMIL": PIGMIL,
    "PIGMIL|paper": PIGMIL.paper,
}


@dataclass(frozen=True)
class Detection:
    """One detection experiment: data set, noise, method and readings.

    Attributes
    ----------
    data : {"BASIC", "RHOMBUS", "RING"}
        The set.
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
def synthetic(data: str, seed: int, noise: int = 0, noise_kind: str = "swap") -> Bags:
    """Return a synthetic set by name."""
    return MAKERS[data](random_state=seed, noise=noise, noise_kind=noise_kind)


def fitted(what: Detection, seed: int) -> tuple[Bags, Any]:
    """Return the bags and the method fitted to them."""
    bags = synthetic(what.data, seed, what.noise, what.noise_kind)
    return bags, _method(what, seed).fit(bags)


def _method(what: Detection, seed: int) -> Any:
    parameters = dict(what.parameters)
    if what.method not in CONFIGURATIONS:
        method = get_estimator(what.method)(**parameters)
        known = "random_state" in method.get_params()
        return method.set_params(random_state=seed) if known else method
    # The bag classifier has no part in detection: its costs are not searched.
    built = CONFIGURATIONS[what.method](C=1.0, random_state=seed)
    readings = {f"reading__{name}": value for name, value in what.weighing}
    return built.set_params(**parameters, **readings)


def detect(what: Detection, seed: int) -> dict[str, Any]:
    """Fit a method to a synthetic set and measure what it detects.

    Returns
    -------
    dict
        ``detection_accuracy``; ``covered``, the share of positive bags with a detected instance;
        ``every_bag_accuracy``, with the best-scored instance of every positive bag, also of those
        that PIGMIL sets aside; ``warnings``. For PIGMIL also ``working_set_purity``, the share of
        positives in the working sets, and ``positives_in_working_sets``, the share of positives
        that are there.
    """
    with recorded_warnings() as caught:
        bags, method = fitted(what, seed)
    detected = method.detected_instances_
    positive = bags.y == bags.y.max()
    covered = positive[bags.bag_index[detected]].sum() / positive.sum()
    best = getattr(method, "best_instances_", detected)
    working_sets: dict[str, Any] = {}
    if hasattr(method, "working_sets_"):
        inside = bags.instance_labels[np.concatenate(method.working_sets_)] == 1
        working_sets["working_set_purity"] = float(inside.mean())
        share = inside.sum() / (bags.instance_labels == 1).sum()
        working_sets["positives_in_working_sets"] = float(share)
    return {
        **working_sets,
        "detection_accuracy": detection_accuracy(detected, bags.instance_labels, pos_label=1),
        "every_bag_accuracy": detection_accuracy(best, bags.instance_labels, pos_label=1),
        "covered": float(covered),
        "warnings": sorted(set(caught)),
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
    return data_checksum(synthetic(data, seed, noise, noise_kind))
