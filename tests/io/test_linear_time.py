"""Text that used to keep a reader busy: the time grows in proportion to the size of the file."""

import contextlib
import os
import time

import numpy as np
import pytest

from pigmil import read_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import formats

ARFF = (
    "@relation r\n@attribute id {a,b}\n@attribute bag relational\n@attribute x numeric\n"
    "@end bag\n@attribute class {0,1}\n@data\n"
)
KEEL = "@relation r\n@attribute id {a,b}\n@attribute x real\n@attribute class {0,1}\n@data\n"
TEXTS = [name for name, one in formats().items() if one.name in
         ("csv", "tsv", "arff", "keel", "uci", "sparse_mil", "nju", "svmlight")]  # fmt: skip
# One line of each format, with a place for a value.
LINES = {
    "csv": "bag,label,x\na,1,VALUE\n",
    "tsv": "bag\tlabel\tx\na\t1\tVALUE\n",
    "arff": ARFF + "a,'VALUE',1\n",
    "keel": KEEL + "a,VALUE,1\n",
    "uci": "a,i1,VALUE,1.\n",
    "sparse_mil": "i,a,1,1:VALUE\n",
    "nju": "a 1 i 1 VALUE\n",
    "svmlight": "1 qid:1 1:VALUE\n",
}


def seconds(path, content, **options):
    """Processor time of reading, the best of three; the file may be refused."""
    path.write_text(content)
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        with contextlib.suppress(BagFormatError):
            read_bags(path, **options)
        best = min(best, time.process_time() - start)
    return best


def check_linear(path, content, size, **options):
    """Four times the size takes about four times as long; quadratic time would take sixteen."""
    first = seconds(path, content(size), **options)
    last = seconds(path, content(4 * size), **options)
    assert last < 9 * first + 0.05, (first, last)


CASES = {
    "arff, blanks before a quote": ("arff", lambda n: ARFF + "a," + " " * n + "'x\n", 3_000),
    "keel, blanks before a quote": ("keel", lambda n: KEEL + "a," + " " * n + "'x\n", 3_000),
    "arff, backslashes": ("arff", lambda n: ARFF + "{0 a,1 " + "'\\" * n + "}\n", 10_000),
    "arff, sparse quotes": ("arff", lambda n: ARFF + "{" + "'\\" * n + "}\n", 10_000),
    "arff, attribute name": ("arff", lambda n: "@relation r\n@attribute '" + "\\" * n, 10_000),
    "arff, blanks in an attribute": ("arff", lambda n: "@attribute" + " " * n + "{", 10_000),
    "arff, newlines": (None, lambda n: "@relation r" + "\n" * n, 16_000),
    "arff, nominal values": (
        "arff", lambda n: "@attribute a {" + "a," * n + "}\n@data\n", 10_000,
    ),
    "label of digits": ("nju", lambda n: "a " + "1" * n + "x i 1 2\n", 15_000),
    "uci, first cell": ("uci", lambda n: "1" * n + "x,1,2\n", 15_000),
    "uci, full stops": ("uci", lambda n: "1,1," + "1." * n + "\n", 10_000),
    "svmlight, blanks": (None, lambda n: "1" + " " * n + "qid", 16_000),
    "csv, quotes": ("csv", lambda n: 'bag,label,x\na,1,"' + '""' * n, 10_000),
    "csv, blank lines first": ("csv", lambda n: "\n" * n + "bag,x\na,1\n", 8_000),
    "csv, columns": (
        "csv",
        lambda n: "bag," + ",".join(f"f{i}" for i in range(n)) + "\na" + ",1" * n + "\n",
        3_000,
    ),
    "csv, columns of the same name": ("csv", lambda n: "bag" + ",x" * n + "\n", 10_000),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_known_hangs(name, tmp_path):
    kind, content, size = CASES[name]
    check_linear(tmp_path / "file.dat", content, size, format=kind)


@pytest.mark.parametrize(
    "piece", ["1", "1.", "1e", " ", "'", '"', "\\", "{", ",", "-1 ", "\n", "%"]
)
@pytest.mark.parametrize("name", TEXTS)
def test_repeated_pieces(name, piece, tmp_path):
    def content(n):
        return LINES[name].replace("VALUE", piece * n)

    check_linear(tmp_path / "file.dat", content, 4_000, format=name)


def test_sparse_rows_cost_what_they_hold(tmp_path):
    """Each ``{}`` stands for as many zeros as there are attributes."""
    width, n_rows = 3_000, 3_000
    declared = "".join(f"@attribute x{at} numeric\n" for at in range(width))
    head = "@relation r\n@attribute id {a,b}\n@attribute bag relational\n"
    rows = "\\n".join(["{}"] * (n_rows - 1) + ["{2 7,5 -1}"])
    path = tmp_path / "wide.arff"
    content = f"{head}{declared}@end bag\n@attribute class {{0,1}}\n@data\na,'{rows}',1\n"
    reading = seconds(path, content)
    # Converting a tenth of the zeros from text; all of them would take ten times as long.
    tenth = np.inf
    for _ in range(3):
        start = time.process_time()
        for _ in range(n_rows // 10):
            [float(cell) for cell in ["0"] * width]
        tenth = min(tenth, time.process_time() - start)
    assert reading < 5 * tenth, (reading, tenth)
    bags = read_bags(path)
    assert bags.instances.shape == (n_rows, width)
    assert bags.instances[-1, [2, 5]].tolist() == [7, -1]
    assert np.count_nonzero(bags.instances) == 2


WIDE = 5_000
VALUES = ",".join(f"v{at}" for at in range(WIDE))
NUMBERS = "".join(f"@attribute x{at} numeric\n" for at in range(WIDE))
RELATION = "@relation r\n@attribute id {a,b}\n@attribute bag relational\n"
END = "@end bag\n@attribute class {0,1}\n@data\na,'"


@pytest.mark.parametrize(
    ("kind", "nominal", "content", "ones"),
    [
        ("arff", "one_hot", f"{RELATION}@attribute x {{{VALUES}}}\n{END}"
         + "\\n".join(["v7"] * WIDE) + "',1\n", [7]),
        ("keel", "one_hot", KEEL.replace("x real", f"x {{{VALUES}}}") + "a,v7,1\n" * WIDE, [7]),
        ("arff", "codes", f"{RELATION}{NUMBERS}@attribute y {{p,q}}\n{END}"
         + "\\n".join(["{2 1,5000 q}"] * WIDE) + "',1\n", [2, 5000]),
    ],
    ids=["arff, one column per word", "keel, one column per word", "arff, sparse with words"],
)  # fmt: skip
def test_words_cost_what_they_hold(kind, nominal, content, ones, tmp_path):
    """A word of two characters may stand for as many columns as there are words."""
    path = tmp_path / "wide.dat"
    path.write_text(content)
    start = time.process_time()
    bags = read_bags(path, format=kind, nominal=nominal)
    assert time.process_time() - start < 2  # 3 to 16 s when every value was an object
    expected = np.zeros(bags.n_features)
    expected[ones] = 1
    assert bags.n_instances == WIDE
    assert (bags.instances == expected).all()


def test_a_pipe_in_a_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.h5")
    # It has a writer and content, so that a reader without the check fails instead of waiting.
    writer = os.open(tmp_path / "a.h5", os.O_RDWR | os.O_NONBLOCK)
    os.write(writer, b"x" * 65536)
    with pytest.raises(BagFormatError, match=r"a\.h5: is not a regular file"):
        read_bags(tmp_path)
    with pytest.raises(BagFormatError, match=r"a\.h5: is not a regular file"):
        read_bags(tmp_path / "a.h5")
    os.close(writer)
