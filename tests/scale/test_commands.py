"""The command line and comparisons on bags on disk and on a cluster."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from pigmil import scan_bags, write_bags
from pigmil.cli._app import app
from pigmil.evaluation import compare


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


def test_commands_run_on_a_cluster(folder, cluster, tmp_path):
    """The model and the scores are those of this process."""
    tables = []
    for where in (["--workers", cluster.scheduler_address], ["--stream"]):
        model, scores = tmp_path / f"{where[0]}.skops", tmp_path / where[0]
        run("fit", folder, *where, "-m", "KDEMin", "-o", model, "--json")
        run("predict", model, folder, *where, "--instances", scores, "--json")
        tables.append(pd.concat([pd.read_parquet(one) for one in sorted(scores.glob("*.parquet"))]))
    assert len(tables[0]) == scan_bags(folder).n_instances
    pd.testing.assert_frame_equal(*tables, rtol=1e-6)


def test_a_wrong_address_is_reported_in_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("pigmil.scale._cluster._CONNECT_SECONDS", 0.3)
    done = CliRunner().invoke(
        app,
        ["fit", str(folder), "--workers", "tcp://127.0.0.1:1", "-o", str(tmp_path / "m.skops")],
    )
    assert done.exit_code == 2
    assert "No dask scheduler answers at 'tcp://127.0.0.1:1'" in " ".join(done.stderr.split())


def test_a_comparison_on_a_cluster_is_that_in_this_process(cluster, lazy, tmp_path, monkeypatch):
    """The data go to the cluster once."""
    distributed = pytest.importorskip("distributed")
    scatter, sent = distributed.Client.scatter, []
    monkeypatch.setattr(
        distributed.Client, "scatter", lambda *a, **k: sent.append(1) or scatter(*a, **k)
    )
    sets = {"cohort": lazy.load()}
    arguments = {"repeats": 1, "folds": 3, "tune": False}
    with distributed.Client(cluster):
        there = compare(["MISVM"], sets, store=tmp_path / "a.sqlite", **arguments)
        with pytest.raises(ValueError, match="limit the workers of a cluster"):
            compare(["MISVM"], sets, store=tmp_path / "a.sqlite", time_limit=3.0)
    here = compare(["MISVM"], sets, store=tmp_path / "b.sqlite", **arguments)
    assert not there.failures
    assert len(sent) == 1
    pd.testing.assert_frame_equal(there.table("accuracy"), here.table("accuracy"))


def test_compare_runs_on_a_cluster_of_its_own(folder, tmp_path):
    bags = scan_bags(folder).load()
    write_bags(bags, tmp_path / "cohort.parquet")
    tables = []
    for where in (["--set", "workers=1"], []):
        store, table = tmp_path / f"{len(where)}.sqlite", tmp_path / f"{len(where)}.csv"
        options = ["-m", "SIL", "--repeats", "1", "--folds", "2", "--no-tune", "--export", table]
        run("compare", tmp_path / "cohort.parquet", *options, "--store", store, "--json", *where)
        tables.append(pd.read_csv(table)[["method", "repeat", "fold", "accuracy", "auc"]])
    pd.testing.assert_frame_equal(*tables)


def test_detect_runs_on_a_cluster(folder, cluster, tmp_path):
    bags = scan_bags(folder).load()
    write_bags(bags, tmp_path / "cohort.parquet")
    tables = []
    for where in (["--workers", cluster.scheduler_address], []):
        table = tmp_path / f"{len(where)}.csv"
        run("detect", tmp_path / "cohort.parquet", "-m", "SoftPIGMIL", "--set", "n_landmarks=20",
            "-o", table, "--no-report", "--json", *where)  # fmt: skip
        tables.append(pd.read_csv(table))
    assert len(tables[0]) == bags[bags.y == 1].n_instances
    pd.testing.assert_frame_equal(*tables, rtol=1e-6)
