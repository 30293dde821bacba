"""AnnData files (``.h5ad``, ``.zarr``): observations as instances, grouped by a column."""

from pathlib import Path
from typing import Any

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, bags_from_anndata
from pigmil.io._common import Request, check_memory, listed, naming, parsing, raise_format_error
from pigmil.io._h5_file import check_stored_inside, check_text
from pigmil.io._values import with_request
from pigmil.io._zarr_store import open_zarr


def read(
    path: Path, request: Request, *, layer: str | None = None, obsm: str | None = None
) -> Bags:
    """Read observations as instances.

    Parameters
    ----------
    path, request
        The file or zarr folder, and the options of ``read_bags``; ``bag`` and ``label`` name
        columns of ``obs``.
    layer, obsm : str, optional
        Where the features are, if not in ``X``.
    """
    adata = open_anndata(path)
    asked = {"bag": request.bag, "label": request.label, "instance_label": request.instance_label}
    columns: dict[str, Any] = {}
    for role, name in asked.items():
        if name is None and role in adata.obs.columns:
            name = role
        columns[role] = None if name is False or name is None else str(name)
    if columns["bag"] is None:
        raise_format_error(
            path,
            "is an AnnData file, and does not say which observations form a bag.",
            hint=f"Name a column of obs with bag=, and that of the label with label=; they are "
            f"{listed(adata.obs.columns) or 'none'}.",
        )
    with naming(path), parsing(path, "AnnData"):
        bags = bags_from_anndata(
            adata,
            **columns,
            layer=layer,
            obsm=obsm,
            bag_info=[str(name) for name in request.bag_info],
            missing=request.missing,
        )
        return with_request(path, bags, request)


def open_anndata(path: Path) -> Any:
    """Return the object of a file, after checking that all of it is stored in the file."""
    anndata = import_optional("anndata", extra="anndata", purpose="Reading AnnData")
    with parsing(path, "AnnData"):
        if path.is_dir():
            return anndata.read_zarr(open_zarr(path, whole=True))
        h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
        check_memory(path, 2 * check_stored_inside(path, h5py))
        check_text(path)
        return anndata.read_h5ad(path)


def write(bags: Bags, path: Path) -> None:
    """Raise an error: AnnData files are only read."""
    raise_format_error(
        path,
        "AnnData files can be read but not written.",
        hint="Add scores to the object with pigmil.bags.add_scores, or choose h5 or parquet.",
    )
