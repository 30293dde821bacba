"""Files as ``torch.save`` writes them, written by hand: a zip file with a pickle and values."""

import pickle
import struct
import zipfile

import numpy as np

STORAGES = {"f8": "Double", "f4": "Float", "f2": "Half", "i8": "Long", "i4": "Int", "i2": "Short",
            "i1": "Char", "u1": "Byte", "b1": "Bool"}  # fmt: skip


def text(value):
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def integer(value):
    return b"J" + struct.pack("<i", value)


def integers(values):
    return b"(" + b"".join(map(integer, values)) + b"t"


def described(values, key="0", *, storage=None, shape=None, strides=None, offset=0, n=None):
    """The instructions that build one tensor, as torch's own pickler writes them."""
    kind = storage or STORAGES[values.dtype.str[1:]]
    steps = [step // values.itemsize for step in values.strides] if strides is None else strides
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\nq\x00("
        + b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"Storage\nq\x01"
        + text(key) + text("cpu") + integer(values.size if n is None else n) + b"tQ"
        + integer(offset) + integers(values.shape if shape is None else shape) + integers(steps)
        + b"\x89ccollections\nOrderedDict\nq\x02)RtR"
    )  # fmt: skip


def archive(path, description, **values):
    """Write an archive with this description and these members."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"\x80\x02" + description + b".")
        for key, array in values.items():
            raw = array if isinstance(array, bytes) else array.tobytes()
            file.writestr(f"archive/data/{key.removeprefix('_')}", raw)
        file.writestr("archive/version", "3\n")
    return path


def tensor_file(path, values, **changes):
    """Write one tensor."""
    values = np.ascontiguousarray(values)
    return archive(path, described(values, **changes), _0=values)


def pickled(value):
    return pickle.dumps(value, protocol=2)[2:-1]
