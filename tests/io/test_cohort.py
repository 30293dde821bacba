"""Cohorts of slides: the folders that the tools write, with their tables."""

import os

import h5py
import numpy as np
import pandas as pd
import pytest

import pigmil
from pigmil import Bags, read_cohort
from pigmil._core.errors import BagFormatError

from .torch_files import tensor_file

SLIDES = {"s1": 3, "s2": 1, "s3": 2, "s4": 4}
LABELS = {"s1": 1, "s2": 0, "s3": 0, "s4": 1}
PATIENTS = {"s1": "p01", "s2": "p02", "s3": "p02", "s4": "p01"}


def features_of(name, dtype=np.float32):
    """Values that say which slide and which tile they are from."""
    number = int(name[1:])
    tiles = np.arange(SLIDES[name])[:, None]
    return (100 * number + 10 * tiles + np.arange(3)).astype(dtype)


def coords_of(name):
    return np.column_stack([np.arange(SLIDES[name]) * 512, np.full(SLIDES[name], int(name[1:]))])


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "slide_id": list(SLIDES),
            "label": [LABELS[name] for name in SLIDES],
            "patient": [PATIENTS[name] for name in SLIDES],
            "age": [63, 50, 50, 63],
        }
    )


def write_h5(path, features, coords=None, *, key="features", **attributes):
    with h5py.File(path, "w") as file:
        file.create_dataset(key, data=features)
        if coords is not None:
            held = file.create_dataset("coords", data=coords)
            for name, value in attributes.items():
                held.attrs[name] = value


def trident(root):
    folder = root / "20x_256px_0px_overlap" / "features_uni_v1"
    folder.mkdir(parents=True)
    (root / "20x_256px_0px_overlap" / "patches").mkdir()
    (root / "20x_256px_0px_overlap" / "slide_features_titan").mkdir()
    for name in SLIDES:
        write_h5(folder / f"{name}.h5", features_of(name), coords_of(name), patch_size=256,
                 patch_size_level0=512, target_magnification=20, level0_magnification=40,
                 overlap=0, level0_width=1000 + int(name[1:]), level0_height=900)  # fmt: skip
        # Coordinates alone, and one embedding per slide: not features of tiles.
        write_h5(folder.with_name("patches") / f"{name}_patches.h5", coords_of(name), key="coords")
        write_h5(folder.with_name("slide_features_titan") / f"{name}.h5", np.ones(768))
    return root


def clam_h5(root):
    for folder in ("h5_files", "pt_files"):
        (root / folder).mkdir()
    for name in SLIDES:
        write_h5(root / "h5_files" / f"{name}.h5", features_of(name), coords_of(name))
        tensor_file(root / "pt_files" / f"{name}.pt", features_of(name))
    return root


def clam_pt(root):
    (root / "pt_files").mkdir()
    for name in SLIDES:
        tensor_file(root / "pt_files" / f"{name}.pt", features_of(name))
    return root


def stamp(root):
    for name in SLIDES:
        write_h5(root / f"{name}.h5", features_of(name, np.float16), coords_of(name), key="feats")
        with h5py.File(root / f"{name}.h5", "a") as file:
            file.attrs["tile_size_um"] = 256.0
            file.attrs["extractor"] = "ctranspath"  # text of variable length: left alone
    return root


def slideflow(root):
    for name in SLIDES:
        tensor_file(root / f"{name}.pt", features_of(name))
        np.savez(root / f"{name}.index.npz", coords_of(name))
    return root


def torchmil(root):
    for folder in ("features/features_UNI", "labels", "patch_labels", "coords"):
        (root / "patches_512" / folder).mkdir(parents=True)
    base = root / "patches_512"
    for name in SLIDES:
        inner = np.zeros(SLIDES[name], dtype=int)
        inner[0] = LABELS[name]
        np.save(base / "features/features_UNI" / f"{name}.npy", features_of(name))
        np.save(base / "labels" / f"{name}.npy", np.array([LABELS[name]]))
        np.save(base / "patch_labels" / f"{name}.npy", inner[:, None])
        np.save(base / "coords" / f"{name}.npy", coords_of(name))
    (root / "splits.csv").write_text("bag_name,split\ns1,train\ns2,train\ns3,test\ns4,val\n")
    return root


