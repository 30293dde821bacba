"""Every SVM, box, sphere or concept: bags that leave little to learn, and sparse instances."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import pigmil
from pigmil import Bags
from tests.estimators.toy import toy_bags

# In the first ten the best instance decides for its bag.
METHODS = [pigmil.MiSVM, pigmil.MISVM, pigmil.BagKISVM, pigmil.InsKISVM, pigmil.MiSim]
METHODS += [pigmil.MMIL, pigmil.DD, pigmil.EMDD, pigmil.APR, pigmil.ClusteringMIL]
METHODS += [pigmil.MILES, pigmil.MILIS, pigmil.MILD]
LINEAR = [pigmil.MISVM(kernel="linear"), pigmil.BagKISVM(kernel="linear")]
FORMS = [*(method() for method in METHODS), pigmil.MILD(level="instance"), *LINEAR]
OF_BAGS = [pigmil.MIKernel(), pigmil.MIKernel(normalization=None), pigmil.MiGraph()]
OF_BAGS += [pigmil.MIGraph(), pigmil.MInD(), pigmil.CitationKNN()]
ODD = {
    "one instance each": ([np.zeros((1, 2)), np.ones((1, 2))], [1, 0]),
    "nothing differs": ([np.zeros((2, 3))] * 4, [0, 1, 0, 1]),
    "one positive bag": ([np.ones((2, 1)), np.zeros((1, 1)), np.zeros((3, 1))], [1, 0, 0]),
    "negatives in a positive bag": (
        [np.zeros((2, 1)), np.ones((2, 1)), np.zeros((1, 1))],
        [1, 1, 0],
    ),
    "copies": ([np.zeros((2, 3)), np.zeros((1, 3)), np.ones((2, 3))], [1, 0, 1]),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("model", [*FORMS, *OF_BAGS], ids=str)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_bags_have_finite_scores(model, case):
    bags = Bags.from_list(ODD[case][0], y=ODD[case][1])
    model = clone(model).fit(bags)
    assert np.isfinite(model.decision_function(bags)).all()
    assert not model.card.detects or np.isfinite(model.instance_scores_).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_positive_bag_is_recognised(method):
    parts, y = ODD["one positive bag"]
    strict = method in (pigmil.BagKISVM, pigmil.InsKISVM, pigmil.MILES, pigmil.MMIL)
    model = method(**({"C": 100.0} if strict else {}))
    assert model.fit(Bags.from_list(parts, y=y)).predict(parts).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "model",
    [form for form in FORMS if form._accepts_sparse and not isinstance(form, pigmil.MiSim)],
    ids=str,
)
def test_sparse_instances_give_the_same_model(model):
    bags = toy_bags(1, 24, shift=2.5)
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    exact = {"tol": 1e-6} if "tol" in model.get_params() else {}
    model.set_params(
        **exact, **({"random_state": 0} if "random_state" in model.get_params() else {})
    )
    expected = model.fit(bags).decision_function(bags)
    found = model.fit(sparse).decision_function(sparse)
    np.testing.assert_allclose(found, expected, atol=5e-3 * np.ptp(expected))


@pytest.mark.parametrize("method", METHODS[:10])
def test_the_best_instance_decides_for_its_bag_and_is_detected(method):
    bags = toy_bags(1, 24, shift=2.5)
    model = method().fit(bags)
    parts = np.split(model.decision_function_instances(bags), bags.offsets[1:-1])
    np.testing.assert_allclose(model.decision_function(bags), [part.max() for part in parts])
    best = bags.offsets[:-1] + [np.argmax(part) for part in parts]
    np.testing.assert_array_equal(model.detected_instances_, best[bags.y == 1])


def test_milis_scores_an_instance_as_a_bag_of_its_own():
    bags = toy_bags(2)
    model = pigmil.MILIS().fit(bags)
    singles = Bags.from_list([row[None] for row in bags.instances])
    expected = model.decision_function(singles)
    np.testing.assert_allclose(model.decision_function_instances(bags), expected, atol=1e-9)
