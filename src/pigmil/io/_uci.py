"""UCI / C4.5 ``.data`` of bags: bag, instance, values, class, full stop; ``.names`` beside it."""

import os
from dataclasses import dataclass
from pathlib import Path

from pigmil.bags import Bags
from pigmil.io._common import (
    Request,
    check_readable,
    find_column,
    find_info,
    raise_format_error,
    read_lines,
    writing,
)
from pigmil.io._rows import TextRows, to_floats
from pigmil.io._values import (
    NUMBER,
    cannot_hold,
    check_names,
    dense_blocks,
    refuse_text,
    text_fields,
)

_SPECIAL = ",:|?\\'\""


@dataclass(frozen=True)
class _Columns:
    names: list[str]
    bag: int
    label: int | None
    instance_label: int | None
    info: list[int]
    bag_info: list[int]
    features: list[int]
    named: bool


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
        The file of names; by default the one beside the data, if there is one.
    encoding : str, default="utf-8"
        Encoding of both files.
    """
    beside = path.with_suffix(".names") if names is None else Path(os.fspath(names))
    if names is not None:
        check_readable(beside)
    declared = _declared(beside, encoding) if beside.is_file() else None
    columns = None
    rows = None
    for number, line in read_lines(path, encoding):
        text = line.split("|", 1)[0].strip()
        if not text:
            continue
        cells = text.removesuffix(".").split(",")
        if columns is None or rows is None:
            columns = _columns(path, cells, declared, beside, request)
            rows = TextRows(
                path,
                request,
                [columns.names[position] for position in columns.info],
                [columns.names[position] for position in columns.bag_info],
            )
        if len(cells) != len(columns.names):
            raise_format_error(
                path,
                f"expected {len(columns.names)} values, got {len(cells)}.",
                where=f"line {number}",
                hint="The line may be cut short.",
            )
        rows.add(
            number,
            to_floats(path, f"line {number}", [cells[place] for place in columns.features]),
            cells[columns.bag].strip(),
            None if columns.label is None else cells[columns.label].strip(),
            None if columns.instance_label is None else cells[columns.instance_label].strip(),
            tuple(cells[position].strip() for position in columns.info),
            tuple(cells[position].strip() for position in columns.bag_info),
        )
    if columns is None or rows is None:
        raise_format_error(path, "holds no instances.", hint="It may be cut short.")
    with rows:
        found = [columns.names[place] for place in columns.features]
        return rows.build(found if columns.named else None)


def _columns(
    path: Path,
    cells: list[str],
    declared: list[tuple[str, bool]] | None,
    beside: Path,
    request: Request,
) -> _Columns:
    if declared is None:
        names = [str(place) for place in range(len(cells))]
        words = [place for place, cell in enumerate(cells) if not NUMBER.fullmatch(cell.strip())]
    else:
        names = [*(name for name, _ in declared), "class"]
        words = [place for place, (_, numeric) in enumerate(declared) if not numeric]
        if len(names) != len(cells):
            raise_format_error(
                path,
                f"has {len(cells)} values in its first line, but {beside.name} declares "
                f"{len(declared)} attributes and the class.",
                where="line 1",
                hint="Give the right file with names=, or move it away.",
            )
    if len(cells) < 3:
        raise_format_error(
            path,
            f"has {len(cells)} values in its first line; expected bag, values, class.",
            where="line 1",
        )
    bag = 0 if request.bag is None else find_column(path, names, request.bag, "bag")
    last = len(names) - 1
    label = last if request.label is None else find_column(path, names, request.label, "label")
    instance = find_column(
        path, names, request.instance_label, "instance_label", ("instance_label",)
    )
    if bag is None:
        raise_format_error(path, "needs a bag column.", hint="Name it with bag=.")
    asked, bag_info = find_info(path, names, request)
    info = [
        place
        for place in dict.fromkeys([*words, *asked])
        if place not in (bag, label, instance, *bag_info)
    ]
    taken = {bag, label, instance, *info, *bag_info}
    features = [place for place in range(len(names)) if place not in taken]
    if not features:
        raise_format_error(
            path, "has no numeric columns beside the bag and its label.", where="line 1"
        )
    return _Columns(names, bag, label, instance, info, bag_info, features, declared is not None)


def _declared(path: Path, encoding: str) -> list[tuple[str, bool]]:
    """Return name and kind (whether it is numeric) of each attribute of a ``.names`` file."""
    found = []
    for _, line in read_lines(path, encoding):
        name, colon, kind = line.split("|", 1)[0].partition(":")
        if colon:
            found.append((name.strip(), kind.strip().lower().startswith("continuous")))
    if not found:
        raise_format_error(
            path,
            "declares no attributes; expected lines such as 'f1: continuous.'.",
            hint="Correct or remove it; the data can be read without it.",
        )
    return found


def write(bags: Bags, path: Path, *, lossy: bool = False) -> None:
    """Write a C4.5 data file and its ``.names``.

    Each line starts with the bag and the number of the instance in it. C4.5 has no quoting:
    ids, labels and names with blanks, commas, colons and the like are refused. Bags without
    labels get the class ``?``.
    """
    cannot_hold(path, bags, "uci", lossy, instance_info=False)
    beside = path.with_suffix(".names")
    if beside == path:
        raise_format_error(path, "has the suffix of the file that is written beside it; use .data.")
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
        index, offsets = bags.bag_index, bags.offsets
        with data_file.open("w", encoding="utf-8", newline="\n") as file:
            for start, end, values in dense_blocks(bags):
                for row, numbers in zip(range(start, end), values.tolist(), strict=True):
                    bag = index[row]
                    middle = "" if inner is None else f"{inner[row]},"
                    cells = ",".join(map(repr, numbers))
                    number = row - offsets[bag] + 1
                    file.write(f"{ids[bag]},i{number},{cells},{middle}{labels[bag]}.\n")


def _list(values: list[str]) -> str:
    return ",".join(dict.fromkeys(value for value in values if value != "?"))
