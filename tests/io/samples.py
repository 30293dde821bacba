"""One good file of every format, written by the libraries of the formats."""

import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.io
import scipy.sparse as sp

from pigmil import Bags, write_bags

VALUES = np.random.default_rng(0).normal(size=(6, 3)).round(2)
BAGS = Bags(VALUES, [0, 2, 5, 6], ids=["a", "b", "c"], y=["n", "p", "n"],
            instance_labels=["n", "n", "p", "n", "n", "n"], feature_names=["u", "v", "w"],
            bag_info={"site": [1, 2, 2]})  # fmt: skip
FRAME = pd.DataFrame(VALUES, columns=["u", "v", "w"])
FRAME.insert(0, "bag", BAGS.ids[BAGS.bag_index].astype(str))
FRAME.insert(1, "label", BAGS.y[BAGS.bag_index].astype(str))
ARFF = """@relation r
@attribute bag_id {a,b}
@attribute bag relational
@attribute u numeric
@attribute v numeric
@end bag
@attribute class {0,1}
@data
a,"1,2\\n3,4",1
b,"5,6",0
"""
MATLAB_73 = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM"


def matlab_73(path, fill):
    """Write what MATLAB does: HDF5 behind a header of 512 bytes, every matrix transposed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        fill(file)
    with path.open("r+b") as file:
        file.write(MATLAB_73)


def _matrices(file):
    for name, values in (("features", VALUES), ("bag_ids", [[1, 1, 2, 2, 2, 3]])):
        file[name] = np.asarray(values, dtype="f8").T
        file[name].attrs["MATLAB_class"] = np.bytes_("double")


def _slide(path):
    with h5py.File(path, "w") as file:
        file["features"], file["coords"] = VALUES.astype("f4"), np.arange(12).reshape(6, 2)
        file.attrs["extractor"] = "uni"
        file["names"] = [f"tile {at}" for at in range(6)]


def _observations():
    import anndata

    obs = FRAME[["bag", "label"]].assign(kind=pd.Categorical(list("xyxyxy")))
    obs.index = [f"c{at}" for at in range(6)]
    matrix = sp.csr_matrix(np.where(VALUES > 0, VALUES, 0))
    return anndata.AnnData(matrix, obs=obs, obsm={"spatial": VALUES[:, :2]})


def _anndata(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the defaults of coming versions
        observations = _observations()
        observations.write_zarr(path) if path.suffix == ".zarr" else observations.write_h5ad(path)


def _arrow(path, compression=None):
    options = pa.ipc.IpcWriteOptions(compression=compression)
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=options) as w,
    ):
        w.write_table(table)


def _pt(path):
    from .torch_files import tensor_file

    tensor_file(path, VALUES)


def _svmlight(path):
    rows = [f"{at % 2} qid:{at // 2} 1:{row[0]} 3:{row[2]}" for at, row in enumerate(VALUES)]
    path.write_text("\n".join(f"{int(at > 3)}{row[1:]}" for at, row in enumerate(rows)) + "\n")


WRITERS = {
    "csv": lambda path: FRAME.to_csv(path, index=False),
    "parquet": lambda path: write_bags(BAGS, path),
    "arrow": _arrow,
    "xlsx": lambda path: FRAME.to_excel(path, index=False),
    "arff": lambda path: path.write_text(ARFF),
    "svm": _svmlight,
    "npz": lambda path: write_bags(BAGS, path),
    "npy": lambda path: np.save(path, VALUES),
    "h5": lambda path: write_bags(BAGS, path),
    "hdf5": _slide,
    "h5ad": _anndata,
    "zarr": _anndata,
    "pt": _pt,
    "mat": lambda path: scipy.io.savemat(
        path, {"features": VALUES, "bag_ids": [[1, 1, 2, 2, 2, 3]]}, do_compression=True
    ),
    "73.mat": lambda path: matlab_73(path, _matrices),
}


def write_sample(kind, folder):
    """Write a good file and return its path."""
    path = folder / f"good.{kind}"
    WRITERS[kind](path)
    return path
