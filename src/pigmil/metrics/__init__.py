"""Measures of instance detection.

Bag-level measures are scikit-learn's own, applied to the results of ``predict`` and
``decision_function``.
"""

from pigmil.metrics._by_bag import (
    hit_at_k,
    hit_at_k_chance,
    per_bag_auc,
    per_bag_average_precision,
)
from pigmil.metrics._instances import (
    detection_accuracy,
    froc_curve,
    froc_score,
    instance_auc,
    instance_average_precision,
    recall_at_fraction,
)
from pigmil.metrics._scorer import instance_scores, make_instance_scorer

__all__ = [
    "detection_accuracy",
    "froc_curve",
    "froc_score",
    "hit_at_k",
    "hit_at_k_chance",
    "instance_auc",
    "instance_average_precision",
    "instance_scores",
    "make_instance_scorer",
    "per_bag_auc",
    "per_bag_average_precision",
    "recall_at_fraction",
]
