"""The command line and comparisons on bags on disk and on a cluster."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from pigmil import scan_bags
from pigmil.cli._app import app


def run(*arguments):
    done = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_fit_and_predict_stream(folder, tmp_path):
    model, table, scores = tmp_path / "m.skops", tmp_path / "bags.csv", tmp_path / "scores"
    run("fit", folder, "--stream", "-m", "MaxPoolingLR", "-o", model, "--json")
    found = run(
        "predict", model, folder, "--stream", "-o", table, "--instances", scores, "--json"
    )  # fmt: skip
    assert found["bags"] == 30
    assert found["accuracy"] > 0.9
    bags = scan_bags(folder)
    assert pd.read_csv(table)["bag"].tolist() == bags.ids.tolist()
    parts = [pd.read_parquet(file) for file in sorted(scores.glob("*.parquet"))]
    assert len(pd.concat(parts)) == bags.n_instances


def test_streamed_scores_hold_the_calls_of_memory(folder, tmp_path):
    model, scores, table = tmp_path / "m.skops", tmp_path / "scores", tmp_path / "all.csv"
    run("fit", folder, "--stream", "--set", "n_landmarks=20", "-o", model, "--json")
    again = ["predict", model, folder, "-o", tmp_path / "bags.csv", "--fdr", "0.2", "--json"]
    streamed = run(*again, "--stream", "--instances", scores)
    memory = run(*again, "--instances", table)
    assert streamed["called"] == memory["called"] > 0
    keys = ["bag", "instance"]
    there = pd.read_parquet(scores).sort_values(keys)
    here = pd.read_csv(table).sort_values(keys)
    assert there["called"].tolist() == here["called"].tolist()
    assert there["called"].sum() == memory["called"]
    p_values = there["adjusted_p_value"].to_numpy()
    expected = here["adjusted_p_value"].to_numpy()
    assert p_values == pytest.approx(expected, abs=1e-6, nan_ok=True)
