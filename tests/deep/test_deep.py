"""ABMIL and MI-Net, trained with torch; the rest of the suite never needs it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from pigmil import ABMIL, Bags, MINet
from pigmil.estimators._deep import equally_long, split_bags
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
def test_numpy_gives_the_logits_of_torch(method, bags):
    model = clone(method).fit(bags)
    n_layers = 2 * len(model.hidden_layer_sizes)
    network = [torch.tensor(array) for array in model.weights_]
    hidden = torch.tensor((bags.instances - model.centre_) / model.spread_).float()
    hidden = hidden.expand(model.n_networks, -1, -1)
    for weight, bias in zip(network[:n_layers:2], network[1:n_layers:2], strict=True):
        hidden = (hidden @ weight + bias[:, None]).relu()
    numbers = bags.n_bags * np.arange(model.n_networks)[:, None]
    owners = torch.tensor((numbers + bags.bag_index).ravel())
    logits = model._head(torch, hidden, owners, bags.n_bags, network[n_layers:])
    expected = logits.numpy().mean(axis=0)
    np.testing.assert_allclose(model.decision_function(bags), expected, atol=1e-4)


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
def test_networks_side_by_side_are_trained_as_if_alone(method, bags):
    """One network after the other, one bag after the other."""
    settings = {"dropout": 0.0, "max_epochs": 3, "weight_decay": 0.1, "batch_size": 5}
    method = clone(method).set_params(**settings)
    targets = bags.y == 1
    shapes = method._shapes(3)
    trained, _ = method._train(
        torch, bags.instances.astype(np.float32), bags, targets, shapes, np.random.RandomState(4)
    )
    rng = np.random.RandomState(4)
    splits = []
    for _ in range(2):
        parts = [rng.permutation(np.flatnonzero(targets == label)) for label in (False, True)]
        splits.append([np.concatenate([part[3:] for part in parts]),
                       np.concatenate([part[:3] for part in parts])])  # fmt: skip
    rng.randint(2**31 - 1)
    draws = []
    for shape in shapes:
        bound = np.sqrt(6 / sum(shape))
        draws.append([
            rng.uniform(-bound, bound, size=shape) if len(shape) == 2 else np.zeros(shape)
            for _ in range(2)
        ])  # fmt: skip
    orders = [[rng.permutation(split[0]) for split in splits] for _ in range(3)]
    parts = [torch.tensor(bag, dtype=torch.float64) for bag in bags]
    for number in range(2):
        arrays = [torch.tensor(pair[number], requires_grad=True) for pair in draws]
        adam = torch.optim.Adam(arrays, lr=5e-3, weight_decay=0.1)

        def loss(chosen, arrays=arrays):
            signs = [1 if targets[bag] else -1 for bag in chosen]
            values = [slow_logit(method, parts[bag], arrays) for bag in chosen]
            return sum(
                torch.log1p(torch.exp(-sign * value))
                for sign, value in zip(signs, values, strict=True)
            ) / len(chosen)

        lowest, best = np.inf, None
        for epoch in range(3):
            order = orders[epoch][number]
            for start in range(0, len(order), 5):
                adam.zero_grad()
                loss(order[start : start + 5]).backward()
                adam.step()
            value = float(loss(splits[number][1]).detach())
            if value < lowest:
                lowest, best = value, [array.detach().numpy().copy() for array in arrays]
        for one, expected in zip(trained, best, strict=True):
            np.testing.assert_allclose(one[number], expected, atol=2e-3)


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


def test_bags_of_one_group_are_on_one_side():
    """Groups of one to four bags; the rows of the networks are cut to the shortest."""
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(16), [1, 2, 3, 4] * 4)
    targets = groups % 2 == 0
    sizes = set()
    for _ in range(20):
        train, held_out = split_bags(targets, 0.2, rng, groups)
        assert not set(groups[train]) & set(groups[held_out])
        assert set(targets[train]) == set(targets[held_out]) == {False, True}
        assert sorted([*train, *held_out]) == list(range(40))
        sizes.add(len(held_out))
    assert len(sizes) > 1
    rows = equally_long([np.arange(3), np.arange(5)], rng)
    assert rows.shape == (2, 3)
    assert sorted(rows[0]) == [0, 1, 2]
    one = np.where(targets, 0, groups)
    train, held_out = split_bags(targets, 0.2, rng, one)
    np.testing.assert_array_equal(train, np.arange(40))
    np.testing.assert_array_equal(held_out, np.arange(40))
    planted_bags = planted(3).with_info(bag_info={FOLD_GROUP: np.arange(30) // 3})
    model = MINet(**{**SMALL, "max_epochs": 3, "n_networks": 3}).fit(planted_bags)
    assert np.isfinite(model.decision_function(planted_bags)).all()
