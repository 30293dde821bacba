"""Mutated data files of every format that is written: `python tests/fuzz/fuzz_formats.py`.

An escape is a process that dies or runs into a limit, an error that is no BagFormatError, and
bags that contradict themselves.
"""

import io
import struct
import sys
import warnings
import zipfile
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.append(str(Path(__file__).parent))

from _frame import main

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import formats

TEXT = ("csv", "tsv", "arff", "keel", "uci", "sparse_mil", "nju", "svmlight")
# Without packing or checksums damage reaches the code that interprets the values.
RAW = {
    "npz": {"compress": False},
    "mat": {"compress": False},
    "parquet": {"compression": "none"},
    "parquet_list": {"compression": "none"},
    "h5": {"compression": "gzip"},
}
PIECES = (
    "'", '"', "\\", "\\u12", "\\'", "{", "}", "{0 1}", "{}", ",", ",,", ";", "\t", " ", "\n", "\r",
    "\r\n", "\n\n", "\x1c", "\x85", "\u2028", "\ufeff", "\0", "%", "#", "|", ":", "?", ".", "nan",
    "inf", "-inf", "1e999", "1e-999", "1e308", "1_0", "0x1", "+", "-", "--1", "007", "१", "é",
    "9" * 30, "9" * 400, "a" * 5000, "999999999999:1", "0:1", "-1:1", "2147483646:1", "qid:",
    "qid:-1", "@data", "@end", "@end bag", "@attribute x numeric", "@attribute b relational",
    "@attribute 'x", "@attribute y {", "@relation", "@outputs x", "bag", "bag_label", "class",
    "=cmd()", "True", "None", "../../x", "i1,", "1:nan", "1:", ":1",
)  # fmt: skip
NUMBERS = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
           2**40, 2**62, 2**63 - 1)  # fmt: skip
SHAPES = ("(0,)", "(1,)", "(-1,)", "(2, 3)", "(999999999, 9)", "(2**3,)", "()", "(1, 1, 1)",
          "(9999999999999999999,)", "(True,)", "'x'", "[6, 3]")  # fmt: skip
TYPES = ("<f8", ">f8", "<f4", "<f2", "|O", "<U7", "|S3", "<c16", "|V8", "<M8[s]", "|b1", "<i8",
         "|u1", "<f16", "<U0")  # fmt: skip


