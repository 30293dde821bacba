"""Realised share of false calls and power of select_instances on labelled sets, set by set.

python benchmarks/bench_fdr.py FOLDER --splits 5                 # all Parquet files of the folder
python benchmarks/bench_fdr.py FOLDER --sets birds_10 wdbc --method MI-SVM --splits 50

Columns of a file: see bench_soft.py. Instance labels are used to report only. The held-out scores
of every split are stored in a folder and not computed again; delete it after a change of a method.
A set whose single fit would exceed --seconds is not started once that limit is passed.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from bench_soft import build, load

from pigmil import Bags, BagScaler
from pigmil.evaluation._selection import HeldOutScores, call_instances, held_out_scores

NOT_STANDARD = ("logic7_atoms",)  # a single instance does not make the bag positive


def open_set(folder: Path, name: str, method: str) -> Bags:
    """Read one set; methods that do not scale features themselves get them standardized."""
    bags = load(folder / f"{name}.parquet")
    return bags if method == "SoftPIGMIL" else BagScaler().fit_transform(bags)


def split_scores(
    method: str, name: str, bags: Bags, seed: int, store: Path, y: np.ndarray | None = None
) -> HeldOutScores:
    """Return held-out scores from the store, or compute and store them."""
    path = store / f"{method}-{name}-{seed}.npz"
    if not path.exists():
        held_out = held_out_scores(build(method), bags, y, random_state=seed)
        store.mkdir(parents=True, exist_ok=True)
        np.savez(path, **vars(held_out))
    with np.load(path) as file:
        return HeldOutScores(**{key: file[key] for key in file.files})


def false_share_and_power(held_out: HeldOutScores, bags: Bags, fdr: float) -> tuple[float, float]:
    called = call_instances(held_out, bags, fdr=fdr).called
    truth = bags.instance_labels == 1
    right = truth[called].sum()
    return 1 - right / max(1, len(called)) if len(called) else 0.0, right / truth.sum()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--method", default="SoftPIGMIL")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--fdr", type=float, default=0.1)
    parser.add_argument("--store", type=Path, default=Path("bench_fdr"))
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--stored-only", action="store_true", help="Compute no scores.")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = arguments.folder.glob("*.parquet")
    smallest_first = sorted(paths, key=lambda path: path.stat().st_size)
    names = arguments.sets or [path.stem for path in smallest_first]
    start = time.monotonic()
    rows = {}
    print(f"{'set':20}{'false':>8}{'power':>8}{'splits':>8}")
    for name in names:
        bags = open_set(arguments.folder, name, arguments.method)
        outcomes = []
        for seed in range(arguments.splits):
            path = arguments.store / f"{arguments.method}-{name}-{seed}.npz"
            late = time.monotonic() - start > arguments.seconds
            if not path.exists() and (late or arguments.stored_only):
                continue
            held_out = split_scores(arguments.method, name, bags, seed, arguments.store)
            outcomes.append(false_share_and_power(held_out, bags, arguments.fdr))
        if outcomes:
            rows[name] = np.mean(outcomes, axis=0)
            false, power = rows[name]
            print(f"{name:20}{false:8.3f}{power:8.2f}{len(outcomes):8}", flush=True)
    standard = np.array([row for name, row in rows.items() if name not in NOT_STANDARD])
    print(f"{'mean, standard':20}{standard[:, 0].mean():8.3f}{standard[:, 1].mean():8.2f}")
    good = int((standard[:, 0] <= 1.2 * arguments.fdr).sum())
    print(f"at most {1.2 * arguments.fdr:.2f} on {good} of {len(standard)} sets")


if __name__ == "__main__":
    main()
