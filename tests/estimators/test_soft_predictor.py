"""The compiled committee of SoftPIGMIL against sums written out term by term."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil.estimators._soft_predictor import Predictor
from pigmil.estimators._soft_views import Scale, View


def scale_of(kind, rng, n_features, *, single=False):
    center, factor = rng.normal(size=n_features), rng.uniform(0.5, 2.0, size=n_features)
    knots = levels = rotation = None
    if kind == "rank":
        knots = np.sort(rng.normal(size=(5, n_features)), axis=0)
        levels = np.sort(rng.normal(size=(5, n_features)), axis=0)
    if kind == "whitened":
        factor[0] = 0.0  # a constant feature: the map has no inverse
        rotation = rng.normal(size=(n_features, n_features))
    return Scale(kind, center, factor, knots, levels, rotation, single)


def committee_of(kinds, rng, n_features, *, single=False):
    """Return scales, landmarks, views and weights; two widths and a linear view per scale."""
    scales = [scale_of(kind, rng, n_features, single=single) for kind in kinds]
    landmarks = [rng.normal(size=(4, n_features)) for _ in kinds]
    views, coefs = [], []
    for number in range(len(kinds)):
        for width, gamma in ((None, 0.0), (1.0, 0.3), (2.0, 0.05)):
            n_basis = n_features if width is None else 4
            views.append(
                View(number, width, gamma, width is not None, rng.normal(size=(n_basis, 2)),
                     rng.normal(size=2))
            )  # fmt: skip
            coefs.append(rng.normal(size=2))
    return scales, landmarks, views, coefs


def slow_score(row, scales, landmarks, views, coefs):
    """Score one instance, one number at a time."""
    total = 0.0
    for view, coef in zip(views, coefs, strict=True):
        scale = scales[view.scale]
        mapped = []
        for j, value in enumerate(row):
            if scale.knots is not None:
                value = np.interp(value, scale.knots[:, j], scale.levels[:, j])
            mapped.append((value - scale.center[j]) * scale.factor[j])
        if scale.rotation is not None:
            mapped = [
                sum(mapped[i] * scale.rotation[i, j] for i in range(len(row)))
                for j in range(len(row))
            ]
        features = mapped
        if view.width is not None:
            features = [
                np.exp(-view.gamma * sum((a - b) ** 2 for a, b in zip(mapped, mark, strict=True)))
                for mark in landmarks[view.scale]
            ]
        for direction, weight in enumerate(coef):
            inner = sum(f * p for f, p in zip(features, view.projection[:, direction], strict=True))
            total += weight * (inner - view.shift[direction])
    return total


@pytest.mark.parametrize(
    "kinds", [["raw"], ["whitened"], ["rank"], ["raw", "standard", "rank", "whitened"]]
)
def test_scores_equal_the_sums_written_out(kinds):
    rng = np.random.default_rng(0)
    parts = committee_of(kinds, rng, 3)
    rows = rng.normal(size=(7, 3))
    expected = [slow_score(row, *parts) for row in rows]
    np.testing.assert_allclose(Predictor(*parts).scores(rows), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        Predictor(*parts).scores(sp.csr_matrix(rows)), expected, rtol=1e-11, atol=1e-11
    )


def test_single_precision_loses_little_far_from_the_origin():
    rng = np.random.default_rng(1)
    scales, landmarks, views, coefs = committee_of(["raw", "whitened"], rng, 3, single=True)
    for scale in scales:
        scale.center[:] += 1000.0
    rows = (1000.0 + rng.normal(size=(5, 3))).astype(np.float32)
    expected = [slow_score(row.astype(float), scales, landmarks, views, coefs) for row in rows]
    scores = Predictor(scales, landmarks, views, coefs).scores(rows)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_one_landmark_by_hand():
    # x = 3 lies at (3 - 1) * 2 = 4, at distance 1 from the landmark 3: exp(-0.5) * 5 - 7.
    scale = Scale("raw", np.array([1.0]), np.array([2.0]))
    view = View(0, 1.0, 0.5, True, np.array([[1.0]]), np.array([1.4]))
    predictor = Predictor([scale], [np.array([[3.0]])], [view], [np.array([5.0])])
    assert predictor.scores(np.array([[3.0]])) == pytest.approx(5 * np.exp(-0.5) - 7)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    rng = np.random.default_rng(2)
    predictor = Predictor(*committee_of(["standard", "whitened"], rng, 3))
    rows = rng.normal(size=(11, 3))
    expected = predictor.scores(rows)
    monkeypatch.setattr("pigmil.estimators._soft_predictor._BLOCK_ROWS", 4)
    np.testing.assert_allclose(predictor.scores(rows), expected, rtol=1e-12)
