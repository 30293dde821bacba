"""Models written and read back: the same answers, and nothing foreign is built."""

import contextlib
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

import pigmil
from pigmil._core.errors import ModelFileError
from pigmil.datasets import make_ring
from pigmil.estimators import all_estimators, get_estimator
from pigmil.estimators.persistence import _class_name


@pytest.fixture(scope="module")
def bags():
    return make_ring(random_state=0, n_positive_bags=8, n_negative_bags=8)


def assert_survives(model, bags, tmp_path, trusted=()):
    path = pigmil.save_model(model, tmp_path / "model.skops")
    again = pigmil.load_model(path, trusted=trusted)
    for score in ("decision_function", "decision_function_instances", "predict_proba"):
        if hasattr(model, score):
            np.testing.assert_array_equal(getattr(again, score)(bags), getattr(model, score)(bags))
    return again


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [card.name for card in all_estimators()])
@pytest.mark.parametrize("kind", ["dense", "sparse", "weighted"])
def test_every_method_survives(name, kind, bags, tmp_path):
    method, options = get_estimator(name)(), {}
    if kind == "sparse":
        if not method.__sklearn_tags__().input_tags.sparse:
            pytest.skip("takes dense instances only")
        bags = bags.with_instances(sp.csr_array(bags.instances))
    if kind == "weighted":
        if not has_fit_parameter(method, "sample_weight"):
            pytest.skip("takes no weights")
        options = {"sample_weight": np.arange(len(bags)) % 3}  # also bags of weight 0
    model = method.fit(bags, bags.y, **options)
    again = assert_survives(model, bags, tmp_path)
    for attribute in ("detected_instances_", "instance_scores_"):
        if method.card.detects:
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))


WRAPPED = {
    "grid search": GridSearchCV(pigmil.MISVM(), {"C": [1.0, 10.0]}, cv=2),
    "search of a pipeline": RandomizedSearchCV(
        make_pipeline(pigmil.BagScaler(), pigmil.MILES()),
        {"miles__C": [1.0, 2.0], "miles__class_weight": [None, "balanced"]},
        n_iter=2,
        cv=StratifiedKFold(2),
        random_state=0,
    ),
    "calibrated": CalibratedClassifierCV(pigmil.MIKernel(), cv=2),
    "one against the rest": OneVsRestClassifier(pigmil.MIKernel()),
    "scaled by scikit-learn": make_pipeline(
        pigmil.OnInstances(make_pipeline(MinMaxScaler(), PCA(2))), pigmil.MIKernel()
    ),
    "logistic regression inside": pigmil.MInD(classifier=LogisticRegression()),
    "linear SVM inside": pigmil.MInD(classifier=LinearSVC()),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", WRAPPED)
def test_models_around_methods_survive(name, bags, tmp_path):
    assert_survives(clone(WRAPPED[name]).fit(bags, bags.y), bags, tmp_path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_search_with_a_scoring_function_names_the_way_out(bags, tmp_path):
    search = GridSearchCV(pigmil.MISVM(), {"C": [1.0]}, cv=2, scoring="roc_auc")
    path = pigmil.save_model(search.fit(bags, bags.y), tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=r"roc_auc_score.*best_estimator_"):
        pigmil.load_model(path)


def test_foreign_types_are_named_and_refused(bags, tmp_path):
    model = make_pipeline(FunctionTransformer(print), pigmil.KDEMin())
    path = pigmil.save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=r"builtins\.print"):
        pigmil.load_model(path)


def test_damaged_files_are_refused(bags, tmp_path):
    path = pigmil.save_model(pigmil.KDEMin().fit(bags), tmp_path / "model.skops")
    whole = path.read_bytes()
    cut = [whole[: int(share * len(whole))] for share in (0.2, 0.5, 0.9, 0.99)]
    for content in (b"", b"PK\x03\x04 not a zip", b"\x80\x04pickle", b"{}" * 500, *cut):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"model\.skops.* is damaged"):
            pigmil.load_model(path)
    for position in np.random.default_rng(0).integers(0, len(whole), 60):
        changed = bytearray(whole)
        changed[position] ^= 0xFF
        path.write_bytes(bytes(changed))
        with contextlib.suppress(ModelFileError):  # no other error
            pigmil.load_model(path)


def test_missing_file_and_other_versions(bags, tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="no model file"):
        pigmil.load_model(tmp_path / "none.skops")
    path = pigmil.save_model(pigmil.KDEMin().fit(bags), tmp_path / "model.skops")
    monkeypatch.setattr("pigmil._core.__version__", "9.9.9")
    with pytest.warns(UserWarning, match=r"here are pigmil 9\.9\.9"):
        pigmil.load_model(path)
    monkeypatch.setattr("pigmil.estimators.persistence._FORMAT", 9)
    with pytest.raises(ModelFileError, match="does not read"):
        pigmil.load_model(path)


def test_the_list_of_classes_serves_other_tools(bags, tmp_path):
    model = pigmil.MILES().fit(bags, bags.y)
    skops.io.dump(model, tmp_path / "model.skops")
    again = skops.io.load(tmp_path / "model.skops", trusted=pigmil.model_types())
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))
    for name in pigmil.model_types():  # every name is a class's own
        assert _class_name(name) == name


@pytest.mark.parametrize(
    ("classifier", "trusted"),
    [
        (GaussianNB(), ["sklearn.naive_bayes.GaussianNB"]),
        (
            DecisionTreeClassifier(random_state=0),
            ["sklearn.tree._classes.DecisionTreeClassifier", "sklearn.tree._tree.Tree"],
        ),
    ],
)
def test_other_classifiers_need_their_own_names_only(classifier, trusted, bags, tmp_path):
    model = pigmil.SIL(classifier).fit(bags, bags.y)
    path = pigmil.save_model(model, tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match=trusted[0]):
        pigmil.load_model(path)
    assert_survives(model, bags, tmp_path, trusted)


def test_the_guide_logs_a_model_with_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the guide shows mlflow")
    page = Path(__file__).parents[2] / "docs" / "guide" / "scikit_learn.md"
    code = re.search(r"```{code-block} python\n(import mlflow.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow
        exec(code[1], names)
        served = mlflow.pyfunc.load_model(names["logged"].model_uri)
    np.testing.assert_array_equal(names["labels"], names["model"].predict(names["bags"]))
    np.testing.assert_array_equal(served.predict(names["table"]), names["labels"])


def test_a_failed_save_leaves_the_old_file(bags, tmp_path):
    path = pigmil.save_model(pigmil.KDEMin().fit(bags), tmp_path / "model.skops")
    before = path.read_bytes()
    with pytest.raises(Exception, match=r".*"):
        pigmil.save_model({"model": (item for item in ())}, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.skops"]
    assert zipfile.is_zipfile(path)


@pytest.mark.parametrize("name", ["MILES", "MILD", "KDEMin", "DD", "MInD"])
def test_a_model_of_several_classes_survives(name, tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(2, 2)) + 5 * (number % 3) for number in range(12)]
    method = getattr(pigmil, name)()
    if "class_weight" in method.get_params():
        method.set_params(class_weight={0: 1.0, 1: 2.0, 2: 3.0})
    assert_survives(method.fit(parts, np.arange(12) % 3), parts, tmp_path)
