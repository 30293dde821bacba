"""MI-SVM beside the package misvm: bags that the two label differently, at equal C and gamma.

PIGMIL_DATA=... python benchmarks/bench_misvm.py     # needs misvm and cvxopt on the path

Features z-scored, both fitted on all bags of a set and asked about the same bags; gamma is 0.5 per
squared unit of length. misvm takes another intercept, so that
values differ by a shift.
"""

import argparse
import time
import warnings

import numpy as np

from pigmil import MISVM, BagScaler
from pigmil.datasets import load_dataset
from pigmil.distances import length_unit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["musk1", "tiger", "elephant"])
    parser.add_argument("--costs", nargs="+", type=float, default=[1.0, 10.0])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import misvm

    for name in arguments.sets:
        bags = BagScaler().fit_transform(load_dataset(name))
        positive = bags.y == bags.y.max()
        gamma = 0.5 / length_unit(bags.instances) ** 2
        for C in arguments.costs:
            start = time.process_time()
            theirs = misvm.MISVM(kernel="rbf", gamma=gamma, C=C, scale_C=False, verbose=False)
            theirs.fit(list(bags), np.where(positive, 1.0, -1.0))
            values = np.asarray(theirs.predict(list(bags))).ravel()
            seconds = time.process_time() - start
            ours = MISVM(C=C, gamma=gamma, length_unit=1.0, tol=1e-5).fit(bags, positive)
            own = ours.decision_function(bags)
            differ = int(((own > 0) != (values > 0)).sum())
            shift = np.median(values - own)
            print(
                f"{name:10} C={C:<5g} {differ} of {len(bags)} labels differ, values differ by "
                f"{np.abs(values - own).max():.4f}, less a shift by "
                f"{np.abs(values - own - shift).max():.4f}; misvm {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
