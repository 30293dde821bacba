"""Marks on instances, as bags that every method can learn from."""

import numpy as np
import pytest

from pigmil import MISVM, Bags, SoftPIGMIL, diagnose, select_instances
from pigmil._core.errors import BagsError
from pigmil.bags import before_marks
from pigmil.metrics import instance_scores

TABLE = {"bag": ["a", "a", "b"], "instance": [0, 1, 2], "positive": ["no", "yes", False]}


def small(**more):
    arrays = [[[0.0], [1.0]], [[2.0], [3.0], [4.0]], [[5.0]], [[6.0], [7.0]]]
    return Bags.from_list(
        arrays,
        ids=["a", "b", "c", "d"],
        y=[1, 1, 0, 0],
        instance_info={"name": [f"i{at}" for at in range(8)]},
        **more,
    )


def contents(bags):
    return [np.ravel(bag).tolist() for bag in bags]


def test_negatives_move_to_negative_bags_and_positives_are_also_bags_of_their_own():
    marked = small().with_marks(TABLE)
    assert contents(marked) == [[1], [2, 3], [0, 5], [4, 6, 7], [1]]
    assert marked.y.tolist() == [1, 1, 0, 0, 1]
    assert marked.ids.tolist() == ["a", "b", "c", "d", "a, instance 1"]
    rows = [1, 2, 3, 0, 5, 4, 6, 7, 1]
    assert marked.instance_info["original_row"].tolist() == rows
    assert marked.instance_info["name"].tolist() == [f"i{row}" for row in rows]
    groups = marked.bag_info["fold_group"]
    assert groups[4] == groups[0]
    assert len(set(groups)) == 4


def test_bags_before_marks_are_recovered_unless_they_changed_places():
    bags = small()
    marked = bags.with_marks(TABLE)
    before, rows, marks = before_marks(marked)
    assert contents(before) == contents(bags)
    assert before.ids.tolist() == ["a", "b", "c", "d"]
    assert marked.instances[rows].ravel().tolist() == list(range(8))
    np.testing.assert_array_equal(marks, [0, 1, np.nan, np.nan, 0, *[np.nan] * 3])
    for other in (bags, marked[[1, 0, 2, 3, 4]], marked[[4, 0, 1, 2, 3]], marked[:1]):
        assert before_marks(other) is None


def test_negatives_stay_in_their_group_and_are_dealt_evenly():
    groups = {"fold_group": [2, 1, 1, 2]}
    marked = small(bag_info=groups).with_marks(TABLE)
    assert contents(marked)[2:4] == [[4, 5], [0, 6, 7]]
    assert marked.bag_info["fold_group"].tolist() == [2, 1, 1, 2, 2]
    alone = small(bag_info={"fold_group": [9, 9, 1, 1]})
    many = alone.with_marks({"bag": ["b", "b"], "instance": [0, 1], "positive": [0, 0]})
    assert contents(many)[2:] == [[2, 5], [3, 6, 7]]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "array"])
def test_all_forms_of_marks_mean_the_same(kind, tmp_path):
    pandas = pytest.importorskip("pandas")
    marks = pandas.DataFrame(TABLE)
    if kind == "csv":
        marks.to_csv(tmp_path / "marks.csv", index=False)
        marks = tmp_path / "marks.csv"
    elif kind == "parquet":
        pytest.importorskip("pyarrow")
        marks["positive"] = [False, True, False]
        marks.to_parquet(tmp_path / "marks.parquet")
        marks = str(tmp_path / "marks.parquet")
    elif kind == "array":
        marks = [0, 1, np.nan, np.nan, 0, np.nan, np.nan, np.nan]
    assert small().with_marks(marks).equals(small().with_marks(TABLE))


@pytest.mark.parametrize(
    ("rows", "messages"),
    [
        (
            [("c", 0, 1), ("a", 0, 0), ("a", 1, 0)],
            ["Bag 'c' is negative, but its instance 0 is marked positive", "all its instances"],
        ),
        (
            [("x", 0, 1), ("a", 2, 1), ("a", "", 1), ("b", 0, "?"), ("d", 0, 0), ("d", 0, 1)],
            ["no bag 'x'", "no instance '2'", "instance ''", "no, got '?'", "both positive and"],
        ),
    ],
)
def test_contradictions_are_one_error_that_lists_them(rows, messages):
    marks = dict(zip(("bag", "instance", "positive"), zip(*rows, strict=True), strict=True))
    with pytest.raises(BagsError) as raised:
        small().with_marks(marks)
    for message in messages:
        assert message in str(raised.value)


@pytest.mark.parametrize(
    ("marks", "message"),
    [([0, 1], "for each of 8 instances"), ({"bag": ["a"]}, "no instance and no positive")],
)
def test_wrong_tables_are_refused(marks, message):
    with pytest.raises(BagsError, match=message):
        small().with_marks(marks)
    with pytest.raises(BagsError, match="have marks already"):
        small().with_marks(TABLE).with_marks(TABLE)


def planted(seed=0):
    """An impostor in 80 % of the positive bags lies further out than what makes them positive."""
    rng = np.random.default_rng(seed)
    arrays, labels = [], []
    for at in range(60):
        bag = rng.normal(size=(8, 3))
        if at % 2:
            bag[0] += [0, 3, 0]
            if at % 10 > 1:
                bag[1] += [6, 0, 0]
        arrays.append(bag)
        labels += [at % 2 * (place == 0) for place in range(8)]
    return Bags.from_list(arrays, y=[at % 2 for at in range(60)], instance_labels=labels)


@pytest.mark.parametrize("method", [SoftPIGMIL(random_state=0), MISVM()])
def test_methods_learn_from_marks_and_refer_to_the_original_rows(method):
    bags = planted()
    marks = np.full(bags.n_instances, np.nan)
    for at in range(1, 60, 6):  # ten positive bags, two marks each
        marks[bags.offsets[at] + np.arange(2)] = [1, 0]
    method.fit(bags.with_marks(marks))
    unmarked = np.isnan(marks) & (np.repeat(bags.y, bags.sizes) == 1)
    assert len(method.instance_scores_) == bags.n_instances
    assert method.detected_instances_.max() < bags.n_instances
    scores = instance_scores(method, bags)
    positives = unmarked & (bags.instance_labels == 1)
    impostors = unmarked & (np.arange(bags.n_instances) % 8 == 1)
    assert np.median(scores[positives]) > np.median(scores[impostors])


@pytest.mark.parametrize("method", [SoftPIGMIL(random_state=0), MISVM()])
def test_selection_and_verdict_know_the_marks(method):
    bags, marks = planted(), np.full(480, np.nan)
    rows = bags.offsets[1:60:6, None] + np.arange(2)
    marks[rows] = [1, 0]
    marked = bags.with_marks(marks)
    method = method.fit(marked)
    selection = select_instances(method, marked, fdr=0.2)
    assert set(rows[:, 0]) <= set(selection.called)
    assert not set(rows[:, 1]) & set(selection.instances)
    assert len(selection.instances) == 240 - 10
    assert selection.n_negatives == 240 + 10
    assert not set(bags.ids[1:60:6]) & set(selection.bags_without_call)
    assert len(selection.diagnosis.lines) > 1
    if isinstance(method, SoftPIGMIL):  # it knows its bags and marks
        again = select_instances(method, bags, fdr=0.2)
        np.testing.assert_array_equal(again.adjusted, selection.adjusted)
        assert diagnose(method).auc == selection.diagnosis.auc
