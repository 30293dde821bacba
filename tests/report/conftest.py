"""Fitted models and hostile names, made once."""

import numpy as np
import pytest

from pigmil import PIGMIL, Bags, PaperReading
from pigmil.datasets import make_rhombus
from pigmil.report import detection_summary

HOSTILE = (
    "<img src=x onerror=\"document.title='hacked'\">",
    "</script><script>document.title='hacked'</script>",
    "<!--",
    "quote\"'`",
    "two\nlines\x1b[31m",
    "\u05d0\u05d1\u05d2 right to left",
    "turned\u202ethgir",
    "{{ 7 * 7 }} %{x} $x^2$",
    "*bold* | [a](javascript:x)",
    "\ud800 lone",
)


@pytest.fixture(scope="session")
def rhombus():
    bags = make_rhombus(random_state=0)
    return bags, PIGMIL(random_state=0).fit(bags)


@pytest.fixture(scope="session")
def rhombus_summary(rhombus):
    bags, model = rhombus
    return detection_summary(model, bags, source="RHOMBUS", command="pigmil demo")


@pytest.fixture(scope="session")
def hostile():
    """Bags whose every name is hostile, and PIGMIL fitted on them."""
    rng = np.random.RandomState(0)
    n = len(HOSTILE)
    parts = [rng.normal(size=(4, 2)) for _ in range(n)]
    for number in range(0, n, 2):
        parts[number][1] += 5.0
    labels = np.array(["<b>no</b>", "<i>yes</i>"], dtype=object)
    bags = Bags.from_list(
        parts,
        ids=np.array(HOSTILE, dtype=object),
        y=labels[[1, 0] * (n // 2)],
        feature_names=["<u>first</u>", "second\u202e"],
        instance_info={"<s>place": np.array([f"<em>{i}</em>" for i in range(4 * n)])},
    )
    return bags, PIGMIL(
        random_state=0, reading=PaperReading(t_threshold=None), pos_label="<i>yes</i>"
    ).fit(bags)
