"""Folders of slides as the tools write them, and tables with their labels."""

import os

import h5py
import numpy as np
import pandas as pd
import pytest

from pigmil import read_bags, scan_bags
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
            file.create_dataset("coords", data=coords).attrs.update(attributes)


def trident(root):
    folder = root / "20x_256px_0px_overlap" / "features_uni_v1"
    folder.mkdir(parents=True)
    (root / "20x_256px_0px_overlap" / "patches").mkdir()
    (root / "20x_256px_0px_overlap" / "slide_features_titan").mkdir()
    for name in SLIDES:
        write_h5(folder / f"{name}.h5", features_of(name), coords_of(name), patch_size=256,
                 patch_size_level0=512, level0_width=1000 + int(name[1:]))  # fmt: skip
        # Coordinates alone, and one embedding per slide: not features of tiles.
        write_h5(folder.with_name("patches") / f"{name}_patches.h5", coords_of(name), key="coords")
        write_h5(folder.with_name("slide_features_titan") / f"{name}.h5", np.ones(768))
    return root


def clam_h5(root):
    (root / "h5_files").mkdir()
    for name in SLIDES:
        write_h5(root / "h5_files" / f"{name}.h5", features_of(name), coords_of(name))
    return clam_pt(root)


def clam_pt(root):
    (root / "pt_files").mkdir()
    for name in SLIDES:
        tensor_file(root / "pt_files" / f"{name}.pt", features_of(name))
    return root


def stamp(root):
    for name in SLIDES:
        write_h5(root / f"{name}.h5", features_of(name, np.float16), coords_of(name), key="feats")
        with h5py.File(root / f"{name}.h5", "a") as file:
            file.attrs.update({"tile_size_um": 256.0, "extractor": "ctranspath"})
    return root


def slideflow(root):
    for name in SLIDES:
        tensor_file(root / f"{name}.pt", features_of(name))
        np.savez(root / f"{name}.index.npz", coords_of(name))
    return root


def torchmil(root):
    for folder in ("features/features_UNI", "labels", "patch_labels", "coords"):
        (root / folder).mkdir(parents=True)
    for name in SLIDES:
        inner = np.zeros((SLIDES[name], 1), dtype=int)
        inner[0] = LABELS[name]
        np.save(root / "features/features_UNI" / f"{name}.npy", features_of(name))
        np.save(root / "labels" / f"{name}.npy", np.array([LABELS[name]]))
        np.save(root / "patch_labels" / f"{name}.npy", inner)
        np.save(root / "coords" / f"{name}.npy", coords_of(name))
    (root / "splits.csv").write_text("bag_name,split\ns1,train\ns2,train\ns3,test\ns4,val\n")
    return root


def nested_npz(root):
    for name in SLIDES:
        folder = root / f"class{LABELS[name]}"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"{name}.npz", features=features_of(name), coords=coords_of(name))
    return root


def batched(root):
    for name in SLIDES:  # some tools add an axis to the features alone
        coords = coords_of(name) if name in ("s2", "s3") else coords_of(name)[None]
        write_h5(root / f"{name}.h5", features_of(name)[None], coords)
    return root


LAYOUTS = (trident, clam_h5, clam_pt, stamp, slideflow, torchmil, nested_npz, batched)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_layout_gives_the_same_bags(layout, tmp_path, table):
    lazy = scan_bags(layout(tmp_path), labels=table)
    bags = lazy.load()
    order = [list(SLIDES).index(name) for name in bags.ids]
    assert sorted(order) == [0, 1, 2, 3]
    assert bags.y.tolist() == [LABELS[name] for name in bags.ids]
    assert bags.dtype == np.float32
    for name in SLIDES:
        assert np.array_equal(bags[name], features_of(name))
        assert np.array_equal(lazy[name], features_of(name))
    assert bags.bag_info["patient"].tolist() == [PATIENTS[name] for name in bags.ids]
    assert bags.bag_info["age"].tolist() == table["age"][order].tolist()
    if layout is not clam_pt:
        expected = np.concatenate([coords_of(name) for name in bags.ids])
        assert np.array_equal(bags.instance_info["coords"], expected)
    parts = [lazy[[name]].load() for name in SLIDES]
    assert [part.n_instances for part in parts] == list(SLIDES.values())


def test_attributes_stay_with_the_slide(tmp_path, table):
    bags = read_bags(trident(tmp_path), labels=table)
    assert bags.bag_info["patch_size_level0"].tolist() == [512] * 4
    assert bags[[3, 0]].bag_info["level0_width"].tolist() == [1004, 1001]
    root = tmp_path / "stamp"
    root.mkdir()
    bags = read_bags(stamp(root), labels=table)
    assert bags.bag_info["tile_size_um"].tolist() == [256.0] * 4
    assert bags.bag_info["extractor"].tolist() == ["ctranspath"] * 4


