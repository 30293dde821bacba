"""ARFF-like text: relational ARFF of WEKA (one row per bag) and KEEL (one row per instance).

``scipy.io.arff`` reads such files too, and the tests hold this reader to its results. It is not
used for reading because it is unsafe on files of unknown origin: names in the header become parts
of regular expressions (one line can keep it busy forever), quoting is guessed, the global limit of
the ``csv`` module is changed, and text ids, sparse rows and a final line break are refused.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.io._arff_text import (
    Attribute,
    Features,
    default_cells,
    quote,
    read_header,
    sparse_cells,
    split_cells,
)
from pigmil.io._common import Request, find_column, listed, raise_format_error, writing
from pigmil.io._rows import INSTANCE_LABEL_NAMES, LABEL_NAMES, find_roles
from pigmil.io._text_rows import TextRows, count_cells
from pigmil.io._values import MISSING
from pigmil.io._writing import (
    as_text,
    cannot_hold,
    check_names,
    dense_blocks,
    known_text,
    plain,
    refuse_text,
    text_fields,
    text_rows,
)

_MAX_BAG_INFO = 1000
_KEEL_SPECIAL = ",'\"{}[]%@\\"


def read_arff(
    path: Path, request: Request, *, nominal: str = "error", encoding: str = "utf-8"
) -> Bags:
    """Read relational ARFF.

    The bag's id is the attribute before the relation unless ``bag=`` names another, its label
    the attribute called class, bag_label, label or y, else the last one.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``; ``info=`` may name attributes of the instances.
    nominal : {"error", "one_hot", "codes"}
        How to treat features that are words: refuse them, use one column per value
        (``name=value``), or the position among the declared values.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    header = read_header(path, encoding)
    outer = header.attributes
    relation = _relation(path, outer)
    id_place, label_place, bag_info = _outer_roles(path, outer, relation, request)
    inner = outer[relation].children
    names = [one.name for one in inner]
    instance = find_column(
        path, names, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    info = [find_column(path, names, name, "info") or 0 for name in request.info]
    features = [place for place in range(len(inner)) if place not in (instance, *info)]
    plan = Features(path, [inner[place] for place in features], nominal)
    if not features:
        raise_format_error(path, "the relation has no numeric attributes.")
    convert_sparse = _sparse_conversion(path, inner, features, plan)
    bag_info_names = [outer[position].name for position in bag_info]
    if len(bag_info) > _MAX_BAG_INFO:
        raise_format_error(
            path, f"has {len(outer)} attributes of bags; at most {_MAX_BAG_INFO} are read."
        )
    with TextRows(path, request, [names[place] for place in info], bag_info_names) as rows:
        for number, line in header.rows:
            text = line.strip()
            if not text or text.startswith("%"):
                continue
            where = f"line {number}"
            cells = _cells(path, where, text, outer)
            bag = str(number) if id_place is None else cells[id_place]
            label = None if label_place is None else cells[label_place]
            for inner_text in _instances(path, where, cells[relation]):
                values: Any
                if inner_text.lstrip().startswith("{"):
                    values, numbers = convert_sparse(where, inner_text)
                else:
                    values = _cells(path, where, inner_text, inner)
                    numbers = plan.dense(where, [values[place] for place in features])
                rows.add(
                    number,
                    numbers,
                    bag,
                    label,
                    None if instance is None else values[instance],
                    tuple(values[position] for position in info),
                    tuple(cells[position] for position in bag_info),
                )
        return rows.build(plan.names)


def _relation(path: Path, attributes: list[Attribute]) -> int:
    positions = [position for position, one in enumerate(attributes) if one.kind == "relational"]
    if len(positions) != 1:
        names = listed(one.name for one in attributes)
        raise_format_error(
            path,
            f"has {len(positions)} relational attributes, a file of bags has one; its "
            f"attributes are {names}.",
            hint="For one row per instance use format='keel'.",
        )
    return positions[0]


def _outer_roles(
    path: Path, attributes: list[Attribute], relation: int, request: Request
) -> tuple[int | None, int | None, list[int]]:
    """Return the positions of id, label and bag info among the attributes of bags."""
    names = [one.name for one in attributes]
    default = None if relation == 0 or request.bag is False else relation - 1
    bag = default if request.bag is None else find_column(path, names, request.bag, "bag")
    lower = [name.lower() for name in names]
    label = next((lower.index(word) for word in ("class", *LABEL_NAMES) if word in lower), None)
    if label in (relation, bag):
        label = None
    if label is None and len(names) - 1 not in (relation, bag):
        label = len(names) - 1
    if request.label is not None:
        label = find_column(path, names, request.label, "label")
    for name in request.bag_info:
        find_column(path, names, name, "bag_info")
    used = (bag, label, relation)
    return bag, label, [position for position in range(len(names)) if position not in used]


def _sparse_conversion(
    path: Path, attributes: list[Attribute], features: list[int], plan: Features
) -> Callable[[str, str], tuple[Mapping[int, str], FloatArray]]:
    """Return a function from a sparse row to its cells and values.

    It costs one copy of a row of defaults and then only what the row holds: a few bytes of text
    may encode many thousand values.
    """
    cells_left_out = default_cells(attributes)
    defaults = dict(enumerate(cells_left_out))
    start = np.zeros(len(plan.names))
    plan.put(start, "", {at: cells_left_out[place] for at, place in enumerate(features)})
    columns = {position: column for column, position in enumerate(features)}

    def convert(where: str, text: str) -> tuple[Mapping[int, str], FloatArray]:
        cells = sparse_cells(path, where, text, len(attributes))
        values = start.copy()
        used = {columns[place]: cell for place, cell in cells.items() if place in columns}
        plan.put(values, where, used)
        return ChainMap(cells, defaults), values

    return convert


def _cells(path: Path, where: str, text: str, attributes: list[Attribute]) -> Any:
    if text.lstrip().startswith("{"):
        cells = default_cells(attributes)
        for position, cell in sparse_cells(path, where, text, len(attributes)).items():
            cells[position] = cell
        return cells
    cells = split_cells(path, where, text)
    count_cells(path, where, cells, len(attributes))
    return cells


def _instances(path: Path, where: str, cell: str) -> list[str]:
    # Split at line feeds alone: the other line ends Python knows are part of quoted values.
    rows = [text for text in cell.split("\n") if text.strip()]
    if not rows or cell.strip() in MISSING:
        raise_format_error(
            path, "a bag has no instances; every bag needs at least one.", where=where
        )
    return rows


def write_arff(bags: Bags, path: Path, *, relation: str = "bags", lossy: bool = False) -> None:
    """Write relational ARFF: id, relation, bag info, class (if there are labels).

    Id, info and class are nominal attributes. Instance labels become the last attribute of the
    relation, ``instance_label``. Bag info needs labels: without them the last attribute of a bag
    would be read as its class.
    """
    flat = all(values.ndim == 1 for values in bags.bag_info.values())
    keep_info = flat and bags.y is not None
    cannot_hold(path, bags, "arff", lossy, instance_info=False, bag_info=keep_info)
    info = {
        name: [quote(text) for text in as_text(plain(path, values, f"bag_info[{name!r}]"))]
        for name, values in (bags.bag_info.items() if keep_info else ())
    }
    clash = sorted({name.lower() for name in info} & {"class", "bag_id", "bag", *LABEL_NAMES})
    if clash:
        raise_format_error(path, f"bag_info has names that are reserved in arff: {listed(clash)}.")
    ids = as_text(plain(path, bags.ids, "ids"))
    names = bags.get_feature_names()
    if INSTANCE_LABEL_NAMES[0] in names:
        raise_format_error(
            path, "a feature is named 'instance_label', which is reserved in arff for the labels."
        )
    labels = None if bags.y is None else as_text(plain(path, bags.y, "labels"))
    inner = None
    if bags.instance_labels is not None:
        texts = known_text(path, bags.instance_labels, "arff")
        inner = ["?" if text == "?" else quote(text) for text in texts]
    blank = [text for text in (*ids, *(labels or ())) if text in MISSING]
    if blank:
        raise_format_error(
            path, f"arff reads {blank[0]!r} as a missing value, so it cannot be an id or label."
        )
    with writing(path) as (temporary,), temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"@relation {quote(relation)}\n")
        file.write(f"@attribute bag_id {_nominal(ids)}\n@attribute bag relational\n")
        for name in names:
            file.write(f"@attribute {quote(name)} numeric\n")
        if inner is not None:
            file.write(f"@attribute instance_label {_nominal(inner, ready=True)}\n")
        file.write("@end bag\n")
        for name, texts in info.items():
            file.write(f"@attribute {quote(name)} {_nominal(texts, ready=True)}\n")
        if labels is not None:
            file.write(f"@attribute class {_nominal(labels)}\n")
        file.write("@data\n")
        for position, values in enumerate(bags):
            dense = values.toarray() if bags.is_sparse else values
            start = int(bags.offsets[position])
            rows = [",".join(map(repr, row)) for row in dense.astype(np.float64).tolist()]
            if inner is not None:
                rows = [f"{row},{inner[start + at]}" for at, row in enumerate(rows)]
            # Always a quoted cell: WEKA needs one even around a single number.
            body = "\n".join(rows).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            end = "".join(f",{texts[position]}" for texts in info.values())
            end += "" if labels is None else f",{quote(labels[position])}"
            file.write(f'{quote(ids[position])},"{body}"{end}\n')


