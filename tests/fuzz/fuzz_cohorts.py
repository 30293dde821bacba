"""Mutated files of other tools, which are only read: `python tests/fuzz/fuzz_cohorts.py`.

Tensors of torch, workbooks, AnnData as HDF5 and zarr, tables of labels, and folders of slides.
An escape is a process that dies or runs into a limit, an error that is no BagFormatError, and
bags that contradict themselves.
"""

import io
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "io"))

from _frame import main
from fuzz_formats import (
    PIECES,
    changed_archive,
    changed_bytes,
    changed_number,
    changed_text,
    contradiction,
    spliced,
)
from torch_files import described, tensor_file, text

from pigmil import Bags, read_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.io import _h5_file, read_cohort

VALUES = np.arange(12.0, dtype=np.float32).reshape(4, 3)
TABLE = "slide_id,label,patient\na,0,p\nb,1,q\nc,1,q\n"
XML_PIECES = (
    '<row r="9999999999">', "<row>", "<c/>", '<c r="XFD1">', '<c r="ZZZZZZ1"/>', "<v>1e999</v>",
    '<c t="s"><v>99999999</v></c>', '<c t="d"><v>x</v></c>', '<c t="b"><v>7</v></c>', "&lt;",
    "<!DOCTYPE x>", "&a;", "<is><t>", "</sheetData>", "<mergeCell ref='A1:XFD9'/>",
    '<dimension ref="A1:A1"/>', 'r="0"', 't="e"', 's="999999"',
)  # fmt: skip
JSON_PIECES = (
    "null", "true", "-1", "[]", "{}", "1e999", "99999999999", '"|O"', '"<U9"', '"<f4"', '">i8"',
    '{"id": "pickle"}', '{"id": "zlib"}', '{"id": "gzip"}', '"string"', '"dataframe"',
    '"csr_matrix"', '"categorical"', '"dict"', "[3, 999999999]", "[0, 0]", "[1]", "NaN",
)  # fmt: skip


INSTRUCTIONS = b"(.0NR}]t\x85\x86\x87aeusbcQo\x81\x93qhjrJKM\x8aX\x8c\x94"
SIZES = (0, 1, 3, 13, 2**31 - 1)


def outcome(read, chosen=()):
    """Run a reader and return what came of it."""
    try:
        bags = read()
    except (BagFormatError, BagsError):
        return "refused"
    except Exception as error:
        return f"escape: {type(error).__name__}: {error}"
    return contradiction(bags, dict(chosen)) or "accepted"


def changed_member(content, rng, pieces):
    """Change the text or bytes of one member of an archive and pack it again."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    names = list(members)
    name = names[rng.integers(len(names))]
    value = members[name].decode("latin-1")
    place = int(rng.integers(len(value) + 1))
    if pieces and rng.random() < 0.7:
        piece = str(rng.choice(pieces)) * int(rng.choice([1, 1, 1, 50]))
        value = value[:place] + piece + value[place + int(rng.integers(12)) :]
        members[name] = value.encode("latin-1", "xmlcharrefreplace")
    elif value:
        members[name] = changed_bytes(members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for one, held in members.items():
            archive.writestr(one, held)
    return buffer.getvalue()


def change(content, rng, *, packed=None, pieces=()):
    """Mutate a file; ``packed`` says how to change what lies inside an archive."""
    kind = rng.random()
    if packed and kind < 0.6:
        return packed(content, rng)
    if pieces and kind < 0.6:
        return changed_text(content, rng)
    if kind < 0.75:
        return changed_number(content, rng)
    return changed_bytes(content, rng) if kind < 0.92 else spliced(content, content, rng)


def prepare_tensors(folder):
    """Files of one tensor, of several in a dictionary, and of views of one storage."""
    warnings.simplefilter("ignore")
    from torch_files import archive

    held = folder / "tensors"
    held.mkdir(exist_ok=True)
    path = held / "a.pt"
    pair = b"}(" + text("features") + described(VALUES) + text("coords")
    pair += described(np.arange(8).reshape(4, 2), key="1") + b"u"
    good = [
        tensor_file(path, VALUES).read_bytes(),
        tensor_file(path, VALUES, shape=(3, 4), strides=(1, 3)).read_bytes(),
        archive(path, pair, _0=VALUES, _1=np.arange(8)).read_bytes(),
    ]

    def packed(content, rng):
        part = changed_archive if rng.random() < 0.3 else changed_description
        return part(content, rng)

    def one(seed):
        rng = np.random.default_rng([seed, 1])
        path.write_bytes(change(good[rng.integers(len(good))], rng, packed=packed))
        return outcome(lambda: read_cohort(held))

    return one


def changed_description(content, rng):
    """Change the instructions of a ``data.pkl``, with the right checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    value = bytearray(members["archive/data.pkl"])
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = int(rng.integers(len(value)))
        kind = rng.random()
        if kind < 0.4:
            value[place] = INSTRUCTIONS[rng.integers(len(INSTRUCTIONS))]
        elif kind < 0.7:
            value[place : place + 4] = int(rng.choice(SIZES)).to_bytes(4, "little")
        else:
            start, stop = sorted(rng.integers(0, len(value), 2).tolist())
            value[place:place] = value[start : min(stop, start + 60)]
    members["archive/data.pkl"] = bytes(value)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for one, held in members.items():
            archive.writestr(one, held)
    return buffer.getvalue()