def test_slide_table_and_clinical_table(tmp_path):
    root = stamp(tmp_path)
    slides = pd.DataFrame(
        {"PATIENT": list(PATIENTS.values()), "FILENAME": [f"{name}.h5" for name in SLIDES]}
    )
    clinical = pd.DataFrame({"PATIENT": ["p02", "p01"], "MSI": ["MSS", "MSI-H"], "SEX": ["f", "m"]})
    for tables in ([slides, clinical], [clinical, slides]):
        bags = read_bags(root, labels=tables, label="MSI")
        assert bags.ids.tolist() == list(SLIDES)
        assert bags.y.tolist() == ["MSI-H", "MSS", "MSS", "MSI-H"]
        assert bags.bag_info["SEX"].tolist() == ["m", "f", "f", "m"]
    patients = read_bags(root, labels=[slides, clinical], label="MSI", level="patient")
    assert patients.ids.tolist() == ["p01", "p02"]
    with pytest.raises(BagFormatError, match="shares no column with"):
        read_bags(root, labels=[slides, clinical.rename(columns={"PATIENT": "P"})])


def test_torchmil_needs_no_table(tmp_path):
    bags = read_bags(torchmil(tmp_path))
    assert bags.y.tolist() == [1, 0, 0, 1]
    assert bags.instance_labels.tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert bags.bag_info["split"].tolist() == ["train", "train", "test", "val"]


def test_splits_of_clam(tmp_path, table):
    files = tmp_path / "files"
    files.mkdir()
    split = tmp_path / "splits_0.csv"
    split.write_text(",train,val,test\n0,s1,s4,s3\n1,s2,,\n")
    bags = read_bags(clam_h5(files), labels=table, splits=split)
    assert bags.bag_info["split"].tolist() == ["train", "train", "test", "val"]
    both = read_bags(files, labels=table, splits=[split] * 2)
    assert both.bag_info["split_1"].tolist() == ["train", "train", "test", "val"]
    split.write_text("bag_name,split\ns1,train\ns2,\ns3,test\n")
    bags = read_bags(files, labels=table, splits=split)
    assert bags.bag_info["split"].tolist() == ["train", "", "test", ""]
    split.write_text(",train,val,test\n0,s1,s4,s3\n1,s2,,s1\n")
    with pytest.raises(BagFormatError, match=r"has several parts for 1 bag: 's1'\."):
        read_bags(files, labels=table, splits=split)


def test_bags_of_patients(tmp_path, table):
    lazy = scan_bags(trident(tmp_path), labels=table, level="patient")
    bags = lazy.load()
    assert bags.ids.tolist() == ["p01", "p02"]
    assert bags.y.tolist() == [1, 0]
    assert np.array_equal(bags["p01"], np.concatenate([features_of("s1"), features_of("s4")]))
    assert bags.instance_info["slide_id"].tolist() == ["s1"] * 3 + ["s4"] * 4 + ["s2"] + ["s3"] * 2
    assert bags.bag_info["age"].tolist() == [63, 50]  # the same for all slides of a patient
    widths = bags.instance_info["level0_width"]  # differs between slides
    assert widths.tolist() == [1001] * 3 + [1004] * 4 + [1002] + [1003] * 2
    assert lazy[["p02"]].load().instance_info["slide_id"].tolist() == ["s2", "s3", "s3"]
    table.loc[3, "label"] = 0
    with pytest.raises(BagFormatError, match=r"1 patient have different labels: 'p01'"):
        read_bags(tmp_path, labels=table, level="patient")
    with pytest.raises(BagFormatError, match="name it with group="):
        read_bags(tmp_path, labels=table.drop(columns="patient"), level="patient")
    table.loc[1, "patient"] = None
    with pytest.raises(BagFormatError, match="Slide 's2': there is no bag id"):
        read_bags(tmp_path, labels=table, level="patient")


@pytest.mark.parametrize("blank", [np.nan, "nan", "NA"])
def test_unmatched_slides_are_listed_on_both_sides(tmp_path, table, blank):
    root = clam_pt(tmp_path)
    table["label"] = table["label"].astype(object)
    table.loc[0, "slide_id"] = "other"
    table.loc[1, "label"] = blank
    with pytest.raises(BagFormatError) as caught:
        read_bags(root, labels=table)
    message = str(caught.value)
    assert "1 bag of the table without features: 'other'." in message
    assert "1 bag with features but without a row in the table: 's1'." in message
    assert "1 bag without a label in the column 'label': 's2'." in message
    assert "missing='drop'" in message
    with pytest.warns(UserWarning, match="left out 1 bag of the table") as warned:
        bags = read_bags(root, labels=table, missing="drop")
    assert len(warned) == 1
    assert bags.ids.tolist() == ["s3", "s4"]
    assert bags.y.tolist() == [0, 1]


