"""Files are written atomically."""

import os
import re
import stat
import threading
from collections import Counter
from pathlib import Path

import pytest

import pigmil
from pigmil._core.files import atomic_write


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_device_is_not_replaced(tmp_path):
    before = os.stat(os.devnull)
    with pytest.raises(OSError, match="not a regular file"), atomic_write(os.devnull):
        pass
    assert os.stat(os.devnull).st_rdev == before.st_rdev


def test_a_pipe_and_a_folder_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="not a regular file"), atomic_write(tmp_path / "pipe"):
        pass
    with pytest.raises(IsADirectoryError), atomic_write(tmp_path / "folder"):
        pass
    assert names(tmp_path) == ["folder", "pipe"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


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


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), atomic_write(tmp_path / "a"):
        pass


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


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("old")

    def write():
        with atomic_write(tmp_path / "file") as temporary:
            temporary.write_text("new")
            monkeypatch.setattr(os, "replace", None)

    with pytest.raises(TypeError):
        write()
    assert (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_the_error_names_the_target(tmp_path):
    def write():
        with atomic_write(tmp_path / "notes"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: .*notes") as caught:
        write()
    assert caught.value.errno == 28
    assert names(tmp_path) == []


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


# Calls that create files, and what they may write to: a temporary path of the writers of
# pigmil._core.files, memory, or a folder whose files are moved to their places together.
CREATES = re.compile(
    r"""write_text\(|write_bytes\(|savefig\(|\.to_csv\(|\.to_parquet\(|np\.savez?\(|File\(.*"w"|"""
    r"""\bopen\((?:[^()]*,\s*)?"(?:w|a|x)b?"|ParquetWriter\(|\.write_table\(|\.dump\("""
)
SAFE = ("temporary", "buffer", "sink", "names_file", "data_file", "os.devnull", "/proc/self", ">>>",
        "... ", "console.write_table")  # fmt: skip
SAFE_LINES = {
    "evaluation/_results.py": 1,  # to text
    "io/_write.py": 1,  # to memory
    "datasets/_fetch.py": 2,  # to temporary files
}


def test_every_file_is_written_by_the_writers_of_this_module():
    root = Path(pigmil.__file__).parent
    found = Counter()
    for path in sorted(root.rglob("*.py")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if CREATES.search(line) and not any(word in line for word in SAFE):
                found[path.relative_to(root).as_posix()] += 1
    assert dict(found) == SAFE_LINES
