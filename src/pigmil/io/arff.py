"""Relational ARFF, the multi-instance format of WEKA: one row a bag, its instances in one cell.

``scipy.io.arff`` reads such files too, and the tests hold this reader to its results. It is not
used for reading because it cannot be let near files of unknown origin: names in the header become
parts of regular expressions (one line can keep it busy for ever), quoting is guessed, the global
limit of the ``csv`` module is changed, and text ids, sparse rows and a closing line break are
refused.
"""

from pathlib import Path

import numpy as np

from pigmil.bags import Bags
from pigmil.io.arff_text import (
    Attribute,
    count_cells,
    expand_sparse,
    feature_plan,
    quote,
    read_header,
    split_cells,
)
from pigmil.io.common import Request, find_column, listed, raise_format_error, writing
from pigmil.io.table import INSTANCE_LABEL_NAMES, LABEL_NAMES
from pigmil.io.text_rows import TextRows
from pigmil.io.values import MISSING, as_text, cannot_hold, feature_names_of, known_text, plain


def read(path: Path, request: Request, *, nominal: str = "error", encoding: str = "utf-8") -> Bags:
    """Read relational ARFF.

    The bag's id is the attribute before the relation unless ``bag=`` names another, its label
    the attribute called class, bag_label, label or y, else the last one.

    Parameters
    ----------
    path, request
        The file and what is wanted from it; ``info=`` may name attributes of the instances.
    nominal : {"error", "one_hot", "codes"}
        What becomes of features that are words: refused, one column a value
        (``name=value``), or the position among the declared values.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    header = read_header(path, encoding)
    outer = header.attributes
    relation = _relation(path, outer)
    id_place, label_place = _outer_roles(path, outer, relation, request)
    inner = outer[relation].children
    names = [one.name for one in inner]
    instance = find_column(
        path, names, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    info = [find_column(path, names, name, "info") or 0 for name in request.info]
    features = [place for place in range(len(inner)) if place not in (instance, *info)]
    feature_names, convert = feature_plan(path, [inner[place] for place in features], nominal)
    if not features:
        raise_format_error(path, "the relation has no numeric attributes.")
    with TextRows(path, request, [names[place] for place in info]) as rows:
        for number, line in header.rows:
            text = line.strip()
            if not text or text.startswith("%"):
                continue
            where = f"line {number}"
            cells = _cells(path, where, text, outer)
            bag = str(number) if id_place is None else cells[id_place]
            label = None if label_place is None else cells[label_place]
            for inner_text in _instances(path, where, cells[relation]):
                values = _cells(path, where, inner_text, inner)
                rows.add(
                    number,
                    convert(where, [values[place] for place in features]),
                    bag,
                    label,
                    None if instance is None else values[instance],
                    tuple(values[place] for place in info),
                )
        return rows.finish(feature_names)


def _relation(path: Path, attributes: list[Attribute]) -> int:
    places = [place for place, one in enumerate(attributes) if one.kind == "relational"]
    if len(places) != 1:
        names = listed(one.name for one in attributes)
        raise_format_error(
            path,
            f"has {len(places)} relational attributes, a file of bags has one; its "
            f"attributes are {names}.",
            hint="For one row an instance use format='keel'.",
        )
    return places[0]


def _outer_roles(
    path: Path, attributes: list[Attribute], relation: int, request: Request
) -> tuple[int | None, int | None]:
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
    extra = [name for place, name in enumerate(names) if place not in (bag, label, relation)]
    if extra:
        raise_format_error(
            path,
            f"has attributes of bags that are neither id nor label: {listed(extra)}.",
            hint="Name the right ones with bag= and label=, and take the others out.",
        )
    return bag, label


def _cells(path: Path, where: str, text: str, attributes: list[Attribute]) -> list[str]:
    if text.lstrip().startswith("{"):
        return expand_sparse(path, where, text, attributes)
    cells = split_cells(path, where, text)
    count_cells(path, where, cells, len(attributes))
    return cells


def _instances(path: Path, where: str, cell: str) -> list[str]:
    # Split at line feeds alone: the other line ends Python knows are part of quoted values.
    found = [text for text in cell.split("\n") if text.strip()]
    if not found or cell.strip() in MISSING:
        raise_format_error(
            path, "a bag has no instances; every bag needs at least one.", where=where
        )
    return found


def write(bags: Bags, path: Path, *, relation: str = "bags", lossy: bool = False) -> None:
    """Write relational ARFF: id (nominal), relation, class (nominal, if there are labels).

    Instance labels become the last attribute of the relation, ``instance_label``.
    """
    cannot_hold(path, bags, "arff", lossy, instance_info=False)
    ids = as_text(plain(path, bags.ids, "ids"))
    names = feature_names_of(bags)
    if INSTANCE_LABEL_NAMES[0] in names:
        raise_format_error(
            path, "a feature is named 'instance_label', which arff needs for the labels."
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
    with writing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"@relation {quote(relation)}\n")
        file.write(f"@attribute bag_id {_nominal(ids)}\n@attribute bag relational\n")
        for name in names:
            file.write(f"@attribute {quote(name)} numeric\n")
        if inner is not None:
            file.write(f"@attribute instance_label {_nominal(inner, ready=True)}\n")
        file.write("@end bag\n")
        if labels is not None:
            file.write(f"@attribute class {_nominal(labels)}\n")
        file.write("@data\n")
        for place, values in enumerate(bags):
            dense = values.toarray() if bags.is_sparse else values
            start = int(bags.offsets[place])
            rows = [",".join(map(repr, row)) for row in dense.astype(np.float64).tolist()]
            if inner is not None:
                rows = [f"{row},{inner[start + at]}" for at, row in enumerate(rows)]
            # A quoted cell in any case: WEKA asks for one even around a single number.
            body = "\n".join(rows).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            end = "" if labels is None else f",{quote(labels[place])}"
            file.write(f'{quote(ids[place])},"{body}"{end}\n')


def _nominal(values: list[str], *, ready: bool = False) -> str:
    unique = dict.fromkeys(value for value in values if not (ready and value == "?"))
    return "{" + ",".join(value if ready else quote(value) for value in unique) + "}"
