"""Info about bags and instances stays with them; missing values; frames."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pigmil import MILES, Bags, BagScaler, OnInstances, as_bags
from pigmil._core.errors import BagsError

VALUES = np.arange(12.0).reshape(6, 2)


@pytest.fixture
def bags():
    return Bags(
        VALUES,
        [0, 2, 3, 6],
        ids=["a", "b", "c"],
        y=[1, 0, 1],
        instance_labels=[0, 1, 0, 1, 0, 0],
        feature_names=["left", "right"],
        instance_info={"coords": np.arange(12).reshape(6, 2), "tile": list("uvwxyz")},
        bag_info={"patient": ["p1", "p2", "p1"], "age": [61, 70, 61]},
    )


@pytest.mark.parametrize(
    "same",
    [
        lambda bags: BagScaler().fit_transform(bags),
        lambda bags: OnInstances(StandardScaler()).fit(bags).transform(bags),
        lambda bags: bags.with_labels([0, 0, 1]),
        lambda bags: bags.with_instances(VALUES[:, :1]),
        lambda bags: pickle.loads(pickle.dumps(bags)),
        copy.deepcopy,
        lambda bags: bags[[2, 0, 1]][[1, 2, 0]],
    ],
)
def test_info_survives(bags, same):
    for field in ("bag_info", "instance_info"):
        expected, found = getattr(bags, field), getattr(same(bags), field)
        for name, values in expected.items():
            assert found[name].tolist() == values.tolist()


def test_equality_looks_at_info(bags):
    assert bags.equals(bags.with_info())
    assert not bags.equals(bags.with_info(bag_info={"age": [1, 2, 3]}))
    assert not bags.equals(bags.with_info(bag_info={"site": ["x", "y", "z"]}))
    assert not bags.equals(bags.with_info(instance_info={"tile": list("abcdef")}))
    assert bags.equals(bags.with_info(instance_info={"row": np.arange(6)}))


def test_info_of_the_wrong_length(bags):
    message = r"bag_info\['x'\] has shape \(2,\); expected \(3, \.\.\.\)"
    with pytest.raises(BagsError, match=message):
        bags.with_info(bag_info={"x": [1, 2]})
    with pytest.raises(ValueError, match="read-only"):
        bags.bag_info["age"][0] = 5


def test_one_bag_by_its_id(bags):
    assert bags["b"].tolist() == [[4.0, 5.0]]
    assert bags[["c", "a"]].ids.tolist() == ["c", "a"]
    with pytest.raises(KeyError, match="There is no bag 'd'; ids are like 'a'"):
        bags["d"]
    with pytest.raises(KeyError, match="There is no bag '0'"):
        Bags(VALUES, [0, 6])["0"]


def test_long_ids_cost_only_their_length():
    ids = [f"bag {at}" for at in range(400)]
    ids[7] = "x" * 500_000
    bags = Bags(np.ones((400, 1)), np.arange(401), ids=ids)
    flat = Bags.from_flat(np.ones((400, 1)), ids)
    assert bags.ids.nbytes == flat.ids.nbytes == 400 * 8
    assert flat.ids[7] is ids[7]


class TestFrames:
    def test_one_row_per_instance(self, bags):
        frame = bags.to_frame()
        assert list(frame.columns) == [
            "bag", "bag_label", "instance_label", "patient", "age", "coords_0", "coords_1", "tile",
            "left", "right",
        ]  # fmt: skip
        assert frame["bag"].tolist() == ["a", "a", "b", "c", "c", "c"]
        assert frame["age"].tolist() == [61, 61, 70, 61, 61, 61]
        assert frame["coords_1"].tolist() == [1, 3, 5, 7, 9, 11]
        assert frame["right"].tolist() == [1, 3, 5, 7, 9, 11]

    @pytest.mark.parametrize("convert", [lambda f: f, pl.from_pandas], ids=["pandas", "polars"])
    def test_there_and_back(self, bags, convert):
        bags = bags.with_info(instance_info={"coords": np.arange(6)})
        frame = convert(bags.to_frame())
        back = as_bags(frame, info=["coords", "tile"], bag_info=["patient", "age"])
        assert back.equals(bags)

    def test_sparse_becomes_dense_and_names_may_not_clash(self, bags):
        sparse = bags.with_instances(sp.csr_array(VALUES))
        assert sparse.to_frame()["f1"].tolist() == VALUES[:, 1].tolist()
        with pytest.raises(BagsError, match="Several columns of the table would be named 'left'"):
            bags.with_info(bag_info={"left": [1, 2, 3]}).to_frame()

    def test_bag_info_must_be_constant_within_a_bag(self, bags):
        frame = bags.to_frame()[["bag", "left", "age"]]
        frame.loc[4, "age"] = 5
        with pytest.raises(BagsError, match=r"Row 4: the bag 'c' has age 5 here and 61 before"):
            as_bags(frame, bag_info=["age"])
        with pytest.raises(BagsError, match="no column for info='site', bag_info='ward'"):
            as_bags(frame, info=["site"], bag_info=["ward"])


def test_bag_info_of_flat_rows_is_given_once_per_bag_or_per_row():
    ids = ["q", "p", "q"]
    per_bag = Bags.from_flat(np.ones((3, 1)), ids, bag_info={"site": ["x", "y"]})
    per_row = Bags.from_flat(np.ones((3, 1)), ids, bag_info={"site": ["x", "y", "x"]})
    assert per_bag.equals(per_row)
    with pytest.raises(BagsError, match=r"bag_info\['site'\] has shape \(1,\); expected \(2, "):
        Bags.from_flat(np.ones((3, 1)), ids, bag_info={"site": ["x"]})


class TestMissing:
    NAN = VALUES.copy()
    NAN[1, 1] = np.nan

    @pytest.mark.parametrize(
        ("build", "values"),
        [
            (Bags, (NAN, [0, 2, 6])),
            (Bags.from_list, ([NAN[:2], NAN[2:]],)),
            (Bags.from_flat, (NAN, [1, 1, 2, 2, 2, 2])),
            (as_bags, ([NAN[:2], NAN[2:]],)),
            (as_bags, (NAN[None],)),
            (as_bags, (pd.DataFrame(NAN, columns=["u", "v"]).assign(bag=1),)),
            (as_bags, (sp.csr_array(NAN),)),
        ],
    )
    def test_raise_or_keep(self, build, values):
        with pytest.raises(BagsError, match=r"nan|missing"):
            build(*values)
        bags = build(*values, missing="keep")
        assert bags.has_missing
        assert bags[:1].has_missing
        assert bags.equals(build(*values, missing="keep"))

    def test_only_nan_is_kept(self):
        assert not Bags(VALUES, [0, 6], missing="keep").has_missing
        with pytest.raises(BagsError, match="missing='drop' is not understood"):
            Bags(VALUES, [0, 6], missing="drop")
        values = self.NAN.copy()
        values[3, 0] = np.inf
        with pytest.raises(BagsError, match="Bag 1, instance 1: feature 0 is inf"):
            Bags(values, [0, 2, 6], missing="keep")

    def test_imputed_inside_folds(self):
        rng, y = np.random.RandomState(0), np.arange(24) % 2
        values = rng.normal(3.0 * np.repeat(y, 3)[:, None], 1.0, (72, 2))
        values[::7, 0] = np.nan
        names = ["u", "v"]
        holes = Bags(values, np.arange(0, 73, 3), y=y, feature_names=names, missing="keep")
        with pytest.raises(
            BagsError, match=r"(?s)MILES needs all values.*feature 0 \('u'\) is nan"
        ):
            MILES().fit(holes, holes.y)
        model = make_pipeline(OnInstances(SimpleImputer()), MILES())
        assert cross_val_score(model, holes, holes.y, cv=3).mean() > 0.8
        imputed = OnInstances(SimpleImputer()).fit_transform(holes)
        assert not imputed.has_missing
