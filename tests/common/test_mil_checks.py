"""Properties that every multiple-instance method must have."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from pigmil import Bags, BagScaler
from pigmil._core.errors import PositiveLabelWarning, SingletonBagsWarning
from pigmil.estimators import all_estimators, get_estimator
from pigmil.estimators._selection import content_order, stratified_folds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALL = [card.name for card in all_estimators()]
DETECTORS = [card.name for card in all_estimators(detects=True)]
CLASSIFIERS = [card.name for card in all_estimators(classifies=True)]


def make(name):
    method = get_estimator(name)()
    if "random_state" in method.get_params():
        method.set_params(random_state=0)
    return method


@pytest.fixture(scope="module")
def bags():
    """Twelve bags of two to five instances; positives lie around (3, 3, 3), negatives around 0."""
    rng = np.random.default_rng(7)
    parts, y, labels = [], [], []
    for number in range(24):
        size = int(rng.integers(2, 6))
        part = rng.normal(size=(size, 3))
        truth = np.zeros(size, dtype=int)
        if number % 2:
            part[0] = rng.normal(3.5, 0.4, size=3)
            truth[0] = 1
        parts.append(part)
        y.append(number % 2)
        labels.append(truth)
    return Bags.from_list(parts, y=y, instance_labels=labels)


def outputs(method, bags):
    scores = {}
    if method.card.classifies:
        scores["bags"] = method.decision_function(bags)
    if method.card.detects:
        scores["instances"] = method.decision_function_instances(bags)
    return scores


# Its instance scores of training bags leave the bag of an instance out, as documented.
LEAVES_OWN_BAG_OUT = {"PIGMIL", "SoftPIGMIL", "MILD"}
# In these the best instance does not decide for its bag: all instances have a part.
BAG_DECIDES = {"PIGMIL", "MILD", "MILES", "MILIS"}
# APR measures its margin in the units of the features.
IN_UNITS_OF_THE_FEATURES = {"APR"}


def fresh_bags(bags):
    """Bags like those of the fixture, not seen in training."""
    rng = np.random.default_rng(8)
    parts = [rng.normal(size=(4, 3)) for _ in range(20)]
    for part in parts[::2]:
        part[2] = rng.normal(3.5, 0.4, size=3)
    return Bags.from_list(parts, y=(np.arange(20) + 1) % 2)


@pytest.mark.parametrize("name", DETECTORS)
def test_instance_scores_mean_the_same_in_every_method(name, bags):
    method = make(name).set_params(**NOT_BY_DEFAULT.get(name, {})).fit(bags)
    new = fresh_bags(bags)
    scores, trained = method.instance_scores_, method.decision_function_instances(bags)
    unseen = method.decision_function_instances(new)
    # Finite everywhere, also in negative bags.
    for values in (scores, trained, unseen):
        assert np.isfinite(values).all()
    # Training scores are those of the training bags.
    if name not in LEAVES_OWN_BAG_OUT:
        np.testing.assert_allclose(trained, scores, atol=1e-6 * np.abs(scores).max())
    # One instance of every positive bag is detected, the best-scored and mostly the planted one.
    owners = bags.bag_index[method.detected_instances_]
    np.testing.assert_array_equal(np.sort(owners), np.flatnonzero(bags.y == 1))
    assert bags.instance_labels[method.detected_instances_].mean() >= 0.9
    for instance, owner in zip(method.detected_instances_, owners, strict=True):
        best = scores[bags.offsets[owner] : bags.offsets[owner + 1]].max()
        assert scores[instance] == pytest.approx(best, rel=1e-6)
    # Higher is more positive: planted instances are above the others, in old and new bags.
    planted = bags.instance_labels == 1
    assert np.median(scores[planted]) > np.median(scores[~planted])
    # 0 separates: the best instance of a bag is above 0 where the bag is called positive.
    if method.card.classifies:
        best = np.maximum.reduceat(unseen, new.offsets[:-1])
        agrees = (best > 0) == (method.predict(new) == 1)
        assert agrees.mean() >= (0.85 if name in BAG_DECIDES else 1.0)


def overlapping_bags(seed):
    """Bags whose positive instances lie among the others: a search finds many local optima."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(2, 7)), 3)) for _ in range(24)]
    for part in parts[1::2]:
        part[0] += 1.0
    return Bags.from_list(parts, y=np.arange(24) % 2)


def changed_bags(bags, change, rng):
    if change == "bags":
        return bags[rng.permutation(len(bags))]
    if change == "instances":
        return Bags.from_list([rng.permutation(bag) for bag in bags], y=bags.y)
    # A power of 2 changes no digit. At 1e8 a double has about eight digits after the point.
    scale, offset = (2.0**40, 0.0) if change == "scale" else (1.0, 2.0**27)
    return bags.with_instances(bags.instances * scale + offset)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("change", ["bags", "instances", "scale", "offset"])
