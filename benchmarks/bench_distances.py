"""Densities of negatives in blocks against scikit-learn's chunked distances: time and peak memory.

OMP_NUM_THREADS=1 python benchmarks/bench_distances.py
Each side runs in a separate process on the same memory-mapped negatives, so that the peak is its
own. Targets: at least 2.5 times faster, peak below 500 MB at 100,000 negatives x 512.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIDES = ("ours nearest", "ours sum", "sklearn nearest", "sklearn sum", "product")


def run(side: str, folder: Path, rounds: int) -> None:
    from sklearn.metrics import pairwise_distances_chunked

    from pigmil import Bags
    from pigmil.distances.similarity import log_density

    negatives = np.load(folder / "negatives.npy", mmap_mode="r")
    queries = np.load(folder / "queries.npy")
    offsets = np.arange(0, len(negatives) + 1, 10)
    bags = Bags(negatives, offsets, check_finite=False)
    rate = 1 / np.sqrt(negatives.shape[1])

    def ours(reduction):
        return log_density(queries, bags, gamma=rate, reduction=reduction)

    def chunked(reduction):
        parts = []
        for distances in pairwise_distances_chunked(queries, negatives, working_memory=64):
            near = np.exp(-rate * distances)
            if reduction == "nearest":
                near = np.maximum.reduceat(near, offsets[:-1], axis=1)
            parts.append(np.log(near.sum(axis=1) / bags.n_bags))
        return np.concatenate(parts)

    def product():
        left = queries.astype(np.float32)
        return np.concatenate(
            [(left @ negatives[i : i + 8192].astype(np.float32).T)[:, :1] for i in
             range(0, len(negatives), 8192)]
        ).ravel()  # fmt: skip

    kind, _, reduction = side.partition(" ")
    call = {"ours": ours, "sklearn": chunked}.get(kind)
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        values = product() if call is None else call(reduction)
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": min(seconds), "peak": peak,
                      "values": values[:1000].tolist()}))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--negatives", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run(arguments.side, arguments.folder, arguments.rounds)
        return
    with tempfile.TemporaryDirectory() as name:
        rng = np.random.default_rng(0)
        shape = (arguments.negatives, arguments.features)
        np.save(Path(name) / "negatives.npy", rng.standard_normal(shape, dtype=np.float32))
        shape = (arguments.queries, arguments.features)
        np.save(Path(name) / "queries.npy", rng.standard_normal(shape, dtype=np.float32))
        results = {}
        for side in SIDES:
            command = [sys.executable, __file__, "--side", side, "--folder", name,
                       "--rounds", str(arguments.rounds)]  # fmt: skip
            done = subprocess.run(command, check=True, capture_output=True, env=os.environ)
            results[side] = json.loads(done.stdout)
    print(f"{arguments.queries} queries, {arguments.negatives} negatives x {arguments.features}")
    for side, result in results.items():
        print(f"{side:18}{result['seconds']:8.2f} CPU s   peak {result['peak']:6.0f} MB")
    limit = results["product"]["seconds"]
    for reduction in ("nearest", "sum"):
        ours, theirs = results[f"ours {reduction}"], results[f"sklearn {reduction}"]
        error = np.abs(np.array(ours["values"]) - theirs["values"]).max()
        print(
            f"{reduction:8} {theirs['seconds'] / ours['seconds']:.1f} times faster, "
            f"{ours['seconds'] / limit:.1f} times one single-precision product, "
            f"log densities within {error:.1e}"
        )


if __name__ == "__main__":
    main()
