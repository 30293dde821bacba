"""Files of other tools that are made to run code, hang, or fill the memory."""

import json
import os
import pickle
import shutil
import struct
import time
import warnings
import zipfile
import zlib

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.sparse as sp

from pigmil import Bags, read_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.io import _common as common
from pigmil.io import _h5_file as h5_file
from pigmil.io import read_cohort
from pigmil.io._label_table import read_label_table

from .torch_files import archive, described, text

anndata = pytest.importorskip("anndata")
numcodecs = pytest.importorskip("numcodecs")
VALUES = np.arange(4.0, dtype=np.float32).reshape(2, 2)


@pytest.fixture(autouse=True)
def limits(monkeypatch):
    """A machine with 200 MB, and five seconds of processor time for a test."""
    for module in (common, h5_file):
        monkeypatch.setattr(module, "available_memory", lambda: 200_000_000)
    start = time.process_time()
    yield
    assert time.process_time() - start < 5


def refused(read, path):
    with pytest.raises(BagFormatError):
        read(path)


def lie(path, member, size):
    """Write another unpacked size into both headers of a member."""
    content = bytearray(path.read_bytes())
    for mark, name_at, size_at, length_at in ((b"PK\1\2", 46, 24, 28), (b"PK\3\4", 30, 22, 26)):
        at = content.find(mark)
        while at >= 0:
            length = struct.unpack_from("<H", content, at + length_at)[0]
            if content[at + name_at : at + name_at + length] == member.encode():
                struct.pack_into("<I", content, at + size_at, size)
            at = content.find(mark, at + 4)
    path.write_bytes(content)