def prepare_workbook(folder):
    """A workbook of rows with numbers, text and a date."""
    import datetime

    import openpyxl

    warnings.simplefilter("ignore")
    path = folder / "rows.xlsx"
    book = openpyxl.Workbook()
    day = datetime.date(2020, 1, 2)
    for row in (
        ("bag", "label", "x", "day"),
        ("a", 0, 1.5, day),
        ("a", 0, 2, day),
        ("b", 1, 3, None),
    ):
        book.active.append(row)
    book.save(path)
    good = path.read_bytes()

    def packed(content, rng):
        return changed_member(content, rng, (*XML_PIECES, *PIECES[:40]))

    def one(seed):
        rng = np.random.default_rng([seed, 2])
        path.write_bytes(change(good, rng, packed=packed))
        return outcome(lambda: read_bags(path, format="xlsx", info=["day"]))

    return one


def observations():
    """An AnnData object with sparse or dense features."""
    import anndata
    import pandas as pd
    import scipy.sparse as sp

    obs = pd.DataFrame({"bag": ["p", "q", "p"], "label": [0, 1, 0]}, index=["c0", "c1", "c2"])
    for values in (VALUES[:3], sp.csr_matrix(VALUES[:3])):
        yield anndata.AnnData(values, obs=obs, obsm={"spatial": np.ones((3, 2))})


READ_TEXTS = """
import resource, signal, sys
sys.path.append(sys.argv[1])
from _h5_text import size_of_text
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for line in sys.stdin:
    signal.setitimer(signal.ITIMER_PROF, 3)
    try:
        print(size_of_text(line[:-1], 1 << 32), flush=True)
    except Exception:
        print("refused", flush=True)
    signal.setitimer(signal.ITIMER_PROF, 0)
"""


class TextReader:
    """Reads the text of many files in one process: a new Python takes 0.1 s to start.

    It is started again when it dies, as it does after 3 s of processor time (15 s in the library).
    """

    def __init__(self):
        self.process = None

    def __call__(self, arguments, timeout):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", READ_TEXTS, str(Path(_h5_file.__file__).parent)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        self.process.stdin.write(arguments[0] + "\n")
        self.process.stdin.flush()
        found = self.process.stdout.readline().strip()
        status = 0 if found.isdigit() else 1 if found else self.process.wait()
        return subprocess.CompletedProcess(arguments, status, found, "")


def prepare_h5ad(folder):
    warnings.simplefilter("ignore")
    _h5_file._read_text_apart = TextReader()
    path = folder / "cells.h5ad"
    good = []
    for adata in observations():
        adata.write_h5ad(path)
        good.append(path.read_bytes())

    def one(seed):
        rng = np.random.default_rng([seed, 3])
        path.write_bytes(change(good[seed % 2], rng))
        return outcome(lambda: read_bags(path, format="h5ad", bag="bag", label="label"))

    return one


def prepare_zarr(folder):
    """Change one file of a store, its metadata as text, and put it back afterwards."""
    import anndata

    warnings.simplefilter("ignore")
    stores = []
    for position, adata in enumerate(observations()):
        path = folder / f"cells{position}.zarr"
        shutil.rmtree(path, ignore_errors=True)
        anndata.settings.zarr_write_format = 2 + position
        adata.write_zarr(path)
        stores.append((path, sorted(one for one in path.rglob("*") if one.is_file())))

    def one(seed):
        rng = np.random.default_rng([seed, 4])
        path, files = stores[seed % 2]
        file = files[rng.integers(len(files))]
        good = file.read_bytes()
        try:
            if file.name.startswith(".z") or file.suffix == ".json":
                file.write_bytes(changed_json(good, rng))
            else:
                file.write_bytes(change(good, rng))
            if rng.random() < 0.3:
                return outcome(lambda: Bags.scan(path, bag="bag", label="label").load())
            return outcome(lambda: read_bags(path, bag="bag", label="label"))
        finally:
            file.write_bytes(good)

    return one


def changed_json(content, rng):
    """Put a value in the place of another one."""
    value = content.decode()
    marks = [at for at, sign in enumerate(value) if sign in ",:[]{}"]
    start = marks[rng.integers(len(marks))] + 1
    stop = next((at for at in marks if at >= start), len(value))
    return (value[:start] + str(rng.choice(JSON_PIECES)) + value[stop:]).encode()


def prepare_cohort(folder):
    """Change the table of labels, or one of the files of a folder of slides."""
    warnings.simplefilter("ignore")
    root = folder / "cohort"
    root.mkdir(exist_ok=True)
    np.save(root / "a.npy", VALUES)
    np.savez(root / "b.npz", features=VALUES)
    tensor_file(root / "c.pt", VALUES)
    table = folder / "table.csv"
    table.write_text(TABLE)
    files = [table, *sorted(root.iterdir())]

    def one(seed):
        rng = np.random.default_rng([seed, 5])
        file = files[int(rng.integers(2 * len(files))) % len(files) if rng.random() < 0.7 else 0]
        good = file.read_bytes()
        packed = changed_archive if file.suffix in (".npz", ".pt") else None
        choice = {"missing": str(rng.choice(["raise", "drop"])), "empty": "drop"}
        choice["level"] = str(rng.choice(["slide", "patient"]))
        try:
            file.write_bytes(change(good, rng, packed=packed, pieces=file is table))
            return outcome(lambda: read_cohort(root, table, **choice))
        finally:
            file.write_bytes(good)

    return one


TARGETS = {
    "pt": prepare_tensors, "xlsx": prepare_workbook, "h5ad": prepare_h5ad, "zarr": prepare_zarr,
    "cohort": prepare_cohort,
}  # fmt: skip

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(__file__, TARGETS, inputs=20_000)
