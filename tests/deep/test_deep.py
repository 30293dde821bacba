"""ABMIL and MI-Net, trained with torch; the rest of the suite never needs it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from pigmil import ABMIL, Bags, MINet
from pigmil.estimators._selection import FOLD_GROUP

torch = pytest.importorskip("torch", reason="ABMIL and MI-Net are trained with torch")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

SMALL = {
    "hidden_layer_sizes": (16, 8),
    "n_networks": 2,
    "max_epochs": 40,
    "patience": 20,
    "dropout": 0.1,
    "learning_rate": 5e-3,
    "random_state": 0,
}
METHODS = [
    ABMIL(**SMALL),
    ABMIL(gated=False, **SMALL),
    ABMIL(score_by="both", **SMALL),
    MINet(**SMALL),
    MINet(level="instance", **SMALL),
    MINet(level="instance", pooling="mean", **SMALL),
]


@pytest.fixture(scope="module")
def bags():
    return planted(0)


def planted(seed, n_bags=30):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(2, 6)), 3)) for _ in range(n_bags)]
    labels = [np.zeros(len(part), dtype=int) for part in parts]
    for part, truth in zip(parts[::2], labels[::2], strict=True):
        part[0] += 5
        truth[0] = 1
    return Bags.from_list(parts, y=(np.arange(n_bags) + 1) % 2, instance_labels=labels)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_planted_instances_are_detected_and_unseen_bags_classified(method, bags):
    model = clone(method).fit(bags)
    new = planted(1)
    assert (model.predict(new) == new.y).mean() >= 0.9
    assert bags.instance_labels[model.detected_instances_].mean() >= 0.9
    scores = model.decision_function_instances(bags)
    np.testing.assert_array_equal(scores, model.instance_scores_)
    best = np.maximum.reduceat(model.decision_function_instances(new), new.offsets[:-1])
    assert ((best > 0) == (model.predict(new) == 1)).mean() >= 0.85


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_numpy_gives_the_logits_and_scores_of_torch(method):
    method = clone(method)
    rng = np.random.default_rng(0)
    bag = rng.normal(size=(7, 3))
    arrays = [rng.normal(size=shape) for shape in method._shapes(3)]
    inside = np.arange(7) < [[3], [7]]
    inside[1, :3] = False
    by_numpy = method._head(np, *method._hidden(bag, arrays), inside)
    tensors = [torch.tensor(array).float() for array in arrays]
    hidden = method._hidden(torch.tensor(bag).float(), tensors)
    by_torch = method._head(torch, *hidden, torch.tensor(inside))
    for found, expected in zip(by_numpy, by_torch, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4)


def slow_logit(method, bag, arrays):
    """Return the logit of one bag by one network, instance by instance."""
    w1, b1, w2, b2, out, out_bias, *attention = arrays
    hidden = [torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2) for x in bag]
    logits = torch.stack([(h @ out + out_bias)[0] for h in hidden])
    if isinstance(method, MINet):
        return logits.max()
    gates = [torch.tanh(h @ attention[0] + attention[1]) for h in hidden]
    gates = [
        g * torch.sigmoid(h @ attention[2] + attention[3])
        for g, h in zip(gates, hidden, strict=True)
    ]
    powers = torch.exp(torch.stack([(g @ attention[4])[0] for g in gates]))
    return (powers * logits).sum() / powers.sum()


@pytest.mark.parametrize("method", [METHODS[0], METHODS[4]], ids=str)
def test_training_is_that_of_a_loop_over_bags(method, bags):
    settings = {"dropout": 0.0, "max_epochs": 3, "weight_decay": 0.1, "batch_size": 5}
    method = clone(method).set_params(**settings)
    targets, shapes = bags.y == 1, method._shapes(3)
    train, held_out = np.arange(24), np.arange(24, 30)
    parts = torch.tensor(bags.instances).float().split(bags.sizes.tolist())
    rng = np.random.RandomState(4)
    trained, n_epochs = method._train(torch, parts, targets, train, held_out, shapes, rng)
    assert n_epochs == 3
    rng = np.random.RandomState(4)
    arrays = []
    for shape in shapes:
        bound = np.sqrt(6 / sum(shape))
        start = rng.uniform(-bound, bound, size=shape) if len(shape) == 2 else np.zeros(shape)
        arrays.append(torch.tensor(start, requires_grad=True))
    adam = torch.optim.Adam(arrays, lr=5e-3, weight_decay=0.1)
    parts = [torch.tensor(bag, dtype=torch.float64) for bag in bags]

    def loss(chosen):
        signs = [1 if targets[bag] else -1 for bag in chosen]
        values = [slow_logit(method, parts[bag], arrays) for bag in chosen]
        losses = [
            torch.log1p(torch.exp(-sign * value)) for sign, value in zip(signs, values, strict=True)
        ]
        return sum(losses) / len(chosen)

    lowest, best = np.inf, None
    for _ in range(3):
        order = rng.permutation(train)
        for start in range(0, len(order), 5):
            adam.zero_grad()
            loss(order[start : start + 5]).backward()
            adam.step()
        value = float(loss(held_out).detach())
        if value < lowest:
            lowest, best = value, [array.detach().numpy().copy() for array in arrays]
    for found, expected in zip(trained, best, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-3)


def test_scores_by_logit_attention_and_both(bags):
    models = {
        by: ABMIL(score_by=by, **{**SMALL, "n_networks": 1}).fit(bags)
        for by in ("logit", "attention", "both")
    }
    raw = {
        by: model.decision_function_instances(bags) + model.threshold_
        for by, model in models.items()
    }
    # The logit is that of a bag that holds the instance alone.
    alone = Bags.from_list([row[None] for row in bags.instances])
    np.testing.assert_allclose(raw["logit"], models["logit"].decision_function(alone), atol=1e-10)
    # Attention times logit sums to the logit of the bag.
    sums = np.add.reduceat(raw["both"], bags.offsets[:-1])
    np.testing.assert_allclose(sums, models["both"].decision_function(bags), atol=1e-10)
    for start, stop in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        share = np.exp(raw["attention"][start:stop])
        share /= share.sum()
        np.testing.assert_allclose(raw["both"][start:stop], share * raw["logit"][start:stop])


@pytest.mark.parametrize("method", [METHODS[0], METHODS[3]], ids=str)
def test_a_seed_decides_and_the_order_of_bags_does_not(method, bags):
    first = clone(method).fit(bags).decision_function(bags)
    state = torch.random.get_rng_state()
    again = clone(method).fit(bags).decision_function(bags)
    np.testing.assert_array_equal(again, first)
    assert torch.equal(torch.random.get_rng_state(), state)
    order = np.random.default_rng(0).permutation(len(bags))
    permuted = clone(method).fit(bags[order]).decision_function(bags)
    np.testing.assert_allclose(permuted, first, atol=1e-3)
    other = clone(method).set_params(random_state=1).fit(bags).decision_function(bags)
    assert np.abs(other - first).max() > 1e-3


@pytest.mark.filterwarnings("default::sklearn.exceptions.ConvergenceWarning")
def test_training_that_does_not_stop_warns(bags):
    with pytest.warns(ConvergenceWarning, match="max_epochs=2"):
        MINet(**{**SMALL, "max_epochs": 2}).fit(bags)


def test_training_stops_when_held_out_bags_get_no_better(bags):
    """Labels drawn at random cannot be learnt: no network gets better for long."""
    y = np.random.default_rng(3).permutation(bags.y)
    model = MINet(**{**SMALL, "max_epochs": 200, "patience": 5}).fit(bags, y)
    assert 5 < model.n_iter_ < 200


def test_one_bag_of_a_class_and_wrong_layers(bags):
    few = bags[[0, 1, 3, 5]]
    model = MINet(**{**SMALL, "max_epochs": 5}).fit(few)
    assert np.isfinite(model.decision_function(few)).all()
    with pytest.raises(ValueError, match="hidden_layer_sizes=\\(\\) must be one or more"):
        MINet(hidden_layer_sizes=()).fit(bags)


def test_bags_of_one_group_are_on_one_side(monkeypatch):
    """Also where groups differ in size, and each network holds out another part."""
    groups = np.repeat(np.arange(16), [1, 2, 3, 4] * 4)
    seen = []

    def noted(self, torch, parts, targets, train, held_out, shapes, rng):
        seen.append((train, held_out))
        return [np.zeros(shape) for shape in shapes], 1

    monkeypatch.setattr(MINet, "_train", noted)
    bags = Bags.from_list(np.arange(40.0).reshape(40, 1, 1), y=groups % 2)  # in order of content
    MINet(**SMALL).fit(bags.with_info(bag_info={FOLD_GROUP: groups}))
    for train, held_out in seen:
        assert not set(groups[train]) & set(groups[held_out])
        assert set(groups[train] % 2) == set(groups[held_out] % 2) == {0, 1}
        assert sorted([*train, *held_out]) == list(range(40))
    assert not set(seen[0][1]) & set(seen[1][1])


def test_training_ends_once_held_out_bags_are_certain():
    """Bags far apart: long before the patience is used up."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(10 * (number % 2), 0.1, size=(3, 2)) for number in range(20)]
    easy = Bags.from_list(parts, y=np.arange(20) % 2)
    model = MINet(
        (16,), dropout=0.0, learning_rate=0.05, weight_decay=0.0, patience=150, random_state=0
    ).fit(easy)
    assert model.n_iter_ < 100
    assert (model.predict(easy) == easy.y).all()
