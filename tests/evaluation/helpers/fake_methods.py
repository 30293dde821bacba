"""Methods that record what is done with them, for the tests of the comparison."""

import hashlib
import os
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pigmil.estimators import Card, registry
from pigmil.estimators.base import MILClassifier


def card(name, **changes):
    facts = {"title": name, "paper": "none", "year": 2000, "detects": False, "classifies": True}
    return Card(**{"name": name, **facts, "cost": "none", "when_to_use": "tests", **changes})


class MeanRule(MILClassifier):
    """Calls a bag positive if its mean is nearer to that of the positive bags."""

    card = card("Mean rule")
    _parameter_constraints = {}  # noqa: RUF012

    def _fit(self, bags, positive):
        means = np.array([bag.mean(axis=0) for bag in bags])
        self.high_, self.low_ = means[positive].mean(axis=0), means[~positive].mean(axis=0)

    def _score_bags(self, bags):
        means = np.array([bag.mean(axis=0) for bag in bags])
        return ((means - self.low_) ** 2).sum(1) - ((means - self.high_) ** 2).sum(1)


class Counting(MeanRule):
    """Writes a line for every fit: its process and the bags it saw."""

    card = card("Counting")
    _parameter_constraints = {"note": [int]}  # noqa: RUF012

    def __init__(self, note=0):
        self.note = note

    def _fit(self, bags, positive):
        line = f"{os.getpid()} {hashlib.sha256(bags.instances.tobytes()).hexdigest()[:16]}\n"
        log = os.environ["FAKE_LOG"]
        with open(log, "a") as file:
            file.write(line)
        lines = Path(log).read_text().splitlines()
        at = int(os.environ.get("FAKE_BLOCK_AT", 0))
        if at and lines.index(line.strip()) == at - 1:
            Path(log + ".blocked").write_text(str(os.getpid()))
            threading.Event().wait(120)  # until it is killed
        meet = int(os.environ.get("FAKE_MEET", 0))
        end = time.monotonic() + 60
        while meet and len({line.split()[0] for line in lines}) < meet:
            if time.monotonic() > end:
                raise RuntimeError("no other process came")
            threading.Event().wait(0.01)
            lines = Path(log).read_text().splitlines()
        super()._fit(bags, positive)


class Failing(MeanRule):
    """Fails on purpose, unless FAKE_REPAIRED is set."""

    card = card("Failing")

    def _fit(self, bags, positive):
        if "FAKE_REPAIRED" not in os.environ:
            raise RuntimeError("no | luck,\nagain")
        super()._fit(bags, positive)


class Hungry(MeanRule):
    """Takes 64 MB and waits until its process is ended."""

    card = card("Hungry")

    def _fit(self, bags, positive):
        held = np.ones(2**23)
        threading.Event().wait(120)
        raise RuntimeError(f"nobody ended the process that holds {held.nbytes} bytes")


class Warning_(MeanRule):
    """Warns about its own data."""

    card = card("Warning")

    def _fit(self, bags, positive):
        for _ in range(3):
            warnings.warn(f"seen {bags.n_bags} bags", ConvergenceWarning, stacklevel=1)
        warnings.warn("for developers only", DeprecationWarning, stacklevel=1)
        super()._fit(bags, positive)


class FirstFeature(MeanRule):
    """Detects the instance of greatest first feature, and scores by it."""

    card = card("First feature", detects=True)

    def _fit(self, bags, positive):
        super()._fit(bags, positive)
        self._set_detection(bags, positive, bags.instances[:, 0])

    def _score_instances(self, bags):
        return bags.instances[:, 0]


class Tuned(MeanRule):
    """Has a parameter to tune, with one good value."""

    _parameter_constraints = {"shift": [float]}  # noqa: RUF012
    card = card("Tuned", grid={"shift": (0.0, 100.0)})

    def __init__(self, shift=0.0):
        self.shift = shift

    def _score_bags(self, bags):
        return super()._score_bags(bags) + self.shift


def register(methods=registry.METHODS):
    names = ("MeanRule", "Counting", "Failing", "Hungry", "Warning_", "FirstFeature", "Tuned")
    for name in names:
        methods[name] = "fake_methods"
