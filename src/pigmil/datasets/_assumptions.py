"""Bags on which a method that breaks the multiple-instance assumption goes wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from pigmil.bags import Bags

ASSUMPTION_TESTS = ("single_concept", "multi_concept", "false_frequency")
Group = tuple[int, float, float, int]  # number of instances, mean, standard deviation, label
POISON: Group = (1, -10.0, 0.1, 0)


def make_assumption_bags(
    test: str,
    random_state: Any = None,
    *,
    n_train_bags: int = 200,
    n_test_bags: int = 200,
    n_features: int = 16,
) -> tuple[Bags, Bags]:
    """Draw the training and test bags of an algorithmic unit test of Raff and Holt.

    The test bags differ from the training bags in a way that does not matter to a model which
    keeps the assumption under test, and misleads one that does not. Each feature of an instance is
    drawn from the same normal distribution; half of the bags are positive. ``N(m, s)`` has mean
    ``m`` and standard deviation ``s``; all bags also hold background from N(0, 1).

    ``"single_concept"`` (Algorithm 1)
        Positive bags hold one to three instances from N(0, 3). In training every negative bag also
        holds an instance of poison, N(-10, 0.1); in the test every positive bag does. No instance
        makes a bag negative, so poison must not lower a score.
    ``"multi_concept"`` (Algorithm 2)
        Positive bags hold one to four instances of A = N(2, 0.1) and one to four of B = N(3, 0.1),
        negative bags a single one of A or of B. In training every negative and one in ten positive
        bags hold poison; in the test every positive bag does.
    ``"false_frequency"`` (Algorithm 3)
        Positive bags hold one instance of A = N(-2, 0.1) and one of B = N(2, 0.1), negative
        bags one of A or of B: in the test 35 to 39 of it. Both concepts make a bag positive, not
        how often one of them occurs.

    Departs from the paper: these are the distributions of the published code. There a coin decides
    between two kinds of positive instances in ``"single_concept"``, but always falls on the first.

    Parameters
    ----------
    test : {"single_concept", "multi_concept", "false_frequency"}
        Which test.
    random_state : int, RandomState or None
        Seed; the same seed gives the same bags.
    n_train_bags, n_test_bags : int, default=200
        Number of bags; half of them are positive.
    n_features : int, default=16
        Number of features.

    Returns
    -------
    train, test : Bags
        Negative bags first; ``y`` and ``instance_labels`` are 0 and 1. Concepts are positive
        instances in positive bags only.

    Notes
    -----
    Cost: linear in the instances.

    References
    ----------
    Raff, Holt: Reproducibility in Multiple Instance Learning: A Case For Algorithmic Unit Tests,
    NeurIPS 2023.

    Examples
    --------
    >>> from pigmil.datasets import make_assumption_bags
    >>> train, test = make_assumption_bags("single_concept", random_state=0)
    >>> test.n_bags, test.n_features
    (200, 16)
    """
    if test not in ASSUMPTION_TESTS:
        raise ValueError(f"Unknown test {test!r}; known tests: {', '.join(ASSUMPTION_TESTS)}.")
    for name, value in (("n_train_bags", n_train_bags), ("n_test_bags", n_test_bags)):
        if value < 2:
            raise ValueError(f"{name} must be at least 2, one bag per class; got {value}.")
    rng = check_random_state(random_state)
    train = _draw(test, rng, n_train_bags, n_features, in_test=False)
    return train, _draw(test, rng, n_test_bags, n_features, in_test=True)


def _draw(
    test: str, rng: np.random.RandomState, n_bags: int, n_features: int, *, in_test: bool
) -> Bags:
    draw_groups = (_single_concept, _multi_concept, _false_frequency)
    contents = dict(zip(ASSUMPTION_TESTS, draw_groups, strict=True))[test]
    y = (np.arange(n_bags) >= n_bags - n_bags // 2).astype(np.int64)
    parts, labels = list[NDArray[Any]](), list[NDArray[Any]]()
    for label in y:
        groups = contents(rng, bool(label), in_test)
        drawn = [rng.normal(mean, std, (size, n_features)) for size, mean, std, _ in groups]
        parts.append(np.vstack(drawn))
        labels.append(np.repeat([group[3] for group in groups], [group[0] for group in groups]))
    return Bags.from_list(parts, y=y, instance_labels=labels)


def _single_concept(rng: np.random.RandomState, positive: bool, in_test: bool) -> list[Group]:
    groups = [POISON] if positive == in_test else []
    if positive:
        groups.append((rng.randint(1, 4), 0.0, 3.0, 1))
    return [*groups, (rng.randint(1, 5 if positive else 10), 0.0, 1.0, 0)]


def _multi_concept(rng: np.random.RandomState, positive: bool, in_test: bool) -> list[Group]:
    poisoned = positive == in_test or (positive and rng.randint(10) == 0)
    groups = [POISON] if poisoned else []
    if positive:
        groups += [(rng.randint(1, 5), mean, 0.1, 1) for mean in (2.0, 3.0)]
    else:
        groups.append((1, rng.choice([2.0, 3.0]), 0.1, 0))
    return [*groups, (rng.randint(1, 5), 0.0, 1.0, 0)]


def _false_frequency(rng: np.random.RandomState, positive: bool, in_test: bool) -> list[Group]:
    if positive:
        groups: list[Group] = [(1, mean, 0.1, 1) for mean in (-2.0, 2.0)]
    else:
        repeats = rng.randint(35, 40) if in_test else 1
        groups = [(repeats, rng.choice([-2.0, 2.0]), 0.1, 0)]
    return [*groups, (rng.randint(1, 10), 0.0, 1.0, 0)]
