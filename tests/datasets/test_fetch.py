"""Downloads from a server on this machine: retried, verified, written atomically."""

import os

import pytest

from pigmil._core.errors import DataSetError
from pigmil.datasets import _fetch as fetch
from pigmil.datasets._fetch import cache_folder, fetch_file

from .conftest import sha256

CONTENT = b"bags and bags"


def test_download_and_keep(server, tmp_path, no_sleep):
    address, answers, asked = server
    answers.append((200, CONTENT))
    path = fetch_file(address, sha256(CONTENT), "tiny.dat", tmp_path / "new")
    assert path.read_bytes() == CONTENT
    assert fetch_file(address, sha256(CONTENT), "tiny.dat", tmp_path / "new") == path
    assert next(asked) == 1  # the second time nothing was asked
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["tiny.dat"]
    assert no_sleep == []


@pytest.mark.parametrize("first", [(503, b"busy"), (200, b"cut off")])
def test_a_failing_answer_is_tried_again(server, tmp_path, no_sleep, first):
    address, answers, asked = server
    answers += [first, (200, CONTENT)]
    assert fetch_file(address, sha256(CONTENT), "x", tmp_path).read_bytes() == CONTENT
    assert next(asked) == 2
    assert len(no_sleep) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [((404, b"gone"), "404"), ((200, b"something else"), "does not match the known hash")],
)
def test_giving_up_leaves_nothing_behind(server, tmp_path, no_sleep, answer, message):
    address, answers, asked = server
    answers.append(answer)
    with pytest.raises(DataSetError, match=message) as caught:
        fetch_file(address, sha256(CONTENT), "x", tmp_path)
    assert str(caught.value).startswith(f"{address} could not be downloaded: ")
    assert next(asked) == 1 + fetch.RETRIES
    assert list(tmp_path.iterdir()) == []


def test_a_download_stops_at_the_expected_size(server, tmp_path, no_sleep, monkeypatch):
    address, answers, _ = server
    answers.append((200, CONTENT + bytes(1 << 22)))
    size = len(CONTENT)
    with pytest.raises(DataSetError, match=f"longer than the expected {size} bytes"):
        fetch_file(address, sha256(CONTENT), "x", tmp_path, size)
    monkeypatch.setattr(fetch, "_MAX_BYTES", 1 << 20)
    answers.append((200, CONTENT + bytes(1 << 22)))
    with pytest.raises(DataSetError, match="longer than the expected 1048576 bytes"):
        fetch_file(address, sha256(CONTENT), "x", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_replaced(server, tmp_path, no_sleep):
    address, answers, _ = server
    answers.append((200, CONTENT))
    (tmp_path / "x").write_bytes(b"damaged")
    assert fetch_file(address, sha256(CONTENT), "x", tmp_path).read_bytes() == CONTENT


def test_offline_the_error_comes_at_once_after_a_line_on_the_download(tmp_path, no_sleep, caplog):
    with pytest.raises(DataSetError, match=r"http://127\.0\.0\.1:9/x cannot be reached"):
        fetch_file("http://127.0.0.1:9/x", "0" * 64, "x", tmp_path, 2_500_000)
    assert not no_sleep
    assert caplog.messages == ["downloading x (2.5 MB) from http://127.0.0.1:9/x"]


def test_cache_is_where_the_system_keeps_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder().name in ("pigmil", "Cache")
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert cache_folder() == tmp_path / "pigmil"
