"""Damaged and hostile files of every format: one error that names the file, and nothing runs."""

import gzip
import json
import os
import pickle
import sys

import cloudpickle
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io

from pigmil import read_bags, scan_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import _defence
from pigmil.io._formats import Request

from .samples import VALUES, WRITERS, matlab_73, write_sample
from .torch_files import archive, described, pickled, tensor_file, text

FILES = [kind for kind in WRITERS if kind != "zarr"]


@pytest.mark.parametrize("kind", WRITERS)
def test_good_files_are_read(kind, tmp_path):
    path = write_sample(kind, tmp_path)
    bags, isolated = read_bags(path), read_bags(path, isolated=True)
    assert bags.n_instances == (3 if kind == "arff" else 6)
    for name in ("offsets", "ids", "y", "instance_labels"):
        assert np.array_equal(getattr(bags, name), getattr(isolated, name))
    dense = [
        one.instances.toarray() if one.is_sparse else one.instances for one in (bags, isolated)
    ]
    assert np.array_equal(*dense)
    assert list(bags.instance_info) == list(isolated.instance_info)
    assert {name: list(values) for name, values in bags.bag_info.items()} == {
        name: list(values) for name, values in isolated.bag_info.items()
    }


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "text", "pipe", "gone"])
@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_are_one_error_with_their_name(kind, damage, tmp_path):
    path = write_sample(kind, tmp_path)
    content = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage != "gone":
        changed = {"empty": b"", "cut": content[: len(content) * 2 // 3], "text": b"no bags, 1\n",
                   "zeros": content[:20] + bytes(len(content) - 20)}  # fmt: skip
        path.write_bytes(changed[damage])
    if kind in ("csv", "svm", "arff") and damage == "cut":
        return  # whole lines are left
    with pytest.raises(BagFormatError, match=f"good.{kind}"):
        scan_bags(path).load()


@pytest.mark.parametrize("kind", ["npy", "h5", "hdf5", "parquet"])
def test_a_file_that_is_cut_while_it_is_read(kind, tmp_path, monkeypatch):
    """Mapped into memory it would end the process."""
    path = write_sample(kind, tmp_path)
    lazy = scan_bags(path)
    os.truncate(path, path.stat().st_size // 3)
    with pytest.raises(BagFormatError, match=f"good.{kind}: has changed since it was scanned"):
        lazy.load()
    monkeypatch.setattr("pigmil.bags._lazy.Stamp.verify", lambda stamp: None)
    with pytest.raises(BagFormatError, match=f"good.{kind}"):
        lazy.load()


class Command:
    """A pickle of it makes a folder."""

    def __reduce__(self):
        return os.mkdir, ("ran",)


def objects(path):
    with path.open("wb") as file:
        np.save(file, np.array([[Command()]], dtype=object), allow_pickle=True)


def codec(path):
    """Let zarr unpickle the coordinates."""
    WRITERS["zarr"](path)
    file = path / "obsm" / "spatial" / ".zarray"
    node = json.loads(file.read_text())
    file.write_text(json.dumps(node | {"compressor": {"id": "pickle"}}))


ARGUMENT = text("ran") + b"\x85"
PICKLES = {
    "a.npy": objects,
    "b.npz": lambda path: np.savez(path, features=np.array([[Command()]], dtype=object)),
    "c.npz": lambda path: np.savez(
        path, instances=np.ones((1, 1)), offsets=[0, 1], ids=np.array([Command()], dtype=object)
    ),
    "d.pt": lambda path: archive(path, pickled(Command())),
    "e.pt": lambda path: path.write_bytes(pickle.dumps(Command())),
    "f.pt": lambda path: archive(path, text("posix") + text("mkdir") + b"\x93" + ARGUMENT + b"R"),
    "g.pt": lambda path: archive(path, b"(" + text("ran") + b"iposix\nmkdir\n"),
    "h.zarr": codec,
}  # fmt: skip


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_never_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PICKLES[name](tmp_path / name)
    with pytest.raises(BagFormatError, match=name):
        read_bags(tmp_path / name)
    assert not os.path.exists("ran")


TENSORS = {
    "an array as a shape": (described(VALUES, shape=(-2, 3)), "impossible shape"),
    "a step back": (described(VALUES, strides=(-2, 1)), "impossible shape"),
    "an offset outside": (described(VALUES, offset=3), "needs more values"),
    "a step outside": (described(VALUES, strides=(2**30, 1)), "needs more values"),
    "values repeated": (described(VALUES, shape=(2**20, 2**20), strides=(0, 0)), "GB of memory"),
    "a few repeated": (described(VALUES, shape=(9, 3), strides=(0, 1)), "needs more values"),
    "values absent": (described(VALUES, key="7"), "cannot be read"),
    "no tensor": (pickled({"features": 3}), "no array 'features'"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_lie_within_their_values(name, tmp_path):
    description, message = TENSORS[name]
    archive(tmp_path / "a.pt", description, _0=VALUES)
    with pytest.raises(BagFormatError, match=rf"a\.pt.*{message}"):
        read_bags(tmp_path / "a.pt")


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i8", "u1", "b1"])
def test_tensors_of_every_type(kind, tmp_path):
    values = (VALUES * 3).astype(kind)
    tensor_file(tmp_path / "a.pt", values)
    assert np.array_equal(read_bags(tmp_path / "a.pt").instances, values)
    turned = described(values, shape=(3, 6), strides=(1, 3))
    archive(tmp_path / "a.pt", turned, _0=values)
    assert np.array_equal(read_bags(tmp_path / "a.pt").instances, values.T)


def external(file, other):
    file["features"] = h5py.ExternalLink(str(other), "/features")


def soft(file, other):
    file["b"] = VALUES
    file["features"] = h5py.SoftLink("/b")


def virtual(file, other):
    layout = h5py.VirtualLayout(shape=VALUES.shape, dtype="f8")
    layout[:] = h5py.VirtualSource(str(other), "features", shape=VALUES.shape)
    file.create_virtual_dataset("features", layout)


def outside(file, other):
    file.create_dataset("features", (6, 3), dtype="u1", external=[(str(other), 0, 18)])


def circle(file, other):
    group = file.create_group("a")
    group["again"] = group


@pytest.mark.parametrize("place", [external, soft, virtual, outside, circle])
@pytest.mark.parametrize("kind", ["h5", "h5ad", "mat"])
def test_hdf5_files_lead_nowhere_else(kind, place, tmp_path):
    other, path = tmp_path / "other.h5", tmp_path / f"bad.{kind}"
    with h5py.File(other, "w") as file:
        file["features"] = VALUES
    if kind == "mat":
        matlab_73(path, lambda file: place(file, other))
    elif kind == "h5ad":
        WRITERS["h5ad"](path)
        with h5py.File(path, "a") as file:
            place(file["obsm"], other)
    else:
        with h5py.File(path, "w") as file:
            place(file, other)
    with pytest.raises(BagFormatError, match=r"is a link|in another file|inside itself"):
        read_bags(path)


@pytest.mark.parametrize("target", ["link", "pipe"])
def test_zarr_stores_are_regular_files(target, tmp_path):
    path = write_sample("zarr", tmp_path)
    chunk = path / "obsm" / "spatial" / "0.0"
    chunk.unlink()
    chunk.symlink_to("/etc/passwd") if target == "link" else os.mkfifo(chunk)
    with pytest.raises(BagFormatError, match="is a link or not a regular file"):
        read_bags(path)


def declared_h5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (1 << 40, 1 << 10), dtype="f8", chunks=(1, 1 << 10))


def declared_npy(path):
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({1 << 40}, 8), }}".ljust(117)
    path.write_bytes(b"\x93NUMPY\x01\x00v\x00" + head.encode() + b"\n" + bytes(800))


@pytest.mark.parametrize(("name", "write"), [("a.h5", declared_h5), ("a.npy", declared_npy)])
def test_more_rows_than_memory_holds_are_refused_before_they_are_allocated(name, write, tmp_path):
    write(tmp_path / name)
    lazy = scan_bags(tmp_path / name)
    with pytest.raises(BagFormatError, match=rf"{name}.*GB of memory to be read.*scan_bags"):
        lazy.load()


@pytest.mark.parametrize("kind", ["npz", "mat", "h5ad", "zarr", "arrow"])
def test_whole_files_that_declare_more_than_memory(kind, tmp_path, monkeypatch):
    path = write_sample(kind, tmp_path)
    monkeypatch.setattr("pigmil.bags._checks.available_memory", lambda: 50)
    with pytest.raises(BagFormatError, match=r"GB of memory to be read"):
        read_bags(path)


def bomb_h5(path):
    """Values that are not stored: a few hundred bytes for any number of rows."""
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (20_000_000, 64), dtype="f8", chunks=(20_000, 64))


