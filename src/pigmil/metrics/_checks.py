"""Validation shared by the metrics: truth, scores and bags."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags


def check_truth(instance_labels: Any, pos_label: Any) -> tuple[BoolArray, BoolArray]:
    """Return which instances have a known label, and which are positive."""
    labels = np.asarray(instance_labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"instance_labels must be a 1-D array with one entry per instance; got {labels.shape}."
        )
    known = np.asarray(labels == labels, dtype=bool)
    if pos_label is None:
        if not known.any():
            raise ValueError("instance_labels are all NaN; nothing can be measured.")
        pos_label = np.unique(labels[known])[-1]
    elif not (labels[known] == pos_label).any():
        values = np.unique(labels[known])[:10].tolist()
        raise ValueError(f"pos_label={pos_label!r} does not occur in instance_labels {values}.")
    return known, known & np.asarray(labels == pos_label, dtype=bool)


def check_scores(scores: Any, n_instances: int) -> FloatArray:
    """Return the scores as floats; raise unless there is one per instance."""
    values: FloatArray = np.asarray(scores, dtype=np.float64)
    if values.shape != (n_instances,):
        raise ValueError(
            f"scores have shape {values.shape}; expected ({n_instances},), one per instance."
        )
    return values


@dataclass(frozen=True)
class ScoredBags:
    """Scores and truth of the instances, with the bags that a per-bag measure averages over."""

    scores: FloatArray
    known: BoolArray
    positive: BoolArray
    offsets: IntArray
    counted: IntArray

    @classmethod
    def from_arguments(
        cls,
        scores: Any,
        bags: Any,
        y: Any,
        instance_labels: Any,
        pos_label: Any = None,
        bag_pos_label: Any = None,
    ) -> "ScoredBags":
        """Validate the arguments that all per-bag measures share."""
        if isinstance(bags, Bags):
            offsets = bags.offsets
            y = bags.y if y is None else y
            instance_labels = bags.instance_labels if instance_labels is None else instance_labels
        else:
            offsets = np.asarray(bags, dtype=np.int64)
        for name, value in (("y", y), ("instance_labels", instance_labels)):
            if value is None:
                raise ValueError(f"{name} is neither given nor part of the bags.")
        known, positive = check_truth(instance_labels, pos_label)
        scores = check_scores(scores, len(positive))
        y = np.asarray(y)
        if len(offsets) != len(y) + 1 or offsets[-1] != len(positive):
            raise ValueError(
                f"{len(y)} bag labels and {len(positive)} instance labels do not fit offsets of "
                f"{len(offsets) - 1} bags and {offsets[-1]} instances."
            )
        positive_bag = y == (np.unique(y)[-1] if bag_pos_label is None else bag_pos_label)
        n_positive = np.add.reduceat(positive.astype(np.int64), offsets[:-1])
        counted = np.flatnonzero(positive_bag & (n_positive > 0))
        return cls(scores, known, positive, offsets, counted)
