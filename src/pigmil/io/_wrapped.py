"""Old readers behind the new entry, until their formats are rewritten."""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

from pigmil.bags import LazyBags
from pigmil.io import _common, _scan
from pigmil.io._formats import Request


def _old(module: str, function: str, path: Path, request: Request) -> LazyBags:
    old = _common.Request(
        bag=request.bag,
        label=request.label,
        instance_label=request.instance_label,
        info=request.info,
        bag_info=request.bag_info,
        ids=request.ids,
        dtype=request.dtype,
        missing=request.missing_values,
    )
    options: dict[str, Any] = dict(request.options)
    if module == "_h5ad":
        options |= {"layer": request.layer, "obsm": request.obsm}
    read = getattr(importlib.import_module(f"pigmil.io.{module}"), function)
    return LazyBags.from_bags(read(path, old, **options), path)


def _scanned(path: Path, request: Request) -> LazyBags:
    named: Any = request
    options = _scan._Options(
        named.bag, named.label, request.features, named.info, request.empty, False
    )
    return _scan._scan_one(path, options)


def scan_folder(path: Path, request: Request) -> LazyBags:
    """Read a folder of slides."""
    from pigmil.io._slide_folder import read_folder

    return LazyBags.from_bags(read_folder(path, missing=request.missing, empty=request.empty), path)


scan_csv = partial(_old, "_csv", "read")
scan_xlsx = partial(_old, "_xlsx", "read")
scan_arff = partial(_old, "_arff", "read_arff")
scan_svmlight = partial(_old, "_sparse", "read_svmlight")
scan_npz = partial(_old, "_npz", "read")
scan_mat = partial(_old, "_mat", "read")
scan_h5ad = partial(_old, "_h5ad", "read")
scan_parquet = scan_h5 = scan_npy = scan_zarr = _scanned
