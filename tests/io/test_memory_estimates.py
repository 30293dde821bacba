"""The estimate of memory of every packed format against the peak that reading really has."""

import ctypes
import gc
import sys
import warnings
import zipfile

import h5py
import numpy as np
import openpyxl
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from pigmil import Bags, read_bags, write_bags
from pigmil.io import _common as common
from pigmil.io import read_cohort

from .torch_files import tensor_file

anndata = pytest.importorskip("anndata")
ROWS, COLUMNS, SIZE = 100_000, 25, 20
CONSTANT = 25_000_000  # buffers and a part of a slab, for any size of the file
OWNER = np.repeat(np.arange(ROWS // SIZE), SIZE)


@pytest.fixture(scope="module")
def values():
    """Numbers that pack well: the file itself is small beside them."""
    return np.tile(np.arange(100.0).reshape(4, COLUMNS), (ROWS // 4, 1))


def as_bags(instances):
    return Bags(instances, np.arange(0, ROWS + 1, SIZE), y=np.arange(ROWS // SIZE) % 2)


def npz(kind):
    def write(path, values):
        path = path / "a.npz"
        np.savez_compressed(path, instances=values.astype(kind), bag_ids=OWNER)
        return path

    return write


def matlab(kind):
    def write(path, values):
        held = {"features": values.astype(kind), "bag_ids": OWNER[None], "labels": OWNER[None] % 2}
        scipy.io.savemat(path / "a.mat", held, do_compression=True)
        return path / "a.mat"

    return write


def hdf5(kind):
    def write(path, values):
        with h5py.File(path / "a.h5", "w") as file:
            file.create_dataset("features", data=values.astype(kind), compression="gzip")
        return path / "a.h5"

    return write


def written(name, suffix):
    def write(path, values):
        write_bags(as_bags(values), path / f"a{suffix}", format=name)
        return path / f"a{suffix}"

    return write


def tensors(kind):
    def write(path, values):
        file = tensor_file(path / "a.pt", values.astype(kind))
        with zipfile.ZipFile(file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    return write


def cells(zarr, sparse):
    def write(path, values):
        obs = pd.DataFrame({"bag": OWNER.astype(str)}, index=[f"c{at}" for at in range(ROWS)])
        features = sp.csr_matrix(np.where(values > 90, values, 0)) if sparse else values
        adata = anndata.AnnData(features, obs=obs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if zarr:
                adata.write_zarr(path / "a.zarr")
            else:
                adata.write_h5ad(path / "a.h5ad", compression="gzip")
        return path / ("a.zarr" if zarr else "a.h5ad")

    return write


def workbook(path, values):
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["bag", *(f"x{at}" for at in range(COLUMNS))])
    for row in range(1500):
        sheet.append([f"b{row // SIZE}", *values[row].tolist()])
    book.save(path / "a.xlsx")
    return path / "a.xlsx"


CASES = {
    **{f"npz, {kind}": npz(kind) for kind in ("f8", "f4", "f2", "i8", "u1")},
    **{f"mat, {kind}": matlab(kind) for kind in ("f8", "u1")},
    **{f"h5, {kind}": hdf5(kind) for kind in ("f8", "f4", "u1")},
    "mat_prtools": written("mat_prtools", ".mat"),
    "parquet": written("parquet", ".parquet"),
    "parquet_list": written("parquet_list", ".parquet"),
    **{f"pt, {kind}": tensors(kind) for kind in ("f8", "f4", "f2", "u1")},
    "h5ad": cells(zarr=False, sparse=False),
    "h5ad, sparse": cells(zarr=False, sparse=True),
    "zarr": cells(zarr=True, sparse=False),
    "zarr, sparse": cells(zarr=True, sparse=True),
    "xlsx": workbook,
}


def read(path, name):
    if path.is_dir() and path.suffix != ".zarr":
        return read_cohort(path)
    options = {"format": name} if name == "mat_prtools" else {}
    if path.suffix in (".h5ad", ".zarr", ".xlsx"):
        options["bag"] = "bag"
    return read_bags(path, **options)


@pytest.mark.parametrize("name", CASES)
def test_the_estimate_covers_the_peak(name, values, tmp_path, monkeypatch, peak_of):
    path = CASES[name](tmp_path, values)
    bags = read(path, name)  # what is imported or set up once does not count
    assert bags.n_instances in (ROWS, 1500)
    decoded = 8 * COLUMNS * bags.n_instances
    del bags
    estimates = []

    def plenty():
        frame = sys._getframe(1)  # the estimate is an argument of the caller
        if "n_bytes" in frame.f_locals:
            estimates.append(frame.f_locals["n_bytes"])
        return 1 << 50

    monkeypatch.setattr(common, "available_memory", plenty)
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)  # memory that was used before would hide what is taken now
    peak = peak_of(lambda: read(path, name))
    print(f"{name:14} estimate {max(estimates) / 1e6:6.1f} MB, peak {peak / 1e6:6.1f} MB")
    assert peak <= 1.1 * max(estimates) + CONSTANT
    # Not too cautious either. Memory that the process holds already can hide a part of the peak,
    # so this compares with the size of the numbers.
    assert max(estimates) < 8 * decoded + CONSTANT
