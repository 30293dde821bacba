"""The command ``pigmil retrieve`` and its page, on planted pictures."""

import json

import numpy as np
import pytest

from pigmil import Bags, SoftPIGMIL, save_model, write_bags
from pigmil.report import retrieval_summary, write_report
from pigmil.retrieval import InstanceIndex

testing = pytest.importorskip("typer.testing")
pytest.importorskip("jinja2")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def zoo():
    """Thirty bags of background; those of a tiger share one kind of instance, the last but one."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(6, 4)) for _ in range(30)]
    for array in arrays[::2]:
        array[4] = [6, 6, 0, 0] + 0.3 * rng.normal(size=4)
    pictures = np.arange(180 * 16).reshape(180, 4, 4) / 3000
    return Bags.from_list(
        arrays,
        y=[int(at % 2 == 0) for at in range(30)],
        ids=[f"<b>{at:02d}" for at in range(30)],
        instance_info={"picture": pictures, "region": [f"r{at}" for at in range(180)]},
    )


@pytest.fixture(scope="module")
def model(zoo):
    return SoftPIGMIL(random_state=0).fit(zoo)


def run_cli(*arguments):
    from pigmil.cli._app import app

    return testing.CliRunner().invoke(app, ["retrieve", *map(str, arguments)])


def test_command_finds_the_other_tigers_by_their_tiger(zoo, model, tmp_path):
    save_model(model, tmp_path / "model.skops")
    write_bags(zoo, tmp_path / "zoo.npz")
    page = tmp_path / "page.html"
    files = (tmp_path / "model.skops", tmp_path / "zoo.npz")
    done = run_cli(*files, "--query", "<b>00", "-k", 14, "-o", page, "--json")
    matches = json.loads(done.stdout)["matches"]
    assert {match["bag"] for match in matches} == set(zoo.ids[2::2])
    assert {match["instance"] for match in matches} == {4}
    assert json.loads(done.stdout)["diagnosis"]["verdict"] == "good"
    text = page.read_text()
    assert "good, confidence" in text
    assert "&lt;b&gt;02" in text
    assert "<b>02" not in text
    refused = run_cli(*files, "--query", "<b>99", "-o", page)
    assert refused.exit_code == 2
    assert "there is no such bag" in refused.stderr


def test_page_shows_picture_label_and_region_of_what_matched(zoo, model, tmp_path):
    pytest.importorskip("PIL")
    index = InstanceIndex(model).fit(zoo)
    summary = retrieval_summary(index, zoo, [zoo.ids[0]], k=3, source="zoo", images="picture")
    query = summary["queries"][0]
    assert query["instance"] == 4
    assert all(row["image"].startswith("data:image/png") for row in [query, *query["rows"]])
    found = [match.instance for match in index.query(zoo.ids[0], k=3)]
    assert [row["info"] for row in query["rows"]] == [[f"r{row}"] for row in found]
    assert [row["label"] for row in query["rows"]] == ["1"] * 3
    assert "| &lt;b&gt;" in write_report(summary, tmp_path / "page.md").read_text()
