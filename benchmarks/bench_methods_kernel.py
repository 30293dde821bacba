"""Bag-distance and set-kernel methods against plain loops of the same methods: fit and predict.

PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_methods_kernel.py
The loop computes one pair of bags at a time with scikit-learn and numpy, each pair once.
"""

import argparse
import time

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from pigmil import BagScaler, CitationKNN, ClusteringMIL, MIGraph, MiGraph, MIKernel, MInD
from pigmil.datasets import load_dataset
from pigmil.distances import length_unit

MOST_EDGES = 100_000  # of all training bags: the loop compares every two of them


def pairs(function, one, two=None):
    """Table of a symmetric function of two bags."""
    if two is not None:
        return np.array([[function(a, b) for b in two] for a in one])
    table = np.empty((len(one), len(one)))
    for i, a in enumerate(one):
        for j in range(i + 1):
            table[i, j] = table[j, i] = function(a, one[j])
    return table


def loop_kernel(train, y, test, gamma, weights=None):
    def kernel(a, b):
        table = rbf_kernel(a[0], b[0], gamma)
        return a[1] @ table @ b[1]

    def weigh(bag):
        if weights is None:
            return np.ones(len(bag))
        d = cdist(bag, bag)
        mean = d.sum() / max(1, len(bag) * (len(bag) - 1))
        return 1 / np.maximum((d < mean).sum(axis=1), 1)

    one, two = ([(bag, weigh(bag)) for bag in part] for part in (train, test))
    gram, cross = pairs(kernel, one), pairs(kernel, two, one)
    if weights is None:
        norms = [np.sqrt([kernel(bag, bag) for bag in part]) for part in (one, two)]
    else:
        norms = [np.array([bag[1].sum() for bag in part]) for part in (one, two)]
    svc = SVC(kernel="precomputed", C=10.0 if weights is None else 100.0)
    svc.fit(gram / np.outer(norms[0], norms[0]), y)
    return svc.predict(cross / np.outer(norms[1], norms[0]))


def edges_of(bag):
    """Degree and share of affinity at both ends of every edge of a bag's graph."""
    d = cdist(bag, bag)
    mean = d.sum() / max(1, len(bag) * (len(bag) - 1))
    joined = (d < mean) & ~np.eye(len(bag), dtype=bool)
    u, v = np.nonzero(np.triu(joined))
    if len(u) == 0:
        return np.empty((0, 4))
    near = np.where(joined, 1 / np.maximum(d, 1e-6 * mean), 0.0)
    degree, strength = joined.sum(axis=1) / len(u), near.sum(axis=1)
    ends = [np.column_stack([degree[end], near[u, v] / strength[end]]) for end in (u, v)]
    first = (ends[0][:, 0] > ends[1][:, 0]) | (
        (ends[0][:, 0] == ends[1][:, 0]) & (ends[0][:, 1] >= ends[1][:, 1])
    )
    return np.where(first[:, None], np.hstack(ends), np.hstack(ends[::-1]))


def loop_edges(train, y, test, gamma):
    def kernel(a, b):
        nodes = rbf_kernel(a[0], b[0], gamma).sum()
        return nodes + (rbf_kernel(a[1], b[1], 1.0).sum() if len(a[1]) and len(b[1]) else 0.0)

    one, two = ([(bag, edges_of(bag)) for bag in part] for part in (train, test))
    if sum(len(edges) for _, edges in one) > MOST_EDGES:
        return None
    gram, cross = pairs(kernel, one), pairs(kernel, two, one)
    norms = [np.sqrt([kernel(bag, bag) for bag in part]) for part in (one, two)]
    svc = SVC(kernel="precomputed", C=10.0).fit(gram / np.outer(norms[0], norms[0]), y)
    return svc.predict(cross / np.outer(norms[1], norms[0]))


def hausdorff(a, b):
    d = cdist(a, b)
    return max(d.min(axis=1).max(), d.min(axis=0).max())


def loop_mind(train, y, test):
    table = pairs(hausdorff, train)
    length = np.sqrt((table**2).sum(axis=1).mean())
    svc = SVC(kernel="linear", C=100.0).fit(table / length, y)
    return svc.predict(pairs(hausdorff, test, train) / length)


def loop_citation(train, y, test):
    def both(a, b):
        d = cdist(a, b)
        return d.min(), (d.min(axis=1).mean() + d.min(axis=0).mean()) / 2

    n = len(train)
    inside = [[both(a, b) for b in train] for a in train]
    predicted = []
    for bag in test:
        to = [both(bag, other) for other in train]
        votes = [y[j] for j in sorted(range(n), key=to.__getitem__)[:2]]
        for j in range(n):
            others = sorted(inside[j][k] for k in range(n) if k != j)
            if to[j] <= others[3]:
                votes.append(y[j])
        predicted.append(int(np.sum(votes) > len(votes) / 2))
    return np.array(predicted)


def loop_clustering(train, y, test, k=5):
    model = KMeans(k, n_init=1, random_state=0).fit(
        np.vstack([b for b, t in zip(train, y, strict=True) if t])
    )
    best = (-1.0, None, None)
    for center in model.cluster_centers_:
        near = np.array([np.linalg.norm(bag - center, axis=1).min() for bag in train])
        for radius in near:
            accuracy = ((near <= radius) == y).mean()
            if accuracy > best[0]:
                best = (accuracy, center, radius)
    return np.array([np.linalg.norm(bag - best[1], axis=1).min() <= best[2] for bag in test])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["musk2", "elephant"])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print(f"{'method':16}{'set':12}{'ours':>8}{'loop':>8}{'ratio':>7}{'same labels':>13}")
    for name in arguments.sets:
        compare(name, arguments.rounds)


def compare(name, rounds):
    bags = BagScaler().fit_transform(load_dataset(name))
    train, test = train_test_split(
        np.arange(len(bags)), test_size=0.1, stratify=bags.y, random_state=0
    )
    y = (bags.y > 0).astype(int)
    one, two = bags[train], bags[test]
    parts = [list(one), y[train], list(two)]
    rate = 1 / length_unit(one.instances) ** 2
    methods = {
        "Citation-kNN": (CitationKNN(), loop_citation, ()),
        "MI-Kernel": (MIKernel(), loop_kernel, (rate,)),
        "miGraph": (MiGraph(), loop_kernel, (rate, "graph")),
        "MIGraph": (MIGraph(), loop_edges, (rate,)),
        "MInD": (MInD(), loop_mind, ()),
        "Clustering MIL": (ClusteringMIL(n_clusters=5, random_state=0), loop_clustering, ()),
    }
    for label, (method, loop, more) in methods.items():
        ours, found = timed(lambda m: m.fit(one, y[train]).predict(two), (method,), rounds)
        theirs, expected = timed(loop, (*parts, *more), rounds)
        if expected is None:
            print(f"{label:16}{name:12}{ours:8.3f}  too many edges for the loop", flush=True)
            continue
        print(
            f"{label:16}{name:12}{ours:8.3f}{theirs:8.3f}"
            f"{theirs / ours:7.1f}{(found == expected).mean():13.2f}",
            flush=True,
        )


def timed(call, arguments, rounds):
    best = np.inf
    for _ in range(rounds):
        start = time.process_time()
        values = call(*arguments)
        best = min(best, time.process_time() - start)
    return best, values


if __name__ == "__main__":
    main()
