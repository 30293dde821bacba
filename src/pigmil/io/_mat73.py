"""MATLAB 7.3 files, which are HDF5: numbers, text, cells, structures and sparse matrices."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.optional import import_optional
from pigmil.bags import as_csr
from pigmil.io._common import check_memory, parsing, raise_format_error
from pigmil.io._h5_file import OneFile
from pigmil.io._mat5 import Cell, Struct

_MAX_DEPTH = 16
_MAX_MEMBERS = 1_000_000  # cells followed in one file: references could form endless chains

_COPIES = 2  # of the values: as they are read, as bags


def load(path: Path) -> dict[str, Any]:
    """Read all variables of a file, in the same form as :func:`pigmil.io._mat5.load`."""
    h5py = import_optional("h5py", extra="io", purpose="Reading a MATLAB 7.3 file")
    with parsing(path, "a MATLAB 7.3 file"), h5py.File(path, "r") as file:
        reader = _Reader(OneFile(h5py, path, file, trusted=False))
        return {name: reader.member(file, name, 0) for name in file if not name.startswith("#")}


class _Reader:
    def __init__(self, opened: OneFile) -> None:
        self.opened, self.n_members, self.n_bytes = opened, 0, 0

    def member(self, group: Any, name: str, depth: int) -> Any:
        """Return the value of a member of a group."""
        self._count(depth)
        if self.opened.member_class(group, name) is not self.opened.h5py.Group:
            return self._array(self.opened.dataset(group, name), depth)
        node = group[name]
        if "MATLAB_sparse" in node.attrs:
            return self._sparse(node)
        return Struct([{field: self.member(node, field, depth + 1) for field in node}])

    def _count(self, depth: int) -> None:
        self.n_members += 1
        if depth > _MAX_DEPTH or self.n_members > _MAX_MEMBERS:
            raise_format_error(self.opened.path, "cells are nested too deeply.")

    def _array(self, dataset: Any, depth: int) -> Any:
        kind = dataset.attrs.get("MATLAB_class", b"")
        kind = kind.decode("latin-1") if isinstance(kind, bytes) else str(kind)
        if "MATLAB_empty" in dataset.attrs:
            empty = np.array([], dtype=str) if kind == "char" else np.empty((0, 0))
            return Cell([]) if kind == "cell" else empty
        if self.opened.h5py.check_ref_dtype(dataset.dtype) is not None:
            if (dataset.size or 0) > _MAX_MEMBERS:
                raise_format_error(self.opened.path, f"has {dataset.size} cells, too many.")
            references = dataset[()].T.ravel(order="F")
            self._check_size(references)
            return Cell([self._target(reference, depth + 1) for reference in references])
        # MATLAB stores columns first, so that HDF5 sees every matrix transposed.
        values = self.opened.values(dataset).T
        if kind != "char":
            return values
        rows = np.atleast_2d(values)
        return np.array(["".join(map(chr, row)) for row in rows.tolist()], dtype=str)

    def _check_size(self, references: Any) -> None:
        """Check the memory of all cells together; many may refer to one large array."""
        targets = (self.opened.file[reference] for reference in references)
        dataset = self.opened.h5py.Dataset
        sizes = (one.size * one.dtype.itemsize for one in targets if isinstance(one, dataset))
        self.n_bytes += sum(sizes)
        check_memory(self.opened.path, _COPIES * self.n_bytes)

    def _target(self, reference: Any, depth: int) -> Any:
        self._count(depth)
        target = self.opened.file[reference]
        if not isinstance(target, self.opened.h5py.Dataset):
            raise_format_error(self.opened.path, "has a cell that is neither numbers nor text.")
        return self._array(self.opened.dataset(target.parent, target.name.split("/")[-1]), depth)

    def _sparse(self, node: Any) -> Any:
        n_rows = int(node.attrs["MATLAB_sparse"])
        ends = self.opened.values(self.opened.dataset(node, "jc")).ravel().astype(np.int64)
        data, rows = (
            self.opened.values(self.opened.dataset(node, name)).ravel()
            if name in node
            else np.empty(0)
            for name in ("data", "ir")
        )
        matrix = sp.csc_array(
            (data.astype(np.float64), rows.astype(np.int64), ends), shape=(n_rows, len(ends) - 1)
        )
        return as_csr(matrix)
