"""The registry: complete entries, clear answers to wrong names, agreement with the data folder."""

import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from pigmil import Bags, datasets
from pigmil._core.errors import DataSetError
from pigmil.datasets import content_sha256
from pigmil.datasets._loading import read_wheel_csv
from pigmil.datasets._registry import check_content

from .conftest import CSV

NAMES = datasets.list_datasets()
SHA256 = re.compile(r"[0-9a-f]{64}")


@pytest.mark.parametrize("name", NAMES)
def test_entry_is_complete(name):
    entry = datasets.info(name)
    assert entry.name == name
    assert entry.positive + entry.negative == entry.bags <= entry.instances
    assert entry.title
    assert entry.licence
    assert re.search(r"\((19|20)\d\d\)", entry.citation)
    assert SHA256.fullmatch(entry.content_sha256)
    assert entry.parquet_sha256 or entry.wheel_member
    for file in entry.files:
        assert SHA256.fullmatch(file.sha256)
        assert file.address.startswith("https://")
        assert file.address.endswith(file.name)
    if entry.reader is not None:
        assert len(entry.files) == 1
    if entry.wheel_member is not None:
        assert SHA256.fullmatch(entry.wheel_member_sha256)
        assert entry.wheel_csv.endswith(".csv")


def test_unknown_name():
    with pytest.raises(DataSetError, match=r"named 'musk3'\. Did you mean musk") as e:
        datasets.info("musk3")
    assert "Known: musk1, musk2" in str(e.value)
    with pytest.raises(DataSetError, match=r"named 'zzz'\. Known"):
        datasets.load_dataset("zzz")


def bags_of(x=1.0, **changes):
    parts = {"y": [1, -1], "instance_labels": [1, -1, -1], "ids": ["a", "b"], **changes}
    return Bags([[x], [2.0], [3.0]], [0, 2, 3], **parts)


class TestContent:
    def test_by_hand(self):
        raw = np.array([0, 2, 3], "<i8").tobytes() + bytes([1, 255]) + bytes([1, 255, 255])
        raw += np.array([1.0, 2.0, 3.0], "<f8").tobytes()
        assert content_sha256(bags_of()) == hashlib.sha256(raw).hexdigest()

    def test_ids_do_not_count_but_labels_and_values_do(self):
        known = content_sha256(bags_of())
        assert content_sha256(bags_of(ids=[1, 2])) == known
        changes = [{"x": 1.5}, {"y": [1, 1]}, {"instance_labels": [-1, 1, -1]}]
        for change in (*changes, {"instance_labels": None}):
            assert content_sha256(bags_of(**change)) != known

    def test_differences_are_reported_together(self):
        entry = datasets.info("musk1")
        with pytest.raises(DataSetError) as caught:
            check_content(bags_of(), entry, "here.csv")
        assert str(caught.value).splitlines() == [
            "The data set 'musk1' read from here.csv cannot be used:",
            "- It has 2 bags; the registry expects 92.",
            "- It has 1 positive bags; the registry expects 47.",
            "- It has 1 negative bags; the registry expects 45.",
            "- It has 3 instances; the registry expects 476.",
            "- It has 1 features; the registry expects 166.",
            "- It has instance labels, unlike what the registry expects.",
        ]


@pytest.mark.parametrize("name", NAMES)
class TestAgainstTheDataFolder:
    """Counts and checksums of the manifest, and of the bags themselves."""

    def test_manifest(self, name, data_dir):
        manifest = json.loads((data_dir / "manifest.json").read_text("utf-8"))
        entry = datasets.info(name)
        if name not in manifest:
            assert entry.parquet_sha256 is None  # comes with the wheel only
            return
        listed = manifest[name]
        same = ("parquet_sha256", "licence", "bags", "instances", "features")
        assert [getattr(entry, key) for key in same] == [listed[key] for key in same]
        assert (entry.positive, entry.negative) == (listed["bags_pos"], listed["bags_neg"])
        assert entry.instance_labels == (listed["instance_labels"] == "complete")
        known = {source["sha256"] for source in listed["source"]}
        assert {file.sha256 for file in entry.files} <= known

    def test_loads_by_name(self, name, data_dir, monkeypatch):
        entry = datasets.info(name)
        monkeypatch.setenv("PIGMIL_DATA", str(data_dir))
        if entry.parquet_sha256 is None:
            assert not (data_dir / f"{name}.parquet").exists()
            return
        bags = datasets.load_dataset(name, download=False)  # counts are compared inside
        assert bags.is_sparse == entry.sparse
        if entry.instance_labels:
            best = np.maximum.reduceat(bags.instance_labels, bags.offsets[:-1])
            np.testing.assert_array_equal(best, bags.y)
        else:
            assert bags.instance_labels is None


def test_every_file_of_the_data_folder_is_known(data_dir):
    assert {file.stem for file in data_dir.glob("*.parquet")} <= set(NAMES)


@pytest.mark.parametrize(
    "name", ["musk1", "tiger", "eastwest", "mutagenesis_atoms", "newsgroups11_hockey", "trec9_1"]
)
def test_published_files_give_the_same_bags(name, data_dir, monkeypatch, tmp_path):
    original = data_dir / "original" / datasets.info(name).source_file.name
    assert original.is_file()
    monkeypatch.delenv("PIGMIL_DATA")
    (tmp_path / original.name).symlink_to(original)
    bags = datasets.load_dataset(name, tmp_path, download=False)  # the content is compared inside
    assert len(bags) == datasets.info(name).bags


def test_wheel_labels_are_replaced_only_where_they_are_wrong(tiny, tmp_path):
    (tmp_path / "x.csv").write_bytes(CSV)
    for known, y in (("2-3", [-1, 1, 1]), (None, [1, -1, -1])):
        entry = replace(tiny, wheel_positive=known)
        assert read_wheel_csv(tmp_path / "x.csv", entry).y.tolist() == y
