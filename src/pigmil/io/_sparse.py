"""Text with ``index:value`` pairs: svmlight / libsvm with a qid, and sparse MIL ``.data``."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from pigmil.bags import Bags
from pigmil.io._common import Request, raise_format_error, read_lines, writing
from pigmil.io._text_rows import SparseRows
from pigmil.io._writing import as_text, cannot_hold, plain, text_fields

_LOST = {"instance_labels": False, "feature_names": False, "instance_info": False}


Row = tuple[Sequence[str], str, str]  # index:value pairs, bag and label


def _read(
    parse_line: Callable[[Path, int, str], Row | None],
    path: Path,
    request: Request,
    *,
    n_features: int | None = None,
    columns: str = "all",
    zero_based: bool = False,
    encoding: str = "utf-8",
) -> Bags:
    """Read one instance per line.

    Parameters
    ----------
    parse_line : callable
        Returns the row of a line, or None for lines without one.
    path, request
        The file and the options of ``read_bags``.
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
        row = parse_line(path, number, line)
        if row is not None:
            rows.add(number, *row)
    return rows.build(n_features, columns)


def _parse_svmlight(path: Path, number: int, line: str) -> Row | None:
    """Parse ``label qid:bag index:value ...``."""
    cells = line.split("#", 1)[0].split()
    if not cells:
        return None
    if len(cells) < 2 or not cells[1].startswith("qid:") or len(cells[1]) == 4:
        raise_format_error(
            path,
            f"expected 'label qid:bag index:value ...', got {line[:60]!r}.",
            where=f"line {number}",
            hint="Every line needs a qid: it names the bag.",
        )
    return cells[2:], cells[1][4:], cells[0]


def _parse_sparse_mil(path: Path, number: int, line: str) -> Row | None:
    """Parse ``instance,bag,label,index:value,...``."""
    text = line.strip()
    if not text or text.startswith(("%", "#")):
        return None
    cells = text.split(",")
    if len(cells) < 3:
        raise_format_error(
            path,
            f"expected instance,bag,label,index:value,..., got {text[:60]!r}.",
            where=f"line {number}",
            hint="The line may be cut short.",
        )
    _, bag, label, *pairs = cells
    return [pair.strip() for pair in pairs], bag.strip(), label.strip()


read_svmlight = partial(_read, _parse_svmlight)
read_sparse_mil = partial(_read, _parse_sparse_mil)


def write_svmlight(
    bags: Bags, path: Path, *, number_ids: bool = False, lossy: bool = False
) -> None:
    """Write svmlight lines.

    The format holds numbers only: ids must be whole numbers, not negative, unless
    ``number_ids=True`` numbers the bags from 1; labels must be numbers. Trailing columns of
    zeros need ``n_features=`` when read. Bags without labels are refused.
    """
    cannot_hold(path, bags, "svmlight", lossy, **_LOST)
    ids: Any = plain(path, bags.ids, "ids")
    if number_ids:
        ids = [str(position + 1) for position in range(bags.n_bags)]
    elif ids.dtype.kind in "iu" and (ids >= 0).all():
        ids = as_text(ids)
    else:
        raise_format_error(
            path,
            f"svmlight stores ids (qid) as whole numbers, not {ids.tolist()[0]!r}.",
            hint="Pass number_ids=True to number the bags from 1.",
        )
    if bags.y is None:
        raise_format_error(path, "svmlight needs a label on every line, and these bags have none.")
    y = plain(path, bags.y, "labels")
    if y.dtype.kind not in "iufb":
        raise_format_error(
            path,
            f"svmlight stores labels as numbers, not {y.tolist()[0]!r}.",
            hint="Use bags.with_labels(...) with numbers.",
        )
    labels = as_text(y.astype(int) if y.dtype.kind == "b" else y)
    index = bags.bag_index
    with writing(path) as (temporary,), temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row, pairs in _pairs(bags):
            bag = index[row]
            file.write(" ".join([labels[bag], f"qid:{ids[bag]}", *pairs]) + "\n")


def write_sparse_mil(bags: Bags, path: Path, *, lossy: bool = False) -> None:
    """Write sparse MIL lines; bags without labels get ``?``.

    The width is that of the largest index used: trailing columns of zeros need ``n_features=``
    when read.
    """
    cannot_hold(path, bags, "sparse_mil", lossy, **_LOST)
    ids, labels, _ = text_fields(path, bags, "sparse_mil", ",\"'")
    index, offsets = bags.bag_index, bags.offsets
    with writing(path) as (temporary,), temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row, pairs in _pairs(bags):
            bag = index[row]
            start = f"{ids[bag]}+{row - offsets[bag] + 1},{ids[bag]},{labels[bag]}"
            file.write(",".join([start, *pairs]) + "\n")


def _pairs(bags: Bags, step: int = 1 << 14) -> Iterator[tuple[int, list[str]]]:
    """Yield each row and its ``index:value`` pairs, indices from 1, without zeros."""
    for start in range(0, bags.n_instances, step):
        block = sp.csr_array(bags.instances[start : start + step])
        ends, indices, data = block.indptr.tolist(), block.indices.tolist(), block.data.tolist()
        for row in range(block.shape[0]):
            entries = slice(ends[row], ends[row + 1])
            pairs = zip(indices[entries], data[entries], strict=True)
            yield start + row, [f"{index + 1}:{value!r}" for index, value in pairs if value != 0]
