"""``pigmil heatmap`` on slides with planted tiles."""

import json

import numpy as np
import pytest

from pigmil import Bags, write_bags
from pigmil.cli._models import _file_names


@pytest.fixture
def slides(folder):
    """Twelve slides of nine tiles; tile 4 of every second one is what makes it positive."""
    rng = np.random.RandomState(0)
    parts = [rng.normal(size=(9, 3)) for _ in range(12)]
    for part in parts[1::2]:
        part[4] += 6.0
    grid = 256 * np.array([(column, row) for row in range(3) for column in range(3)])
    bags = Bags.from_list(
        parts,
        ids=[f"slide/{n}" for n in range(12)],
        y=[0, 1] * 6,
        instance_info={"coords": np.tile(grid, (12, 1))},
    )
    write_bags(bags, folder / "slides.h5")
    return folder / "slides.h5"


def test_heat_maps_of_a_saved_model(pigmil, slides, folder):
    assert pigmil("fit", slides, "-o", "m.skops", "-m", "SIL").status == 0
    found = pigmil("heatmap", "m.skops", slides, "--only", "slide/1", "--as", "png",
                   "--as", "geojson", "--json")  # fmt: skip
    assert found.status == 0, found.err
    names = ["slide_1.png", "slide_1.geojson"]
    assert found.json["files"] == [f"slides-heatmaps/{name}" for name in names]
    assert (folder / "slides-heatmaps/slide_1.png").read_bytes().startswith(b"\x89PNG")
    tiles = json.loads((folder / "slides-heatmaps/slide_1.geojson").read_text())["features"]
    ranks = [tile["properties"]["measurements"]["rank"] for tile in tiles]
    assert ranks.index(1) == 4
    assert tiles[4]["geometry"]["coordinates"][0][0] == [256, 256]


def test_all_bags_by_default_and_the_ranking_keeps_the_coordinates(pigmil, slides, folder, rows_of):
    assert pigmil("fit", slides, "-o", "m.skops", "-m", "SIL").status == 0
    found = pigmil("heatmap", "m.skops", slides, "--as", "geojson", "-o", "maps")
    assert "wrote 12 files to maps" in found.out
    assert len(list((folder / "maps").iterdir())) == 12
    assert pigmil("predict", "m.skops", slides, "--instances", "ranked.csv").status == 0
    first = rows_of("ranked.csv")[0]
    assert (first["coords_0"], first["coords_1"]) == ("256", "256")


def test_what_is_missing_is_an_error(pigmil, slides, table):
    assert pigmil("fit", slides, "-o", "m.skops", "-m", "SIL").status == 0
    found = pigmil("heatmap", "m.skops", slides, "--only", "nobody")
    assert found.status == 2
    assert "--only nobody: there is no such bag" in found.err
    found = pigmil("heatmap", "m.skops", table, "--bag", "molecule", "--label", "active",
                   "--info", "note")  # fmt: skip
    assert found.status == 2
    assert "--info x --info y" in found.err


def test_two_bags_never_share_a_file():
    assert _file_names(["b/b", "c"]) == ["b_b", "c"]
    assert _file_names(["b/b", "B b", "1_b_b"]) == ["1_b_b", "2_B_b", "3_1_b_b"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../x", "x"),
        ("...", "bag"),
        ("a\0b\n\x1b[31m", "a_b_31m"),
        ("<img src=x>", "img_src_x"),
        ("\ud800", "bag"),
        ("\u6f22" * 300, "\u6f22" * 33),  # three bytes each
    ],
)
def test_file_names_of_hostile_ids(name, expected):
    assert _file_names([name]) == [expected]


def test_ids_that_no_file_can_have(pigmil, folder):
    ids = ["../../x", "x", "CON", "a" * 300, "\u10d0" * 150, "bell\a\x1b[2J", "<b>", "b"]
    coords = np.tile([[0, 0], [9, 0]], (len(ids), 1))
    bags = Bags.from_list(
        [np.array([[float(n % 2), 1.0], [0.0, n]]) for n in range(len(ids))],
        ids=ids, y=[0, 1] * 4, instance_info={"coords": coords},
    )  # fmt: skip
    write_bags(bags, folder / "s.npz")
    assert pigmil("fit", "s.npz", "-o", "m.skops", "-m", "SIL").status == 0
    before = set(folder.parent.iterdir())
    found = pigmil("heatmap", "m.skops", "s.npz", "-o", "maps", "--as", "geojson")
    assert found.status == 0, found.err
    assert len(list((folder / "maps").iterdir())) == len(ids)
    assert set(folder.parent.iterdir()) == before
    found = pigmil("heatmap", "m.skops", "s.npz", "--only", "a\x1b[2J[b]\nc")
    assert found.err.startswith("error: --only a<U+001B>[2J[b]\nc: there is no such bag")
