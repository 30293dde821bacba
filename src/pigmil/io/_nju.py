"""The text format of the NJU newsgroups: bag, its label, instance, its label, values."""

from pathlib import Path

from pigmil.bags import Bags
from pigmil.io._common import Request, raise_format_error, read_lines, writing
from pigmil.io._text_rows import TextRows, to_floats
from pigmil.io._writing import as_text, cannot_hold, plain, refuse_text, text_fields, text_rows


def read(path: Path, request: Request, *, encoding: str = "utf-8") -> Bags:
    """Read whitespace-separated columns: bag, bag label, instance, instance label, values.

    Lines that start with ``%`` are comments; a label ``?`` is missing, and labels that are all
    missing count as none. Names of instances are kept in ``instance_info["instance"]``.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    with TextRows(path, request, ["instance"]) as rows:
        for number, line in read_lines(path, encoding):
            if line.startswith("%") or not line.strip():
                continue
            cells = line.split()
            if len(cells) < 5:
                raise_format_error(
                    path,
                    "expected bag, bag label, instance, instance label and values, got "
                    f"{len(cells)} columns.",
                    where=f"line {number}",
                    hint="The line may be cut short.",
                )
            values = to_floats(path, f"line {number}", cells[4:])
            rows.add(number, values, cells[0], cells[1], cells[3], (cells[2],))
        return rows.build()


def write(bags: Bags, path: Path, *, lossy: bool = False) -> None:
    """Write the columns of the NJU text format.

    Instances are named by ``instance_info["instance"]`` or numbered inside their bag. Blanks in
    ids and labels are refused; labels that are not known are written as ``?``.
    """
    others = {name for name in bags.instance_info if name not in ("instance", "row")}
    cannot_hold(path, bags, "nju", lossy, feature_names=False, instance_info=not others)
    ids, labels, known = text_fields(path, bags, "nju", "%")
    inner = known or ["?"] * bags.n_instances
    names = [str(row - bags.offsets[bag] + 1) for row, bag in enumerate(bags.bag_index)]
    if "instance" in bags.instance_info:
        names = as_text(plain(path, bags.instance_info["instance"], "names of instances"))
    refuse_text(path, names, "id", "%", "nju")
    with writing(path) as (temporary,), temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(
            "% Each line corresponds to an instance\n% Column1: Bag ID\n"
            "% Column2: Bag class label\n% Column3: Instance ID\n"
            "% Column4: Instance class label\n"
            f"% Column5->{bags.n_features + 4}: Attribute values of the instance "
            f"({bags.n_features} numeric attributes)\n"
        )
        for row, bag, cells in text_rows(bags):
            file.write(" ".join([ids[bag], labels[bag], names[row], inner[row], *cells]) + "\n")
