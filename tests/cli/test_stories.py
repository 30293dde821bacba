"""Four stories with planted truths, from the files of a user to the answer."""

import json

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pigmil import SoftPIGMIL, read_bags, scan_bags, select_instances
from pigmil.bags import scaled_pipeline

pd = pytest.importorskip("pandas")
h5py = pytest.importorskip("h5py")

GRID = 256 * np.array([(x, y) for y in range(8) for x in range(10)])


def write_slides(folder, numbers, seed=0):
    """Write slides of 80 tiles, whose site moves all features, and return the tumour tiles."""
    rng = np.random.default_rng(seed)
    (folder / "slides").mkdir(parents=True)
    truth = {}
    for number in numbers:
        features = rng.normal(size=(80, 8)) + 0.5 * np.sin(number % 3 + np.arange(8))
        tumour = np.hypot(*(GRID - 256 * np.array([2 + number % 5, 3])).T) < 500
        truth[f"slide_{number}"] = tumour & (number % 2 == 1)
        features[truth[f"slide_{number}"], :3] += 4.0
        with h5py.File(folder / "slides" / f"slide_{number}.h5", "w") as file:
            file["features"] = features.astype(np.float32)
            file["coords"] = GRID
            file["coords"].attrs["patch_size_level0"] = 256
    ids = [f"slide_{number}" for number in numbers]
    patients = [f"p{number // 2}" for number in numbers]
    labels = [number % 2 for number in numbers]
    frame = pd.DataFrame({"slide_id": ids, "label": labels, "patient": patients})
    frame.to_csv(folder / "labels.csv", index=False)
    return truth


def truth_of(table, truth):
    """Return the planted truth of the rows of a table with the columns bag and instance."""
    return np.array([truth[row.bag][row.instance] for row in table.itertuples()])


def share_and_power(called, truth, n_positive):
    return 1 - truth[called].mean(), truth[called].sum() / n_positive


def test_slides(pigmil, folder):
    truth = write_slides(folder, range(20))
    n_positive = sum(part.sum() for part in truth.values())
    found = pigmil("detect", "slides", "--labels", "labels.csv", "--group", "patient", "--fdr", 0.1)
    assert found.status == 0
    assert found.out.startswith("SoftPIGMIL detected ")
    assert "How sure is this? good" in found.out
    table = pd.read_csv("slides-instances.csv")
    planted = truth_of(table, truth)
    assert average_precision_score(planted, table["score"]) >= 0.95
    false, power = share_and_power(table["detected"].to_numpy(), planted, n_positive)
    assert false <= 0.15
    assert power >= 0.7
    page = (folder / "slides-report.html").read_text("utf-8")
    assert "at a false-discovery rate of 10 %" in page
    # In Python, and without loading the slides.
    bags = read_bags("slides", labels="labels.csv")
    model = scaled_pipeline(SoftPIGMIL(random_state=0), bags).fit(bags, bags.y)
    selection = select_instances(model, bags)
    flat = np.concatenate([truth[name] for name in bags.ids])
    false, power = share_and_power(selection.called, flat, n_positive)
    assert false <= 0.15
    assert power >= 0.7
    on_disk = select_instances(model, scan_bags("slides", labels="labels.csv"))
    assert on_disk.called.tolist() == selection.called.tolist()


