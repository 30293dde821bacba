"""The summary: plain, complete, honest about what it leaves out."""

import base64
import io
import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags, BagScaler
from pigmil.datasets import make_rhombus
from pigmil.estimators import all_estimators, get_estimator
from pigmil.evaluation import Diagnosis
from pigmil.report import _pictures as pictures
from pigmil.report import _ranking as ranking
from pigmil.report import detection_summary, render_html
from pigmil.report._pictures import Thumbnails, colour_range, feature_differences, instance_map


def test_summary_is_plain(rhombus_summary):
    assert json.loads(json.dumps(rhombus_summary, allow_nan=False)) == rhombus_summary


def test_rankings_hold_every_instance_of_positive_bags_in_order(rhombus, rhombus_summary):
    bags, model = rhombus
    listed = rhombus_summary["ranking"]["bags"]
    assert sorted(bag["bag"] for bag in listed) == np.flatnonzero(bags.y == 1).tolist()
    detected = []
    for bag in listed:
        scores = [row["score"] for row in bag["rows"]]
        assert scores == sorted(scores, reverse=True)
        assert sorted(row["instance"] for row in bag["rows"]) == list(range(bag["size"]))
        start = bags.offsets[bag["bag"]]
        detected += [start + row["instance"] for row in bag["rows"] if row["detected"]]
        for row in bag["rows"]:
            np.testing.assert_allclose(
                row["score"], model.instance_scores_[start + row["instance"]], rtol=1e-5
            )
    assert sorted(detected) == sorted(model.detected_instances_)