def bomb_mat(path):
    scipy.io.savemat(
        path, {"features": np.zeros((1_000_000, 64)), "bag_ids": [[1]]}, do_compression=True
    )


def bomb_lists(path):
    values = pa.FixedSizeListArray.from_arrays(
        pa.nulls(1 << 26, pa.float64()).fill_null(0), 1 << 25
    )
    table = pa.table({"bag": ["a", "b"], "label": [0, 1], "features": values})
    pa.parquet.write_table(table, path, compression="zstd", use_dictionary=True)


def bomb_batches(path):
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.table({"bag": pa.repeat("a", 1 << 24), **{
        f"x{at}": pa.repeat(0.0, 1 << 24) for at in range(6)}})  # fmt: skip
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=options) as w,
    ):
        w.write_table(table)


def bomb_zarr(path):
    """A chunk of many gzip members."""
    WRITERS["zarr"](path)
    folder = path / "obsm" / "spatial"
    node = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(node | {"compressor": {"id": "gzip", "level": 5}}))
    (folder / "0.0").write_bytes(gzip.compress(bytes(1 << 25)) * 24)


BOMBS = {"a.h5": bomb_h5, "b.mat": bomb_mat, "c.parquet": bomb_lists, "d.arrow": bomb_batches,
         "e.zarr": bomb_zarr}  # fmt: skip


