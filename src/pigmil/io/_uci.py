"""UCI / C4.5 ``.data`` with a ``.names`` file: bag, instance, values, class, full stop."""

import os
from pathlib import Path

from pigmil.bags import Bags
from pigmil.io._common import (
    Request,
    check_readable,
    raise_format_error,
    read_lines,
    writing,
)
from pigmil.io._rows import Roles, find_roles
from pigmil.io._text_rows import TextRows, count_cells, to_floats
from pigmil.io._values import NUMBER
from pigmil.io._writing import cannot_hold, check_names, refuse_text, text_fields, text_rows

_SPECIAL = ",:|?\\'\""


def read(
    path: Path,
    request: Request,
    *,
    names: str | os.PathLike[str] | None = None,
    encoding: str = "utf-8",
) -> Bags:
    """Read a C4.5 data file of bags.

    The first column is the bag and the last the label unless ``bag=`` and ``label=`` say
    otherwise. Columns that the ``.names`` file declares with words, or that hold words in the
    first line where there is no such file, are kept in ``instance_info`` (conformation names).

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    names : path, optional
        The file of names; by default ``<data>.names``, if it exists.
    encoding : str, default="utf-8"
        Encoding of both files.
    """
    beside = path.with_suffix(".names") if names is None else Path(os.fspath(names))
    if names is not None:
        check_readable(beside)
    declared = _declared(beside, encoding) if beside.is_file() else None
    rows = None
    for number, line in read_lines(path, encoding):
        text = line.split("|", 1)[0].strip()
        if not text:
            continue
        cells = [cell.strip() for cell in text.removesuffix(".").split(",")]
        if rows is None:
            columns, roles = _columns(path, cells, declared, beside, request)
            info, bag_info = ([columns[at] for at in part] for part in (roles.info, roles.bag_info))
            rows = TextRows(path, request, info, bag_info)
        count_cells(path, f"line {number}", cells, len(columns))
        values = to_floats(path, f"line {number}", [cells[at] for at in roles.features])
        rows.add_cells(number, values, cells, roles)
    if rows is None:
        raise_format_error(path, "holds no instances.", hint="It may be cut short.")
    with rows:
        names_used = [columns[at] for at in roles.features]
        return rows.build(None if declared is None else names_used)


def _columns(
    path: Path,
    cells: list[str],
    declared: list[tuple[str, bool]] | None,
    beside: Path,
    request: Request,
) -> tuple[list[str], Roles]:
    """Return names and roles of the columns, from the first line and the file of names."""
    if declared is None:
        names = [str(position) for position in range(len(cells))]
        text = [position for position, cell in enumerate(cells) if not NUMBER.fullmatch(cell)]
    else:
        names = [*(name for name, _ in declared), "class"]
        text = [position for position, (_, numeric) in enumerate(declared) if not numeric]
        if len(names) != len(cells):
            raise_format_error(
                path,
                f"has {len(cells)} values in its first line, but {beside.name} declares "
                f"{len(declared)} attributes and the class.",
                where="line 1",
                hint="Pass the right file with names=, or remove it.",
            )
    if len(cells) < 3:
        raise_format_error(
            path,
            f"has {len(cells)} values in its first line; expected bag, values and class.",
            where="line 1",
        )
    return names, find_roles(path, names, request, bag=0, label=len(names) - 1, text=text)


def _declared(path: Path, encoding: str) -> list[tuple[str, bool]]:
    """Return name and kind (whether it is numeric) of each attribute of a ``.names`` file."""
    declared = []
    for _, line in read_lines(path, encoding):
        name, colon, kind = line.split("|", 1)[0].partition(":")
        if colon:
            declared.append((name.strip(), kind.strip().lower().startswith("continuous")))
    if not declared:
        raise_format_error(
            path,
            "declares no attributes; expected lines such as 'f1: continuous.'.",
            hint="Correct or remove it; the data can be read without it.",
        )
    return declared


def write(bags: Bags, path: Path, *, lossy: bool = False) -> None:
    """Write a C4.5 data file and its ``.names``.

    Each line starts with the bag and the number of the instance in it. C4.5 has no quoting:
    ids, labels and names with blanks, commas, colons and the like are refused. Bags without
    labels get the class ``?``.
    """
    cannot_hold(path, bags, "uci", lossy, instance_info=False)
    beside = path.with_suffix(".names")
    if beside == path:
        raise_format_error(path, "has the suffix of a names file; use .data.")
    ids, labels, inner = text_fields(path, bags, "uci", _SPECIAL)
    names = bags.get_feature_names()
    refuse_text(path, names, "feature name", _SPECIAL, "uci")
    final = next((text for text in (*ids, *labels, *names) if text.endswith(".")), None)
    if final is not None:
        raise_format_error(
            path, f"the format 'uci' ends a line with a full stop and cannot hold {final!r}."
        )
    check_names(path, names, ("bag_id", "instance_id", "instance_label", "class"))
    with writing(beside, path) as (names_file, data_file):
        with names_file.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{_list(labels) or '0,1'}.\nbag_id: {_list(ids)}.\n")
            count = int(bags.sizes.max())
            file.write(f"instance_id: {','.join(f'i{one + 1}' for one in range(count))}.\n")
            file.writelines(f"{name}: continuous.\n" for name in names)
            if inner is not None:
                file.write(f"instance_label: {_list(inner)}.\n")
        with data_file.open("w", encoding="utf-8", newline="\n") as file:
            for row, bag, cells in text_rows(bags):
                start = [ids[bag], f"i{row - bags.offsets[bag] + 1}"]
                end = [*([] if inner is None else [inner[row]]), f"{labels[bag]}.\n"]
                file.write(",".join([*start, *cells, *end]))


def _list(values: list[str]) -> str:
    return ",".join(dict.fromkeys(value for value in values if value != "?"))
