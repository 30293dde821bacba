"""Files made to harm: nothing in them is run, and they cannot fill memory or disk."""

import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import BagFileNotFoundError, formats
from pigmil.io import _common as common


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_pickles_are_not_loaded(tmp_path):
    trace = tmp_path / "trace"
    path = tmp_path / "bomb.npz"
    bomb = np.array([Bomb(trace)], dtype=object)
    for name in ("instances", "ids", "info_x"):
        held = {"instances": np.ones((1, 1)), "offsets": np.array([0, 1]), name: bomb}
        np.savez(path, **held)
        with pytest.raises(BagFormatError, match=rf"'{name}' holds object.*never loaded"):
            read_bags(path)
    (tmp_path / "bomb.bin").write_bytes(pickle.dumps(Bomb(trace)))
    for one in formats():
        with pytest.raises(BagFormatError):
            read_bags(tmp_path / "bomb.bin", format=one)
    assert not trace.exists()


def npy(shape, dtype="<f8", content=b"") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


@pytest.mark.parametrize(
    "shape", ["(1000000000000, 1000000)", "(99999999999999999999, 2)", "(-1, 2)", "(2, 3)", "(2,)"]
)
def test_shapes_that_lie(tmp_path, shape):
    path = tmp_path / "lie.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("instances.npy", npy(shape))
        archive.writestr("offsets.npy", npy("(2,)", "<i8", struct.pack("<qq", 0, 1)))
    with pytest.raises(BagFormatError):
        read_bags(path)


def test_zip_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "available_memory", lambda: 10_000_000)
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, instances=np.zeros((2_000_000, 1)), offsets=np.array([0, 2_000_000]))
    assert path.stat().st_size < 100_000
    with pytest.raises(
        BagFormatError, match=r"needs 0\.\d GB of memory to be read, and 0\.0 GB are"
    ):
        read_bags(path)


def test_sparse_arrays_that_point_outside(tmp_path):
    path = tmp_path / "s.npz"
    held = {"data": np.ones(1), "indices": np.array([7]), "indptr": np.array([0, 1]),
            "shape": np.array([1, 2]), "offsets": np.array([0, 1])}  # fmt: skip
    np.savez(path, **held)
    with pytest.raises(BagFormatError, match="sparse instances are damaged"):
        read_bags(path)


def matlab(*elements: bytes) -> bytes:
    return (
        b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM" + b"".join(elements)
    )


def test_many_bags_that_are_declared_and_not_stored(tmp_path, monkeypatch):
    """Each bag fits; all of them do not."""
    path = tmp_path / "bags.h5"
    with h5py.File(path, "w") as file:
        for bag in range(20):
            file.create_dataset(f"b{bag}", shape=(10_000, 10), dtype="f8", chunks=True)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(common, "available_memory", lambda: 10_000_000)
    with pytest.raises(BagFormatError, match=r"needs 0\.0 GB"):
        read_bags(path)
    assert read_bags(path, memory_map=tmp_path / "rows.npy").n_instances == 200_000


def test_matlab_bomb(tmp_path, monkeypatch):
    """A small compressed element that says it holds gigabytes is not unpacked."""
    monkeypatch.setattr(common, "available_memory", lambda: 1 << 30)
    body = struct.pack("<II", 14, (1 << 32) - 8) + b"\0" * 1000
    packed = zlib.compress(body)
    path = tmp_path / "bomb.mat"
    path.write_bytes(matlab(struct.pack("<II", 15, len(packed)) + packed))
    with pytest.raises(
        BagFormatError, match=r"needs [\d.]+ GB of memory to be read, and 1\.1 GB are"
    ):
        read_bags(path)


def test_matlab_cells_in_cells(tmp_path):
    """Recursion in a file does not become recursion in the reader without end."""
    inner = b""
    for _ in range(200):
        flags = struct.pack("<IIII", 6, 8, 1, 0)
        shape = struct.pack("<IIii", 5, 8, 1, 1)
        name = struct.pack("<II", 1, 0)
        body = flags + shape + name + inner
        inner = struct.pack("<II", 14, len(body)) + body
    path = tmp_path / "deep.mat"
    path.write_bytes(matlab(inner))
    with pytest.raises(BagFormatError, match=r"too deep|damaged"):
        read_bags(path)


def test_matlab_functions_are_skipped(tmp_path):
    path = tmp_path / "f.mat"
    flags, shape, name = (
        struct.pack("<IIII", 6, 8, 16, 0),
        struct.pack("<IIii", 5, 8, 1, 1),
        struct.pack("<II", 1, 1) + b"f".ljust(8, b"\0"),
    )
    body = flags + shape + name
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"features": np.ones((1, 1)), "bag_ids": [[1]], "labels": [[1]]})
    path.write_bytes(buffer.getvalue() + struct.pack("<II", 14, len(body)) + body)
    assert read_bags(path).n_bags == 1


def test_no_such_file(tmp_path, format_name):
    with pytest.raises(FileNotFoundError, match="there is no such file") as caught:
        read_bags(tmp_path / "absent.csv", format=format_name)
    assert isinstance(caught.value, BagFormatError)
    assert isinstance(caught.value, BagFileNotFoundError)


def test_folder_and_device(tmp_path, format_name):
    with pytest.raises(BagFormatError, match="is a folder"):
        read_bags(tmp_path, format=format_name)
    with pytest.raises(BagFormatError, match="not a regular file"):
        read_bags(os.devnull, format=format_name)


def test_no_permission(tmp_path, monkeypatch):
    path = tmp_path / "mine.csv"
    path.write_text("bag,a\n1,2\n")

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(BagFormatError, match=r"mine\.csv: cannot be opened \(Permission denied\)"):
        read_bags(path)


def test_writing_is_whole_or_not_at_all(written, format_name, monkeypatch):
    """A failure halfway leaves the old file and nothing beside it."""
    before = {one.name: one.read_bytes() for one in written.parent.iterdir()}
    bags = Bags(np.ones((2, 2)), [0, 1, 2], y=[0, 1])

    def fails(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        write_bags(bags, written, format=format_name)
    assert {one.name: one.read_bytes() for one in written.parent.iterdir()} == before


def test_places_that_cannot_be_written(tmp_path, plain_bags):
    with pytest.raises(BagFormatError, match="is a folder"):
        write_bags(plain_bags, tmp_path)
    with pytest.raises(BagFormatError, match="there is no folder"):
        write_bags(plain_bags, tmp_path / "no" / "bags.csv")
    with pytest.raises(BagFormatError, match=r"no format has the suffix '\.xyz'"):
        write_bags(plain_bags, tmp_path / "bags.xyz")
    resampled = plain_bags[[0, 0]]
    with pytest.raises(BagFormatError, match="ids occur more than once"):
        write_bags(resampled, tmp_path / "bags.csv")


def test_text_of_characters_that_do_not_exist(tmp_path):
    path = tmp_path / "a.npz"
    ids = np.array([0x41, 0x110000], dtype=np.uint32).view("<U1")
    np.savez(path, instances=np.ones((2, 1)), offsets=[0, 1, 2], ids=ids)
    with pytest.raises(BagFormatError, match="characters that do not exist"):
        read_bags(path)


@pytest.mark.parametrize("part", ["data", "indices"])
def test_sparse_parts_of_different_lengths(part, tmp_path):
    held = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    held[part] = np.append(held[part], held[part][:1])
    np.savez(tmp_path / "a.npz", **held, shape=[2, 2], offsets=[0, 1, 2])
    with pytest.raises(BagFormatError, match="parts of different lengths"):
        read_bags(tmp_path / "a.npz", dtype="float32")