def nested_npz(root):
    for name in SLIDES:
        folder = root / f"class{LABELS[name]}"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"{name}.npz", features=features_of(name), coords=coords_of(name))
    return root


LAYOUTS = (trident, clam_h5, clam_pt, stamp, slideflow, torchmil, nested_npz)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda one: one.__name__)
def test_every_layout_gives_the_same_bags(layout, tmp_path, table):
    bags = read_cohort(layout(tmp_path), table)
    assert bags.ids.tolist() == list(SLIDES)
    assert bags.y.tolist() == [1, 0, 0, 1]
    assert bags.dtype == np.float32
    for name in SLIDES:
        assert np.array_equal(bags[name], features_of(name))
    assert bags.bag_info["patient"].tolist() == ["p01", "p02", "p02", "p01"]
    assert bags.bag_info["age"].tolist() == [63, 50, 50, 63]
    if layout is not clam_pt:
        expected = np.concatenate([coords_of(name) for name in SLIDES])
        assert np.array_equal(bags.instance_info["coords"], expected)


def test_attributes_of_coordinates_stay_with_the_slide(tmp_path, table):
    bags = read_cohort(trident(tmp_path), table)
    assert bags.bag_info["patch_size_level0"].tolist() == [512] * 4
    assert bags[[3, 0]].bag_info["level0_width"].tolist() == [1004, 1001]


def test_attributes_of_the_file(tmp_path, table):
    root = stamp(tmp_path)
    assert read_cohort(root, table).bag_info["tile_size_um"].tolist() == [256.0] * 4
    assert "extractor" not in read_cohort(root, table).bag_info
    trusted = read_cohort(root, table, trusted=True)
    assert trusted.bag_info["extractor"].tolist() == ["ctranspath"] * 4


def test_slide_table_and_clinical_table(tmp_path):
    root = stamp(tmp_path)
    slide_table = pd.DataFrame(
        {"PATIENT": list(PATIENTS.values()), "FILENAME": [f"{name}.h5" for name in SLIDES]}
    )
    clinical = pd.DataFrame({"PATIENT": ["p02", "p01"], "MSI": ["MSS", "MSI-H"], "SEX": ["f", "m"]})
    for tables in ([slide_table, clinical], [clinical, slide_table]):
        bags = read_cohort(root, tables, label="MSI")
        assert bags.ids.tolist() == ["s1.h5", "s2.h5", "s3.h5", "s4.h5"]
        assert bags.y.tolist() == ["MSI-H", "MSS", "MSS", "MSI-H"]
        assert bags.bag_info["SEX"].tolist() == ["m", "f", "f", "m"]
    patients = read_cohort(root, [slide_table, clinical], label="MSI", level="patient")
    assert patients.ids.tolist() == ["p01", "p02"]


def test_torchmil_needs_no_table(tmp_path):
    bags = read_cohort(torchmil(tmp_path))
    assert bags.y.tolist() == [1, 0, 0, 1]
    assert bags.instance_labels.tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert bags.bag_info["split"].tolist() == ["train", "train", "test", "val"]


@pytest.mark.parametrize("style", ["names", "booleans"])
def test_splits_of_clam(tmp_path, table, style):
    files = tmp_path / "files"
    files.mkdir()
    text = ",train,val,test\n0,s1,s4,s3\n1,s2,,\n"
    if style == "booleans":
        text = (",train,val,test\ns1,True,False,False\ns2,True,False,False\ns3,False,False,True\n"
                "s4,False,True,False\n")  # fmt: skip
    (tmp_path / "splits_0.csv").write_text(text)
    bags = read_cohort(clam_h5(files), table, splits=tmp_path / "splits_0.csv")
    assert bags.bag_info["split"].tolist() == ["train", "train", "test", "val"]
    both = read_cohort(files, table, splits=[tmp_path / "splits_0.csv"] * 2)
    assert both.bag_info["split_1"].tolist() == ["train", "train", "test", "val"]


