"""Mutated files of every format, read in isolation and without: `make fuzz`, `make fuzz N=20000`.

Read in isolation, a file is read or is a BagFormatError. Read without, no other exception of
Python may escape; a native parser may end its process, which is counted. One child reads many
inputs, and is replaced when it dies.
"""

import argparse
import io
import os
import shutil
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import cloudpickle
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pigmil import read_bags
from pigmil._core.errors import BagFormatError
from pigmil._core.isolation import Child, ChildError
from pigmil.io import _defence
from tests.io.samples import WRITERS, write_sample

TEXT = ("csv", "arff", "svm")
PIECES = (
    "'", '"', "\\", "{", "}", "{0 1}", ",", ",,", ";", "\t", "\n", "\r", "\n\n", "\x85", "\u2028",
    "\ufeff", "\0", "%", "#", ":", "?", ".", "nan", "inf", "1e999", "1_0", "0x1", "+", "-", "007",
    "१", "é", "9" * 400, "a" * 5000, "999999999999:1", "0:1", "-1:1", "qid:", "qid:-1", "@data",
    "@end bag", "@attribute x numeric", "@attribute b relational", "bag", "label", "=cmd()",
)  # fmt: skip
NUMBERS = (0, 1, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40,
           2**62, 2**63 - 1)  # fmt: skip
HEADERS = ("'shape': (999999999, 9)", "'shape': (-1,)", "'shape': ()", "'descr': '|O'",
           "'descr': '<U7'", "'descr': '<M8[s]'", "'descr': '|V8'", "'shape': (2, 3)")  # fmt: skip


def changed_bytes(content, rng):
    """Flip bits, set bytes, write lengths, cut out or repeat a stretch."""
    kind = rng.random()
    start, stop = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    if kind < 0.1:
        return content[:start] + content[stop:]
    if kind < 0.2:
        return content[:stop] + content[start : min(stop, start + 2000)] * int(rng.choice([1, 50]))
    if kind < 0.6:
        size = int(rng.choice([1, 2, 4, 8]))
        value = NUMBERS[rng.integers(len(NUMBERS))] & ((1 << 8 * size) - 1)
        start -= start % size
        return content[:start] + value.to_bytes(size, "little") + content[start + size :]
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 9)):
        changed[place] = rng.integers(256) if rng.random() < 0.5 else changed[place] ^ (
            1 << int(rng.integers(8))
        )  # fmt: skip
    return bytes(changed)


def changed_text(content, rng):
    """Insert pieces that mean something to a reader, or exchange lines and cells."""
    text = content.decode("utf-8", "surrogateescape")
    piece = PIECES[rng.integers(len(PIECES))]
    if rng.random() < 0.5:
        place = int(rng.integers(len(text) + 1))
        text = text[:place] + piece * int(rng.choice([1, 1, 300])) + text[place + 1 :]
    else:
        mark = rng.choice(["\n", ",", " ", ":"])
        parts = text.split(mark)
        first, second = rng.integers(len(parts), size=2)
        parts[first] = rng.choice([parts[second], piece, ""])
        text = str(mark).join(parts)
    return text.encode("utf-8", "surrogateescape")


def changed_archive(content, rng):
    """Change a member of a zip file and pack it again, with the right checksum."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, other = rng.choice(list(members), 2)
    kind = rng.random()
    if kind < 0.2:
        members[name] = members[other]
    elif kind < 0.5 and name.endswith(".npy"):
        old = b"'shape'" if "shape" in (new := rng.choice(HEADERS)) else b"'descr'"
        start = members[name].index(old)
        stop = members[name].index(b", '" if old == b"'descr'" else b"), ", start)
        stop += old == b"'shape'"
        members[name] = members[name][:start] + new.encode() + members[name][stop:]
    else:
        members[name] = changed_bytes(members[name] or b"0", rng)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for one, value in members.items():
            archive.writestr(one, value)
    return packed.getvalue()


def mutated(kind, content, rng):
    """Return a mutated file."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        try:
            if kind in TEXT and rng.random() < 0.7:
                content = changed_text(content, rng)
            elif kind in ("npz", "pt", "xlsx") and rng.random() < 0.7:
                content = changed_archive(content, rng)
            else:
                content = changed_bytes(content, rng)
        except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError, OSError,
                NotImplementedError, RuntimeError):  # fmt: skip
            pass  # damaged before
    return content or b"x"


def write_mutant(kind, good, path, rng):
    """Write a mutant of a good file, or of one file of a good folder."""
    if good.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(good, path)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        path, good = (files[rng.integers(len(files))],) * 2
    path.write_bytes(mutated(kind, good.read_bytes(), rng))


def outcome(path, isolated):
    """Read a file; return accepted, refused, stopped (a limit or a crash in isolation) or more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            bags = read_bags(path, isolated=isolated)
        except BagFormatError as error:
            message = str(error)
            if path.name not in message:
                return f"escape: no name of the file in {message[:200]}"
            return "stopped" if "in isolation" in message else "refused"
        except Exception as error:
            return f"escape: {type(error).__name__}: {error}"[:300]
    values = bags.instances.data if bags.is_sparse else bags.instances
    sound = (np.diff(bags.offsets) > 0).all() and bags.offsets[-1] == bags.instances.shape[0]
    finite = np.isfinite(values).all() and len(set(bags.ids.tolist())) == bags.n_bags
    return "accepted" if sound and finite else "escape: bags that contradict themselves"


def fuzz(kind, n_inputs, seed, folder, child, escapes):
    """Return the counts of one format, isolated and not."""
    good, counts = write_sample(kind, folder), (Counter(), Counter())
    path = folder / f"mutant.{kind}"
    for number in range(seed, seed + n_inputs):
        write_mutant(kind, good, path, np.random.default_rng([number, *kind.encode()]))
        try:
            plain = child.call(outcome, path, False)
        except ChildError:
            plain = "ended"
        for count, found in zip(counts, (outcome(path, True), plain), strict=True):
            if found.startswith("escape"):
                escapes.append(f"{kind} {number}: {found}")
            count[found.partition(":")[0]] += 1
    return counts


def main():
    """Fuzz the formats and print a table; end with status 1 if anything escaped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=500, help="inputs for each format")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--formats", nargs="+", choices=list(WRITERS), default=list(WRITERS))
    asked = parser.parse_args()
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    _defence.available_memory = lambda: 4 << 30  # half of it is the limit of the child
    _defence._SECONDS = 3.0  # the files are small
    escapes: list[str] = []
    print("| format | inputs | accepted | refused | stopped in isolation | ended a process "
          "without it | escapes |\n|---|--:|--:|--:|--:|--:|--:|")  # fmt: skip
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    child = Child(cpu_limit=3, memory_limit=2048, preload=("pigmil.io", "scipy.io"))
    for kind in asked.formats:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            isolated, plain = fuzz(kind, asked.inputs, asked.seed, Path(folder), child, escapes)
        print(f"| {kind} | {asked.inputs:,} | {isolated['accepted']:,} | {isolated['refused']:,} "
              f"| {isolated['stopped']:,} | {plain['ended']:,} "
              f"| {isolated['escape'] + plain['escape']:,} |", flush=True)  # fmt: skip
    for line in escapes[:50]:
        print(line, file=sys.stderr)
    sys.exit(1 if escapes else 0)


if __name__ == "__main__":
    main()
