"""Files are written atomically."""

import os
import stat
import threading

import pytest

from pigmil._core.files import atomic_write


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_devices_pipes_folders_and_circles_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    before = os.stat(os.devnull)
    for path, message in (
        (os.devnull, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "folder", "a folder cannot be replaced"),
        (tmp_path / "a", "symbolic links"),
    ):
        with pytest.raises(OSError, match=message), atomic_write(path):
            pass
    assert names(tmp_path) == ["a", "b", "folder", "pipe"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert os.stat(os.devnull).st_rdev == before.st_rdev


def test_a_link_stays_and_the_file_behind_it_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    for text in ("new", "again"):  # at first the link leads to a name without a file
        with atomic_write(tmp_path / "link") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_text() == text
    assert names(tmp_path) == ["far", "link"]
    assert names(tmp_path / "far") == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        # A private file is private while it is written too.
        assert stat.S_IMODE(temporary.stat().st_mode) & ~mode == 0
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_the_umask(tmp_path):
    mask = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "file") as temporary:
            temporary.write_text("new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_file_and_folder_are_flushed_before_and_after_the_replacement(tmp_path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def noted_replace(*paths):
        steps.append("replace")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    with atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert steps == ["file", "replace", "folder"]


def test_a_write_that_fails_leaves_the_old_file_and_names_the_target(tmp_path):
    (tmp_path / "notes").write_text("old")

    def write():
        with atomic_write(tmp_path / "notes") as temporary:
            temporary.write_text("new")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*notes") as caught:
        write()
    assert caught.value.errno == 28
    assert (tmp_path / "notes").read_text() == "old"
    assert names(tmp_path) == ["notes"]


def test_long_names(tmp_path):
    for name in ("x" * 255, "é" * 120 + ".csv", "a." + "b" * 250):
        with atomic_write(tmp_path / name) as temporary:
            temporary.write_text("new")
        assert (tmp_path / name).read_text() == "new"


def test_threads_that_write_one_file(tmp_path):
    def write(number):
        with atomic_write(tmp_path / "file") as temporary:
            temporary.write_text(str(number) * 1000)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = (tmp_path / "file").read_text()
    assert text in [str(number) * 1000 for number in range(8)]
    assert names(tmp_path) == ["file"]
