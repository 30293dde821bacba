"""Fit and predict of APR, DD, EM-DD, MILD and mi-Sim against a plain loop of the same method.

python benchmarks/bench_methods_detect.py [--sets musk2 elephant] [--methods APR MILD]

CPU seconds of both in one process, BLAS on one thread; the ratio is what counts.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pigmil import BagScaler
from pigmil.datasets import load_dataset
from pigmil.estimators import get_estimator
from pigmil.graph import consistency

MAX_EXEMPLARS = 60  # of the plain loop of mi-Sim, scaled up: all of them take minutes


def plain_mild(parts, positive):
    """For each instance a cdist a bag, and every threshold counted anew; then an RBF embedding."""
    chosen = []
    for bag in np.flatnonzero(positive):
        best = (-1.0, None)
        for x in parts[bag]:
            nearest = np.array([cdist(x[None], part).min() for part in parts])
            precision = max(((nearest <= t) == positive).mean() for t in nearest)
            if precision > best[0]:
                best = (precision, x)
        chosen.append(best[1])
    prototypes = np.array(chosen)
    unit = prototypes.shape[1] / 2
    rows = np.array([np.exp(-(cdist(part, prototypes) ** 2).min(axis=0) / unit) for part in parts])
    return SVC(kernel="linear", C=10, class_weight="balanced").fit(rows, positive)


def plain_apr(parts, positive):
    """Grow with numpy calls an instance, discriminate by recounting after each feature."""
    inside = [part for part, p in zip(parts, positive, strict=True) if p]
    negatives = np.concatenate([part for part, p in zip(parts, positive, strict=True) if not p])
    features = np.arange(negatives.shape[1])
    while True:
        bags = [part[:, features] for part in inside]
        middle = np.mean(
            [
                np.min([bag.max(axis=0) for bag in bags], axis=0),
                np.max([bag.min(axis=0) for bag in bags], axis=0),
            ],
            axis=0,
        )
        away = [((bag - middle) ** 2).sum(axis=1) for bag in bags]
        first = int(np.argmin([d.min() for d in away]))
        chosen = {first: bags[first][away[first].argmin()]}

        def sizes(bag, rows, bags=bags):
            low, high = np.min(rows, axis=0), np.max(rows, axis=0)
            grown = np.maximum(high, bags[bag]) - np.minimum(low, bags[bag])
            return grown.sum(axis=1)

        while len(chosen) < len(bags):
            rows = list(chosen.values())
            best = min(
                ((sizes(b, rows).min(), b) for b in range(len(bags)) if b not in chosen),
            )[1]
            chosen[best] = bags[best][sizes(best, rows).argmin()]
            changed = len(chosen) > 2
            while changed:
                changed = False
                for bag in chosen:
                    rest = [row for b, row in chosen.items() if b != bag]
                    better = bags[bag][sizes(bag, rest).argmin()]
                    if not np.array_equal(better, chosen[bag]):
                        new, old = (
                            np.ptp(np.stack([*rest, row]), axis=0).sum()
                            for row in (better, chosen[bag])
                        )
                        if new < old - 1e-9:
                            chosen[bag] = better
                            changed = True
        box = np.array(list(chosen.values()))
        low, high = box.min(axis=0), box.max(axis=0)
        rest = negatives[:, features]
        out = np.maximum(low - rest, rest - high)
        left = out.max(axis=1) > 0
        taken = []
        while left.any():
            counts = ((out > 1) | (out == out.max(axis=1, keepdims=True)))[left].sum(axis=0)
            taken.append(int(counts.argmax()))
            column = out[:, taken[-1]]
            left &= ~((column > 1) | (column == out.max(axis=1)))
        if len(taken) in (0, len(features)):
            return features, low, high
        features = features[np.sort(taken)]


def plain_dd(parts, positive, n_starts=10, max_iter=100):
    """Loss and gradient bag by bag; as many starts and steps as the library takes."""
    width = parts[0].shape[1]
    start_scale = np.sqrt(2 / width)

    def loss(parameters):
        t, s = parameters[:width], parameters[width:]
        value, by_t, by_s = 0.0, np.zeros(width), np.zeros(width)
        for part, p in zip(parts, positive, strict=True):
            difference = part - t
            member = np.clip(np.exp(-((s * difference) ** 2).sum(axis=1)), 1e-300, 1 - 1e-10)
            none = np.exp(np.log1p(-member).sum())
            odds = member / (1 - member)
            if p:
                some = max(1 - none, 1e-300)
                value -= np.log(some)
                slope = -odds * none / some
            else:
                value -= np.log(max(none, 1e-300))
                slope = odds
            by_t += 2 * s**2 * (slope @ difference)
            by_s -= 2 * s * (slope @ difference**2)
        return value, np.concatenate([by_t, by_s])

    points = np.concatenate([part for part, p in zip(parts, positive, strict=True) if p])
    starts = [np.concatenate([x, np.full(width, start_scale)]) for x in points]
    starts.sort(key=lambda at: loss(at)[0])
    options = {"maxiter": max_iter, "ftol": 1e-2}
    answers = [
        minimize(loss, at, jac=True, method="L-BFGS-B", options=options) for at in starts[:n_starts]
    ]
    return min(answers, key=lambda answer: answer.fun)


def plain_em_dd(parts, positive, n_starts=10, max_iter=20):
    """Instances chosen bag by bag, and DD on bags of one instance."""
    width = parts[0].shape[1]
    points = np.concatenate([part for part, p in zip(parts, positive, strict=True) if p])

    def density(x):
        exponents = [-2 / width * ((part - x) ** 2).sum(axis=1) for part in parts]
        return sum(
            -e.max() if p else -np.log1p(-np.minimum(np.exp(e), 1 - 1e-10)).sum()
            for e, p in zip(exponents, positive, strict=True)
        )

    for x in sorted(points, key=density)[:n_starts]:
        t, s, best = x, np.full(width, np.sqrt(2 / width)), np.inf
        for _ in range(max_iter):
            chosen = np.array(
                [part[((s * (part - t)) ** 2).sum(axis=1).argmin()] for part in parts]
            )

            def loss(parameters, chosen=chosen):
                t, s = parameters[:width], parameters[width:]
                difference = chosen - t
                e = -((s * difference) ** 2).sum(axis=1)
                member = np.minimum(np.exp(e), 1 - 1e-10)
                value = -e[positive].sum() - np.log1p(-member[~positive]).sum()
                slope = np.where(positive, -1.0, member / (1 - member))
                return value, np.concatenate(
                    [2 * s**2 * (slope @ difference), -2 * s * (slope @ difference**2)]
                )

            answer = minimize(
                loss,
                np.concatenate([t, s]),
                jac=True,
                method="L-BFGS-B",
                options={"maxiter": 50, "ftol": 1e-4},
            )
            if answer.fun >= best - 1e-4 * best:
                break
            best, t, s = answer.fun, answer.x[:width], answer.x[width:]


def plain_mi_sim(parts, positive):
    """An SVC for each instance (some of them, scaled up), similarity, consistency and the SVM."""
    points = np.concatenate([part for part, p in zip(parts, positive, strict=True) if p])
    negatives = np.concatenate([part for part, p in zip(parts, positive, strict=True) if not p])
    labels = np.arange(len(negatives) + 1) == 0
    some = points[:: max(1, len(points) // MAX_EXEMPLARS)]
    start = time.process_time()
    rows = []
    for x in some:
        svm = SVC(kernel="linear", class_weight={True: len(negatives), False: 1})
        rows.append(svm.fit(np.concatenate([x[None], negatives]), labels).decision_function(points))
    extra = (time.process_time() - start) * (len(points) / len(some) - 1)
    return np.array(rows), extra


PLAIN = {
    "APR": plain_apr,
    "DD": plain_dd,
    "EM-DD": plain_em_dd,
    "MILD": plain_mild,
    "mi-Sim": plain_mi_sim,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["musk2", "elephant"])
    parser.add_argument("--methods", nargs="+", default=list(PLAIN))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    consistency(np.ones((60, 60)))  # kernels are compiled or loaded before the clock starts
    print(f"{'method':10}{'set':12}{'library s':>11}{'plain s':>10}{'ratio':>8}")
    for set_name in arguments.sets:
        raw = load_dataset(set_name)
        bags = BagScaler().fit(raw).transform(raw)
        positive = bags.y == bags.y.max()
        parts = [np.asarray(bag) for bag in bags]
        for name in arguments.methods:
            method = get_estimator(name)()
            method.fit(bags[:: max(1, len(bags) // 20)])
            with threadpool_limits(limits=1):
                start = time.process_time()
                method.fit(bags).predict(bags)
                ours = time.process_time() - start
                start = time.process_time()
                answer = PLAIN[name](parts, positive)
                theirs = time.process_time() - start
            if name == "mi-Sim":
                theirs += answer[1]
            print(
                f"{name:10}{set_name:12}{ours:11.2f}{theirs:10.2f}{theirs / ours:8.1f}", flush=True
            )


if __name__ == "__main__":
    main()
