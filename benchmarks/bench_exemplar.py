"""Exemplar SVMs against one SVC fit per candidate, both in one run, single-threaded CPU time.

    python benchmarks/bench_exemplar.py                 # daily: real sets (PIGMIL_DATA), 20k x 512
    python benchmarks/bench_exemplar.py --large         # and 200k x 512 (2 GB of memory, minutes)
    python benchmarks/bench_exemplar.py --candidates 200

The SVC loop is timed on a few candidates and the time extrapolated to all: the column "timed" says
on how many. "limit" is one single-precision product of all candidates with all
negatives. "error" is the largest |dw| / |w| against SVC(tol=1e-7) on the first three.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pigmil.exemplars import exemplar_lda, exemplar_svms
from pigmil.graph import similarity


def real_set(folder, name, n_candidates):
    """Z-scored instances of a real set: those of positive bags, those of negative bags."""
    import pandas as pd

    frame = pd.read_parquet(Path(folder) / f"{name}.parquet")
    columns = [c for c in frame if c[0] == "f" and c[1:].isdigit()]
    features = StandardScaler().fit_transform(frame[columns].to_numpy(float))
    positive = frame["bag_label"].to_numpy() > 0
    order = np.random.default_rng(0).permutation(positive.sum())[:n_candidates]
    return features[positive][order], features[~positive]


def clustered_set(n, d, n_candidates):
    """Thirty clusters with a decaying spectrum, as learned embeddings have."""
    rng = np.random.default_rng(0)
    spectrum = np.arange(1, d + 1) ** -0.5
    centres = 1.5 * rng.normal(size=(30, d)) * spectrum

    def draw(size):
        rows = centres[rng.integers(30, size=size)]
        return (rows + rng.normal(size=(size, d)) * spectrum).astype(np.float32)

    negatives = np.concatenate([draw(min(20_000, n - i)) for i in range(0, n, 20_000)])
    return draw(n_candidates), negatives


def cpu_seconds(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def fit_svc(x, negatives, tol=1e-3):
    n = len(negatives)
    model = SVC(kernel="linear", C=1.0, class_weight={1: n, -1: 1}, tol=tol)
    return model.fit(np.vstack([x[None], negatives]), np.r_[1, -np.ones(n)])


def one_pass(candidates, negatives):
    for start in range(0, len(negatives), 4096):
        candidates @ negatives[start : start + 4096].T


def measure(name, candidates, negatives, timed, bar):
    m, (n, d) = len(candidates), negatives.shape
    ours, svms = cpu_seconds(exemplar_svms, candidates, negatives)
    single = candidates.astype(np.float32), negatives.astype(np.float32)
    limit, _ = cpu_seconds(one_pass, *single)
    lda, _ = cpu_seconds(exemplar_lda, candidates, negatives)
    rank, _ = cpu_seconds(lambda: similarity(svms.confidence(candidates)))
    loop = sum(cpu_seconds(fit_svc, x, negatives)[0] for x in candidates[:timed]) / timed
    errors = []
    for x, weight in zip(candidates[:3], svms.weights, strict=False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            expected = fit_svc(x, negatives, tol=1e-7).coef_[0]
        errors.append(np.linalg.norm(weight - expected) / np.linalg.norm(expected))
    print(
        f"{name:12s} {n:7d} x {d:<4d} {m:5d} {1e3 * ours / m:9.3f} {1e3 * loop:9.1f} {timed:6d} "
        f"{loop * m / ours:7.1f} {bar:5d} {ours / limit:7.1f} {1e3 * lda / m:7.3f} {rank:7.2f} "
        f"{max(errors):9.1e} {svms.duality_gap.max():9.1e}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--candidates", type=int, default=400)
    arguments = parser.parse_args()
    print(
        f"{'set':12s} {'negatives':>14s} {'m':>5s} {'ms each':>9s} {'SVC ms':>9s} {'timed':>6s} "
        f"{'ratio':>7s} {'bar':>5s} {'/limit':>7s} {'LDA ms':>7s} {'S, s':>7s} {'error':>9s} "
        f"{'gap':>9s}"
    )
    with threadpool_limits(1):
        warm = np.random.default_rng(0).normal(size=(600, 3))
        exemplar_svms(warm[:2], warm), exemplar_svms(np.zeros((1, 3)), warm[:9])
        exemplar_svms(warm[:2].astype(np.float32), warm.astype(np.float32))
        folder = os.environ.get("PIGMIL_DATA")
        if folder:
            for name, bar in (("elephant", 10), ("musk2", 15)):
                measure(name, *real_set(folder, name, arguments.candidates), 20, bar)
        else:
            print("set PIGMIL_DATA to a folder of data sets to measure real ones")
        measure("clusters", *clustered_set(20_000, 512, arguments.candidates), 5, 50)
        if arguments.large:
            measure("clusters", *clustered_set(200_000, 512, arguments.candidates), 2, 150)


if __name__ == "__main__":
    main()