def test_bags_of_patients(tmp_path, table):
    bags = read_cohort(trident(tmp_path), table, level="patient")
    assert bags.ids.tolist() == ["p01", "p02"]
    assert bags.y.tolist() == [1, 0]
    assert np.array_equal(bags["p01"], np.concatenate([features_of("s1"), features_of("s4")]))
    assert bags.instance_info["slide_id"].tolist() == ["s1"] * 3 + ["s4"] * 4 + ["s2"] + ["s3"] * 2
    assert bags.bag_info["age"].tolist() == [63, 50]  # the same for all slides of a patient
    widths = bags.instance_info["level0_width"]  # differs between slides
    assert widths.tolist() == [1001] * 3 + [1004] * 4 + [1002] + [1003] * 2
    table.loc[3, "label"] = 0
    with pytest.raises(BagFormatError, match=r"1 patient have different labels: 'p01'"):
        read_cohort(tmp_path, table, level="patient")
    with pytest.raises(BagFormatError, match="name it with group="):
        read_cohort(tmp_path, table.drop(columns="patient"), level="patient")


def test_unmatched_slides_are_listed_on_both_sides(tmp_path, table):
    root = clam_pt(tmp_path)
    table.loc[0, "slide_id"] = "other"
    table.loc[1, "label"] = np.nan
    with pytest.raises(BagFormatError) as caught:
        read_cohort(root, table)
    message = str(caught.value)
    assert "1 slide of the table without features: 'other'." in message
    assert "1 slide with features but without a row in the table: 's1'." in message
    assert "1 slide without a label in the column 'label': 's2'." in message
    assert "missing='drop'" in message
    with pytest.warns(UserWarning, match="left out 1 slide of the table") as warned:
        bags = read_cohort(root, table, missing="drop")
    assert len(warned) == 1
    assert bags.ids.tolist() == ["s3", "s4"]


@pytest.mark.parametrize("shape", [(0, 3), (0,)])
def test_slides_without_tissue(tmp_path, table, shape):
    root = trident(tmp_path)
    file = root / "20x_256px_0px_overlap" / "features_uni_v1" / "s2.h5"
    write_h5(file, np.empty(shape, dtype=np.float32), np.empty((0, 2)))
    with pytest.raises(BagFormatError, match=r"1 slide without instances: 's2'.*\n.*empty='drop'"):
        read_cohort(root, table)
    with pytest.warns(UserWarning, match="left out 1 slide without instances: 's2'"):
        bags = read_cohort(root, table, empty="drop")
    assert bags.ids.tolist() == ["s1", "s3", "s4"]


def test_features_of_two_encoders(tmp_path, table):
    root = trident(tmp_path)
    other = root / "20x_256px_0px_overlap" / "features_resnet"
    other.mkdir()
    write_h5(other / "s1.h5", np.ones((2, 5)))
    with pytest.raises(BagFormatError, match=r"several feature files for 's1'.*features_resnet"):
        read_cohort(root, table)
    other.joinpath("s1.h5").rename(other / "s9.h5")
    table.loc[4] = ["s9", 1, "p09", 1]
    with pytest.raises(BagFormatError, match=r"'s9' has 5 features where 's1' has 3"):
        read_cohort(root, table)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "xlsx", "parquet", "semicolon.csv"])
