"""svmlight / libsvm text: ``label qid:bag index:value ...``, one line an instance."""

from pathlib import Path

from pigmil.bags import Bags
from pigmil.io.common import Request, raise_format_error, read_lines, writing
from pigmil.io.sparse_text import sparse_rows
from pigmil.io.text_rows import SparseRows
from pigmil.io.values import as_text, cannot_hold, plain


def read(
    path: Path,
    request: Request,
    *,
    n_features: int | None = None,
    columns: str = "all",
    zero_based: bool = False,
    encoding: str = "utf-8",
) -> Bags:
    """Read svmlight lines with a qid; the qid is the bag, the target its label.

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
        cells = line.split("#", 1)[0].split()
        if not cells:
            continue
        if len(cells) < 2 or not cells[1].startswith("qid:") or len(cells[1]) == 4:
            raise_format_error(
                path,
                f"expected 'label qid:bag index:value ...', got {line[:60]!r}.",
                where=f"line {number}",
                hint="Every line needs a qid: it names the bag.",
            )
        rows.add(number, cells[2:], cells[1][4:], cells[0])
    return rows.finish(n_features, columns)


def write(bags: Bags, path: Path, *, number_ids: bool = False, lossy: bool = False) -> None:
    """Write svmlight lines.

    The format holds numbers only: ids must be whole numbers, not negative, unless
    ``number_ids=True`` numbers the bags from 1; labels must be numbers. Trailing columns of
    zeros need ``n_features=`` when read. Bags without labels are refused.
    """
    cannot_hold(
        path,
        bags,
        "svmlight",
        lossy,
        instance_labels=False,
        feature_names=False,
        instance_info=False,
    )
    ids = plain(path, bags.ids, "ids")
    if number_ids:
        texts = [str(place + 1) for place in range(bags.n_bags)]
    elif ids.dtype.kind in "iu" and (ids >= 0).all():
        texts = as_text(ids)
    else:
        raise_format_error(
            path,
            f"svmlight holds whole numbers as ids (qid), not {ids.tolist()[0]!r}.",
            hint="Pass number_ids=True to number the bags from 1.",
        )
    if bags.y is None:
        raise_format_error(path, "svmlight needs a label on every line, and these bags have none.")
    y = plain(path, bags.y, "labels")
    if y.dtype.kind not in "iufb":
        raise_format_error(
            path,
            f"svmlight holds numbers as labels, not {y.tolist()[0]!r}.",
            hint="Use bags.with_labels(...) with numbers.",
        )
    labels = as_text(y.astype(int) if y.dtype.kind == "b" else y)
    index = bags.bag_index
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row, pairs in sparse_rows(bags):
            bag = index[row]
            file.write(" ".join([labels[bag], f"qid:{texts[bag]}", *pairs]) + "\n")
