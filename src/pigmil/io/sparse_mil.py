"""Sparse multi-instance ``.data``: instance,bag,label,index:value,... with indices from 1."""

from pathlib import Path

from pigmil.bags import Bags
from pigmil.io.common import Request, raise_format_error, read_lines, writing
from pigmil.io.sparse_text import sparse_rows
from pigmil.io.text_rows import SparseRows
from pigmil.io.values import as_text, cannot_hold, plain, refuse_text

_SPECIAL = ",\"'"


def read(
    path: Path,
    request: Request,
    *,
    n_features: int | None = None,
    columns: str = "all",
    zero_based: bool = False,
    encoding: str = "utf-8",
) -> Bags:
    """Read sparse bags.

    Parameters
    ----------
    path, request
        The file and what is wanted from it.
    n_features : int, optional
        Width of the instances; by default the largest index.
    columns : {"all", "used"}
        ``"used"`` keeps only columns that hold a value somewhere, named by their index.
    zero_based : bool, default=False
        Whether indices count from 0.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    rows = SparseRows(path, request, zero_based=zero_based)
    for number, line in read_lines(path, encoding):
        text = line.strip()
        if not text or text.startswith(("%", "#")):
            continue
        cells = text.split(",")
        if len(cells) < 3:
            raise_format_error(
                path,
                f"expected instance,bag,label,index:value,..., got {text[:60]!r}.",
                where=f"line {number}",
                hint="The line may be cut short.",
            )
        _, bag, label, *pairs = cells
        rows.add(number, [pair.strip() for pair in pairs], bag.strip(), label.strip())
    return rows.finish(n_features, columns)


def write(bags: Bags, path: Path, *, lossy: bool = False) -> None:
    """Write sparse bags; the width is that of the largest index used, so trailing columns of
    zeros need ``n_features=`` when read. Bags without labels get ``?``.
    """  # noqa: D205
    cannot_hold(
        path,
        bags,
        "sparse_mil",
        lossy,
        instance_labels=False,
        feature_names=False,
        instance_info=False,
    )
    ids = as_text(plain(path, bags.ids, "ids"))
    labels = ["?"] * bags.n_bags if bags.y is None else as_text(plain(path, bags.y, "labels"))
    refuse_text(path, ids, "id", _SPECIAL, "sparse_mil")
    if bags.y is not None:
        refuse_text(path, labels, "label", _SPECIAL, "sparse_mil")
    index, offsets = bags.bag_index, bags.offsets
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row, pairs in sparse_rows(bags):
            bag = index[row]
            start = f"{ids[bag]}+{row - offsets[bag] + 1},{ids[bag]},{labels[bag]}"
            file.write(",".join([start, *pairs]) + "\n")
