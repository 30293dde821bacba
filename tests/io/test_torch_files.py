"""Tensors read without torch: right values, and nothing else is followed."""

import contextlib
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from pigmil._core.errors import BagFormatError
from pigmil.io._torch import read_tensors

from .torch_files import STORAGES, archive, described, integer, integers, pickled, tensor_file, text


@pytest.mark.parametrize("kind", STORAGES)
def test_types(tmp_path, kind):
    values = np.arange(6).reshape(2, 3).astype(kind)
    read = read_tensors(tensor_file(tmp_path / "t.pt", values))
    assert read.dtype == values.dtype
    assert np.array_equal(read, values)


def test_half_precision_of_brains(tmp_path):
    exact = np.array([1.0, -2.5, 0.0, 3.0e38], dtype=np.float32)
    upper = (exact.view(np.uint32) >> 16).astype(np.uint16)
    read = read_tensors(archive(tmp_path / "t.pt", described(upper, storage="BFloat16"), _0=upper))
    assert np.array_equal(read[:3], exact[:3])
    assert abs(read[3] / exact[3] - 1) < 2**-7


def test_views_share_values(tmp_path):
    values = np.arange(12.0, dtype=np.float32)
    turned = tensor_file(tmp_path / "t.pt", values, shape=(3, 4), strides=(1, 3))
    assert np.array_equal(read_tensors(turned), values.reshape(4, 3).T)
    part = tensor_file(tmp_path / "p.pt", values, shape=(2, 2), strides=(3, 1), offset=4)
    assert read_tensors(part).tolist() == [[4, 5], [7, 8]]
    nothing = tensor_file(tmp_path / "n.pt", values, shape=(0, 4), strides=(4, 1))
    assert read_tensors(nothing).shape == (0, 4)


def test_dictionaries_and_lists(tmp_path):
    first, second = np.ones((2, 2), np.float32), np.arange(4).reshape(2, 2)
    items = b"}(" + text("features") + described(first) + text("coords") + described(second, "1")
    read = read_tensors(archive(tmp_path / "d.pt", items + b"u", _0=first, _1=second))
    assert read["features"].tolist() == [[1, 1], [1, 1]]
    assert read["coords"].tolist() == [[0, 1], [2, 3]]
    listed = b"](" + described(first) + described(second, "1") + b"e"
    read = read_tensors(archive(tmp_path / "l.pt", listed, _0=first, _1=second))
    assert [one.shape for one in read] == [(2, 2), (2, 2)]


def test_files_of_torch_itself(tmp_path):
    torch = pytest.importorskip("torch")
    values = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    for number, tensor in enumerate([values, values.T, values[1:3, 2:], values.half(),
                                     values.bfloat16(), values.long()]):  # fmt: skip
        torch.save(tensor, tmp_path / f"{number}.pt")
        read = read_tensors(tmp_path / f"{number}.pt")
        assert np.array_equal(read, tensor.float().numpy())
    torch.save({"features": values}, tmp_path / "d.pt")
    assert read_tensors(tmp_path / "d.pt")["features"].shape == (4, 6)


class Bomb:
    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.mark.parametrize("name", ["posix\nmkdir", "builtins\neval", "os\nsystem", "torch\nload",
                                  "torch._utils\n_rebuild_sparse_tensor", "torch\nStorage",
                                  "torch.FloatStorage\n__class__"])  # fmt: skip
def test_no_other_name_is_admitted(tmp_path, name):
    path = archive(tmp_path / "t.pt", b"c" + name.encode() + b"\n(" + text("x") + b"tR")
    with pytest.raises(BagFormatError, match=r"refers to .* nothing is run"):
        read_tensors(path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_pickled_objects_are_not_built(tmp_path, protocol):
    trace = tmp_path / "trace"
    for content in (Bomb(trace), [Bomb(trace)], {"features": Bomb(trace)}):
        with zipfile.ZipFile(tmp_path / "t.pt", "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps(content, protocol=protocol))
        with pytest.raises(BagFormatError):
            read_tensors(tmp_path / "t.pt")
    assert not trace.exists()


def test_pickle_without_an_archive(tmp_path):
    (tmp_path / "t.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "trace")))
    with pytest.raises(BagFormatError, match="not a zip file"):
        read_tensors(tmp_path / "t.pt")
    assert not (tmp_path / "trace").exists()


VALUES = np.arange(6.0, dtype=np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (7,), "strides": (1,)}, "needs more values"),
        ({"shape": (3, 2), "strides": (3, 1)}, "needs more values"),
        ({"shape": (6,), "strides": (1,), "offset": 1}, "needs more values"),
        ({"shape": (1 << 30, 1 << 30), "strides": (0, 0)}, "needs more values"),
        ({"shape": (-1,), "strides": (1,)}, "impossible shape"),
        ({"shape": (6,), "strides": (-1,)}, "impossible shape"),
        ({"shape": (6,), "strides": (1, 1)}, "impossible shape"),
        ({"n": 7}, "says it stores 7 values, and has 24 bytes"),
        ({"storage": "Double"}, "says it stores 6 values"),
        ({"key": "../0"}, "cannot be read as tensors"),
    ],
)
def test_sizes_that_lie(tmp_path, changes, message):
    with pytest.raises(BagFormatError, match=message):
        read_tensors(tensor_file(tmp_path / "t.pt", VALUES, **changes))


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"t",
        b"(",
        b"0",
        integer(3),
        b"\x8a\xff",
        b"r\xff\xff\xff\x7f",
        b"}" + b"(" + pickled((1, 2)) + integer(1) + b"u",
        b"ccollections\nOrderedDict\n" + integers((1, 2)) + b"R",
        b"ctorch._utils\n_rebuild_tensor_v2\n)R",
        b"ctorch._utils\n_rebuild_tensor_v2\n" + integers((1, 2, 3, 4)) + b"R",
        b"(" + text("storage") + b"tQ",
        described(VALUES) + b"}b",
        b"X" + struct.pack("<I", 1 << 31) + b"x",
        b"\x8e" + struct.pack("<Q", 1 << 62) + b"x",
    ],
)
def test_damaged_descriptions(tmp_path, description):
    with pytest.raises(BagFormatError):
        read_tensors(archive(tmp_path / "t.pt", description, _0=VALUES))


def test_nested_tuples_take_no_time(tmp_path):
    """Each level doubles what a hash or a text of the whole would cost."""
    deep = integer(1) + b"\x85q\x10" + 60 * b"h\x10\x86q\x10"
    as_key = b"}h\x10" + integer(1) + b"s"
    as_arguments = b"ctorch._utils\n_rebuild_tensor_v2\nh\x10R"
    for ending in (as_key, as_arguments):
        with pytest.raises(BagFormatError):
            read_tensors(archive(tmp_path / "t.pt", deep + ending))


def test_every_cut_and_every_byte(tmp_path):
    """Whatever byte is changed, the outcome is an array or one clear error."""
    description = b"\x80\x02" + described(VALUES) + b"."
    rng = np.random.default_rng(0)
    for position in range(len(description)):
        changed = bytearray(description)
        changed[position] = rng.integers(256)
        with zipfile.ZipFile(tmp_path / "t.pt", "w") as file:
            file.writestr("archive/data.pkl", bytes(changed))
            file.writestr("archive/data/0", VALUES.tobytes())
        with contextlib.suppress(BagFormatError):
            read_tensors(tmp_path / "t.pt")
