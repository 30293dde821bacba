"""Every writer's files are read back: ids, labels, values bit for bit, names."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import formats

NASTY = st.text(
    st.one_of(
        st.sampled_from(",;\"'\n\r\t <>&%{}|@#?\\/:=é中\u2028\u00a0😀"),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    max_size=8,
)
TAME = st.text("abcXYZ019_-+=éß中", min_size=1, max_size=6)
WORDS_OF_16_BITS = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\0"),
    min_size=1,
    max_size=8,
)


@dataclass(frozen=True)
class Holds:
    """The capabilities of a format."""

    text: st.SearchStrategy[str] | None = field(default_factory=lambda: NASTY)
    names: bool = True
    unnamed: bool = True  # whether "no feature names" comes back as that
    instance_labels: bool = True
    no_labels: bool = True
    info: bool = False
    sparse: bool = False


QUOTED = NASTY.filter(lambda text: text not in ("", "?"))
HOLDS = {
    "csv": Holds(unnamed=False),
    "tsv": Holds(unnamed=False),
    "parquet": Holds(info=True),
    "parquet_list": Holds(info=True),
    "arff": Holds(QUOTED, unnamed=False),
    "keel": Holds(TAME, unnamed=False),
    "uci": Holds(TAME, unnamed=False),
    "sparse_mil": Holds(TAME, names=False, instance_labels=False, sparse=True),
    "nju": Holds(TAME, names=False),
    "mat": Holds(WORDS_OF_16_BITS, sparse=True),
    "mat_prtools": Holds(WORDS_OF_16_BITS, sparse=True),
    "npz": Holds(info=True, sparse=True),
    "h5": Holds(info=True),
    "svmlight": Holds(None, names=False, instance_labels=False, no_labels=False, sparse=True),
}


def test_every_format_is_covered():
    assert set(HOLDS) == set(formats())


@st.composite
def collections(draw, holds: Holds) -> Bags:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    n_bags, n_rows, width = len(sizes), sum(sizes), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    bits = 32 if dtype is np.float32 else 64
    number = st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False, width=bits))
    flat = draw(st.lists(number, min_size=n_rows * width, max_size=n_rows * width))
    instances = np.array(flat, dtype=dtype).reshape(n_rows, width)
    whole = st.integers(0, 10**15) if holds.text is None else st.integers(-5, 10**15)
    id_value = draw(st.sampled_from([whole] if holds.text is None else [whole, holds.text]))
    ids = draw(st.lists(id_value, min_size=n_bags, max_size=n_bags, unique=True))
    y, inner = draw(labels(holds, sizes))
    names = None
    if holds.names and draw(st.booleans()):
        names = draw(
            st.lists(
                holds.text.filter(lambda name: name not in TAKEN),
                min_size=width,
                max_size=width,
                unique=True,
            )
        )
    info = {}
    if holds.info and draw(st.booleans()):
        info = {
            "coords": np.arange(2 * n_rows).reshape(n_rows, 2),
            "tile": np.array([f"tile {row}" for row in range(n_rows)]),
        }
    if draw(st.booleans()):
        instances = sp.csr_array(instances)
    return Bags(
        instances,
        np.concatenate([[0], np.cumsum(sizes)]),
        ids=ids,
        y=y,
        instance_labels=inner,
        feature_names=names,
        instance_info=info,
    )


TAKEN = {
    "bag", "bag_label", "instance_label", "bag_id", "instance_id", "class", "label", "y",
    "coords", "tile",
}  # fmt: skip


@st.composite
def labels(draw, holds: Holds, sizes):
    """Labels of bags and instances, of one kind, that do not contradict each other."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    kinds = [st.integers(-(10**9), 10**9), finite, st.booleans()]
    if holds.text is not None:
        kinds.append(holds.text)
    kind = draw(st.sampled_from(kinds))
    low, high = sorted(draw(st.lists(kind, min_size=2, max_size=2, unique=True)))
    y = draw(st.lists(st.sampled_from([low, high]), min_size=len(sizes), max_size=len(sizes)))
    inner = None
    if holds.instance_labels and draw(st.booleans()):
        inner = []
        for size, label in zip(sizes, y, strict=True):
            choice = st.sampled_from([low, high] if label == high else [low])
            inner += draw(st.lists(choice, min_size=size, max_size=size))
        if len(set(inner)) > 1 and set(y) == {low} and high in inner:
            inner = [low] * len(inner)
        inner = np.array(inner)
    if holds.no_labels and draw(st.booleans()):
        y = None
    return (None if y is None else np.array(y)), inner


