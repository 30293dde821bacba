"""Downloads from a server on this machine: announced, retried, verified, written atomically."""

import logging
import os

import pytest

from pigmil._core.errors import DataSetError
from pigmil.datasets import _fetch as fetch
from pigmil.datasets._fetch import cache_folder, fetch_file
from pigmil.datasets._registry import SourceFile

from .conftest import sha256

CONTENT = b"bags and bags"


def source(address, size=None):
    return SourceFile("tiny.dat", sha256(CONTENT), address, size)


def test_one_line_says_what_from_where_and_how_large(server, tmp_path, no_sleep, caplog):
    address, answers, _ = server
    answers.append((200, CONTENT))
    with caplog.at_level(logging.WARNING, "pigmil"):
        fetch_file(source(address, 2_340_000), tmp_path / "new")
    assert caplog.messages == [f"fetching tiny.dat (2.3 MB) from {address}"]
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["tiny.dat"]
    assert (tmp_path / "new" / "tiny.dat").read_bytes() == CONTENT
    assert no_sleep == [0]


@pytest.mark.parametrize("first", [(503, b"busy"), (200, b"cut off")])
def test_a_failing_answer_is_tried_again(server, tmp_path, no_sleep, first):
    address, answers, asked = server
    answers += [first, (200, CONTENT)]
    fetch_file(source(address), tmp_path)
    assert (tmp_path / "tiny.dat").read_bytes() == CONTENT
    assert next(asked) == 2
    assert no_sleep == [0, 1]


@pytest.mark.parametrize(
    ("answer", "size", "message"),
    [
        ((404, b"gone"), None, "404"),
        ((200, b"something else"), None, "expected .* Nothing was kept"),
        ((200, CONTENT + bytes(1 << 20)), len(CONTENT), "longer than the expected 13 bytes"),
        ((200, CONTENT + bytes(1 << 20)), None, "longer than the expected 65536 bytes"),
    ],
)
def test_giving_up_leaves_nothing_behind(
    server, tmp_path, no_sleep, monkeypatch, answer, size, message
):
    address, answers, asked = server
    answers.append(answer)
    monkeypatch.setattr(fetch, "_MAX_BYTES", 1 << 16)
    with pytest.raises(DataSetError, match=f"{address} could not be downloaded: .*{message}"):
        fetch_file(source(address, size), tmp_path)
    assert next(asked) == len(no_sleep) == 4
    assert list(tmp_path.iterdir()) == []


def test_without_a_connection_nothing_is_tried_again(tmp_path, no_sleep):
    with pytest.raises(DataSetError, match=r"http://127\.0\.0\.1:9/x could not be downloaded"):
        fetch_file(source("http://127.0.0.1:9/x"), tmp_path)
    assert no_sleep == [0]


def test_cache_is_where_the_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name in ("pigmil", "Cache")
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert cache_folder() == tmp_path / "pigmil"
