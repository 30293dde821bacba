"""Whole tasks as new users have them, on the command line."""

import csv
import json

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_digits

from pigmil import Bags, write_bags

TILES, PLANTED = 12, 4


@pytest.fixture
def slides(folder):
    """A folder as CLAM writes it; the fifth tile of a tumour slide is what makes it one."""
    rng = np.random.RandomState(0)
    (folder / "slides" / "h5_files").mkdir(parents=True)
    rows = []
    for number in range(16):
        tumour = number % 2
        features = rng.normal(size=(TILES, 4)).astype(np.float32)
        features[PLANTED] += 6 * tumour
        with h5py.File(folder / "slides" / "h5_files" / f"slide_{number}.h5", "w") as file:
            file["features"] = features
            coords = [[512 * tile, 100 * number] for tile in range(TILES)]
            file.create_dataset("coords", data=np.array(coords)).attrs["patch_size"] = 512
        # Slides 4k and 4k + 2 are of one patient, so are 4k + 1 and 4k + 3.
        case = f"case_{number // 4}{'ab'[tumour]}"
        rows.append([case, f"slide_{number}", ["normal", "tumour"][tumour]])
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["case_id", "slide_id", "diagnosis"], *rows])
    return folder / "slides"


COHORT = ("--labels", "labels.csv", "--id", "slide_id", "--label", "diagnosis",
          "--group", "case_id")  # fmt: skip


def test_slides_detect(pigmil, slides, rows_of):
    stuck = pigmil("detect", "slides")
    assert stuck.status == 2
    assert "--labels" in stuck.err
    unsure = pigmil("detect", "slides", *COHORT)
    assert unsure.status == 2
    assert "'normal' (8 bags), 'tumour' (8 bags). Name the positive one: --pos" in unsure.err
    found = pigmil("detect", "slides", *COHORT, "--positive", "tumour")
    assert found.status == 0, found.err
    rows = rows_of("slides-instances.csv")
    assert len(rows) == 8 * TILES
    assert {(row["coords_0"], row["instance"]) for row in rows[:8]} == {("2048", "4")}
    assert {row["bag"] for row in rows[:8]} == {f"slide_{number}" for number in range(1, 16, 2)}


def test_slides_by_patient(pigmil, slides, rows_of):
    found = pigmil("detect", "slides", *COHORT, "--positive", "tumour", "--read", "level=patient",
                   "--no-report", "--json", "-m", "SIL")  # fmt: skip
    assert found.status == 0, found.err
    assert (found.json["bags"], found.json["positive_bags"]) == (8, 4)
    rows = rows_of("slides-instances.csv")
    top = {(row["bag"], row["slide_id"]) for row in rows[:8]}
    assert top == {(f"case_{n // 4}b", f"slide_{n}") for n in range(1, 16, 2)}


def test_slides_compare(pigmil, slides):
    found = pigmil("compare", "slides", *COHORT, "--positive", "tumour", "-m", "SIL", "--repeats",
                   "1", "--folds", "2", "--no-tune", "--json")  # fmt: skip
    assert found.status == 0, found.err
    assert found.json["table"]["slides"]["SIL"] > 60
    assert not found.json["failures"]


def test_slides_that_do_not_match(pigmil, slides, folder):
    (slides / "h5_files" / "slide_0.h5").unlink()
    with h5py.File(slides / "h5_files" / "slide_2.h5", "w") as file:
        file["features"] = np.empty((0, 4), dtype=np.float32)
    labelled = (*COHORT, "--positive", "tumour", "--no-report", "-m", "KDE")
    found = pigmil("detect", "slides", *labelled, "--read", "missing=drop")
    assert found.status == 2
    assert "without instances: 'slide_2'" in found.err
    assert "Pass --read empty=drop" in found.err
    found = pigmil("detect", "slides", *labelled, "--read", "empty=drop")
    assert found.status == 2
    assert "without features: 'slide_0'" in found.err
    assert "--read missing=drop" in found.err
    drop = ("--read", "missing=drop", "--read", "empty=drop")
    found = pigmil("detect", "slides", *labelled, *drop, "--json")
    assert found.status == 0, found.err
    assert found.json["bags"] == 14
    assert "left out" in found.err


