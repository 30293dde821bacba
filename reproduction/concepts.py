"""The paper's conceptual figures, drawn from real fits."""

from typing import Any

import numpy as np
import pandas as pd

from pigmil import PIGMIL, Bags
from pigmil.datasets import make_basic, make_rhombus


def four_bags(seed: int = 3) -> tuple[Any, Any]:
    """Fit PIGMIL to small bags and return two positive and two negative ones to draw.

    Returns
    -------
    points : pandas.DataFrame
        ``bag`` (A to D), ``bag_label``, ``label``, ``x1``, ``x2`` and ``detected``.
    lines : pandas.DataFrame
        ``kind`` ("similar" joins the detected instances, "different" each of them and the nearest
        instance of a negative bag) and the coordinates of both ends.
    """
    bags = make_basic(
        random_state=seed, n_positive_bags=10, n_negative_bags=10, positives_per_bag=2,
        negatives_per_bag=2, negative_bag_size=5,
    )  # fmt: skip
    model = PIGMIL(C=1.0, random_state=seed).fit(bags)
    graph = model.csdg_
    # Of the pairs joined by an edge the one farthest apart, so that the line can be seen.
    left, right = np.nonzero(np.triu(graph.weights, 1))
    at = bags.instances[graph.vertices]
    far_apart = np.argmax(np.linalg.norm(at[left] - at[right], axis=1))
    pair = (left[far_apart], right[far_apart])
    chosen = bags.bag_index[graph.vertices[list(pair)]]
    negative = np.flatnonzero(bags.y == -1)
    x = bags.instances
    centre = x[np.isin(bags.bag_index, chosen)].mean(axis=0)
    far = [np.linalg.norm(x[bags.bag_index == bag].mean(axis=0) - centre) for bag in negative]
    shown = [*chosen, *negative[np.argsort(far)[-2:]]]
    rows = np.flatnonzero(np.isin(bags.bag_index, shown))
    names = dict(zip(shown, "ABCD", strict=True))
    points = pd.DataFrame(
        {
            "bag": [names[bag] for bag in bags.bag_index[rows]],
            "bag_label": bags.y[bags.bag_index[rows]],
            "label": bags.instance_labels[rows],
            "x1": x[rows, 0],
            "x2": x[rows, 1],
            "detected": np.isin(rows, graph.vertices[list(pair)]),
        }
    )
    ends = x[graph.vertices[list(pair)]]
    lines = [("similar", *ends[0], *ends[1])]
    for bag in shown[2:]:
        members = x[bags.bag_index == bag]
        for end in ends:
            nearest = members[np.argmin(np.linalg.norm(members - end, axis=1))]
            lines.append(("different", *end, *nearest))
    return points, pd.DataFrame(lines, columns=["kind", "x1", "x2", "to_x1", "to_x2"])


def three_stages(seed: int = 1) -> tuple[Any, dict[str, Any]]:
    """Fit the paper's algorithm to RHOMBUS and return its three stages to draw.

    Returns
    -------
    points : pandas.DataFrame
        One row per instance: ``x1``, ``x2``, ``bag_label``, ``label``, ``in_working_set``,
        ``working_bag``, ``in_initial_pool``, ``in_pool``, and ``score`` of the pool.
    extra : dict of pandas.DataFrame
        ``edges`` and ``replacements`` with the coordinates of both ends; ``bags`` with
        ``similarity`` to the pool, ``decision`` and ``label`` of bags that were not fitted.
    """
    bags = make_rhombus(random_state=seed)
    model = PIGMIL.faithful(random_state=seed, C=10.0).fit(bags)
    graph, n = model.csdg_, bags.n_instances
    working = np.zeros(bags.n_bags, dtype=bool)
    working[model.working_bags_.bags[model.working_bags_.working]] = True
    score = np.full(n, np.nan)
    score[graph.vertices] = graph.scores / graph.scores.max()
    x = bags.instances
    points = pd.DataFrame(
        {
            "x1": x[:, 0],
            "x2": x[:, 1],
            "bag_label": bags.y[bags.bag_index],
            "label": bags.instance_labels,
            "in_working_set": np.isin(np.arange(n), np.concatenate(model.working_sets_)),
            "working_bag": working[bags.bag_index],
            "in_initial_pool": np.isin(np.arange(n), model.initial_pool_),
            "in_pool": np.isin(np.arange(n), model.pool_),
            "score": score,
        }
    )
    left, right = np.nonzero(np.triu(graph.weights, 1))
    moved = model.initial_pool_ != model.pool_
    fresh = make_rhombus(random_state=seed + 1000)
    return points, {
        "edges": _segments(
            x[graph.vertices[left]], x[graph.vertices[right]], weight=graph.weights[left, right]
        ),
        "replacements": _segments(x[model.initial_pool_[moved]], x[model.pool_[moved]]),
        "bags": pd.DataFrame(
            {
                "similarity": _similarity_to_pool(fresh, x[model.pool_]),
                "decision": model.decision_function(fresh),
                "label": fresh.y,
            }
        ),
    }


def _segments(start: Any, end: Any, **columns: Any) -> Any:
    ends = {"x1": start[:, 0], "x2": start[:, 1], "to_x1": end[:, 0], "to_x2": end[:, 1]}
    return pd.DataFrame({**ends, **columns})


def _similarity_to_pool(bags: Bags, pool: Any) -> Any:
    """Return the mean over the pool of exp(-squared distance) to the nearest instance of a bag."""
    squared = ((bags.instances[:, None, :] - pool) ** 2).sum(axis=2)
    nearest = np.minimum.reduceat(squared, bags.offsets[:-1], axis=0)
    return np.exp(-nearest).mean(axis=1)
