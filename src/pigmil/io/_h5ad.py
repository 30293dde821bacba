"""AnnData files (``.h5ad``, ``.zarr``): observations as instances, grouped by a column."""

from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, bags_from_anndata
from pigmil.io._common import Request, check_memory, naming, parsing, raise_format_error
from pigmil.io._values import relabelled


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
        listed = ", ".join(map(repr, list(adata.obs.columns)[:12])) or "none"
        raise_format_error(
            path,
            "is an AnnData file, and does not say which observations form a bag.",
            hint=f"Name a column of obs with bag=, and that of the label with label=; they are "
            f"{listed}.",
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
        changed = relabelled(path, bags.ids, bags.y, bags.instance_labels, request)
        instances = bags.instances
        if request.dtype is not None:
            instances = instances.astype(request.dtype)
        return Bags(
            instances,
            bags.offsets,
            **changed,
            feature_names=bags.feature_names,
            instance_info=bags.instance_info,
            bag_info=bags.bag_info,
            missing=request.missing,
        )


def open_anndata(path: Path) -> Any:
    """Return the object of a file, after checking that all of it is stored in the file."""
    anndata = import_optional("anndata", extra="anndata", purpose="Reading AnnData")
    with parsing(path, "AnnData"):
        if path.is_dir():
            return anndata.read_zarr(path)
        h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
        total = 0

        def problem_of_link(name: str, link: Any) -> str | None:
            hard = isinstance(link, h5py.HardLink)
            return None if hard else f"{name!r} is a link; links are not followed."

        def problem_of_dataset(name: str, held: Any) -> str | None:
            nonlocal total
            if not isinstance(held, h5py.Dataset):
                return None
            total += int(np.prod([float(n) for n in held.shape or ()])) * held.dtype.itemsize
            elsewhere = held.is_virtual or held.external
            return f"{name!r} is stored in another file." if elsewhere else None

        with h5py.File(path, "r") as file:
            # A visit ends with the first result that is not None.
            problem = file.visititems_links(problem_of_link) or file.visititems(problem_of_dataset)
        if problem:
            raise_format_error(path, problem)
        check_memory(path, 2 * total)
        return anndata.read_h5ad(path)


def write(bags: Bags, path: Path) -> None:
    """Refuse: AnnData files are changed by adding scores to them."""
    raise_format_error(
        path,
        "AnnData files are read, not written.",
        hint="Add scores to the object with pigmil.bags.add_scores, or choose h5 or parquet.",
    )