@pytest.fixture
def small_child(monkeypatch):
    """Return a child of its own with 500 MB of memory and two seconds of processor time."""
    _defence._child.cache_clear()
    monkeypatch.setattr(_defence, "_SECONDS", 2.0)
    monkeypatch.setattr(_defence, "available_memory", lambda: 1_000_000_000)
    yield
    _defence._child().close()
    _defence._child.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_one_error_in_isolation(name, tmp_path, small_child):
    path = tmp_path / name
    BOMBS[name](path)
    with pytest.raises(BagFormatError, match=name):
        read_bags(path, isolated=True)


def spin(paths, request):
    while True:
        pass


def crash(paths, request):
    import ctypes

    ctypes.string_at(0)


@pytest.mark.parametrize(("call", "message"), [(spin, "s of CPU time"), (crash, "SIGSEGV")])
def test_loops_and_crashes_are_one_error_and_the_next_file_is_read(
    call, message, tmp_path, small_child
):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    path = write_sample("npy", tmp_path)
    with pytest.raises(BagFormatError, match=rf"good\.npy: cannot be read in isolation.*{message}"):
        _defence.call_isolated(call, [path], Request())
    assert np.array_equal(read_bags(path, isolated=True).instances, VALUES)


def test_one_child_reads_all_files(tmp_path):
    for at in range(6):
        np.save(tmp_path / f"s{at}.npy", np.full((4, 2), at))
    labels = {f"s{at}": at % 2 for at in range(6)}
    lazy = scan_bags(tmp_path, labels=labels, isolated=True)
    pid = _defence._child().call(os.getpid)
    assert lazy[["s3"]].load().y.tolist() == [1]
    assert read_bags(tmp_path / "s2.npy", isolated=True).instances[:, 0].tolist() == [2] * 4
    assert _defence._child().call(os.getpid) == pid


def test_warnings_come_back_from_the_child(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    with pytest.warns(UserWarning, match="left out 1 bag of the table without features: 'b'"):
        scan_bags(tmp_path, labels={"a": 0, "b": 1}, missing="drop", isolated=True)
