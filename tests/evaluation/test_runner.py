"""``compare``: the same folds for all, failures kept, inputs refused before any work."""

import logging
import re

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from pigmil import Bags, BagScaler
from pigmil._core.errors import BagsError
from pigmil.evaluation import Results, compare
from pigmil.evaluation._splits import bag_groups, bag_splits, duplicate_groups


def run(methods, data, tmp_path, **changes):
    settings = {"repeats": 1, "folds": 3, "store": tmp_path / "r.sqlite", **changes}
    return compare(methods, data, **settings)


def test_a_failing_method_is_recorded_and_the_rest_goes_on(fakes, bags, tmp_path, caplog):
    steps = []
    with caplog.at_level(logging.WARNING, "pigmil"):
        results = run(["Failing", "Mean rule"], bags, tmp_path, callback=steps.append)
    assert [row["status"] for row in results.rows] == ["failed"] * 3 + ["done"] * 3
    assert results.failures[0]["error"].startswith("RuntimeError: no | luck,\nagain (_fit, line")
    assert "3 cells done, 3 failed" in results.summary()
    assert "RuntimeError: no | luck" in results.summary()
    assert "Failing on data failed" in caplog.text
    assert [progress.failed for progress in steps][-1] == 3
    table = results.table()
    assert np.isnan(table.loc["data", "Failing"])
    assert table.loc["data", "Mean rule"] > 80
    assert results.table(statistic="text").loc["data", "Failing"] == "-"


def test_failed_cells_are_tried_again_only_when_asked(fakes, bags, tmp_path, monkeypatch):
    run(["Failing"], {"first": bags}, tmp_path)
    run(["Mean rule"], {"second": bags[::-1]}, tmp_path, retry_failed=True)
    assert len(Results.from_store(tmp_path / "r.sqlite").failures) == 3  # those of another data set
    monkeypatch.setenv("FAKE_REPAIRED", "1")
    assert len(run(["Failing"], bags, tmp_path).failures) == 3
    assert run(["Failing"], bags, tmp_path, retry_failed=True).failures == []


def test_every_method_has_the_same_folds(fakes, bags, tmp_path):
    run({"Counting|a": {}, "Counting|b": {"note": 1}}, bags, tmp_path)
    seen = [line.split()[1] for line in fakes.read_text().splitlines()]
    assert seen[:3] == seen[3:]
    assert len(set(seen)) == 3
    # A method added later, by another call, has them too.
    run({"Counting": {"note": 2}}, bags, tmp_path)
    assert [line.split()[1] for line in fakes.read_text().splitlines()][6:] == seen[:3]


def test_equal_estimators_are_computed_once_under_any_label(fakes, bags, tmp_path):
    results = run({"Counting|a": {}, "mine": "Counting"}, bags, tmp_path)
    assert len(fakes.read_text().splitlines()) == 3
    assert results.table().columns.tolist() == ["Counting|a", "mine"]
    again = run({"other": "Counting"}, bags, tmp_path)
    assert len(fakes.read_text().splitlines()) == 3
    assert again.table().columns.tolist() == ["other"]


def test_folds_are_stratified_and_cover_every_bag_once_a_repeat(bags):
    splits = list(bag_splits(bags, repeats=2, folds=4))
    assert [(split.repeat, split.fold) for split in splits] == [
        (repeat, fold) for repeat in range(2) for fold in range(4)
    ]
    for split in splits:
        assert np.bincount(bags.y[split.test]).tolist() == [3, 3]
        assert set(split.train) | set(split.test) == set(range(24))
        assert not set(split.train) & set(split.test)
    for repeat in (splits[:4], splits[4:]):
        assert sorted(np.concatenate([split.test for split in repeat])) == list(range(24))
    assert {tuple(split.test) for split in splits[:4]} != {tuple(s.test) for s in splits[4:]}


@pytest.fixture
def twins(bags):
    """Each bag twice, the second time with its instances in another order."""
    parts = [part for bag in bags for part in (bag, bag[::-1])]
    return Bags.from_list(parts, y=np.repeat(bags.y, 2))


