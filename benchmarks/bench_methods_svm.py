"""Fit and predict of the SVM methods, compared with a plain scikit-learn loop of each.

OMP_NUM_THREADS=1 python benchmarks/bench_methods_svm.py --sets musk2 elephant

CPU seconds of one fit on all bags and one predict; the ratio is plain over ours. The plain loops
take the same parameters, so that both do the same work; `same` is the share of bags on which the
two agree. MILES is also set beside liblinear's 1-norm penalty, which is what installable packages
use: its squared hinge loss makes it another model.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from pigmil import MILES, MILIS, MISVM, BagKISVM, BagScaler, InsKISVM, MiSVM
from pigmil.datasets import load_dataset
from pigmil.distances import length_unit

KI_C, KI_GAMMA = BagKISVM().C, BagKISVM().gamma


def bag_max(scores, bags):
    return np.array([part.max() for part in np.split(scores, bags.offsets[1:-1])])


def plain_mi_svm(bags, positive):
    X, gamma = bags.instances, MiSVM().gamma / length_unit(bags.instances) ** 2
    inside = np.repeat(positive, bags.sizes)
    labels = inside
    for _ in range(50):
        svc = SVC(C=10.0, gamma=gamma).fit(X, labels)
        scores = svc.decision_function(X)
        new = inside & (scores > 0)
        for a, b, y in zip(bags.offsets[:-1], bags.offsets[1:], positive, strict=True):
            if y:
                new[a + np.argmax(scores[a:b])] = True
        if (new == labels).all():
            break
        labels = new
    return bag_max(svc.decision_function(X), bags) > 0  # predict, as for unseen bags


def plain_mi_svm_bags(bags, positive):
    X, gamma = bags.instances, MiSVM().gamma / length_unit(bags.instances) ** 2
    negatives = X[~np.repeat(positive, bags.sizes)]
    witnesses = np.array([bag.mean(axis=0) for bag, y in zip(bags, positive, strict=True) if y])
    chosen = None
    for _ in range(50):
        A = np.vstack([witnesses, negatives])
        svc = SVC(C=10.0, gamma=gamma).fit(A, np.arange(len(A)) < len(witnesses))
        scores = svc.decision_function(X)
        new = [
            a + np.argmax(scores[a:b])
            for a, b, y in zip(bags.offsets[:-1], bags.offsets[1:], positive, strict=True)
            if y
        ]
        if new == chosen:
            break
        chosen, witnesses = new, X[new]
    return bag_max(svc.decision_function(X), bags) > 0  # predict, as for unseen bags


def plain_embedding(bags, gamma):
    decay = gamma / length_unit(bags.instances) ** 2
    return np.array(
        [np.exp(-decay * cdist(bag, bags.instances, "sqeuclidean").min(axis=0)) for bag in bags]
    )


def plain_miles(bags, positive):
    X = plain_embedding(bags, 0.3)
    n, p = X.shape
    sign = np.where(positive, 1.0, -1.0)[:, None]
    A = -np.hstack([sign * X, -sign * X, sign, -sign, np.eye(n)])
    c = np.concatenate([np.ones(2 * p), [0.0, 0.0], np.full(n, 2.0)])
    z = linprog(c, A_ub=A, b_ub=-np.ones(n), method="highs").x
    return X @ (z[:p] - z[p : 2 * p]) + z[2 * p] - z[2 * p + 1] > 0


def liblinear_miles(bags, positive):
    X = plain_embedding(bags, 0.3)
    return LinearSVC(penalty="l1", dual=False, C=2.0, max_iter=10000).fit(X, positive).predict(X)


def plain_milis(bags, positive):
    X, unit = bags.instances, length_unit(bags.instances)
    negatives = X[~np.repeat(positive, bags.sizes)]
    spans = list(zip(bags.offsets[:-1], bags.offsets[1:], strict=True))
    density = np.array([np.exp(-((x - negatives) ** 2).sum(axis=1) / unit**2).sum() for x in X])
    chosen = [
        a + (np.argmin(density[a:b]) if y else np.argmax(density[a:b]))
        for (a, b), y in zip(spans, positive, strict=True)
    ]
    E, sign = plain_embedding(bags, 0.1), np.where(positive, 1.0, -1.0)
    for _ in range(50):
        svc = SVC(kernel="linear", C=MILIS().C).fit(E[:, chosen], positive)
        weights, values = svc.coef_[0], svc.decision_function(E[:, chosen])
        moved = list(chosen)
        for j, (a, b) in enumerate(spans):
            losses = [
                np.maximum(0, 1 - sign * (values + weights[j] * (E[:, k] - E[:, moved[j]]))).sum()
                for k in range(a, b)
            ]
            best = a + int(np.argmin(losses))
            if min(losses) < losses[moved[j] - a] - 1e-9:
                values = values + weights[j] * (E[:, best] - E[:, moved[j]])
                moved[j] = best
        if moved == chosen:
            break
        chosen = moved
    return svc.predict(E[:, chosen])


def plain_ki_svm(bags, positive, level):
    """Cutting planes with the whole kernel in memory and scikit-learn's SVC on mixed kernels.

    A ridge on the kernel and a cost that no row reaches make SVC's hinge loss the squared one.
    The intercept is SVC's own, not a constant in the kernel: nearly the same model.
    """
    X = bags.instances
    kernel = np.exp(-KI_GAMMA * cdist(X, X, "sqeuclidean") / length_unit(X) ** 2)
    inside, negatives, shares = [], [], []
    for a, b, y in zip(bags.offsets[:-1], bags.offsets[1:], positive, strict=True):
        rows = np.arange(a, b)
        if y:
            inside.append(rows)
        else:
            parts = [rows] if level == "bag" else list(rows[:, None])
            negatives += parts
            shares += [1.0 / len(parts)] * len(parts)
    n = len(inside)
    ridge = np.diag(1.0 / (KI_C * np.concatenate([np.ones(n), shares])))
    labels = np.arange(n + len(negatives)) < n

    def gram(groups, others):
        rows = np.array([kernel[group].mean(axis=0) for group in groups])
        return np.array([rows[:, group].mean(axis=1) for group in others]).T

    fixed = gram(negatives, negatives)

    def whole(groups):
        across = gram(groups, negatives)
        return np.block([[gram(groups, groups), across], [across.T, fixed]])

    keys, mixture, last = [inside], np.ones(1), np.inf
    matrices = [whole(inside)]
    for _ in range(50):
        for _ in range(300):
            mixed = sum(share * matrix for share, matrix in zip(mixture, matrices, strict=True))
            svc = SVC(kernel="precomputed", C=1e6).fit(mixed + ridge, labels)
            signed = np.zeros(len(labels))
            signed[svc.support_] = svc.dual_coef_[0]
            norms = np.array([signed @ matrix @ signed for matrix in matrices])
            value = np.abs(signed).sum() - (mixture @ norms + signed @ ridge @ signed) / 2
            if (norms.max() - mixture @ norms) / 2 <= 1e-3 * value:
                break
            mixture = mixture * np.sqrt(norms)
            mixture /= mixture.sum()
        weights = np.zeros(len(X))
        for share, key in zip(mixture, keys, strict=True):
            for alpha, group in zip(signed[:n], key, strict=True):
                weights[group] += share * alpha / len(group)
        for alpha, group in zip(signed[n:], negatives, strict=True):
            weights[group] += alpha / len(group)
        scores = kernel @ weights
        if last - value <= 1e-2 * value:
            break
        last = value
        keys.append([rows[[np.argmax(scores[rows])]] for rows in inside])
        matrices.append(whole(keys[-1]))
        mixture = np.append(mixture * (1 - 1 / len(keys)), 1 / len(keys))
    return bag_max(kernel @ weights + svc.intercept_[0], bags) > 0


def plain_bag_ki_svm(bags, positive):
    return plain_ki_svm(bags, positive, "bag")


def plain_ins_ki_svm(bags, positive):
    return plain_ki_svm(bags, positive, "instance")


PAIRS = {
    "mi-SVM": (MiSVM, plain_mi_svm),
    "MI-SVM": (MISVM, plain_mi_svm_bags),
    "MILES": (MILES, plain_miles),
    "MILES (liblinear)": (MILES, liblinear_miles),
    "MILIS": (MILIS, plain_milis),
    "Bag-KI-SVM": (BagKISVM, plain_bag_ki_svm),
    "Ins-KI-SVM": (InsKISVM, plain_ins_ki_svm),
}


def timed(call, *arguments):
    start = time.process_time()
    result = call(*arguments)
    return result, time.process_time() - start


def fit_and_predict(method, bags):
    return method().fit(bags).predict(bags) == 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["musk2", "elephant"])
    parser.add_argument("--methods", nargs="+", default=list(PAIRS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    InsKISVM().fit(np.array([[0.0], [1.0]]), [0, 1])  # load the compiled kernel
    print(f"{'method':20}{'set':12}{'ours s':>9}{'plain s':>9}{'ratio':>7}{'same':>7}")
    for set_name in arguments.sets:
        bags = BagScaler().fit_transform(load_dataset(set_name))
        positive = bags.y == 1
        for name in arguments.methods:
            method, plain = PAIRS[name]
            mine, ours = timed(fit_and_predict, method, bags)
            theirs, seconds = timed(plain, bags, positive)
            same = np.mean(mine == theirs)
            print(
                f"{name:20}{set_name:12}{ours:9.2f}{seconds:9.2f}{seconds / ours:7.1f}{same:7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
