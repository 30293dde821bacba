"""Cards of methods: each says where its defaults come from."""

import re
from numbers import Real

import pytest

from pigmil.datasets import ASSUMPTION_TESTS
from pigmil.estimators import all_estimators, get_estimator
from pigmil.estimators.registry import assumption_results

# Limits of solvers and sizes: they bound the work, and larger or smaller ones give the same model
# or are there for lack of memory only.
LIMITS = {
    "max_iter", "max_steps", "tol", "max_candidates", "max_prototypes", "max_instances",
}  # fmt: skip


@pytest.mark.parametrize("card", all_estimators(deep=True), ids=lambda card: card.name)
def test_every_card_says_how_its_defaults_were_chosen(card):
    defaults = get_estimator(card.name)().get_params(deep=False)
    numbers = {
        name
        for name, value in defaults.items()
        if isinstance(value, Real) and not isinstance(value, bool) and name not in LIMITS
    }
    words = set(re.findall(r"\w+", card.default_chosen))
    assert words
    assert numbers <= words
    # A grid that a benchmark searches must hold parameters of the method.
    assert set(card.grid) <= set(defaults)


@pytest.mark.parametrize("card", all_estimators(), ids=lambda card: card.name)
def test_every_method_has_verdicts_of_the_tests_of_assumptions(card):
    results = assumption_results(card.name)
    assert set(results) == set(ASSUMPTION_TESTS)
    for one in results.values():
        assert one["verdict"] in {"pass", "fail", "chance", "unlearned"}
        assert one["seeds"] >= 2