def test_tables_of_every_kind(tmp_path, table, suffix):
    files = tmp_path / "files"
    files.mkdir()
    path = tmp_path / f"labels.{suffix}"
    table["slide_id"] = [f"{number}" for number in range(1, 5)]  # a spreadsheet makes numbers
    for number in range(1, 5):
        np.save(files / f"{number}.npy", features_of(f"s{number}"))
    if suffix == "xlsx":
        table["slide_id"] = table["slide_id"].astype(float)
        table.to_excel(path, index=False)
    elif suffix == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, sep={"tsv": "\t", "semicolon.csv": ";"}.get(suffix, ","), index=False)
    bags = read_cohort(files, path)
    assert bags.ids.tolist() == ["1", "2", "3", "4"]
    assert bags.y.tolist() == [1, 0, 0, 1]
    assert bags.bag_info["patient"].tolist() == ["p01", "p02", "p02", "p01"]


def test_codes_with_leading_zeros_stay_text(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((1, 2)))
    (tmp_path / "t.csv").write_text("slide_id,label,site,dose\na.svs,yes,007,1.5\n")
    bags = read_cohort(tmp_path, tmp_path / "t.csv")
    assert bags.bag_info["site"].tolist() == ["007"]
    assert bags.bag_info["dose"].tolist() == [1.5]
    assert bags.y.tolist() == ["yes"]


def test_bags_and_files_instead_of_a_folder(tmp_path, table):
    bags = Bags.from_list([features_of(name) for name in ("s3", "s1")], ids=["s3", "s1"])
    with pytest.raises(BagFormatError, match=r"2 slides of the table without features: 's2', 's4'"):
        read_cohort(bags, table)
    file = tmp_path / "bags.npz"
    pigmil.write_bags(bags, file)
    for features in (bags, file):
        with pytest.warns(UserWarning, match="left out 2 slides"):
            read = read_cohort(features, table, missing="drop")
        assert read.ids.tolist() == ["s1", "s3"]
        assert read.y.tolist() == [1, 0]
        assert read.bag_info["age"].tolist() == [63, 50]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"id": "name"}, r"no column 'name'; its columns are 'slide_id', .*with id="),
        ({}, {"label": "grade"}, r"no column 'grade'.*with label="),
        ({}, {"group": "site"}, r"no column 'site'.*with group="),
        ({}, {"level": "case"}, "level must be 'slide' or 'patient', got 'case'"),
        ({"slide_id": ["s1", "s1", "s3", "s4"]}, {}, r"several rows for 1 slide: 's1'"),
        ({"slide_id": ["s1", None, "s3", "s4"]}, {}, r"no slide_id in 1 row: 3"),
        ({"slide_id": list("abcd")}, {"missing": "drop"}, "none of its slides is listed in"),
    ],
)
def test_refused(tmp_path, table, change, options, message):
    root = clam_pt(tmp_path)
    with pytest.raises(BagFormatError, match=message):
        read_cohort(root, table.assign(**change), **options)


def test_folders_without_features(tmp_path):
    with pytest.raises(BagFormatError, match="no feature files"):
        read_cohort(tmp_path)
    (tmp_path / ".s1.h5.leftover.h5").write_bytes(b"cut")
    with pytest.raises(BagFormatError, match="no feature files"):
        read_cohort(tmp_path)
    os.mkfifo(tmp_path / "s1.h5")
    with pytest.raises(BagFormatError, match="is not a regular file"):
        read_cohort(tmp_path)


def test_memory_map(tmp_path, table):
    files = tmp_path / "files"
    files.mkdir()
    bags = read_cohort(clam_pt(files), table, memory_map=tmp_path / "all.npy")
    assert np.array_equal(np.load(tmp_path / "all.npy"), bags.instances)


def test_damaged_arrays(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[:-8])
    with pytest.raises(BagFormatError, match="cut short"):
        read_cohort(tmp_path)
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(BagFormatError, match="never loaded"):
        read_cohort(tmp_path)
    np.save(tmp_path / "a.npy", np.array([[np.nan]]))
    with pytest.raises(BagFormatError, match=r"Bag 0 \('a'\), instance 0: feature 0 is nan"):
        read_cohort(tmp_path)