def test_duplicates_stay_in_one_fold(fakes, twins, tmp_path):
    groups = duplicate_groups(twins)
    assert groups.tolist() == np.repeat(np.arange(24), 2).tolist()
    for split in bag_splits(twins, repeats=2, folds=4, groups=groups):
        assert not set(groups[split.train]) & set(groups[split.test])
    loose = run(["Mean rule"], twins, tmp_path)
    kept = run(["Mean rule"], twins, tmp_path, groups="duplicates")
    assert [item["severe"] for item in loose.findings["data"]] == [True]
    assert [item["severe"] for item in kept.findings["data"]] == [False]
    assert not {row["key"] for row in loose.rows} & {row["key"] for row in kept.rows}


def test_groups_of_a_comparison(fakes, bags, tmp_path):
    pairs = np.repeat(np.arange(12), 2)
    named = bags.with_info(bag_info={"patient": [f"p{pair}" for pair in pairs]})
    keys = []
    for data, groups in (
        ({"x": bags}, {"x": pairs}),
        ({"x": bags}, pairs),
        ({"x": named}, "patient"),
        ({"x": named}, ("patient", "duplicates")),
    ):
        results = run(["Mean rule"], data, tmp_path, groups=groups)
        assert results.failures == []
        keys.append([row["key"] for row in results.rows])
    assert keys[0] == keys[1] == keys[2] == keys[3]
    assert run(["Mean rule"], {"x": bags}, tmp_path, groups={"y": pairs}).rows[0]["key"] not in keys


def test_groups_that_cannot_be_used(bags):
    named = bags.with_info(bag_info={"patient": np.arange(24)})
    with pytest.raises(ValueError, match="groups has 3 entries for 24 bags; give one value per"):
        bag_groups(bags, [1, 2, 3])
    with pytest.raises(ValueError, match=r"'site' is neither .* the bags have 'patient'\."):
        bag_groups(named, "site")
    with pytest.raises(ValueError, match=r"the bags have none\."):
        bag_groups(bags, "site")


def test_groups_are_merged_where_they_share_a_bag():
    bags = Bags.from_list(
        [np.array([[float(value)]]) for value in (1, 2, 3, 1, 5, 6)],
        bag_info={"patient": list("abbcde"), "site": [1, 1, 2, 3, 4, 4]},
    )
    assert bag_groups(bags, "patient").tolist() == [0, 1, 1, 2, 3, 4]
    # Bags 0-1 share a site, 1-2 a patient, 0-3 are identical, 4-5 share a site.
    assert bag_groups(bags, ("patient", "site")).tolist() == [0, 0, 0, 1, 2, 2]
    assert bag_groups(bags, ("patient", "site", "duplicates")).tolist() == [0, 0, 0, 0, 1, 1]
    assert bag_groups(bags, None) is None


def test_groups_from_a_file_of_one_row_per_instance():
    rows = {"patient": ["a", "a", "b"], "tile": [1, 2, 3]}
    bags = Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))], ids=["x", "y"], instance_info=rows)
    assert bag_groups(bags, "patient").tolist() == [0, 1]
    with pytest.raises(ValueError, match="groups='tile' differs between the instances of bag 'x'"):
        bag_groups(bags, "tile")


def test_any_estimator_can_be_compared(fakes, bags, tmp_path):
    import fake_methods

    pipeline = make_pipeline(BagScaler(), fake_methods.MeanRule())
    search = GridSearchCV(fake_methods.Tuned(), {"shift": [0.0, 100.0]}, cv=2)
    methods = {
        "pipeline": pipeline,
        "search": search,
        "name": "Mean rule",
        "Tuned|fixed": {"shift": 0.0},
        "bare": fake_methods.MeanRule(),
    }
    results = run(methods, bags, tmp_path)
    assert results.failures == []
    table = results.table().loc["data"]
    assert table.index.tolist() == list(methods)
    assert table["pipeline"] == table["name"]  # the protocol scales, and has nothing to tune
    assert not hasattr(pipeline[-1], "classes_")  # what was given is not fitted
    assert run(fake_methods.MeanRule(), bags, tmp_path).table().columns.tolist() == ["MeanRule"]


