"""Scores written block by block, with resume."""

import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from pigmil import MILES, MISVM, BagScaler, KDEMin, MaxPoolingLR, scan_bags, select_instances
from pigmil._core.errors import BagsError
from pigmil.scale import predict_to_parquet

pd = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")


def read(files):
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def test_files_hold_the_scores_of_all_instances(lazy, tmp_path):
    model = make_pipeline(BagScaler(), MILES()).fit(lazy.load())
    files = predict_to_parquet(model, lazy, tmp_path / "scores")
    table = read(files)
    bags = model[:-1].transform(lazy.load())
    assert len(files) == 8
    assert table["bag"].tolist() == lazy.ids[bags.bag_index].tolist()
    assert table["instance"].tolist() == [at for n in lazy.sizes for at in range(n)]
    expected = model[-1].decision_function_instances(bags)
    np.testing.assert_allclose(table["score"], expected, rtol=1e-5, atol=1e-6)
    per_bag = table.groupby("bag")["bag_score"].first()
    np.testing.assert_allclose(per_bag, model.decision_function(lazy.load()), rtol=1e-5, atol=1e-6)


KILLED = """
import os, pickle, signal, sys
from pigmil.scale import _predict
model, lazy, folder = pickle.load(open(sys.argv[1], "rb"))
write, written = _predict._write_part, []

def kill_after_three(model, plan, block, file, more):
    if len(written) == 3:
        under_way = _predict.atomic_write(file)
        under_way.__enter__()  # leaves its temporary file
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(file)
    write(model, plan, block, file, more)

_predict._write_part = kill_after_three
type(lazy).partitions = lambda bags, max_bytes=0: [bags[at : at + 4] for at in range(0, 30, 4)]
_predict.predict_to_parquet(model, lazy, folder)
"""


def test_a_killed_process_is_resumed_by_another(lazy, tmp_path):
    model = KDEMin().fit(lazy.load())
    job = tmp_path / "job.pkl"
    job.write_bytes(pickle.dumps((model, lazy, tmp_path / "scores")))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(job)], env={**os.environ, "LOKY_MAX_CPU_COUNT": "1"}
    )
    assert done.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "scores").glob("part-*.parquet"))) == 3
    assert len(list((tmp_path / "scores").iterdir())) == 4
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "scores").glob("part-*")}
    files = predict_to_parquet(model, lazy, tmp_path / "scores")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    expected = read(predict_to_parquet(model, lazy, tmp_path / "whole"))
    pd.testing.assert_frame_equal(read(files), expected)
    assert sorted((tmp_path / "scores").iterdir()) == files


def test_a_folder_reads_as_one_table(lazy, tmp_path):
    dataset, polars = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("polars")
    expected = read(predict_to_parquet(KDEMin().fit(lazy.load()), lazy, tmp_path))
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path), expected)
    assert dataset.dataset(tmp_path).to_table()["score"].to_pylist() == expected["score"].tolist()
    assert polars.read_parquet(tmp_path)["score"].to_list() == expected["score"].tolist()


def test_parts_of_an_earlier_call_that_are_not_whole_are_named(lazy, tmp_path):
    model = KDEMin().fit(lazy.load())
    first, second, *_ = predict_to_parquet(model, lazy, tmp_path)
    whole = first.read_bytes()
    first.write_bytes(whole[:-20])
    with pytest.raises(BagsError, match=r"part-00000\.parquet: cannot be read as parquet"):
        predict_to_parquet(model, lazy, tmp_path)
    first.unlink()
    os.mkfifo(first)  # reading it would never end
    with pytest.raises(BagsError, match="not a regular file"):
        predict_to_parquet(model, lazy, tmp_path)
    first.unlink()
    assert predict_to_parquet(model, lazy, tmp_path)[0].read_bytes() == whole
    assert second.exists()


def test_several_classes_have_a_column_each(lazy, tmp_path):
    y = np.array(["a", "b", "c"] * 10)
    model = MILES().fit(lazy.load().with_labels(y))
    table = read(predict_to_parquet(model, lazy, tmp_path))
    names = [f"{kind}_{label}" for kind in ("score", "bag_score") for label in "abc"]
    assert set(names) <= set(table)
    first = table.groupby("bag", sort=False).first()
    assert first["predicted"].tolist() == model.predict(lazy).tolist()
    np.testing.assert_allclose(first[names[3:]], model.decision_function(lazy), rtol=1e-6)


SELECTING = [MISVM(), make_pipeline(BagScaler(), MILES()), MaxPoolingLR(tol=1e-8)]


@pytest.mark.parametrize("method", SELECTING)
def test_instances_are_selected_on_disk(method, lazy):
    found = select_instances(method, lazy, cv=2)
    expected = select_instances(method, lazy.load(), cv=2)
    assert np.array_equal(found.called, expected.called)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-4)


def test_further_columns_are_cut_to_the_blocks(lazy, tmp_path):
    model, marks = KDEMin().fit(lazy.load()), np.arange(lazy.n_instances)
    files = predict_to_parquet(model, lazy, tmp_path, columns={"mark": marks})
    files[2].unlink()
    table = read(predict_to_parquet(model, lazy, tmp_path, columns={"mark": marks}))
    assert table["mark"].tolist() == marks.tolist()
    with pytest.raises(BagsError, match="another model"):
        predict_to_parquet(model, lazy, tmp_path, columns={"mark": marks + 1})


def test_folders_of_other_bags_or_another_model_are_refused(lazy, tmp_path):
    model = KDEMin().fit(lazy.load())
    predict_to_parquet(model, lazy[:4], tmp_path)
    with pytest.raises(BagsError, match="holds the scores of other bags"):
        predict_to_parquet(model, lazy[4:8], tmp_path)
    with pytest.raises(BagsError, match="holds the scores of another model"):
        predict_to_parquet(MILES().fit(lazy.load()), lazy[:4], tmp_path)


def test_info_is_written_too_and_never_replaces_scores(tmp_path):
    for name in ("a", "b"):
        features = np.random.default_rng(0).normal(size=(3, 2))
        coords = np.array([[1, 2], [3, 4], [5, 6]])
        np.savez(tmp_path / f"{name}.npz", features=features, coords=coords, score=coords[:, 0])
    lazy = scan_bags(tmp_path, labels={"a": 0, "b": 1})
    model = KDEMin().fit(lazy)
    table = read(predict_to_parquet(model, lazy, tmp_path / "scores"))
    np.testing.assert_allclose(table["score"], model.decision_function_instances(lazy.load()))
    assert table["info_score"].tolist() == table["coords_0"].tolist() == [1, 3, 5, 1, 3, 5]
    assert table["coords_1"].tolist() == [2, 4, 6, 2, 4, 6]