def _nominal(values: list[str], *, ready: bool = False) -> str:
    unique = dict.fromkeys(value for value in values if not (ready and value == "?"))
    return "{" + ",".join(value if ready else quote(value) for value in unique) + "}"


def read_keel(
    path: Path, request: Request, *, nominal: str = "error", encoding: str = "utf-8"
) -> Bags:
    """Read a KEEL file.

    The first attribute is the bag unless ``bag=`` says otherwise, the one named by
    ``@outputs``, else the last, its label.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    nominal : {"error", "one_hot", "codes"}
        How to treat features that are words, as for ARFF.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    header = read_header(path, encoding)
    attributes = header.attributes
    if any(one.kind == "relational" for one in attributes):
        raise_format_error(path, "has a relational attribute.", hint="Read it with format='arff'.")
    names = [one.name for one in attributes]
    output = header.outputs[0] if header.outputs and header.outputs[0] in names else None
    label = names.index(output) if output is not None else len(names) - 1
    roles = find_roles(path, names, request, bag=0, label=label)
    features = [attributes[position] for position in roles.features]
    plan = Features(path, features, nominal)
    info_names, bag_info_names = (
        [names[at] for at in part] for part in (roles.info, roles.bag_info)
    )
    with TextRows(path, request, info_names, bag_info_names) as rows:
        for number, line in header.rows:
            text = line.strip()
            if not text or text.startswith("%"):
                continue
            where = f"line {number}"
            cells = split_cells(path, where, text)
            count_cells(path, where, cells, len(names))
            values = plan.dense(where, [cells[position] for position in roles.features])
            rows.add_cells(number, values, cells, roles)
        return rows.build(plan.names)


def write_keel(bags: Bags, path: Path, *, relation: str = "bags", lossy: bool = False) -> None:
    """Write a KEEL file; instance labels are an attribute of their own before the class.

    KEEL has no quoting: ids, labels and names with blanks, commas, quotes or brackets are
    refused. Bags without labels get the class ``?``.
    """
    cannot_hold(path, bags, "keel", lossy, instance_info=False)
    ids, labels, inner = text_fields(path, bags, "keel", _KEEL_SPECIAL)
    names = bags.get_feature_names()
    refuse_text(path, [relation], "relation name", _KEEL_SPECIAL, "keel")
    refuse_text(path, names, "feature name", _KEEL_SPECIAL, "keel")
    check_names(path, names, ("bag_id", "instance_label", "class"))
    with writing(path) as (temporary,), temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"@relation {relation}\n@attribute bag_id {_keel_set(ids)}\n")
        low, high = _ranges(bags)
        for name, least, most in zip(names, low, high, strict=True):
            file.write(f"@attribute {name} real [{least!r}, {most!r}]\n")
        if inner is not None:
            file.write(f"@attribute instance_label {_keel_set(inner)}\n")
        file.write(f"@attribute class {_keel_set(labels)}\n@inputs {', '.join(names)}\n")
        file.write("@outputs class\n@data\n")
        for row, bag, cells in text_rows(bags):
            middle = [] if inner is None else [inner[row]]
            file.write(", ".join([ids[bag], *cells, *middle, labels[bag]]) + "\n")


def _keel_set(values: list[str]) -> str:
    return "{" + ", ".join(dict.fromkeys(value for value in values if value != "?")) + "}"


def _ranges(bags: Bags) -> tuple[list[float], list[float]]:
    low, high = np.full(bags.n_features, np.inf), np.full(bags.n_features, -np.inf)
    for _, _, values in dense_blocks(bags):
        np.minimum(low, values.min(axis=0), out=low)
        np.maximum(high, values.max(axis=0), out=high)
    return low.tolist(), high.tolist()
