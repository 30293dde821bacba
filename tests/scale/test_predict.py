"""Scores written block by block, with resume."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from pigmil import MILES, Bags, BagScaler, KDEMin
from pigmil._core.errors import BagsError
from pigmil.scale import _predict, predict_to_parquet

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


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


def test_a_stopped_call_goes_on_where_it_was(lazy, tmp_path, monkeypatch):
    model = KDEMin().fit(lazy.load())
    expected = read(predict_to_parquet(model, lazy, tmp_path / "whole"))
    write, written = _predict._write_part, []

    def stop_after_three(model, block, file):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(file)
        write(model, block, file)

    monkeypatch.setattr(_predict, "_write_part", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        predict_to_parquet(model, lazy, tmp_path / "scores")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "scores").glob("*.parquet")}
    assert len(before) == 3
    monkeypatch.setattr(_predict, "_write_part", write)
    files = predict_to_parquet(model, lazy, tmp_path / "scores")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    pd.testing.assert_frame_equal(read(files), expected)


def test_a_folder_of_other_bags_is_refused(lazy, tmp_path):
    model = KDEMin().fit(lazy.load())
    predict_to_parquet(model, lazy[:4], tmp_path)
    with pytest.raises(BagsError, match="holds the scores of other bags"):
        predict_to_parquet(model, lazy[4:8], tmp_path)


def test_info_of_instances_is_written_too(tmp_path):
    h5py = pytest.importorskip("h5py")
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = np.random.default_rng(0).normal(size=(3, 2))
            file["coords"] = np.array([[1, 2], [3, 4], [5, 6]])
    lazy = Bags.scan(tmp_path, labels={"a": 0, "b": 1})
    table = read(predict_to_parquet(KDEMin().fit(lazy), lazy, tmp_path / "scores"))
    assert table["coords_0"].tolist() == [1, 3, 5, 1, 3, 5]
    assert table["coords_1"].tolist() == [2, 4, 6, 2, 4, 6]
