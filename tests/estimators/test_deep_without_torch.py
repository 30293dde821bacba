"""ABMIL and MI-Net where torch is missing: everything but fitting works."""

import sys

import pytest

from pigmil import ABMIL, MINet
from pigmil._core.errors import MissingDependencyError
from pigmil.datasets import make_ring
from pigmil.estimators import all_estimators, get_estimator


@pytest.mark.parametrize("method", [ABMIL, MINet])
def test_fitting_without_torch_says_what_to_install(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError, match=r"pip install torch .*extra 'deep'"):
        method().fit(make_ring(random_state=0))


def test_deep_methods_are_listed_on_request_only():
    assert not {card.name for card in all_estimators()} & {"ABMIL", "MI-Net"}
    assert {card.name for card in all_estimators(deep=True) if card.extra == "deep"} == {
        "ABMIL",
        "MI-Net",
    }
    assert get_estimator("MI-Net") is MINet