def test_new_slides(pigmil, folder, monkeypatch):
    write_slides(folder, range(20))
    assert pigmil("fit", "slides", "--labels", "labels.csv", "-o", "m.skops").out.startswith(
        "SoftPIGMIL: good"
    )
    (folder / "new").mkdir()
    monkeypatch.chdir(folder / "new")
    truth = write_slides(folder / "new", range(30, 36), seed=1)
    found = pigmil("predict", "../m.skops", "slides", "--fdr", 0.1, "--instances", "tiles.csv")
    assert found.status == 0
    assert found.out.startswith("SoftPIGMIL: good")
    assert "called positive in 3 of 6 bags" in found.out
    table = pd.read_csv("tiles.csv")
    planted = truth_of(table, truth)
    assert average_precision_score(planted, table["score"]) >= 0.9
    false, power = share_and_power(table["called"].to_numpy(), planted, planted.sum())
    assert false <= 0.2
    assert power >= 0.7
    bags = pd.read_csv("slides-predictions.csv")
    assert (bags["called"] > 0).tolist() == [False, True] * 3
    np.testing.assert_allclose(bags["share_called"], bags["called"] / 80)
    streamed = pigmil("predict", "../m.skops", "slides", "--fdr", 0.1, "--stream", "-o", "s.csv")
    assert streamed.status == 0
    assert pd.read_csv("s.csv")["called"].tolist() == bags["called"].tolist()
    drawn = pigmil("heatmap", "../m.skops", "slides", "--as", "png", "--as", "geojson")
    assert drawn.out.startswith("SoftPIGMIL: good")
    tiles = json.loads((folder / "new/slides-heatmaps/slide_31.geojson").read_text())["features"]
    classes = [tile["properties"]["classification"]["name"] for tile in tiles]
    assert classes.count("pigmil called") == bags["called"][1]


def test_molecules_from_a_european_spreadsheet(pigmil, folder):
    """Semicolons, decimal commas and empty cells, as Excel saves them in most of Europe."""
    rng = np.random.default_rng(0)
    lines = ["Molekül;aktiv;Masse;Ladung;Radius"]
    planted = []
    for molecule in range(40):
        for atom in range(6):
            values = rng.normal(size=3)
            planted.append(molecule % 2 == 1 and atom < 2)
            values[:2] += 4.0 * planted[-1]
            cells = [f"{value:.3f}".replace(".", ",") for value in values]
            cells[2] = "" if rng.random() < 0.1 else cells[2]
            lines.append(";".join([f"m{molecule}", "ja" if molecule % 2 else "nein", *cells]))
    (folder / "molekuele.csv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    found = pigmil("detect", "molekuele.csv", "--bag", "Molekül", "--label", "aktiv",
                   "--positive", "ja", "--impute", "median")  # fmt: skip
    assert found.status == 0, found.err
    assert "How sure is this? good" in found.out
    table = pd.read_csv("molekuele-instances.csv")
    flat = np.array(planted).reshape(40, 6)
    truth = np.array([flat[int(row.bag[1:]), row.instance] for row in table.itertuples()])
    assert average_precision_score(truth, table["score"]) >= 0.9
    false, power = share_and_power(table["detected"].to_numpy(), truth, sum(planted))
    assert false <= 0.2
    assert power >= 0.5


def test_cells(pigmil, folder):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    counts, donors = rng.normal(size=(24 * 40, 10)).astype(np.float32), np.repeat(range(24), 40)
    planted = (donors % 2 == 1) & (np.arange(960) % 40 < 6)
    counts[planted, :3] += 3.0
    obs = pd.DataFrame(
        {"donor": [f"d{donor}" for donor in donors],
         "disease": np.where(donors % 2 == 1, "case", "control")},
        index=[f"cell{number}" for number in range(960)],
    )  # fmt: skip
    order = rng.permutation(960)  # cells of a donor do not stand together
    anndata.AnnData(counts[order], obs=obs.iloc[order]).write_h5ad("cells.h5ad")
    found = pigmil("detect", "cells.h5ad", "--bag", "donor", "--label", "disease",
                   "--positive", "case", "-o", "scored.h5ad", "--no-report")  # fmt: skip
    assert found.status == 0, found.err
    scored = anndata.read_h5ad("scored.h5ad").obs.loc[obs.index]
    truth = planted[obs["disease"] == "case"]
    cases = scored[obs["disease"] == "case"]
    assert average_precision_score(truth, cases["pigmil_score"]) >= 0.9
    false, power = share_and_power(cases["pigmil_called"].to_numpy(), truth, planted.sum())
    assert false <= 0.15
    assert power >= 0.6
    assert not scored["pigmil_called"][obs["disease"] == "control"].any()
    bags = read_bags("cells.h5ad", bag="donor", label="disease")
    model = scaled_pipeline(SoftPIGMIL(pos_label="case", random_state=0), bags)
    selection = select_instances(model.fit(bags, bags.y), bags)
    called = bags.instance_info["obs_name"][selection.called]
    assert set(called) == set(cases.index[cases["pigmil_called"]])