def test_a_mapping_of_labels(tmp_path):
    root = clam_pt(tmp_path)
    assert read_bags(root, labels=LABELS).y.tolist() == [1, 0, 0, 1]
    with pytest.raises(BagFormatError, match="1 bag with features but without a row"):
        read_bags(root, labels=dict.fromkeys(list(SLIDES)[1:], "x"))
    with pytest.raises(BagFormatError, match="labels= takes a mapping"):
        read_bags(root, labels=3)


@pytest.mark.parametrize("shape", [(0, 3), (0,)])
def test_slides_without_tissue(tmp_path, table, shape):
    root = trident(tmp_path)
    file = root / "20x_256px_0px_overlap" / "features_uni_v1" / "s2.h5"
    write_h5(file, np.empty(shape, dtype=np.float32), np.empty((0, 2)))
    with pytest.raises(BagFormatError, match=r"1 bag without instances: 's2'.*\n.*empty='drop'"):
        read_bags(root, labels=table)
    with pytest.warns(UserWarning, match="left out 1 bag without instances: 's2'"):
        bags = read_bags(root, labels=table, empty="drop")
    assert bags.ids.tolist() == ["s1", "s3", "s4"]


def test_features_of_two_encoders(tmp_path, table):
    root = trident(tmp_path)
    other = root / "20x_256px_0px_overlap" / "features_resnet"
    other.mkdir()
    write_h5(other / "s1.h5", np.ones((2, 5)))
    with pytest.raises(BagFormatError, match=r"several feature files for 's1'.*features_resnet"):
        read_bags(root, labels=table)
    other.joinpath("s1.h5").rename(other / "s9.h5")
    with pytest.raises(BagFormatError, match=r"'s1' has 3 features where .*s9.h5 has 5"):
        read_bags(root)


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
    bags = read_bags(files, labels=path)
    assert bags.ids.tolist() == ["1", "2", "3", "4"]
    assert bags.y.tolist() == [1, 0, 0, 1]
    assert bags.bag_info["patient"].tolist() == ["p01", "p02", "p02", "p01"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"id": "name"}, r"no column 'name'; its columns are 'slide_id', .*with id="),
        ({}, {"label": "grade"}, r"no column 'grade'.*with label="),
        ({}, {"group": "site"}, r"no column 'site'.*with group="),
        ({}, {"level": "case"}, "level must be 'slide' or 'patient', got 'case'"),
        ({"slide_id": ["s1", "s1", "s3", "s4"]}, {}, r"several rows for 1 bag: 's1'"),
        ({"slide_id": ["s1", None, "s3", "s4"]}, {}, r"no slide_id in 1 row: 3"),
        ({"slide_id": list("abcd")}, {"missing": "drop"}, "none of its bags is listed in"),
        ({"label": None}, {}, "4 bags without a label in the column 'label'"),
    ],
)
def test_refused_tables(tmp_path, table, change, options, message):
    root = clam_pt(tmp_path)
    with pytest.raises(BagFormatError, match=message):
        read_bags(root, labels=table.assign(**change), **options)


def test_folders_without_features(tmp_path):
    with pytest.raises(BagFormatError, match="no feature files"):
        read_bags(tmp_path)
    (tmp_path / ".s1.h5.leftover.h5").write_bytes(b"cut")
    with pytest.raises(BagFormatError, match="no feature files"):
        read_bags(tmp_path)
    os.mkfifo(tmp_path / "s1.h5")
    with pytest.raises(BagFormatError, match="is not a regular file"):
        read_bags(tmp_path)


def test_a_label_or_coordinates_that_some_bags_lack(tmp_path):
    root = torchmil(tmp_path)
    (root / "labels" / "s2.npy").unlink()
    with pytest.raises(BagFormatError, match="1 bag without a label: 's2'"):
        read_bags(root)
    with pytest.warns(UserWarning, match="left out 1 bag without a label"):
        assert read_bags(root, missing="drop").ids.tolist() == ["s1", "s3", "s4"]
    np.save(root / "labels" / "s2.npy", 0)
    (root / "coords" / "s2.npy").unlink()
    with pytest.warns(UserWarning, match="left out 'coords', which some of the bags do not have"):
        assert "coords" not in read_bags(root).instance_info
