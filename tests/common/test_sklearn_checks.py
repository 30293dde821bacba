"""scikit-learn's whole suite of checks, on every method."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from pigmil.estimators import all_estimators, get_estimator

# Check -> reason a maintainer would accept, per class. Strict: a listed check that passes fails.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def every_method():
    return [get_estimator(card.name)() for card in all_estimators()]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::pigmil._core.errors.SingletonBagsWarning")
@pytest.mark.filterwarnings("ignore::pigmil._core.errors.PositiveLabelWarning")
@parametrize_with_checks(
    every_method(),
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_sklearn_check(estimator, check):
    check(estimator)