def test_fit_does_not_depend_on_order_scale_or_offset(name, change, bags):
    if change == "scale" and name in IN_UNITS_OF_THE_FEATURES:
        pytest.skip("measures its margin in the units of the features")
    cases = [(bags, fresh_bags(bags))]
    if change in ("bags", "instances"):
        cases += [(overlapping_bags(seed), overlapping_bags(100)) for seed in range(4)]
    first, others = np.random.default_rng(2), np.random.default_rng(2)
    for number, (train, new) in enumerate(cases):
        rng = others if number else first
        test = new if change in ("bags", "instances") else changed_bags(new, change, rng)
        expected = outputs(make(name).fit(train), new)
        changed = outputs(make(name).fit(changed_bags(train, change, rng)), test)
        for key, values in expected.items():
            np.testing.assert_allclose(changed[key], values, atol=2e-2 * np.ptp(values))


@pytest.mark.parametrize("name", ALL)
def test_values_too_large_to_square_are_refused_with_their_place(name, bags):
    large = bags.instances.copy()
    large[3, 1] = -1e151
    owner = bags.bag_index[3]
    place = rf"Feature 1 of instance {3 - bags.offsets[owner]} in bag {owner} .* is -1e\+151; "
    with pytest.raises(ValueError, match=place + r".*Divide the feature by a constant\."):
        make(name).fit(bags.with_instances(large))
    extreme = outputs(make(name).fit(bags.with_instances(bags.instances * 1e140)), bags)
    assert all(np.isfinite(values).all() for values in extreme.values())


@pytest.fixture(scope="module")
def three_classes():
    """Bags with an instance near (6, 0, 0), near (0, 6, 0), or neither."""
    rng = np.random.default_rng(5)
    y = np.arange(30) % 3
    parts = [rng.normal(scale=0.5, size=(3, 3)) for _ in y]
    for part, label in zip(parts, y, strict=True):
        if label:
            part[1, label - 1] += 6
    return Bags.from_list(parts), np.array(["none", "left", "right"])[y]


@pytest.mark.parametrize("name", ALL)
def test_several_classes_have_one_score_each(name, three_classes):
    bags, y = three_classes
    method = make(name).set_params(**NOT_BY_DEFAULT.get(name, {})).fit(bags, y)
    assert method.classes_.tolist() == ["left", "none", "right"]
    # Each column is the model of one class against the rest.
    one = make(name).set_params(**NOT_BY_DEFAULT.get(name, {})).fit(bags, y == "left")
    for key, values in outputs(method, bags).items():
        assert values.shape[1] == 3
        np.testing.assert_allclose(values[:, 0], outputs(one, bags)[key], atol=1e-8)
    if method.card.classifies:
        largest = method.decision_function(bags).argmax(axis=1)
        np.testing.assert_array_equal(method.predict(bags), method.classes_[largest])
    if method.card.detects:
        assert method.instance_scores_.shape == (bags.n_instances, 3)
        chosen = method.detected_instances_
        of_left = chosen[y[bags.bag_index[chosen]] == "left"]
        np.testing.assert_array_equal(of_left, np.sort(one.detected_instances_))
    # A later fit on two classes forgets the models of the first.
    again = method.fit(bags, y == "left")
    assert again.positive_label_
    assert not hasattr(again, "estimators_")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_are_those_of_held_out_scores(name, bags, three_classes):
    if name in {"PIGMIL", "SoftPIGMIL"}:
        pytest.skip("calibrated by their own inner folds")
    assert not hasattr(make(name), "predict_proba")
    method = make(name).set_params(probability=True, pos_label=0).fit(bags, 1 - bags.y)
    probability = method.predict_proba(bags)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    labels = method.classes_[probability.argmax(axis=1)]
    np.testing.assert_array_equal(labels, method.predict(bags))
    # The slope is the maximum of the likelihood of scores by models that have not seen the bag.
    positive = bags.y == 1
    held_out = np.empty(len(bags))
    for fold in stratified_folds(positive, order=content_order(bags)):
        fitted = make(name).fit(bags[~fold], positive[~fold])
        held_out[fold] = fitted.decision_function(bags[fold])
    margins = np.where(positive, held_out, -held_out)
    losses = [
        np.logaddexp(0, -factor * method.probability_slope_ * margins).sum()
        for factor in (0.97, 1.0, 1.03)
    ]
    bounds = np.exp([-5, 5]) / np.abs(held_out).max()
    inside = bounds[0] * 1.01 < method.probability_slope_ < bounds[1] * 0.99
    assert losses[1] <= min(losses) + 1e-9 or not inside
    if name not in {"MILES", "MI-SVM", "Citation-kNN"}:
        return  # the rest is the same code for all
    several = make(name).set_params(probability=True).fit(*three_classes)
    probability = several.predict_proba(three_classes[0])
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    labels = several.classes_[probability.argmax(axis=1)]
    np.testing.assert_array_equal(labels, several.predict(three_classes[0]))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_tie_is_negative_whatever_the_labels(name, bags):
    method = make(name).set_params(pos_label=0).fit(bags, 1 - bags.y)
    method._score_bags = lambda part: np.array([0.0, 1.0, -1.0])
    assert method.predict(bags[:3]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", ALL)
def test_scores_follow_the_order_and_copies_score_alike(name, bags):
    method = make(name).fit(bags)
    assert hasattr(method, "decision_function_instances") == method.card.detects
    first = outputs(method, bags)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(bags))
    orders = [rng.permutation(size) for size in bags.sizes]  # of the instances of each bag
    shuffled = Bags.from_list([bags[int(i)][orders[i]] for i in order])
    rows = np.concatenate([bags.offsets[i] + orders[i] for i in order])
    for key, values in outputs(method, shuffled).items():
        expected = first[key][order if key == "bags" else rows]
        np.testing.assert_allclose(values, expected, atol=1e-8)
    copies = [pickle.loads(pickle.dumps(method)), clone(method).fit(bags), method.fit(bags)]
    for copy in copies:
        for key, values in outputs(copy, bags).items():
            np.testing.assert_allclose(values, first[key], atol=1e-9)