def test_what_cannot_be_compared_is_refused_at_once(fakes, bags, tmp_path):
    import fake_methods

    rule = fake_methods.MeanRule
    for methods, data, kind, message in (
        ({"x": 3}, bags, TypeError, "'x' must be an estimator, the name of a method or a dict"),
        ({"x": rule}, bags, TypeError, "must be an estimator"),
        ([rule(), rule()], bags, ValueError, "Two methods have the same label"),
        (["magic"], bags, ValueError, "Unknown method 'magic'"),
        ({"PIGMIL": {"wrong": 1}}, bags, ValueError, "wrong"),
        (["KDE"], {"few": bags[:14], "fine": bags}, BagsError,
         "refused:\n- few: The class 1 has 2 bags, fewer than the 3 folds"),
        (["KDE"], {"bare": Bags.from_list(list(bags))}, BagsError, "'bare' has no labels"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message):
            run(methods, data, tmp_path)
    for limits in ({"time_limit": 0}, {"memory_limit": -1.0}, {"time_limit": float("nan")}):
        with pytest.raises(ValueError, match="_limit must be a positive number or None"):
            run(["KDE"], bags, tmp_path, **limits)


def test_key_of_a_cell_is_class_version_and_parameters(fakes, bags, tmp_path):
    import fake_methods

    def keys(estimator, **changes):
        return [row["key"] for row in run({"x": estimator}, bags, tmp_path, **changes).rows]

    first = keys(fake_methods.Tuned())
    assert keys(fake_methods.Tuned(shift=0.0)) == first
    others = [
        keys(fake_methods.Tuned(shift=1.0)),
        keys(fake_methods.MeanRule()),
        keys(make_pipeline(BagScaler(), fake_methods.Tuned())),
        keys(make_pipeline(BagScaler(with_mean=False), fake_methods.Tuned())),
        keys("Tuned"),  # scaled and tuned
    ]
    assert len({tuple(one) for one in [first, *others]}) == 6


def test_text_labels_need_a_positive_one(fakes, bags, tmp_path):
    named = bags.with_labels(np.where(bags.y == 1, "active", "inert"))
    message = (
        r"labels of 'x' are text; say which one is positive: pos_label='active' \(12 bags\) or "
        r"pos_label='inert' \(12 bags\)"
    )
    with pytest.raises(BagsError, match=message):
        run(["Mean rule"], {"x": named}, tmp_path)
    with pytest.raises(BagsError, match=r"pos_label='x' is not among the labels \['active'"):
        run(["Mean rule"], named, tmp_path, pos_label="x")
    numbers = run(["MILES"], {"x": bags}, tmp_path)
    text = run(["MILES"], {"x": named}, tmp_path, pos_label="active")
    each = run(["MILES"], {"x": named}, tmp_path, pos_label={"x": "active"})
    for results in (text, each):
        assert results.failures == []
        assert results.table().equals(numbers.table())


def test_the_same_data_under_two_names_are_computed_once(fakes, bags, tmp_path):
    data = {"two": bags, "one": bags, "another": bags[::-1]}
    results = run(["Mean rule", "Counting"], data, tmp_path)
    assert len(fakes.read_text().splitlines()) == 6
    # Tables keep the order asked for.
    table = results.table()
    assert (table.index.tolist(), table.columns.tolist()) == ([*data], ["Mean rule", "Counting"])
    assert table.loc["one"].tolist() == table.loc["two"].tolist()


def test_progress_is_reported_after_every_cell(fakes, bags, tmp_path):
    steps = []
    run(["Mean rule"], bags, tmp_path, callback=steps.append)
    assert [(progress.done, progress.total) for progress in steps] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"time_limit": 0.2}, "TimeoutError: it took longer than the time limit of 0.2 s"),
        ({"memory_limit": 32}, "MemoryError: it needed more than the memory limit of 32 MiB"),
    ],
)
def test_limits_end_cells_of_a_comparison(fakes, bags, tmp_path, limit, expected):
    results = run(["Hungry"], bags, tmp_path, folds=2, **limit)
    assert [bool(re.match(expected, item["error"])) for item in results.failures] == [True] * 2
