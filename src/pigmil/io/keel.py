"""KEEL ``.dat``: ARFF-like header, one row an instance, the bag first and the class last."""

from pathlib import Path

import numpy as np

from pigmil.bags import Bags
from pigmil.io.arff_text import count_cells, feature_plan, read_header, split_cells
from pigmil.io.common import Request, find_column, raise_format_error, writing
from pigmil.io.table import INSTANCE_LABEL_NAMES
from pigmil.io.text_rows import TextRows
from pigmil.io.values import (
    as_text,
    cannot_hold,
    dense_blocks,
    feature_names_of,
    known_text,
    plain,
    refuse_text,
)

_SPECIAL = ",'\"{}[]%@\\"


def read(path: Path, request: Request, *, nominal: str = "error", encoding: str = "utf-8") -> Bags:
    """Read a KEEL file.

    The first attribute is the bag unless ``bag=`` says otherwise, the one named by
    ``@outputs``, else the last, its label.

    Parameters
    ----------
    path, request
        The file and what is wanted from it.
    nominal : {"error", "one_hot", "codes"}
        What becomes of features that are words.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    header = read_header(path, encoding)
    attributes = header.attributes
    if any(one.kind == "relational" for one in attributes):
        raise_format_error(path, "has a relational attribute.", hint="Read it with format='arff'.")
    names = [one.name for one in attributes]
    bag = 0 if request.bag is None else find_column(path, names, request.bag, "bag")
    if bag is None:
        raise_format_error(path, "needs a bag column.", hint="Name it with bag=.")
    output = header.outputs[0] if header.outputs and header.outputs[0] in names else None
    label = names.index(output) if output is not None else len(names) - 1
    asked = label if request.label is None else find_column(path, names, request.label, "label")
    instance = find_column(
        path, names, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    if request.label is None and asked in (bag, instance):
        asked = None
    info = [find_column(path, names, name, "info") or 0 for name in request.info]
    taken = {bag, asked, instance, *info}
    features = [place for place in range(len(names)) if place not in taken]
    if not features:
        raise_format_error(path, "has no features beside the bag and its label.")
    feature_names, convert = feature_plan(path, [attributes[place] for place in features], nominal)
    with TextRows(path, request, [names[place] for place in info]) as rows:
        for number, line in header.rows:
            text = line.strip()
            if not text or text.startswith("%"):
                continue
            where = f"line {number}"
            cells = split_cells(path, where, text)
            count_cells(path, where, cells, len(names))
            rows.add(
                number,
                convert(where, [cells[place] for place in features]),
                cells[bag],
                None if asked is None else cells[asked],
                None if instance is None else cells[instance],
                tuple(cells[place] for place in info),
            )
        return rows.finish(feature_names)


def write(bags: Bags, path: Path, *, relation: str = "bags", lossy: bool = False) -> None:
    """Write a KEEL file; instance labels are an attribute of their own before the class.

    KEEL has no quoting: ids, labels and names with blanks, commas, quotes or brackets are
    refused. Bags without labels get the class ``?``.
    """
    cannot_hold(path, bags, "keel", lossy, instance_info=False)
    ids = as_text(plain(path, bags.ids, "ids"))
    names = feature_names_of(bags)
    labels = ["?"] * bags.n_bags if bags.y is None else as_text(plain(path, bags.y, "labels"))
    refuse_text(path, ids, "id", _SPECIAL, "keel")
    refuse_text(path, names, "feature name", _SPECIAL, "keel")
    if bags.y is not None:
        refuse_text(path, labels, "label", _SPECIAL, "keel")
    clash = {"bag_id", "instance_label", "class"} & set(names)
    if clash or len(set(names)) < len(names):
        raise_format_error(
            path,
            "feature names must differ from each other and from bag_id, instance_label and class.",
        )
    inner = None
    if bags.instance_labels is not None:
        inner = known_text(path, bags.instance_labels, "keel")
        refuse_text(path, [text for text in inner if text != "?"], "label", _SPECIAL, "keel")
    index = bags.bag_index
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        refuse_text(path, [relation], "relation name", _SPECIAL, "keel")
        file.write(f"@relation {relation}\n@attribute bag_id {_set(ids)}\n")
        low, high = _ranges(bags)
        for name, least, most in zip(names, low, high, strict=True):
            file.write(f"@attribute {name} real [{least!r}, {most!r}]\n")
        if inner is not None:
            file.write(f"@attribute instance_label {_set(inner)}\n")
        file.write(f"@attribute class {_set(labels)}\n@inputs {', '.join(names)}\n")
        file.write("@outputs class\n@data\n")
        for start, end, values in dense_blocks(bags):
            for row, numbers in zip(range(start, end), values.tolist(), strict=True):
                middle = "" if inner is None else f"{inner[row]}, "
                cells = ", ".join(map(repr, numbers))
                file.write(f"{ids[index[row]]}, {cells}, {middle}{labels[index[row]]}\n")


def _set(values: list[str]) -> str:
    return "{" + ", ".join(dict.fromkeys(value for value in values if value != "?")) + "}"


def _ranges(bags: Bags) -> tuple[list[float], list[float]]:
    low, high = np.full(bags.n_features, np.inf), np.full(bags.n_features, -np.inf)
    for _, _, values in dense_blocks(bags):
        np.minimum(low, values.min(axis=0), out=low)
        np.maximum(high, values.max(axis=0), out=high)
    return low.tolist(), high.tolist()
