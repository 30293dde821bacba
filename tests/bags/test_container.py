"""The container, worked by hand: parts, indexing, immutability, copies."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags

A = np.array([[0.0, 1.0], [2.0, 3.0]])
B = np.array([[4.0, 5.0]])
C = np.array([[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]])


@pytest.fixture
def bags():
    return Bags.from_list(
        [A, B, C],
        ids=["a", "b", "c"],
        y=[1, 0, 1],
        instance_labels=[[0, 1], [0], [1, 0, 0]],
        feature_names=["left", "right"],
        instance_info={"row": np.arange(6), "place": np.arange(12).reshape(6, 2)},
    )


class TestParts:
    def test_flat_layout_and_sizes(self, bags):
        np.testing.assert_array_equal(bags.instances, np.arange(12.0).reshape(6, 2))
        np.testing.assert_array_equal(bags.offsets, [0, 2, 3, 6])
        assert bags.offsets.dtype == np.int64
        assert bags.instance_labels.tolist() == [0, 1, 0, 1, 0, 0]
        assert bags.feature_names == ("left", "right")
        assert (len(bags), bags.n_bags, bags.n_instances, bags.n_features) == (3, 3, 6, 2)
        assert bags.shape == (3, 2)
        assert bags.sizes.tolist() == [2, 1, 3]
        assert bags.bag_index.tolist() == [0, 0, 1, 2, 2, 2]
        assert bags.__sizeof__() == 12 * 8 + 4 * 8

    def test_defaults(self):
        bags = Bags.from_list([A, B])
        assert bags.ids.tolist() == [0, 1]
        assert bags.y is bags.instance_labels is bags.feature_names is None
        assert dict(bags.instance_info) == {}


class TestFromFlat:
    def test_scattered_rows_are_gathered_in_order_of_appearance(self):
        flat = np.arange(5.0)[:, None]
        bags = Bags.from_flat(
            flat,
            ["q", "p", "q", "r", "p"],
            y=[1, 0, 1, 0, 0],
            instance_labels=[1, 0, 0, 0, 0],
            instance_info={"letter": np.array(list("abcde"))},
        )
        assert bags.ids.tolist() == ["q", "p", "r"]
        assert bags.y.tolist() == [1, 0, 0]
        assert bags.instances.ravel().tolist() == [0, 2, 1, 4, 3]
        assert bags.instance_labels.tolist() == [1, 0, 0, 0, 0]
        assert bags.instance_info["row"].tolist() == [0, 2, 1, 4, 3]
        assert bags.instance_info["letter"].tolist() == ["a", "c", "b", "e", "d"]

    def test_a_row_column_of_the_user_is_kept_and_labels_are_by_bag_or_row(self):
        flat, ids = sp.csr_array(np.diag([1.0, 2.0, 3.0])), [1, 2, 1]
        bags = Bags.from_flat(flat, ids, y=["n", "p"], instance_info={"row": [7, 8, 9]})
        assert bags.instance_info["row"].tolist() == [7, 9, 8]
        assert bags.instances.toarray().tolist() == [[1, 0, 0], [0, 0, 3], [0, 2, 0]]
        assert bags.equals(Bags.from_flat(flat, ids, y=["n", "p", "n"]))


class TestIndexing:
    @pytest.mark.parametrize("key", [1, np.int64(1), -2])
    def test_integer_gives_the_instances(self, bags, key):
        np.testing.assert_array_equal(bags[key], B)

    @pytest.mark.parametrize(
        ("key", "ids"),
        [
            (slice(1, 3), ["b", "c"]),
            (slice(None, None, -1), ["c", "b", "a"]),
            (slice(None, None, 2), ["a", "c"]),
            (slice(2, 1), []),
            ([2, 0], ["c", "a"]),
            ([], []),
            (np.array([], dtype=int), []),
            (np.array([True, False, True]), ["a", "c"]),
            ([False, True, False], ["b"]),
            ([1, 1], ["b", "b"]),
            ((np.array([0]), Ellipsis), ["a"]),
        ],
    )
    def test_everything_travels_with_the_bag(self, bags, key, ids):
        part, names = bags[key], ["a", "b", "c"]
        origins = [names.index(name) for name in ids]
        rows = [row for at in origins for row in range(*bags.offsets[at : at + 2])]
        assert part.ids.tolist() == ids
        assert part.y.tolist() == bags.y[origins].tolist()
        assert part.feature_names == bags.feature_names
        for position, origin in enumerate(origins):
            np.testing.assert_array_equal(part[position], [A, B, C][origin])
        np.testing.assert_array_equal(part.instance_labels, bags.instance_labels[rows])
        for name in ("row", "place"):
            expected = bags.instance_info[name][rows]
            np.testing.assert_array_equal(part.instance_info[name], expected)

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            (3, "There is no bag 3; there are 3 bags"),
            (-4, "There is no bag -4; there are 3 bags"),
            ([3], "out of bounds"),
            (np.array([True]), "boolean index did not match"),
            (True, "A single bool is not an index of bags"),
            (np.True_, "A single bool is not an index of bags"),
            ([0.5], "must be of integer"),
            ((0, 1), "Bags are indexed by bag only"),
            ((slice(None), slice(None), 0), "Bags are indexed by bag only"),
        ],
    )
    def test_what_is_no_index(self, bags, key, message):
        with pytest.raises(IndexError, match=message):
            bags[key]


class TestImmutable:
    def test_attributes_cannot_be_set_or_deleted(self, bags):
        with pytest.raises(AttributeError, match="Bags cannot be changed; to set 'y' build new"):
            bags.y = [1, 1, 1]
        with pytest.raises(AttributeError, match="Bags cannot be changed; 'y' cannot be deleted"):
            del bags.y
        with pytest.raises(AttributeError, match="to set 'other'"):
            bags.other = 1

    @pytest.mark.parametrize("name", ["instances", "offsets", "ids", "y", "instance_labels"])
    def test_arrays_cannot_be_written(self, bags, name):
        with pytest.raises(ValueError, match="read-only"):
            getattr(bags, name)[0] = getattr(bags, name)[0]

    def test_parts_cannot_be_written(self, bags):
        with pytest.raises(TypeError):
            bags.instance_info["row"] = np.zeros(6)
        sparse = Bags(sp.csr_array(A), [0, 1, 2])
        views = [bags[0], next(iter(bags)), bags[1:].instances, bags[[1]].instances]
        for view in (*views, bags.instance_info["row"], sparse.instances.data):
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 1.0


class TestCopies:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_floats_are_shared(self, dtype):
        mine = A.astype(dtype)
        bags = Bags(mine, [0, 1, 2])
        assert np.shares_memory(bags.instances, mine)
        assert bags.dtype == dtype
        assert np.shares_memory(bags[0], mine)
        assert np.shares_memory(bags[1:].instances, mine)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, bool, np.float16, ">f8", np.longdouble])
    def test_other_numbers_become_float64(self, dtype):
        bags = Bags(np.ones((2, 1), dtype=dtype), [0, 2])
        assert bags.dtype == np.float64
        assert bags.dtype.isnative
        assert bags.instances.tolist() == [[1.0], [1.0]]

    def test_layout_and_objects(self):
        assert Bags(np.array([[1, 2.5]], dtype=object), [0, 1]).instances.tolist() == [[1.0, 2.5]]
        bags = Bags(sp.csr_matrix(A).todense(), [0, 1, 2])
        assert type(bags.instances) is np.ndarray
        mine = np.asfortranarray(np.ones((3, 2)))
        assert np.shares_memory(Bags(mine, [0, 3]).instances, mine)
        assert np.shares_memory(Bags.from_list([mine]).instances, mine)

    def test_memory_map(self, tmp_path):
        np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        bags = Bags(mapped, [0, 2, 3, 6])
        assert np.shares_memory(bags.instances, mapped)
        assert bags[2].tolist() == C.tolist()
        assert pickle.loads(pickle.dumps(bags)).equals(bags)

    def test_sparse_is_made_canonical_without_touching_the_input(self):
        mine = sp.csr_array((np.ones(3), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
        bags = Bags(mine, [0, 1])
        assert bags.instances.toarray().tolist() == [[1.0, 2.0]]
        assert bags.instances.nnz == 2
        assert mine.indices.tolist() == [1, 0, 1]

    @pytest.mark.parametrize("kind", [sp.coo_matrix, sp.csc_array, sp.lil_matrix, sp.csr_matrix])
    def test_every_sparse_kind_becomes_csr(self, kind):
        bags = Bags(kind(A), [0, 1, 2])
        assert bags.is_sparse
        assert bags.instances.format == "csr"
        assert "float64 sparse" in repr(bags)
        np.testing.assert_array_equal(bags[1].toarray(), A[1:])
        np.testing.assert_array_equal(bags[[1, 0]].instances.toarray(), A[::-1])

    def test_types_of_sparse_and_lists_of_both(self):
        mine = sp.csr_array(np.eye(2, dtype=np.float32))
        assert np.shares_memory(Bags(mine, [0, 2]).instances.data, mine.data)
        assert Bags(sp.csr_array(np.eye(2, dtype=int)), [0, 2]).dtype == np.float64
        bags = Bags.from_list([sp.csr_array(A), B])
        assert bags.is_sparse
        np.testing.assert_array_equal(bags.instances.toarray(), np.vstack([A, B]))


def test_other_features_and_labels(bags):
    new = bags.with_instances(np.arange(6)[:, None], feature_names=["n"])
    assert new.instances.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert new.feature_names == ("n",)
    assert new.ids.tolist() == ["a", "b", "c"]
    assert new.instance_labels.tolist() == bags.instance_labels.tolist()
    assert bags.with_instances(np.ones((6, 2))).feature_names is None
    assert bags.with_labels(["x", "y", "x"]).y.tolist() == ["x", "y", "x"]
    assert bags.with_labels(None).y is None
    assert bags.with_labels([0, 1, 1]).instance_labels[1] == 1  # they may contradict
    assert bags[[0, 0]].with_labels([0, 1]).y.tolist() == [0, 1]  # resampled


class TestEquals:
    def test_same(self, bags):
        assert bags.equals(bags[:])
        assert bags.equals(bags[[0, 1, 2]])
        assert Bags(A, [0, 1, 2]).equals(Bags(sp.csr_array(A), [0, 1, 2]))
        unknown = Bags(A, [0, 2], y=[1], instance_labels=[1, np.nan])
        assert unknown.equals(Bags(A, [0, 2], y=[1], instance_labels=[1, np.nan]))

    @pytest.mark.parametrize(
        "other",
        [
            Bags(A, [0, 2], y=[1]),
            Bags(A, [0, 1, 2], y=[1, 0]),
            Bags(A, [0, 1, 2]),
            Bags(A, [0, 1, 2], y=[1, 1], ids=["a", "b"]),
            Bags(A + 1, [0, 1, 2], y=[1, 1]),
            Bags(sp.csr_array(A + 1), [0, 1, 2], y=[1, 1]),
            Bags(A[:, :1], [0, 1, 2], y=[1, 1]),
            Bags(A, [0, 1, 2], y=[1, 1], feature_names=["a", "b"]),
            Bags(A, [0, 1, 2], y=[1, 1], instance_labels=[1, 1]),
        ],
    )
    def test_different(self, other):
        assert not Bags(A, [0, 1, 2], y=[1, 1]).equals(other)


@pytest.mark.parametrize(
    "again", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_pickle_and_copy_keep_everything(bags, again, sparse):
    if sparse:
        bags = bags.with_instances(sp.csr_array(bags.instances), feature_names=bags.feature_names)
    back = again(bags)
    assert back.equals(bags)
    assert back.is_sparse == sparse
    assert back.instance_info["row"].tolist() == list(range(6))
    with pytest.raises(AttributeError):
        back.y = None
    with pytest.raises(ValueError, match="read-only"):
        back.offsets[0] = 1