@pytest.mark.parametrize("name", sorted(HOLDS))
def test_round_trip(name, tmp_path_factory):
    holds = HOLDS[name]
    path = tmp_path_factory.mktemp(name) / f"bags{formats()[name].suffixes[0]}"

    @settings(max_examples=60)
    @given(collections(holds))
    def check(bags):
        write_bags(bags, path, format=name)
        options = {"dtype": bags.dtype}
        text_labels = [part for part in (bags.y, bags.instance_labels) if part is not None]
        if text_labels and text_labels[0].dtype.kind == "U":
            options["labels"] = str
        if bags.ids.dtype.kind == "O":
            options["ids"] = str
        if name in ("sparse_mil", "svmlight"):
            options["n_features"] = bags.n_features
        back = read_bags(path, format=name, **options)
        assert_same(bags, back, holds)

    check()


def assert_same(bags: Bags, back: Bags, holds: Holds) -> None:
    assert back.dtype == bags.dtype
    if bags.is_sparse:
        assert back.is_sparse == holds.sparse
    np.testing.assert_array_equal(dense(back), dense(bags))
    np.testing.assert_array_equal(back.offsets, bags.offsets)
    same_values(back.ids, bags.ids)
    same_values(back.y, bags.y)
    same_values(back.instance_labels, bags.instance_labels)
    expected = bags.feature_names
    if expected is None and not holds.unnamed:
        expected = tuple(f"f{column}" for column in range(bags.n_features))
    assert back.feature_names == expected
    for key, values in bags.instance_info.items():
        np.testing.assert_array_equal(back.instance_info[key], values)


def same_values(found, expected) -> None:
    if expected is None:
        assert found is None
        return
    assert found.tolist() == expected.tolist()
    assert [isinstance(one, str) for one in found] == [isinstance(one, str) for one in expected]


def dense(bags: Bags) -> np.ndarray:
    return bags.instances.toarray() if bags.is_sparse else np.asarray(bags.instances)


@pytest.mark.parametrize("name", ["npz", "parquet", "parquet_list", "h5"])
def test_types_come_back_without_being_asked_for(name, tmp_path):
    path = tmp_path / f"bags{formats()[name].suffixes[0]}"
    bags = Bags(
        np.ones((3, 2), dtype=np.float32), [0, 1, 3], ids=["007", "1"], y=["1", "0"],
        instance_labels=["1", "0", "0"],
    )  # fmt: skip
    write_bags(bags, path, format=name)
    back = read_bags(path)
    assert back.dtype == np.float32
    assert back.equals(bags)
    assert back.ids.tolist() == ["007", "1"]


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_text_columns_beside_the_features(name, tmp_path):
    path = tmp_path / f"bags.{name}"
    bags = Bags(
        np.arange(6.0).reshape(3, 2), [0, 1, 3], y=[0, 1],
        instance_info={"tile": np.array(["a", "b,c", "d"]), "x": np.array([1, 2, 3])},
    )  # fmt: skip
    write_bags(bags, path)
    back = read_bags(path, info=["tile", "x"])
    assert back.instance_info["tile"].tolist() == ["a", "b,c", "d"]
    assert back.instance_info["x"].tolist() == [1, 2, 3]
    assert back.n_features == 2


@pytest.mark.parametrize("format_name", [name for name in HOLDS if HOLDS[name].instance_labels])
def test_unknown_instance_labels_come_back(format_name, tmp_path):
    path = tmp_path / f"bags{formats()[format_name].suffixes[0]}"
    bags = Bags(np.ones((3, 1)), [0, 1, 3], y=[0, 1], instance_labels=[0, np.nan, 1])
    write_bags(bags, path, format=format_name)
    found = read_bags(path, format=format_name).instance_labels
    np.testing.assert_array_equal(found, [0, np.nan, 1])


