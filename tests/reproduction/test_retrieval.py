"""Retrieval by detected instances against other ways, on planted pictures."""

import numpy as np
import pandas as pd
import pytest

from pigmil import Bags
from reproduction.claims import HOLDS, OPEN
from reproduction.detection import Runner
from reproduction.retrieval import (
    half_and_rest,
    quality,
    retrieval,
    retrieval_claims,
    retrieval_section,
)


def zoo(animal, seed=0, n=12):
    """Bags of six points; the first half has one point at the place of an animal."""
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(6, 3)) for _ in range(2 * n)]
    for array in arrays[:n]:
        array[2] = 8 * np.eye(3)[animal] + 0.2 * rng.normal(size=3)
    labels = np.zeros(12 * n, dtype=int)
    labels[2 : 6 * n : 6] = 1
    return Bags.from_list(arrays, y=[1] * n + [0] * n, instance_labels=labels)


def test_quality_by_hand():
    # Ten of twelve: precisions at the relevant bags 1, 3 and 12 are 1, 2/3 and 1/4.
    ranked = [True, False, True, *[False] * 8, True]
    assert quality(ranked) == pytest.approx((20.0, 100 * (1 + 2 / 3 + 1 / 4) / 3))


def test_no_picture_is_indexed_twice_or_was_learned_from():
    first, second = zoo(0), zoo(1, seed=1)
    shared = Bags.from_list([*second, *first], y=[*second.y, *np.ones(24, dtype=int)])
    train, bags, relevant = half_and_rest({"a": first, "b": shared}, "a", 0)
    assert train.n_bags == 12
    assert relevant.sum() == (first.y == 1).sum() - (train.y == 1).sum()
    assert not relevant[12:].any()
    contents = {np.asarray(instances).tobytes() for instances in bags}
    assert len(contents) == bags.n_bags
    assert not contents & {np.asarray(instances).tobytes() for instances in train}
    alone = half_and_rest({"a": first}, "a", 0)[1]
    assert alone.n_bags == 12
    assert alone.instance_labels is not None


def test_the_planted_animal_is_retrieved_by_its_detected_instance(tmp_path):
    groups = [{"a": zoo(0), "b": zoo(1, seed=1)}, {"c": zoo(2, seed=2)}]
    cells = retrieval(groups, Runner(tmp_path), splits=2)
    mean = cells.groupby(["data", "by"])["average_precision"].mean()
    assert mean["a", "detected instance"] > 99
    assert mean["a", "detected instance"] > mean["a", "random instance"] + 10
    assert mean["c", "true positive"] > mean["c", "false positive"] + 10
    assert ("a", "true positive") not in mean
    (claim,) = retrieval_claims(cells)
    # The labelled set is compared by distance alone: one check, not one for each method.
    readings = ["SoftPIGMIL a", "PIGMIL a", "SoftPIGMIL b", "PIGMIL b", "c"]
    assert [check.reading for check in claim.checks] == readings
    text = retrieval_section(cells, [claim])
    assert "| score alone |" in text
    assert "`PIGMIL()`:" in text


def test_the_caption_is_decided_by_the_majority_of_sets_and_methods():
    def cells(*gains):
        rows = [
            (data, "PIGMIL", seed, by, 50.0 + gain * (by == "detected instance") + shift * seed)
            for data, (gain, shift) in enumerate(gains)
            for seed in range(3)
            for by in ("detected instance", "random instance")
        ]
        return pd.DataFrame(rows, columns=["data", "method", "seed", "by", "precision"])

    (claim,) = retrieval_claims(cells((20, 0), (20, 1), (0, 0)))
    assert claim.verdict == HOLDS
    assert claim.checks[0].numbers.startswith("detected instance +20.0 ± 0.0 points against random")
    assert retrieval_claims(cells((20, 0), (0, 0)))[0].verdict == OPEN