SPARSE = [name for name in ALL if make(name).__sklearn_tags__().input_tags.sparse]


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_instances_give_the_scores_of_dense_ones(name, bags):
    kept = np.where(np.abs(bags.instances) < 0.5, 0, bags.instances)
    dense, sparse = bags.with_instances(kept), bags.with_instances(sp.csr_array(kept))
    method = make(name).fit(sparse)
    expected = outputs(method, dense)
    for key, values in outputs(method, sparse).items():
        np.testing.assert_allclose(values, expected[key], atol=1e-6 * np.ptp(values))


# Two bags with a shared background are close by the minimal Hausdorff distance, whatever else they
# hold: Citation-kNN cannot separate these bags by its default, and can by the maximal one.
# APR grows its box without a look at the negatives and closes around that background; from several
# seeds, of which the box with fewest negatives is kept, it finds the positives.
NOT_BY_DEFAULT = {"Citation-kNN": {"rank": None}, "APR": {"n_seeds": 10}}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_separable_bags_are_separated_in_cross_validation(name, bags):
    method = make(name).set_params(**NOT_BY_DEFAULT.get(name, {}))
    assert cross_val_score(method, bags, bags.y, cv=3).mean() >= 0.75


WEIGHTED = [name for name in ALL if has_fit_parameter(get_estimator(name), "sample_weight")]
# Their formulas count bags (neighbours, cluster centres, starts, folds) or bound them one by one.
NOT_WEIGHTED = {
    "PIGMIL", "SoftPIGMIL", "APR", "DD", "EM-DD", "Bag-KI-SVM", "Ins-KI-SVM", "MILD", "mi-Sim",
    "MILIS", "Citation-kNN", "Clustering MIL", "Statistics SVC", "Statistics boosting",
}  # fmt: skip


def exact(name):
    """Return a method whose solver stops late, where it has a tolerance."""
    method = make(name)
    return method.set_params(tol=1e-8) if "tol" in method.get_params() else method


def test_every_method_takes_weights_or_is_listed_as_one_that_does_not():
    assert set(ALL) - set(WEIGHTED) == NOT_WEIGHTED