@pytest.fixture
def conformers(folder):
    """A chemist's table: text labels, a SMILES column, and values that were not computed."""
    rng = np.random.RandomState(1)
    with (folder / "conformers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["molecule", "smiles", "conformer", "activity", "logp", "psa", "charge"])
        for molecule in range(20):
            active = molecule % 2
            for conformer in range(5):
                values = (rng.normal(size=3) + 6 * (active and conformer == 2)).round(3).tolist()
                if conformer == 4:
                    values[molecule % 3] = ["", "NA"][molecule % 2]
                writer.writerow([f"mol{molecule}", "C" * (molecule + 1) + "O", f"conf{conformer}",
                                 ["inactive", "active"][active], *values])  # fmt: skip
    return folder / "conformers.csv"


NAMED = ("--bag", "molecule", "--label", "activity")
KEPT = (*NAMED, "--info", "smiles", "--info", "conformer")


def test_conformers_detect(pigmil, conformers, rows_of):
    first = pigmil("detect", conformers, *NAMED)
    assert first.status == 2
    assert "column 'smiles': 'CO' is not a number" in first.err
    assert "--info smiles --info conformer" in first.err
    second = pigmil("detect", conformers, *KEPT)
    assert second.status == 2
    assert "cannot be used" in second.err
    assert "--impute median" in second.err
    third = pigmil("detect", conformers, *KEPT, "--impute", "median")
    assert third.status == 2
    assert "'active' (10 bags), 'inactive' (10 bags)" in third.err
    found = pigmil("detect", conformers, *KEPT, "--impute", "median", "--positive", "active")
    assert found.status == 0, found.err
    rows = rows_of("conformers-instances.csv")
    assert {row["conformer"] for row in rows[:10]} == {"conf2"}
    assert {len(row["smiles"]) % 2 for row in rows} == {1}  # active molecules only
    assert "wrote conformers-report.html" in found.out


def test_a_model_imputes_as_it_was_fitted(pigmil, conformers):
    chosen = (*KEPT, "--impute", "median", "--positive", "active")
    assert pigmil("fit", conformers, *chosen, "-o", "m.skops", "-m", "MISVM").status == 0
    found = pigmil("predict", "m.skops", conformers, *KEPT, "--json")
    assert found.status == 0, found.err
    assert found.json["accuracy"] == 1.0
    refused = pigmil("compare", conformers, *chosen, "--impute", "mean")
    assert refused.status == 2


def test_other_delimiters_and_encodings(pigmil, conformers, folder):
    text = conformers.read_text().replace("inactive", "inaktiv ä").replace(",", ";")
    (folder / "german.csv").write_text(text, encoding="latin-1")
    options = (*KEPT, "--impute", "median", "--positive", "active", "--no-report", "-m", "KDE")
    found = pigmil("detect", "german.csv", *options)
    assert found.status == 2
    assert "--read encoding=latin-1" in found.err
    found = pigmil("detect", "german.csv", *options, "--read", "encoding=latin-1")
    assert found.status == 0, found.err


def test_unusual_data_is_reported_once_with_numbers(pigmil, folder):
    rng = np.random.RandomState(0)
    values = rng.normal(size=(40, 3)).round(4)
    values[7] = values[3] = values[2]
    values[:, 1] = 2.0
    with (folder / "odd.csv").open("w") as file:
        file.write("bag,label,a,b,c\n")
        for row, (a, b, c) in enumerate(values.tolist()):
            file.write(f"{row // 4},{row // 4 % 2},{a},{b},{c}\n")
    found = pigmil("detect", "odd.csv", "-m", "KDE", "--no-report")
    assert found.status == 0, found.err
    lines = [line for line in found.err.splitlines() if line.startswith("warning")]
    assert lines[:2] == [
        "warning: Instances that repeat another one: 2 of 40, the first is bag 0, instance 3.",
        "warning: Features with the same value in all instances: 1 of 3, 'b'.",
    ]
    json.loads(pigmil("detect", "odd.csv", "-m", "KDE", "--no-report", "--json").out)


@pytest.fixture
def digits():
    """Sixty bags of eight images; one image of each of the first thirty is a nine."""
    known = load_digits()
    rng = np.random.RandomState(0)
    nines, others = np.flatnonzero(known.target == 9), np.flatnonzero(known.target != 9)
    rows = rng.choice(others, (60, 8), replace=False)
    rows[:30, 0] = rng.choice(nines, 30, replace=False)
    rows = np.array([rng.permutation(bag) for bag in rows])
    return Bags.from_list(
        list(known.data[rows]),
        y=[1] * 30 + [0] * 30,
        instance_info={"image": known.images[rows.ravel()], "digit": known.target[rows.ravel()]},
    )


def test_digits_on_the_command_line(pigmil, digits, folder, rows_of):
    write_bags(digits, "digits.npz")
    found = pigmil("detect", "digits.npz", "--images", "image", "-m", "MISVM", "--top", "3")
    assert found.status == 0, found.err
    rows = rows_of("digits-instances.csv")
    best = [row for row in rows if row["best_of_bag"] == "true"]
    assert len(best) == 30
    assert sum(row["digit"] == "9" for row in best) >= 24
    page = (folder / "digits-report.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") >= 100
    found = pigmil("compare", "digits.npz", "-m", "MISVM,MI-Kernel", "--metric", "auc", "--repeats",
                   "1", "--folds", "3", "--no-tune", "--report", "table.html")  # fmt: skip
    assert found.status == 0, found.err
    assert "interval: 95 % confidence interval by a bootstrap over bags" in found.out
    assert "MI-SVM has the best mean" in found.out
    assert "- 3 folds cannot decide which differences are beyond chance" in found.out
    assert "MI-SVM has the highest AUC" in (folder / "table.html").read_text("utf-8")