def samples():
    """Bags with whole numbers only, with everything, and sparse ones."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3)).round(2)
    yield Bags(values, [0, 2, 5, 6], ids=[4, 7, 1], y=[1, 0, 1])
    yield Bags(
        values.astype(np.float32), [0, 2, 5, 6], ids=["a", "bé", "c"], y=["n", "p", "n"],
        instance_labels=["n", "n", "p", "n", "n", "n"], feature_names=["u", "v", "w"],
    )  # fmt: skip
    sparse = sp.csr_array(np.where(values > 0, values, 0))
    yield Bags(sparse, [0, 1, 4, 6], ids=[1, 2, 3], y=[0.5, 1.5, 0.5])


def contents(name, folder):
    """Return good files of a format, as bytes."""
    path = folder / f"good_{name}{formats()[name].suffixes[0]}"
    found = []
    for bags in samples():
        for options in ({}, RAW.get(name, {})):
            numbered = {"number_ids": True} if name == "svmlight" else {}
            lossy = {} if name == "npz" else {"lossy": True}
            try:
                write_bags(bags, path, format=name, **options, **lossy, **numbered)
            except BagFormatError:  # the format has no place for text labels, say
                continue
            found.append(path.read_bytes())
    path.unlink()
    path.with_suffix(".names").unlink(missing_ok=True)
    return found


def prepare(name, folder):
    """Return the function that tries one mutation of a format."""
    warnings.simplefilter("ignore")
    good = contents(name, folder)
    path = folder / f"mutated_{name}{formats()[name].suffixes[0]}"
    options = ({}, {"missing": "keep"}, {"dtype": "float32"}, {"labels": "signs"}, {"ids": str})
    more = {"arff": {"nominal": "one_hot"}, "keel": {"nominal": "codes"}, "h5": {"trusted": False},
            "svmlight": {"columns": "used"}, "sparse_mil": {"columns": "used"},
            "csv": {"header": False, "bag": 0, "label": 1}}  # fmt: skip
    choices = (*options, more.get(name, {}))

    def one(seed):
        rng = np.random.default_rng([seed, len(name)])
        path.write_bytes(mutated(name, good, rng))
        chosen = choices[rng.integers(len(choices))]
        try:
            # Sometimes the format has to be detected.
            read = read_bags(path, format=name if rng.random() < 0.8 else None, **chosen)
        except BagFormatError as error:
            return "refused" if path.stem in str(error) else f"escape: no file in '{error}'"
        except TypeError as error:
            if "does not take" in str(error):  # detected as another format
                return "refused"
            return f"escape: TypeError: {error}"
        except Exception as error:
            return f"escape: {type(error).__name__}: {error}"
        return contradiction(read, chosen) or "accepted"

    return one


def contradiction(bags, chosen):
    """Return what is wrong with bags that were accepted."""
    if bags.offsets[0] != 0 or (np.diff(bags.offsets) < 1).any():
        return "escape: offsets"
    if bags.offsets[-1] != bags.instances.shape[0]:
        return "escape: offsets do not fit the instances"
    values = bags.instances.data if bags.is_sparse else np.asarray(bags.instances)
    if np.isinf(values).any() or (np.isnan(values).any() and chosen.get("missing") != "keep"):
        return "escape: values that are not finite"
    if len(set(bags.ids.tolist())) < bags.n_bags:
        return "escape: ids repeat"
    return None


def mutated(name, good, rng):
    """Return a mutated file: some bytes, pieces of text, or parts of its structure."""
    content = good[rng.integers(len(good))]
    for _ in range(rng.choice([1, 1, 2, 4])):
        kind = rng.random()
        if not content:
            break
        if kind < 0.3:
            content = changed_bytes(content, rng)
        elif kind < 0.45:
            content = spliced(content, good[rng.integers(len(good))], rng)
        elif name in TEXT:
            content = changed_text(content, rng)
        elif name == "npz":
            content = changed_archive(content, rng)
        elif name.startswith("mat") and rng.random() < 0.5:
            content = changed_matlab(content, rng)
        else:
            content = changed_number(content, rng)
    return content


def changed_bytes(content, rng):
    """Flip bits, set bytes, or cut."""
    changed = bytearray(content)
    if rng.random() < 0.2:
        start, stop = sorted(rng.integers(0, len(changed) + 1, 2).tolist())
        del changed[start:stop]
        return bytes(changed)
    for _ in range(rng.integers(1, 9)):
        place = rng.integers(len(changed))
        changed[place] = rng.integers(256) if rng.random() < 0.5 else changed[place] ^ (
            1 << int(rng.integers(8))
        )  # fmt: skip
    return bytes(changed)


def spliced(content, other, rng):
    """Put a stretch of one file into another, or repeat it."""
    start, stop = sorted(rng.integers(0, len(other) + 1, 2).tolist())
    place = int(rng.integers(len(content) + 1))
    copies = int(rng.choice([1, 1, 2, 50]))
    return content[:place] + other[start : min(stop, start + 2000)] * copies + content[place:]


def changed_text(content, rng):
    """Insert or replace pieces that mean something to a reader, or exchange lines and cells."""
    text = content.decode("utf-8", "surrogateescape")
    kind = rng.integers(4)
    if kind <= 1:
        place = int(rng.integers(len(text) + 1))
        piece = PIECES[rng.integers(len(PIECES))] * int(rng.choice([1, 1, 1, 3, 300]))
        text = text[:place] + piece + text[place + int(rng.integers(3)) :]
    else:
        mark = "\n" if kind == 2 else rng.choice([",", " ", "\t", ":"])
        parts = text.split(mark)
        first, second = rng.integers(len(parts), size=2)
        parts[first] = rng.choice([parts[second], PIECES[rng.integers(len(PIECES))], ""])
        text = str(mark).join(parts)
    return text.encode("utf-8", "surrogateescape")


def changed_number(content, rng):
    """Write a whole number at a place, as lengths and offsets are stored."""
    size = int(rng.choice([1, 2, 4, 8]))
    if len(content) <= size:
        return content
    value = NUMBERS[rng.integers(len(NUMBERS))] & ((1 << 8 * size) - 1)
    place = int(rng.integers(len(content) - size))
    place -= place % size if rng.random() < 0.7 else 0
    order = "little" if rng.random() < 0.8 else "big"
    return content[:place] + value.to_bytes(size, order) + content[place + size :]


def changed_archive(content, rng):
    """Change a member of an ``.npz`` and pack it again, with the right checksum."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {one: archive.read(one) for one in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, KeyError,
            NotImplementedError, RuntimeError, struct.error):  # fmt: skip
        return changed_bytes(content, rng)
    if not members:
        return content
    names = list(members)
    name, other = (names[place] for place in rng.integers(len(names), size=2))
    kind = rng.integers(5)
    if kind == 0:
        members[name] = members[other]
    elif kind == 1:
        del members[name]
    elif kind == 2:
        head, _, body = members[name].partition(b"\n")
        shape, dtype = SHAPES[rng.integers(len(SHAPES))], TYPES[rng.integers(len(TYPES))]
        text = f"{{'descr': '{dtype}', 'fortran_order': {rng.random() < 0.5}, 'shape': {shape}, }}"
        head = text.ljust(117).encode() + b"\n"
        members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + body
    elif kind == 3:
        members[name] = changed_number(members[name], rng)
    else:
        members[name] = changed_bytes(members[name], rng)
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if rng.random() < 0.5 else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for one, value in members.items():
            archive.writestr(one, value)
    return buffer.getvalue()


def changed_matlab(content, rng):
    """Change an element of a MATLAB file and pack it again, with the right checksum."""
    if len(content) < 140:
        return changed_bytes(content, rng)
    at, parts = 128, []
    while at + 8 <= len(content):
        kind, size = struct.unpack_from("<II", content, at)
        parts.append((kind, content[at + 8 : at + 8 + size]))
        at += 8 + size
    place = rng.integers(len(parts))
    kind, body = parts[place]
    try:
        inner = zlib.decompress(body) if kind == 15 else body
    except zlib.error:
        return changed_bytes(content, rng)
    inner = changed_number(inner, rng) if rng.random() < 0.7 else changed_bytes(inner or b"0", rng)
    parts[place] = (kind, zlib.compress(inner) if kind == 15 else inner)
    packed = [struct.pack("<II", kind, len(body)) + body for kind, body in parts]
    return content[:128] + b"".join(packed)


TARGETS = {name: partial(prepare, name) for name in formats()}

if __name__ == "__main__":
    main(__file__, TARGETS, inputs=20_000)
