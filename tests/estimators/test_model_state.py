"""Tampered models: what no fit could have left is refused when it is loaded."""

import copy
import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

import pigmil
from pigmil._core import state
from pigmil._core.errors import ModelFileError
from pigmil.datasets import make_ring
from pigmil.estimators import all_estimators, get_estimator
from pigmil.estimators._model_state import check_objects

# By `_check_state`, or by the class of the part.
CHECKED_BESIDE = {
    "positive_label_", "classifier_", "estimator_", "calibration_", "embedding_calibration_",
    "trace_",
}  # fmt: skip


@pytest.fixture(scope="module")
def bags():
    return make_ring(random_state=0, n_positive_bags=6, n_negative_bags=6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [card.name for card in all_estimators()])
def test_every_fitted_attribute_is_listed(name, bags):
    model = get_estimator(name)().fit(bags, bags.y)
    fitted = set(vars(model)) - set(model.get_params(deep=False))
    assert fitted - set(state.state_fields(type(model))) <= CHECKED_BESIDE
    state.check_state(model)


@pytest.fixture(scope="module")
def fitted(bags):
    """Fitted models, each fitted once and copied for every test."""
    known = {}

    def fitted(method, sparse=False, **parameters):
        key = (method, sparse, *parameters)
        if key not in known:
            data = bags.with_instances(sp.csr_array(bags.instances)) if sparse else bags
            known[key] = getattr(pigmil, method)(**parameters).fit(data, bags.y)
        return copy.deepcopy(known[key])

    return fitted


def tampered(model, path, change):
    """Save a model after a change of its attributes, as an attacker would."""
    change(model)
    return pigmil.save_model(model, path)


def put(name, value):
    def change(model):
        *owners, last = name.split(".")
        for owner in owners:
            model = getattr(model, owner)
        object.__setattr__(model, last, value(getattr(model, last)))

    return change


def with_entry(position, entry):
    def changed(array):
        array = np.array(array)
        array[position] = entry
        return array

    return changed


CHANGES = {
    "an index beyond the instances": ("KDEMin", "detected_instances_", with_entry(0, 10**6)),
    "a negative index": ("KDEMin", "detected_instances_", with_entry(0, -1)),
    "no unit": ("KDEMin", "length_unit_", lambda _: 0.0),
    "a unit that is not a number": ("KDEMin", "length_unit_", lambda _: float("nan")),
    "a tiny unit": ("KDEMin", "length_unit_", lambda _: 1e-200),
    "a text for a unit": ("KDEMin", "length_unit_", lambda _: "auto"),
    "other features": ("KDEMin", "n_features_in_", lambda _: 3),
    "no features": ("KDEMin", "n_features_in_", lambda _: 0),
    "an array for bags": ("KDEMin", "negative_bags_", lambda _: np.zeros((3, 2))),
    "bags of other features": (
        "KDEMin",
        "negative_bags_",
        lambda bags: pigmil.Bags(np.zeros((3, 5)), [0, 3]),
    ),
    "three classes": ("MILES", "classes_", lambda _: np.array([0, 1, 2])),
    "one class twice": ("MILES", "classes_", lambda _: np.array([1, 1])),
    "a class that is none": ("MILES", "positive_label_", lambda _: np.int64(7)),
    "a parameter out of range": ("MILES", "C", lambda _: -1.0),
    "a parameter of another type": ("MILES", "gamma", lambda _: "wide"),
    "coefficients of 1e249": ("MILES", "coef_", with_entry(0, 1e249)),
    "coefficients that are not numbers": ("MILES", "coef_", with_entry(0, np.nan)),
    "too few coefficients": ("MILES", "coef_", lambda array: array[:-1]),
    "integers for coefficients": ("MILES", "coef_", lambda array: array.astype(int)),
    "prototypes on their side": ("MILES", "prototypes_", lambda array: array.T),
    "an infinite intercept": ("MILES", "intercept_", lambda _: float("inf")),
    "a list for an array": ("MILES", "coef_", lambda array: array.tolist()),
    "a feature beyond": ("APR", "features_", with_entry(0, 2)),
    "bounds of another length": ("APR", "lower_", lambda array: array[:1]),
    "no concept": ("EMDD", "concepts_", lambda array: array[:0]),
    "labels of too few bags": ("MILD", "training_positive_", lambda array: array[1:]),
    "another kind of SVM": ("MILD", "kernel", lambda _: "rbf"),
    "an SVM on other columns": ("MILD", "svm_.weights", lambda array: array[1:]),
    "radii of one column": ("CitationKNN", "citation_radius_", lambda array: array[:, :1]),
    "support of too few bags": ("MIKernel", "dual_coef_", lambda array: array[1:]),
    "a short description": ("MiGraph", "support_description_", lambda array: array[1:]),
    "a narrow description": ("MIGraph", "support_description_", lambda array: array[:, 1:]),
    "a tree for a classifier": ("MInD", "classifier_", lambda _: pigmil.MILES()),
    "more columns than prototypes": (
        "PIGMIL",
        "classifier_.centre",
        lambda array: np.append(array, 0.0),
    ),
    "a scale of zero": ("PIGMIL", "classifier_.scale", with_entry(0, 0.0)),
    "a number for a flag": ("PIGMIL", "_fitted_on_bags", lambda _: 2),
    "an instance beyond the pool": ("PIGMIL", "pool_", with_entry(0, 10**9)),
    "a working set beyond": ("PIGMIL", "working_sets_", lambda _: [np.array([10**9])]),
}
SVC_CHANGES = {
    "support beyond the rows": ("support_", with_entry(0, 10**6)),
    "negative support": ("support_", with_entry(0, -5)),
    "64-bit support": ("support_", lambda array: array.astype(np.int64)),
    "more support than vectors": ("_n_support", with_entry(0, 10**6)),
    "negative counts": ("_n_support", lambda array: np.array([-1, array.sum() + 1], np.int32)),
    "counts of three classes": ("_n_support", lambda array: np.append(array, np.int32(0))),
    "short coefficients": ("_dual_coef_", lambda array: array[:, 1:]),
    "coefficients of 1e249": ("_dual_coef_", lambda array: array * 1e249),
    "coefficients of another type": ("_dual_coef_", lambda array: array.astype(np.float32)),
    "narrow vectors": ("support_vectors_", lambda array: array[:, 1:]),
    "fewer vectors": ("support_vectors_", lambda array: array[1:]),
    "sparse vectors": ("support_vectors_", sp.csr_array),
    "no intercept": ("_intercept_", lambda array: array[:0]),
    "two probabilities": ("_probA", lambda _: np.zeros(2)),
    "a kernel of the training rows": ("kernel", lambda _: "precomputed"),
    "a width that is not a number": ("_gamma", lambda _: float("nan")),
    "another training shape": ("shape_fit_", lambda _: (3, 1)),
    "the other storage": ("_sparse", lambda flag: not flag),
}


