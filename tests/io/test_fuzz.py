"""Damaged and hostile bytes: every reader returns bags or a BagFormatError, and soon."""

import signal
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import formats


@contextmanager
def within(seconds: float):
    """Raise TimeoutError where the body takes longer."""

    def late(signum, frame):
        raise TimeoutError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def survives(path, content: bytes, format_name: str, options: dict) -> bool:
    """Whether the content was refused; anything but bags or a BagFormatError is raised."""
    path.write_bytes(content)
    try:
        with within(10):
            bags = read_bags(path, format=format_name, **options)
    except BagFormatError as error:
        message = str(error)
    else:
        assert isinstance(bags, Bags)
        return False
    assert path.stem in message
    return True


def test_cut_anywhere(written, format_name, read_options):
    content = written.read_bytes()
    cuts = sorted({*range(0, 40), *np.linspace(0, len(content) - 1, 60).astype(int).tolist()})
    refused = sum(survives(written, content[:cut], format_name, read_options) for cut in cuts)
    assert refused > len(cuts) // 3  # text may be cut between rows and still be a good file


def test_flipped_bytes(written, format_name, read_options):
    content = np.frombuffer(written.read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(120):
        damaged = content.copy()
        places = rng.integers(len(content), size=rng.integers(1, 6))
        damaged[places] = rng.integers(256, size=len(places))
        refused += survives(written, damaged.tobytes(), format_name, read_options)
    assert refused > 0


def test_moved_and_doubled_parts(written, format_name, read_options):
    content = written.read_bytes()
    rng = np.random.default_rng(2)
    refused = 0
    for _ in range(60):
        first, second, third = sorted(rng.integers(len(content), size=3).tolist())
        pieces = [content[:first], content[first:second], content[second:third], content[third:]]
        order = rng.permutation(4) if rng.random() < 0.5 else [0, 1, 1, 2, 3]
        mixed = b"".join(pieces[place] for place in order)
        refused += survives(written, mixed, format_name, read_options)
    assert refused > 0


@pytest.mark.parametrize("seed", range(4))
def test_noise(written, format_name, read_options, seed):
    rng = np.random.default_rng(seed)
    noise = rng.integers(256, size=int(rng.integers(1, 3000)), dtype=np.uint8).tobytes()
    assert survives(written, noise, format_name, read_options)
    start = written.read_bytes()[:16]
    assert survives(written, start + noise, format_name, read_options)


def test_ascii_noise(written, format_name, read_options):
    rng = np.random.default_rng(5)
    signs = np.frombuffer(b"0123456789.,:;-+eE \t\n\"'{}@%?|nai\\qd", dtype=np.uint8)
    for size in (1, 10, 100, 1000, 5000):
        noise = rng.choice(signs, size=size).tobytes()
        assert survives(written, noise, format_name, read_options)


RAW = {  # without checksums or packing, so that damage reaches what interprets the values
    "npz": {"compress": False},
    "mat": {"compress": False},
    "parquet": {"compression": "none"},
    "parquet_list": {"compression": "none"},
    "h5": {"compression": "gzip"},
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", RAW)
def test_flipped_bytes_of_binary_files(name, sparse, tmp_path):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(6, 3)).round(1)
    bags = Bags(
        sp.csr_array(values) if sparse else values, [0, 2, 5, 6], ids=["a", "bé", "c"],
        y=["n", "p", "n"], instance_labels=["n", "n", "p", "n", "n", "n"],
        feature_names=["u", "v", "w"],
    )  # fmt: skip
    path = tmp_path / f"raw{formats()[name].suffixes[0]}"
    write_bags(bags, path, format=name, **RAW[name])
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    refused = 0
    for _ in range(150):
        damaged = content.copy()
        places = rng.integers(len(content), size=rng.integers(1, 8))
        damaged[places] = rng.choice([0, 1, 127, 128, 255, *rng.integers(256, size=5)], len(places))
        refused += survives(path, damaged.tobytes(), name, {})
    assert refused > 0


def test_empty(written, format_name):
    written.write_bytes(b"")
    with pytest.raises(BagFormatError, match="is empty"):
        read_bags(written, format=format_name)