def repacked(path, member, content):
    """Replace a member of an archive, or add it."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members[member] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in members.items():
            file.writestr(name, value)
    return path


# Lists of lists, each twice in the next: the text of them has 2 ** 60 parts.
LISTS = b"]q\x00K\x01a" + b"".join(
    b"]q%c(h%ch%ce" % (level + 1, level, level) for level in range(60)
)
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
STORED = described(VALUES)[len(TENSOR) + 3 :].partition(b"Q")[0] + b"Q"
DESCRIPTIONS = {
    "a command": (b"cposix\nsystem\n" + text("id") + b"\x85R", "refers to posix.system"),
    "a command by the stack": (text("builtins") + text("eval") + b"\x93", "builtins.eval"),
    "a class": (b"(" + text("id") + b"iposix\nsystem\n", "the instruction INST"),
    "state": (b"}}b", "the instruction BUILD"),
    "an extension": (b"\x82\x01", "the instruction EXT1"),
    "lists as a name": (LISTS + text("eval") + b"\x93", "refers to a list.eval"),
    "lists as a key": (b"}" + LISTS + b"K\x01s", "keys are not text"),
    "deep tuples as a key": (b"})" + b"\x85" * 50_000 + b"K\x01s", "keys are not text"),
    "an array as a shape": (
        TENSOR + b"(" + STORED + b"K\0" + described(VALUES) + b"(K\1t\x89}tR",
        "impossible shape",
    ),
    "a step back": (described(VALUES, strides=(-2, 1)), "impossible shape"),
    "an offset outside": (described(VALUES, offset=3), "needs more values"),
    "a step outside": (described(VALUES, strides=(2**30, 1)), "needs more values"),
    "no values": (described(VALUES, shape=(2**30, 2**30)), "needs more values"),
    "a long key": (b"}" + text("a" * 900_000) + b"K\1s", "holds no arrays"),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_of_tensors(name, tmp_path):
    description, message = DESCRIPTIONS[name]
    archive(tmp_path / "a.pt", description, _0=VALUES)
    with pytest.raises(BagFormatError, match=message) as caught:
        read_cohort(tmp_path)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("member", ["archive/data/0", "archive/data.pkl"])
def test_members_that_unpack_to_more_than_they_say(member, tmp_path, peak_of):
    path = archive(tmp_path / "a.pt", described(VALUES), _0=VALUES)
    size = zipfile.ZipFile(path).getinfo(member).file_size
    whole = zipfile.ZipFile(path).read(member)
    lie(repacked(path, member, whole + bytes(100_000_000)), member, size)
    assert peak_of(lambda: refused(read_cohort, tmp_path)) < 20e6


def test_a_byte_order_of_many_bytes(tmp_path, peak_of):
    path = archive(tmp_path / "a.pt", described(VALUES), _0=VALUES)
    repacked(path, "archive/byteorder", bytes(100_000_000))
    assert peak_of(lambda: read_cohort(tmp_path)) < 20e6


def workbook(path, changes=(), more=None):
    """A table of two slides, its first sheet changed."""
    book = openpyxl.Workbook()
    for row in (("slide_id", "label"), ("a", 1), ("b", 0)):
        book.active.append(row)
    book.save(path)
    name = "xl/worksheets/sheet1.xml"
    with zipfile.ZipFile(path) as file:
        sheet = file.read(name)
    for old, new in changes:
        assert old in sheet
        sheet = sheet.replace(old, new)
    repacked(path, name, sheet)
    for member, content in (more or {}).items():
        repacked(path, member, content)
    return path


START = b'<?xml version="1.0"?><sst xmlns="urn:x">'
SHEETS = {
    "a row far away": ([(b'<row r="3">', b'<row r="999999999999">')], "follows row 2"),
    "rows in disorder": ([(b'<row r="3">', b'<row r="1">')], "row 1 follows row 2"),
    "a column far away": ([(b'r="B3"', b'r="ZZZZZZZ3"')], "has a cell 'ZZZZZZZ3'"),
    "a column outside": ([(b'r="B3"', b'r="ZZZ3"')], "column 18278 follows"),
    "cells in disorder": ([(b'r="A3"', b'r="C3"')], "column 2 follows column 3"),
    "cells without end": ([(b"</row></sheetData>", b"<c/>" * 20_000 + b"</row></sheetData>")],
                          "column 16385 follows"),
    "entities": ([(b"<worksheet", b'<!DOCTYPE x [<!ENTITY a "b">]><worksheet')], "document type"),
    "deep elements": ([(b"<sheetData>", b"<a>" * 9_000 + b"</a>" * 9_000 + b"<sheetData>")],
                      "too deeply nested"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHEETS)
def test_sheets(name, tmp_path):
    changes, message = SHEETS[name]
    with pytest.raises(BagFormatError, match=message):
        read_label_table(workbook(tmp_path / "t.xlsx", changes))


def test_a_stated_size_hides_no_rows(tmp_path):
    path = workbook(tmp_path / "t.xlsx", [(b'ref="A1:B3"', b'ref="A1:A2"')])
    assert read_label_table(path).columns == {"slide_id": ["a", "b"], "label": [1, 0]}


def test_styles_without_end(tmp_path):
    styles = {"xl/styles.xml": START + b"<xf/>" * 250_000 + b"</sst>"}
    with pytest.raises(BagFormatError, match="too many"):
        read_label_table(workbook(tmp_path / "t.xlsx", more=styles))


def test_a_wide_sheet_of_blank_cells_states_what_it_needs(tmp_path):
    cells = b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (at, at)
                     for at in range(4, 3_000))  # fmt: skip
    path = workbook(tmp_path / "t.xlsx", [(b"</sheetData>", cells + b"</sheetData>")])
    with pytest.raises(BagFormatError, match=r"needs 0\.4 GB .* and 0\.2 GB are available"):
        read_label_table(path)


@pytest.mark.parametrize("line", [b"\n" * 300_000, b"x" * 20_000_000])
def test_packed_tables_of_blank_or_endless_lines(line, tmp_path):
    import gzip

    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(line + b"slide_id,label\na,1\n"))
    if b"x" in line:
        with pytest.raises(BagFormatError, match=r"too long for a row|not delimited text"):
            read_label_table(path)
    else:
        assert read_label_table(path).columns == {"slide_id": ["a"], "label": ["1"]}
    with pytest.raises(BagFormatError):
        read_bags(path)


def cells(values=VALUES):
    obs = pd.DataFrame({"bag": ["p", "q"], "label": [0, 1]}, index=["c0", "c1"])
    return anndata.AnnData(values, obs=obs)


def both(path):
    """Read and scan; each must refuse."""
    messages = []
    for read in (
        lambda: read_bags(path, bag="bag", label="label"),
        lambda: Bags.scan(path, bag="bag", label="label").load(),
    ):
        with pytest.raises((BagFormatError, BagsError)) as caught:
            read()
        messages.append(str(caught.value))
    return messages


@pytest.fixture(scope="module", params=[2, 3])
def store(request, tmp_path_factory):
    """A zarr store of each version of the format."""
    path = tmp_path_factory.mktemp("zarr") / "cells.zarr"
    before = anndata.settings.zarr_write_format
    anndata.settings.zarr_write_format = request.param
    try:
        write_zarr(path)
    finally:
        anndata.settings.zarr_write_format = before
    return path


def write_zarr(path, values=VALUES, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the defaults of coming versions
        cells(values).write_zarr(path, **options)


@pytest.fixture
def zarr_store(store, tmp_path):
    return shutil.copytree(store, tmp_path / "cells.zarr")


def change_array(path, name, chunk=None, **changes):
    """Change the metadata and the only chunk of an array, in either version of the format."""
    old = path / name / ".zarray"
    file = old if old.exists() else path / name / "zarr.json"
    metadata = json.loads(file.read_text())
    if file is not old:
        packers = changes.pop("compressor", None)
        changes.pop("filters", None)
        if packers:
            changes["codecs"] = [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": packers["id"], "configuration": {}},
            ]
        if "chunks" in changes:
            grid = {"name": "regular", "configuration": {"chunk_shape": changes.pop("chunks")}}
            changes["chunk_grid"] = grid
    file.write_text(json.dumps({**metadata, **changes}))
    held = [one for one in (path / name).rglob("*") if one.is_file() and "z" not in one.name]
    if chunk is not None:
        held[0].write_bytes(chunk)


class Command:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_zarr_codecs_that_run_code(zarr_store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = pickle.dumps([Command(), [2], "|O"])
    change_array(zarr_store, "obs/label", content, compressor={"id": "pickle"})
    assert all("packed with 'pickle'" in message for message in both(zarr_store))
    assert not os.path.exists("ran")


def test_metadata_at_the_top_of_a_store_is_not_used(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "cells.zarr"
    write_zarr(path)
    copies = json.loads((path / ".zmetadata").read_text())
    copies["metadata"]["obs/label/.zarray"]["compressor"] = {"id": "pickle"}
    (path / ".zmetadata").write_text(json.dumps(copies))
    (path / "obs" / "label" / "0").write_bytes(pickle.dumps([Command(), [2], "|O"]))
    both(path)
    assert not os.path.exists("ran")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [2, 10**10], "chunks": [2, 10**10]}, "GB of memory"),
        ({"chunks": [10**5, 10**5]}, "GB of memory"),
        ({"shape": [2, -2]}, "impossible shape"),
        ({"shape": [True, 2]}, "impossible shape"),
    ],
)
def test_zarr_shapes(zarr_store, changes, message):
    change_array(zarr_store, "X", **changes)
    assert all(message in one for one in both(zarr_store))


PACKED = {
    "blosc": numcodecs.Blosc(clevel=9).encode,
    "zstd": numcodecs.Zstd().encode,
    "gzip": lambda content: numcodecs.GZip().encode(content),
    "zlib": zlib.compress,
    "lz4": numcodecs.LZ4().encode,
}


@pytest.mark.parametrize("packer", PACKED)
def test_zarr_chunks_that_unpack_to_more_than_they_should(zarr_store, packer, peak_of):
    chunk = bytes(PACKED[packer](bytes(50_000_000)))
    change_array(zarr_store, "X", chunk, compressor={"id": packer})
    assert peak_of(lambda: refused(read_bags, zarr_store)) < 20e6


def sharded(path, values):
    """A store with features in shards of two rows, one row per chunk."""
    zarr = pytest.importorskip("zarr")
    before = anndata.settings.zarr_write_format
    anndata.settings.zarr_write_format = 3
    try:
        write_zarr(path, values)
    finally:
        anndata.settings.zarr_write_format = before
    group = zarr.open_group(str(path), mode="a", use_consolidated=False)
    kept = dict(group["X"].attrs)
    del group["X"]
    array = group.create_array("X", data=values, chunks=(1, 2), shards=(2, 2))
    array.attrs.update(kept)
    return next(one for one in (path / "X" / "c").rglob("*") if one.is_file())


def test_zarr_shards(tmp_path, peak_of):
    path = tmp_path / "cells.zarr"
    shard = sharded(path, VALUES)
    for bags in (read_bags(path, bag="bag"), Bags.scan(path, bag="bag").load()):
        np.testing.assert_array_equal(bags.instances, VALUES)
    chunk = bytes(PACKED["zstd"](bytes(50_000_000)))
    index = np.array([[0, len(chunk)], [2**64 - 1, 2**64 - 1]], dtype="<u8").tobytes()
    check = bytes(numcodecs.checksum32.CRC32C(location="end").encode(index))
    shard.write_bytes(chunk + check)
    assert peak_of(lambda: refused(read_bags, path)) < 20e6
    assert all("unpacks to 50,000,000 bytes" in message for message in both(path))
    shard.write_bytes(index[:20])
    assert all("cut short" in message for message in both(path))


def test_zarr_links_and_pipes(zarr_store):
    held = next(one for one in (zarr_store / "X").rglob("0*") if one.is_file())
    held.unlink()
    held.symlink_to("/etc/passwd")
    assert all("is a link or not a regular file" in message for message in both(zarr_store))
    held.unlink()
    os.mkfifo(held)
    assert all("is a link or not a regular file" in message for message in both(zarr_store))


@pytest.mark.parametrize(
    ("part", "values"),
    [("indices", [0, 10**9]), ("indices", [0, -(10**9)]), ("indptr", [0, 10**9, 2]),
     ("indptr", [0, 1, 10**9])],
)  # fmt: skip
def test_sparse_observations_that_point_outside(part, values, tmp_path):
    path = tmp_path / "cells.h5ad"
    cells(sp.csr_matrix(np.eye(2))).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file[f"X/{part}"]
        file[f"X/{part}"] = np.array(values, dtype=np.int32)
    assert all("sparse" in message for message in both(path))


def test_sparse_instances_that_point_outside():
    matrix = sp.csr_array(np.eye(3))
    matrix.indices[1] = 10**9
    with pytest.raises(BagsError, match="sparse instances are damaged"):
        Bags(matrix, [0, 1, 3])
    with pytest.raises(BagsError, match="sparse instances are damaged"):
        Bags.from_list([matrix, matrix])


def test_rows_of_an_empty_sparse_matrix_that_end_before_they_begin(tmp_path):
    """scipy does not look at the boundaries of rows where the last one is 0."""
    ends = np.array([0, 2, 8_388_608, 0], dtype=np.int32)
    matrix = sp.csr_array((3, 3))
    matrix.indptr = ends
    with pytest.raises(BagsError, match="sparse instances are damaged"):
        Bags(matrix, [0, 1, 3])
    with pytest.raises(BagsError, match="sparse instances are damaged"):
        Bags.from_list([matrix, matrix])
    empty = np.empty(0)
    np.savez(tmp_path / "a.npz", data=empty, indices=empty.astype(int), indptr=ends,
             shape=(3, 3), offsets=[0, 1, 3])  # fmt: skip
    with pytest.raises(BagFormatError):
        read_bags(tmp_path / "a.npz")
    path = tmp_path / "cells.h5ad"
    cells(sp.csr_matrix(np.eye(2))).write_h5ad(path)
    with h5py.File(path, "r+") as file:
        for part, values in (("indptr", [0, 9, 0]), ("indices", []), ("data", [])):
            del file[f"X/{part}"]
            file[f"X/{part}"] = np.array(values, dtype=np.int32)
    assert all("sparse" in message for message in both(path))


def test_groups_in_circles_and_too_deep(tmp_path):
    path = tmp_path / "cells.h5ad"
    cells().write_h5ad(path)
    with h5py.File(path, "r+") as file:
        file["uns/again"] = file["uns"]
    assert all("groups are nested too deeply" in message for message in both(path))
    with h5py.File(path, "r+") as file:
        del file["uns/again"]
        file["uns"].create_group("/".join("a" * 60))
    assert all("groups are nested too deeply" in message for message in both(path))


def hdf5_chunk(path, name, content, n_packings):
    """A data set of 3 x 3 numbers whose only chunk is this content."""
    with h5py.File(path, "a") as file:
        if name in file:
            del file[name]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((3, 3))
        for _ in range(n_packings):
            properties.set_deflate(9)
        space = h5py.h5s.create_simple((3, 3))
        made = h5py.h5d.create(file.id, name.encode(), h5py.h5t.IEEE_F64LE, space, properties)
        made.write_direct_chunk((0, 0), content)


@pytest.mark.parametrize("n_packings", [1, 2])
def test_hdf5_chunks_that_unpack_to_more_than_they_should(n_packings, tmp_path, peak_of):
    path = tmp_path / "bag.h5"
    content = bytes(100_000_000)
    for _ in range(n_packings):
        content = zlib.compress(content, 9)
    hdf5_chunk(path, "features", content, n_packings)
    message = "compressed twice" if n_packings == 2 else "unpacks to more than its 72 bytes"
    with pytest.raises(BagFormatError, match=message):
        read_bags(path)
    assert peak_of(lambda: refused(read_bags, path)) < 20e6


def test_large_chunks_that_are_what_they_say_are_read(tmp_path):
    values = np.random.default_rng(0).normal(size=(20_000, 3))
    with h5py.File(tmp_path / "bag.h5", "w") as file:
        file.create_dataset("features", data=values, chunks=values.shape, compression="gzip",
                            fletcher32=True)  # fmt: skip
    np.testing.assert_array_equal(read_bags(tmp_path / "bag.h5").instances, values)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "signal 11"),
        ("import time; time.sleep(60)", "more than 0.1 seconds"),
        ("import os; os.kill(os.getpid(), 24)", "more than 30 seconds"),  # SIGXCPU
        ("raise OSError('no such heap')", "no such heap"),
    ],
)
def test_a_process_that_dies_over_text_is_an_error_of_the_file(
    script, reason, tmp_path, monkeypatch
):
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "a.h5ad").touch()
    monkeypatch.setattr(h5_file, "_READ_TEXT", tmp_path / "script.py")
    monkeypatch.setattr(h5_file, "_SECONDS_FOR_TEXT", 0.1 if "sleep" in script else 30)
    with pytest.raises(BagFormatError, match=reason):
        h5_file.check_text(tmp_path / "a.h5ad")


def test_attributes_and_text_are_read_before_the_file_is(tmp_path):
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        file["obs/names"] = ["a long name of a cell", "another one"]
        file["obs"].attrs["kind"] = "a text of variable length"
    h5_file.check_text(path)
    content = path.read_bytes()
    heap = content.index(b"GCOL")  # where HDF5 keeps text of variable length
    path.write_bytes(content[:heap] + b"XXXX" + content[heap + 4 :])
    with pytest.raises(BagFormatError, match="text in it cannot be read"):
        h5_file.check_text(path)


def test_many_references_to_one_text_are_counted_before_they_are_read(tmp_path, monkeypatch):
    path, n_texts = tmp_path / "a.h5ad", 5_000
    with h5py.File(path, "w") as file:
        texts = file.create_dataset("obs/notes", data=["x" * 60_000, *["y"] * (n_texts - 1)])
        place = texts.id.get_offset()
    content = bytearray(path.read_bytes())
    content[place : place + 16 * n_texts] = content[place : place + 16] * n_texts
    path.write_bytes(content)
    assert path.stat().st_size < 1e6
    # 0.3 GB of text, copied once, on a machine with 0.2 GB
    with pytest.raises(BagFormatError, match=r"needs 0\.\d GB of memory to be read, and 0\.2 GB"):
        h5_file.check_text(path)
    for module in (common, h5_file):
        monkeypatch.setattr(module, "available_memory", lambda: 650_000_000)
    h5_file.check_text(path)