@pytest.mark.parametrize("format_name", [name for name in HOLDS if not HOLDS[name].info])
def test_what_cannot_be_held_is_refused_unless_it_may_be_lost(format_name, tmp_path):
    path = tmp_path / f"bags{formats()[format_name].suffixes[0]}"
    bags = Bags(np.ones((2, 1)), [0, 1, 2], y=[0, 1], instance_info={"coords": np.ones((2, 2))})
    with pytest.raises(BagFormatError, match=r"cannot hold.*coords"):
        write_bags(bags, path, format=format_name)
    assert not path.exists()
    write_bags(bags, path, format=format_name, lossy=True)
    assert "coords" not in read_bags(path, format=format_name).instance_info


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (name, bad)
        for name in ("keel", "uci", "sparse_mil", "nju", "svmlight")
        for bad in ("a,b", "two words", "line\nfeed", "", '"', "?")
        if name != "nju" or bad not in ("a,b", '"')  # its columns are parted by blanks only
    ],
)
def test_formats_without_quoting_refuse_what_they_would_mangle(name, bad, tmp_path):
    path = tmp_path / f"bags{formats()[name].suffixes[0]}"
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=["good", bad], y=[0, 1])
    with pytest.raises(BagFormatError, match=r"cannot hold|whole numbers"):
        write_bags(bags, path, format=name)
    assert list(tmp_path.iterdir()) == []


def test_objects_are_refused(format_name, tmp_path):
    path = tmp_path / f"bags{formats()[format_name].suffixes[0]}"
    ids = np.empty(2, dtype=object)
    ids[:] = [("a", 1), frozenset()]
    bags = Bags(np.ones((2, 1)), [0, 1, 2], y=[0, 1])
    odd = Bags._trusted(**{**{name: getattr(bags, name) for name in Bags.__slots__}, "ids": ids})
    with pytest.raises(BagFormatError, match=r"cannot hold ids"):
        write_bags(odd, path, format=format_name)


CLASHES = {
    "csv": ("bag", "Several columns .* named 'bag'"),
    "parquet": ("bag_label", "Several columns .* named 'bag_label'"),
    "arff": ("instance_label", "which is reserved in arff"),
    "keel": ("class", "must differ from each other"),
    "uci": ("instance_id", "must differ from each other"),
}


@pytest.mark.parametrize("name", CLASHES)
def test_names_of_features_that_are_taken(name, tmp_path):
    feature, message = CLASHES[name]
    path = tmp_path / f"bags{formats()[name].suffixes[0]}"
    bags = Bags(np.ones((2, 2)), [0, 1, 2], y=[0, 1], feature_names=[feature, "b"])
    with pytest.raises(BagFormatError, match=message):
        write_bags(bags, path, format=name)


def test_columns_may_be_named_otherwise(tmp_path):
    bags = Bags(np.ones((2, 1)), [0, 1, 2], y=[0, 1], feature_names=["bag"])
    for name in ("b.csv", "b.parquet"):
        write_bags(bags, tmp_path / name, bag="molecule", label="musk")
        back = read_bags(tmp_path / name, bag="molecule", label="musk")
        assert back.equals(bags)


@pytest.mark.parametrize("name", ["mat", "mat_prtools"])
@pytest.mark.parametrize("bad", ["", "😀", "\ud800"])
def test_matlab_refuses_text_it_cannot_hold(name, bad, tmp_path):
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=["a", bad], y=[0, 1])
    with pytest.raises(BagFormatError, match=r"cannot hold the text|cannot be encoded"):
        write_bags(bags, tmp_path / "b.mat", format=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["csv", "parquet", "h5", "nju", "keel"])
def test_text_that_is_no_unicode_is_refused(name, tmp_path):
    path = tmp_path / f"b{formats()[name].suffixes[0]}"
    bags = Bags(np.ones((2, 1)), [0, 1, 2], ids=["a", "\ud800"], y=[0, 1])
    with pytest.raises(BagFormatError, match=r"cannot"):
        write_bags(bags, path, format=name)
    assert list(tmp_path.iterdir()) == []