@pytest.mark.parametrize("name", CHANGES)
def test_tampered_methods_are_refused(name, fitted, tmp_path):
    method, attribute, value = CHANGES[name]
    path = tampered(fitted(method), tmp_path / "m.skops", put(attribute, value))
    with pytest.raises(ModelFileError, match=r"m\.skops"):
        pigmil.load_model(path)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", SVC_CHANGES)
def test_libsvm_is_given_nothing_that_points_outside(name, sparse, fitted, tmp_path):
    model = fitted("MILD", sparse, level="instance", kernel="rbf", C=1.0, gamma=1.0)
    attribute, value = SVC_CHANGES[name]
    if sparse and name == "sparse vectors":
        value = sp.csr_array.toarray
    path = tampered(model, tmp_path / "m.skops", put(f"svm_.{attribute}", value))
    with pytest.raises(ModelFileError, match="SVC"):
        pigmil.load_model(path)


@pytest.mark.parametrize(
    "offsets", [[0, 99], [0, -5, 48], [5, 48], [0, 48.0], [[0, 48]], [0], [0, 30, 20, 48]]
)
def test_bags_end_where_their_instances_end(offsets, bags, tmp_path):
    path = pigmil.save_model(pigmil.KDEMin().fit(bags, bags.y), tmp_path / "m.skops")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(members["schema.json"])
    held = tree["content"]["model"]["content"]["content"]["negative_bags_"]["content"]["content"]
    buffer = io.BytesIO()
    np.save(buffer, np.array(offsets))
    members[held["offsets"]["file"]] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ModelFileError, match="negative_bags_"):
        pigmil.load_model(path)