# A small report of every method, each on its own: what one gives and another does not is met here.
@pytest.mark.parametrize("name", [card.name for card in all_estimators(detects=True)])
def test_every_detecting_method_can_be_reported(name):
    bags = make_rhombus(random_state=0)
    bags = bags[np.r_[0:6, 34:40]]
    model = get_estimator(name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    scaled = BagScaler().fit_transform(bags)
    summary = detection_summary(model.fit(scaled), scaled, original=bags, source="small")
    json.dumps(summary, allow_nan=False)
    assert sum(bag["detected"] for bag in summary["ranking"]["bags"]) == len(
        np.unique(model.detected_instances_)
    )


@pytest.mark.parametrize("name", ["PIGMIL", "KDE_min"])
def test_sparse_bags_can_be_reported(name):
    dense = make_rhombus(random_state=0)[np.r_[0:6, 34:40]]
    wide = np.hstack([dense.instances, np.zeros((dense.n_instances, 3))])
    bags = Bags(sp.csr_array(wide), dense.offsets, y=dense.y)
    scaled = BagScaler(with_mean=False).fit_transform(bags)
    model = get_estimator(name)().fit(scaled)
    summary = detection_summary(model, scaled, original=bags, source="sparse")
    json.dumps(summary, allow_nan=False)
    assert len(summary["map"]["x"]) == bags.n_instances


def test_what_cannot_be_reported_is_refused(rhombus):
    bags, model = rhombus
    with pytest.raises(ValueError, match="does not score instances"):
        detection_summary(get_estimator("miGraph")().fit(bags), bags, source="x")
    with pytest.raises(ValueError, match="pass the bags it was fitted on"):
        detection_summary(model, bags[:10], source="x")


def test_a_large_map_is_sampled_aloud_and_keeps_what_matters(rhombus, monkeypatch):
    bags, model = rhombus
    monkeypatch.setattr(pictures, "MAP_LIMIT", 120)
    drawn = instance_map(model, bags, bags)
    rows = bags.offsets[drawn["bag"]] + drawn["instance"]
    assert len(set(rows)) == 120
    assert "120 of 320" in drawn["note"]
    assert set(model.detected_instances_) <= set(rows)
    assert instance_map(model, bags, bags) == drawn


def test_a_long_ranking_is_cut_aloud(rhombus, monkeypatch):
    bags, model = rhombus
    monkeypatch.setattr(ranking, "MAX_ROWS", 100)
    found = ranking.ranked_bags(model, bags)
    assert all(len(bag["rows"]) == 5 for bag in found["bags"])
    assert "100 of 160" in found["note"]


def test_colours_ignore_a_far_tail_and_bear_no_scores():
    assert colour_range(np.array([np.nan])) == (0.0, 1.0)
    assert colour_range(np.array([2.0, 2.0])) == (2.0, 3.0)
    assert colour_range(np.array([-1000.0, 0.0, 2.0, np.nan])) == (0.0, 2.0)


def test_a_few_far_points_do_not_squeeze_the_view():
    rng = np.random.RandomState(0)
    points = rng.normal(size=(200, 2))
    assert pictures.near_view(points) is None
    points[0] = 500.0
    (left, right), (low, high) = pictures.near_view(points)
    inside = (points[:, 0] >= left) & (points[:, 0] <= right)
    inside &= (points[:, 1] >= low) & (points[:, 1] <= high)
    assert not inside[0]
    assert inside.sum() > 180
    assert pictures.near_view(np.zeros((5, 2))) is None


def test_constant_features_can_be_drawn():
    bags = Bags.from_list([np.zeros((2, 3)), np.zeros((2, 3))], y=[0, 1])
    points, names = pictures.project(bags)
    assert np.isfinite(points).all()
    assert names == ("component 1", "component 2")


def test_answer_lists_the_best_of_each_positive_bag(rhombus, rhombus_summary):
    bags, model = rhombus
    answer = rhombus_summary["answer"]
    assert answer["headline"] == "19 instances in 19 of 20 positive bags are detected."
    best = sorted(
        (-max(model.instance_scores_[bags.offsets[bag] : bags.offsets[bag + 1]]), bag)
        for bag in np.flatnonzero(bags.y == 1)
    )
    assert [row["bag_number"] for row in answer["rows"]] == [bag for _, bag in best[:10]]
    np.testing.assert_allclose([row["score"] for row in answer["rows"]],
                               [-score for score, _ in best[:10]], rtol=1e-5)  # fmt: skip
    assert answer["more"] == 10
    assert answer["level"] is None


def test_answer_opens_with_the_calls_and_their_level(rhombus):
    bags, model = rhombus
    rows = np.flatnonzero(np.repeat(bags.y == 1, bags.sizes))
    diagnosis = Diagnosis("PIGMIL", "weak", 0.5, ("First.",), ("Second.",), 0.75, (0.5, 1.0))
    selection = SimpleNamespace(
        fdr=0.2, instances=rows, adjusted=np.linspace(0, 1, len(rows)), notes=("few <b>bags",),
        scores=np.arange(len(rows), 0.0, -1.0), called=rows[:10], diagnosis=diagnosis,
    )  # fmt: skip
    summary = detection_summary(model, bags, source="x", selection=selection)
    answer = summary["answer"]
    assert answer["verdict"] == "weak, confidence 0.50 of 1"
    assert {"name": "How sure", "value": "weak", "note": "confidence 0.50 of 1"} in summary["facts"]
    assert answer["headline"].endswith("are called positive, at a false-discovery rate of 20 %.")
    assert answer["headline"].startswith("10 instances in 2 of 20")
    assert any("about 2 of 10. 18 positive bags have no call." in one for one in answer["sure"])
    # Among equal levels the score of the model decides, which is also the score that is listed.
    assert [row["score"] for row in answer["rows"][:1]] == [
        pytest.approx(model.instance_scores_[rows[0]], rel=1e-5)
    ]
    assert {"few <b>bags", "First.", "Alarm: Second."} <= set(answer["sure"])
    assert [row["instance"] for row in answer["rows"]] == [*range(8), 0, 1]
    assert answer["rows"][0]["level"] == "0.00"
    text = render_html(summary)
    assert "Instances called positive, most certain first" in text
    assert "few &lt;b&gt;bags" in text


def test_feature_differences_by_hand():
    values = np.array([[0.0, 1.0, 5.0], [2.0, 3.0, 5.0], [5.0, 2.0, 5.0], [1.0, 0.0, 5.0]])
    bags = Bags(values, [0, 2, 4], y=[0, 1], feature_names=["a", "b", "constant"])
    found = feature_differences(bags, np.array([2]), np.array([False, True]))
    # Negatives: means 1, 2 and 5; standard deviations 1, 1 and 0.
    assert found["rows"] == [
        {"name": "a", "difference": 4.0, "detected": 5.0, "negative": 1.0},
        {"name": "b", "difference": 0.0, "detected": 2.0, "negative": 2.0},
    ]
    sparse = Bags(sp.csr_array(values), [0, 2, 4], y=[0, 1], feature_names=["a", "b", "constant"])
    assert feature_differences(sparse, np.array([2]), np.array([False, True])) == found
    assert feature_differences(bags, np.array([], dtype=int), np.array([False, True])) is None
    unnamed = Bags(np.zeros((4, 30)), [0, 2, 4], y=[0, 1])
    assert feature_differences(unnamed, np.array([2]), np.array([False, True])) is None


def test_heat_maps_of_listed_bags(rhombus, monkeypatch):
    bags, model = rhombus
    coords = np.column_stack([np.arange(320) % 8, np.zeros(320)]) * 100 + 50
    placed = bags.with_info(instance_info={"coords": coords})
    assert pictures.heatmaps(model, bags, [0, 3]) is None
    found = pictures.heatmaps(model, placed, [3, 0])
    assert [one["bag"] for one in found["maps"]] == [3, 0]
    first = found["maps"][0]
    assert first["x"] == [0, 100, 200, 300, 400, 500, 600, 700]
    assert first["size"] == 100
    np.testing.assert_allclose(first["score"], model.instance_scores_[24:32], rtol=1e-5)
    monkeypatch.setattr(pictures, "TILE_LIMIT", 10)
    assert "the best 1 of 2 bags" in pictures.heatmaps(model, placed, [3, 0])["note"]


def test_pictures_elsewhere_of_odd_formats_or_too_large_are_not_opened(
    rhombus, tmp_path, monkeypatch
):
    image = pytest.importorskip("PIL.Image")
    bags, _ = rhombus
    monkeypatch.setattr("pigmil.report._pictures.MAX_PIXELS", 80_000)
    folder = tmp_path / "data"
    folder.mkdir()
    image.new("RGB", (8, 8)).save(tmp_path / "private.png")
    image.new("RGB", (8, 8)).save(folder / "shown.png")
    image.new("1", (300, 300)).save(folder / "large.png")
    image.new("1", (20_000, 20_000)).save(folder / "bomb.png")  # Pillow refuses it by itself
    # Pillow starts the program gs to draw this one.
    (folder / "drawn.png").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (folder / "link.png").symlink_to(tmp_path / "private.png")
    names = [
        "shown.png",
        str(folder / "shown.png"),
        "../private.png",
        str(tmp_path / "private.png"),
    ]
    names += ["link.png", "drawn.png", "large.png", "bomb.png"]
    names += [""] * (bags.n_instances - len(names))
    pictured = bags.with_info(instance_info={"file": np.array(names, dtype=object)})
    thumbnails = Thumbnails(pictured, "file", folder=folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shown = [thumbnails.of(row) is not None for row in range(9)]
    assert shown == [True, True] + [False] * 7
    assert {str(item.message) for item in caught} == {
        f"Pictures outside the folder '{folder.resolve()}' are not opened."
    }


def test_thumbnails_of_arrays_and_files(rhombus, tmp_path):
    image = pytest.importorskip("PIL.Image")
    bags, model = rhombus
    grey = np.arange(320 * 4).reshape(320, 2, 2)
    image.new("RGB", (300, 150)).save(tmp_path / "0.png")
    (tmp_path / "1.png").write_text("no picture")
    names = np.array([f"{n}.png" for n in range(320)], dtype=object)
    pictured = bags.with_info(instance_info={"grey": grey, "file": names})
    sizes = {}
    for column in ("grey", "file"):
        thumbnails = Thumbnails(pictured, column, folder=tmp_path)
        shown = [thumbnails.of(row) for row in range(3)]
        sizes[column] = [
            one and image.open(io.BytesIO(base64.b64decode(one.split(",")[1]))).size
            for one in shown
        ]
    assert sizes == {"grey": [(96, 96)] * 3, "file": [(96, 48), None, None]}
    with pytest.raises(ValueError, match="no column 'x' with pictures"):
        Thumbnails(pictured, "x")
    summary = detection_summary(model, pictured, source="x", images="grey")
    assert summary["ranking"]["bags"][0]["rows"][0]["image"].startswith("data:image/png;base64,")


def test_what_is_known_of_a_bag_is_listed_once(rhombus):
    bags, model = rhombus
    molecule = np.repeat([f"mol {n}" for n in range(40)], 8)
    known = bags.with_info(
        instance_info={"smiles": molecule, "conformer": np.tile(list("abcdefgh"), 40)},
        bag_info={"site": ["x", "y"] * 20, "scanner": ["s"] * 40},
    )
    ranking = detection_summary(model, known, source="x")["ranking"]
    assert ranking["columns"] == [{"name": "conformer", "text": True}]
    bag = ranking["bags"][0]
    assert bag["info"] == [
        {"name": "smiles", "value": f"mol {bag['bag']}"},
        {"name": "site", "value": "xy"[bag["bag"] % 2]},
    ]
    assert [row["info"] for row in bag["rows"]] == [
        ["abcdefgh"[row["instance"]]] for row in bag["rows"]
    ]
