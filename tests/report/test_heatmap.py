"""Heat maps and GeoJSON: every tile where it belongs, with its score, rank and percentile."""

import json

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline

from pigmil import MILD, Bags, BagScaler, instance_scores
from pigmil.datasets import make_ring
from pigmil.graph import Trace
from pigmil.report import plot_bags, plot_heatmap, plot_trace, write_geojson
from pigmil.report._tiles import scored_tiles, slides_of

CORNERS = np.array([[0, 0], [512, 0], [0, 512], [512, 512], [1024, 512]])
SCORES = np.array([0.5, 2.0, np.nan, 0.5, -1.0, 9.0])


@pytest.fixture
def slides():
    return Bags.from_list(
        [np.zeros((5, 2)), np.zeros((1, 2))],
        ids=["a $x$", "b"],
        instance_info={"coords": np.vstack([CORNERS, [[7, 8]]])},
    )


def _axes():
    return Figure().subplots()


def test_ranks_and_percentiles_by_hand(slides):
    tiles = scored_tiles(slides, SCORES, "a $x$")
    np.testing.assert_array_equal(tiles.rank, [2, 1, np.nan, 2, 4])
    np.testing.assert_array_equal(tiles.percentile, [75, 100, np.nan, 75, 25])
    assert tiles.size == 512  # the smallest step between tiles
    assert tiles.rows.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("info", "size"),
    [
        ({"patch_size_level0": 448, "patch_size": 224}, 448),
        ({"tile_size_um": 256.0}, 256),
        ({"patch_size": 256, "patch_level": 1}, 512),  # pixels of another level
        ({"patch_size": 300}, 300),
    ],
)
def test_tile_size_comes_from_the_attributes(slides, info, size):
    bags = slides.with_info(bag_info={name: [value] * 2 for name, value in info.items()})
    assert scored_tiles(bags, SCORES, 0).size == size
    assert scored_tiles(bags, SCORES, 0, tile_size=99).size == 99


def test_picture_draws_each_tile_at_its_place(slides):
    ax = plot_heatmap(slides, SCORES, 0, called=[1, 5], ax=_axes())
    drawn, outlined = ax.collections
    squares = [path.vertices for path in drawn.get_paths()]
    np.testing.assert_array_equal(squares[1][:4], [[512, 0], [1024, 0], [1024, 512], [512, 512]])
    np.testing.assert_array_equal(drawn.get_array().mask, [False, False, True, False, False])
    assert drawn.get_array().max() == 2.0
    (called,) = outlined.get_paths()
    np.testing.assert_array_equal(called.vertices, squares[1])
    assert ax.get_ylim() == (1024.0, 0.0)  # the origin of a slide is its upper left corner
    assert ax.get_title() == "a $x$"


def test_scores_of_all_bags_share_a_colour_scale(slides):
    ranges = {plot_heatmap(slides, SCORES, n, ax=_axes()).collections[0].get_clim() for n in (0, 1)}
    assert len(ranges) == 1


def test_x_and_y_of_a_table_are_coordinates(slides):
    columns = {"x": slides.instance_info["coords"][:, 0], "y": slides.instance_info["coords"][:, 1]}
    bags = Bags(slides.instances, slides.offsets, instance_info=columns)
    np.testing.assert_array_equal(scored_tiles(bags, SCORES, 0).corners, CORNERS)


def test_geojson_is_closed_polygons_with_measurements(slides, tmp_path):
    path = write_geojson(slides, SCORES, 0, tmp_path / "a.geojson", scale=2)
    content = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert content["type"] == "FeatureCollection"
    assert len(content["features"]) == 5
    tile = content["features"][1]
    ring = [[1024, 0], [2048, 0], [2048, 1024], [1024, 1024], [1024, 0]]
    assert tile["geometry"] == {"type": "Polygon", "coordinates": [ring]}
    assert tile["properties"] == {
        "objectType": "tile",
        "classification": {"name": "pigmil top 1 %", "color": [253, 231, 37]},
        "measurements": {"pigmil score": 2.0, "rank": 1, "percentile": 100.0},
    }
    unscored = content["features"][2]["properties"]
    assert unscored["classification"]["name"] == "pigmil without score"
    assert unscored["measurements"] == {}
    colours = {}
    for feature in content["features"]:
        name, colour = feature["properties"]["classification"].values()
        assert colours.setdefault(name, colour) == colour


def test_micrometres_need_a_scale(slides, tmp_path):
    bags = slides.with_info(bag_info={"unit": ["um", "um"]})
    with pytest.raises(ValueError, match="scale="):
        write_geojson(bags, SCORES, 0, tmp_path / "a.geojson")
    assert not list(tmp_path.iterdir())


def test_a_bag_of_several_slides_is_drawn_one_by_one(slides):
    bags = slides.with_info(instance_info={"slide_id": list("sstttu")})
    assert slides_of(bags, 0) == ["s", "t"]
    assert slides_of(bags, 1) == [None]
    with pytest.raises(ValueError, match=r"joins 2 slides.*slide="):
        scored_tiles(bags, SCORES, 0)
    assert scored_tiles(bags, SCORES, 0, slide="t").rows.tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="this bag has 's', 't'"):
        scored_tiles(bags, SCORES, 0, slide="w")


def test_errors_say_what_is_missing(slides):
    bare = Bags(slides.instances, slides.offsets)
    with pytest.raises(ValueError, match="needs the coordinates"):
        plot_heatmap(bare, SCORES, 0)
    with pytest.raises(ValueError, match="scores has 3 entries, but the bags have 6"):
        plot_heatmap(slides, SCORES[:3], 0)
    with pytest.raises(ValueError, match="tile_size must be positive"):
        plot_heatmap(slides, SCORES, 0, tile_size=0)


def test_pipelines_are_drawn_too():
    bags = make_ring(random_state=0)
    model = make_pipeline(BagScaler(), MILD()).fit(bags, bags.y)
    ax = plot_bags(bags, detected=model, scores=model, ax=_axes())
    coloured, circled = ax.collections
    np.testing.assert_allclose(coloured.get_array(), instance_scores(model, bags))
    detected = bags.instances[model[-1].detected_instances_]
    np.testing.assert_allclose(circled.get_offsets(), detected)
    other = bags[:30]
    circled = plot_bags(other, detected=model, ax=_axes()).collections[-1]
    assert len(circled.get_offsets()) == (other.y == 1).sum()
    scores = instance_scores(model, other)
    best = [
        start + np.argmax(scores[start:end])
        for start, end, label in zip(other.offsets[:-1], other.offsets[1:], other.y, strict=True)
        if label == 1
    ]
    np.testing.assert_allclose(circled.get_offsets(), other.instances[best])


def test_a_trace_is_drawn_relative_to_the_start():
    tries = [(7, 0, 1, 4, 1.0, False), (7, 0, 1, 5, 2.0, True), (3, 1, 2, 9, 80.0, True)]
    ax = plot_trace(Trace.from_tries(tries, 2.0), ax=_axes())
    tried, pool = ax.lines
    assert tried.get_ydata().tolist() == [0.5, 1.0, 40.0]
    assert pool.get_xdata().tolist() == [0, 2, 3, 3]
    assert pool.get_ydata().tolist() == [1.0, 1.0, 40.0, 40.0]
    assert [text.get_text() for text in ax.texts] == ["1", "2"]
    assert ax.get_yscale() == "log"