@pytest.mark.parametrize("name", ALL)
def test_weights_are_routed_as_scikit_learn_routes_them(name, bags):
    with config_context(enable_metadata_routing=True):
        method = make(name)
        if name not in WEIGHTED:
            assert not hasattr(method, "set_fit_request")
            with pytest.raises(TypeError, match="sample_weight"):
                method.fit(bags, bags.y, sample_weight=np.ones(len(bags)))
            return
        weights = np.where(bags.y == 1, 3.0, 1.0)
        inside = make_pipeline(BagScaler(), method.set_fit_request(sample_weight=True))
        inside.fit(bags, bags.y, sample_weight=weights)
        alone = make(name).fit(inside[0].transform(bags), bags.y, sample_weight=weights)
        new = inside[0].transform(fresh_bags(bags))
        for key, values in outputs(alone, new).items():
            np.testing.assert_allclose(outputs(inside[-1], new)[key], values, atol=1e-12)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_bag_of_weight_two_counts_twice_and_one_of_weight_zero_not_at_all(name, bags):
    rng = np.random.default_rng(3)
    # Overlapping classes, where the weights matter.
    noisy = bags.with_instances(bags.instances + rng.normal(scale=1.5, size=bags.instances.shape))
    weights = rng.permutation(np.arange(len(bags)) % 4)
    copies = np.repeat(np.arange(len(bags)), weights)
    new = fresh_bags(bags)
    weighted = exact(name).fit(noisy, sample_weight=weights)
    repeated = outputs(exact(name).fit(noisy[copies]), new)
    plain = outputs(exact(name).fit(noisy), new)
    for key, values in outputs(weighted, new).items():
        spread = np.ptp(repeated[key])
        np.testing.assert_allclose(values, repeated[key], atol=1e-3 * spread)
        assert np.abs(plain[key] - repeated[key]).max() > 1e-2 * spread  # weights do matter here
    if weighted.card.detects:
        # Training scores cover all bags, and the detected instances are those of bags that count.
        assert weighted.instance_scores_.shape == (bags.n_instances,)
        owners = bags.bag_index[weighted.detected_instances_]
        np.testing.assert_array_equal(owners, np.flatnonzero((bags.y == 1) & (weights > 0)))
        new_scores = weighted.decision_function_instances(noisy)
        np.testing.assert_allclose(weighted.instance_scores_, new_scores, atol=1e-6)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_reach_every_class_and_the_calibration(name, three_classes):
    bags, y = three_classes
    weights = 1.0 + np.arange(len(bags)) % 3
    method = exact(name).fit(bags, y, sample_weight=weights)
    one = exact(name).fit(bags, y == "left", sample_weight=weights)
    for key, values in outputs(method, bags).items():
        np.testing.assert_allclose(values[:, 0], outputs(one, bags)[key], atol=1e-8)
    if "probability" in method.get_params():
        fitted = exact(name).set_params(probability=True)
        slopes = [
            fitted.fit(bags, y == "left", sample_weight=own).probability_slope_
            for own in (np.ones(len(bags)), None)
        ]
        assert slopes[0] == pytest.approx(slopes[1], rel=1e-6)


@pytest.mark.parametrize("name", WEIGHTED)
def test_wrong_weights_are_refused(name, bags):
    with pytest.raises(ValueError, match="Negative values"):
        make(name).fit(bags, sample_weight=-np.ones(len(bags)))
    with pytest.raises(ValueError, match=r"weight above 0 have the labels \[1\] only"):
        make(name).fit(bags, sample_weight=bags.y)


@pytest.mark.parametrize("name", ALL)
def test_a_table_given_to_a_model_of_bags_warns(name, bags):
    method = make(name).fit(bags)
    call = method.predict if method.card.classifies else method.decision_function_instances
    with pytest.warns(SingletonBagsWarning, match="bag of one instance"):
        call(np.zeros((2, 3)))


@pytest.mark.parametrize("name", ALL)
def test_labels_may_be_words_and_the_positive_class_may_be_named(name, bags):
    words = np.where(bags.y == 1, "active", "inert")
    with pytest.warns(PositiveLabelWarning, match="'inert' as the positive class"):
        assert make(name).fit(bags, words).positive_label_ == "inert"
    method = make(name).set_params(pos_label="active").fit(bags, words)
    plain = make(name).fit(bags)
    if method.card.classifies:
        assert set(method.predict(bags)) <= {"active", "inert"}
        np.testing.assert_array_equal(method.predict(bags) == "active", plain.predict(bags) == 1)
        # classes_[1] is "inert": the sign of decision_function follows scikit-learn's order.
        np.testing.assert_allclose(
            method.decision_function(bags), -plain.decision_function(bags), atol=1e-8
        )
    if method.card.detects:
        np.testing.assert_allclose(
            method.decision_function_instances(bags),
            plain.decision_function_instances(bags),
            atol=1e-8,
        )


@pytest.mark.parametrize("name", ALL)
def test_errors_of_wrong_input_name_the_problem(name, bags):
    with pytest.raises(ValueError, match="one class"):
        make(name).fit(bags, np.ones(len(bags)))
    with pytest.raises(ValueError, match="is for two classes, and y has 3"):
        make(name).set_params(pos_label=1).fit(bags, np.arange(len(bags)) % 3)
    with pytest.raises(ValueError, match="y to be passed"):
        make(name).fit(list(bags))
    with pytest.raises(ValueError, match="expecting 3 features"):
        outputs(make(name).fit(bags), Bags.from_list([np.zeros((2, 4))]))


@pytest.mark.parametrize("name", ALL)
def test_every_parameter_is_validated(name, bags):
    method = get_estimator(name)
    assert set(method._parameter_constraints) == set(method().get_params(deep=False))
    common = {"C": -1.0, "gamma": "narrow", "length_unit": 0, "max_iter": 0, "probability": 2}
    for parameter in common.keys() & method().get_params().keys():
        with pytest.raises(ValueError, match=f"The '{parameter}' parameter of"):
            method(**{parameter: common[parameter]}).fit(bags)