def test_a_pipeline_holds_estimators(bags, tmp_path):
    model = make_pipeline(pigmil.BagScaler(), pigmil.MILES()).fit(bags, bags.y)
    model.steps[0] = ("bagscaler", 3)
    with pytest.raises(ModelFileError, match="steps"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


HELD = {
    "a scaler": lambda X, y: StandardScaler().fit(X),
    "a scaler of bags": lambda X, y: pigmil.BagScaler().fit(X),
    "a method that does not classify": lambda X, y: pigmil.KDE().fit(X, y),
    "nothing": lambda X, y: None,
    "an array": lambda X, y: X,
    "three classes": lambda X, y: LogisticRegression().fit(X, np.arange(len(X)) % 3),
    "other labels": lambda X, y: SVC().fit(X, y + 1),
    "other features": lambda X, y: LogisticRegression().fit(X[:, :1], y),
    "never fitted": lambda X, y: LogisticRegression(),
    "counted but never fitted": lambda X, y: changed_part(
        CalibratedClassifierCV(), n_features_in_=2
    ),
    "classes without support vectors": lambda X, y: changed_part(
        SVC(), n_features_in_=2, classes_=np.array([0, 1])
    ),
    "classes without classifiers": lambda X, y: changed_part(
        OneVsRestClassifier(LogisticRegression()).fit(X, y), estimators_=[]
    ),
    "no calibrated classifiers": lambda X, y: changed_part(
        CalibratedClassifierCV(LogisticRegression(), cv=2).fit(X, y), calibrated_classifiers_=[]
    ),
    "a path": lambda X, y: make_pipeline(LogisticRegression(), memory="cache").fit(X, y),
}


def changed_part(estimator, **attributes):
    vars(estimator).update(attributes)
    return estimator


@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("method", ["SIL", "SingleInstance"])
def test_a_held_classifier_is_one_of_two_classes(method, name, bags, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = fitted(method)
    X, y = bags.instances, (bags.y[bags.bag_index] == bags.y.max()).astype(int)
    model.estimator_ = HELD[name](X, y)
    with pytest.raises(ModelFileError):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


@pytest.mark.parametrize(
    "classifier",
    [
        OneVsRestClassifier(LogisticRegression()),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
        make_pipeline(StandardScaler(), SVC()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_classifier_that_a_fit_left_is_held(classifier, bags, tmp_path):
    model = pigmil.SIL(classifier).fit(bags)
    again = pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))


def test_every_class_has_its_calibration(bags, tmp_path):
    model = CalibratedClassifierCV(pigmil.MIKernel(), cv=2).fit(bags, np.arange(bags.n_bags) % 3)
    again = pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))
    one = model.calibrated_classifiers_[0]
    for change in ({"calibrators": one.calibrators[:2]}, {"calibrators": [PCA()] * 3}):
        before = dict(vars(one))
        vars(one).update(change)
        with pytest.raises(ModelFileError, match="calibrat"):
            pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
        vars(one).update(before)
    one.estimator = StandardScaler().fit(bags.instances)
    with pytest.raises(ModelFileError, match="decision_function"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


@pytest.mark.parametrize("held", [None, 3, LogisticRegression(), pigmil.SIL()])
def test_a_step_transforms(held, bags, tmp_path):
    model = make_pipeline(pigmil.OnInstances(StandardScaler()), pigmil.SIL()).fit(bags)
    model[0].transformer_ = held
    with pytest.raises(ModelFileError, match="transform"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    if held is not None:  # which a pipeline skips
        model.steps[0] = ("held", held)
        with pytest.raises(ModelFileError, match=r"transform|names and estimators"):
            pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


def test_a_pipeline_without_steps_is_refused(tmp_path):
    model = make_pipeline(pigmil.SIL())
    model.steps.clear()
    with pytest.raises(ModelFileError, match="no steps"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


def test_a_pipeline_names_no_folder_of_pickles(bags, tmp_path):
    model = make_pipeline(pigmil.BagScaler(), pigmil.SIL(), memory=str(tmp_path / "cache"))
    with pytest.raises(ModelFileError, match="memory is set"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


def test_models_that_were_not_fitted_survive(tmp_path):
    path = pigmil.save_model(pigmil.PIGMIL(working_set_fraction=0.5), tmp_path / "m.skops")
    assert pigmil.load_model(path).working_set_fraction == 0.5


def test_scores_that_overflow_are_an_error(bags):
    model = pigmil.MILES().fit(bags, bags.y)
    model.intercept_ = 1e120
    with pytest.raises(ValueError, match=r"12 of 12 scores overflow, the first is 1e\+120"):
        model.decision_function(bags)
    model.intercept_ = 1e99
    assert (model.decision_function(bags) == 1e99).all()
    model.intercept_ = float("nan")
    with pytest.raises(ValueError, match="scores overflow"):
        model.predict(bags)


def test_density_scores_need_their_bags(bags, tmp_path):
    model = pigmil.DD(score_by="density").fit(bags, bags.y)
    again = pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(
        again.decision_function_instances(bags), model.decision_function_instances(bags)
    )
    del model.training_bags_
    with pytest.raises(ModelFileError, match="density scores"):
        pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))


def changed(estimator, **attributes):
    """A fitted estimator of scikit-learn with other attributes."""
    X = np.random.default_rng(0).normal(size=(12, 3))
    estimator.fit(X, np.arange(12) % 2)
    vars(estimator).update(attributes)
    return estimator


def without(estimator, name):
    """A fitted estimator of scikit-learn that lacks an attribute."""
    del vars(changed(estimator))[name]
    return estimator


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (changed(StandardScaler(), scale_=None), "scale_ is missing"),
        (changed(StandardScaler(), mean_=None), "mean_ is missing"),
        (changed(RobustScaler(), center_=None), "center_ is missing"),
        (changed(PCA(2, whiten=True), explained_variance_=np.ones(3)), "explained_variance_ has"),
        (changed(LogisticRegression(), classes_=np.array([1])), "classes_ has 1 entries"),
        (changed(PCA(2), n_features_in_=2), "expected 2 features"),
        (without(LogisticRegression(), "n_features_in_"), "n_features_in_ is missing"),
        (without(StandardScaler(), "n_features_in_"), "n_features_in_ is missing"),
        (without(SVC(), "support_"), "support_"),
        (changed(LinearSVC(), classes_=np.arange(3)), "coef_ has 1 rows for 3 classes"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parts_of_scikit_learn_are_whole(estimator, message):
    with pytest.raises(ModelFileError, match=message):
        check_objects([("model", estimator)])


def test_scalers_that_leave_something_out_are_accepted():
    check_objects([("model", changed(StandardScaler(with_std=False)))])
    check_objects([("model", changed(RobustScaler(with_centering=False)))])
