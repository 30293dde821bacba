"""MILES compared with a plain linear programme and with the MILES of the package `mil`.

OMP_NUM_THREADS=1 python benchmarks/bench_miles.py --sets musk2 elephant --mil FOLDER
OMP_NUM_THREADS=1 python benchmarks/bench_miles.py --sets gitte_adult_110 --alone

CPU seconds of one fit on all bags and one predict. The plain programme is what numpy, scipy's cdist
and HiGHS give in ten lines. FOLDER holds the unpacked wheel of `mil` (pip download --no-deps mil);
a stub stands in for tensorflow, which its networks need and its MILES does not. `--alone` measures
one set only, with the peak of memory of the process.
"""

import argparse
import importlib.machinery
import resource
import sys
import time
import warnings
from unittest.mock import MagicMock

import numpy as np
from bench_methods_svm import plain_miles
from sklearn.exceptions import ConvergenceWarning

from pigmil import MILES, BagScaler
from pigmil.datasets import load_dataset


class Stub(MagicMock):
    __path__ = ()
    __spec__ = None


class StubFinder:
    """Answers every import of tensorflow with a stub."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tensorflow":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub()

    def exec_module(self, module):
        pass


def package_miles(folder):
    sys.meta_path.insert(0, StubFinder())
    sys.path.append(folder)
    return importlib.import_module("mil.models.bag_level.miles").MILES


def seconds(call, rounds=1):
    times = []
    for _ in range(rounds):
        start = time.process_time()
        result = call()
        times.append(time.process_time() - start)
    return result, min(times)


def alone(name):
    bags = BagScaler().fit_transform(load_dataset(name))
    method, fit = seconds(lambda: MILES().fit(bags))
    predicted, predict = seconds(lambda: method.predict(bags))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {bags.n_bags} bags, {bags.n_instances} instances, fit {fit:.2f} s, ", end="")
    print(
        f"predict {predict:.2f} s, {len(method.coef_)} prototypes, {method.n_iter_} rounds, ",
        end="",
    )
    print(f"accuracy {np.mean(predicted == bags.y):.3f}, peak {peak} MB")


def compare(name, package):
    bags = BagScaler().fit_transform(load_dataset(name))
    positive = bags.y == bags.y.max()
    ours, fast = seconds(lambda: MILES().fit(bags).predict(bags) == bags.y.max(), rounds=3)
    plain, slow = seconds(lambda: plain_miles(bags, positive))
    line = f"{name:14}{fast:9.3f}{slow:9.2f}{slow / fast:8.1f}{np.mean(ours == plain):7.2f}"
    if package is not None:
        parts = [np.asarray(bag) for bag in bags]
        theirs, spent = seconds(lambda: package().fit(parts, positive).predict(parts))
        line += f"{spent:9.2f}{spent / fast:8.1f}{np.mean(ours == theirs):7.2f}"
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["musk2", "elephant"])
    parser.add_argument("--mil", metavar="FOLDER")
    parser.add_argument("--alone", action="store_true")
    arguments = parser.parse_args()
    if arguments.alone:
        alone(arguments.sets[0])
        return
    warnings.simplefilter("ignore", ConvergenceWarning)
    package = package_miles(arguments.mil) if arguments.mil else None
    MILES().fit(np.array([[0.0], [1.0]]), [0, 1])  # load the compiled kernel
    print(f"{'set':14}{'ours s':>9}{'plain s':>9}{'ratio':>8}{'same':>7}", end="")
    print(f"{'mil s':>9}{'ratio':>8}{'same':>7}" if package else "")
    for name in arguments.sets:
        compare(name, package)


if __name__ == "__main__":
    main()
