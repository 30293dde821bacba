"""The algorithmic unit tests of Raff and Holt on every method, for the table of the documentation.

Run ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_assumptions.py``: every
method with its defaults, as many seeds as fit into ``--budget`` seconds per method, at most
``--seeds``. Areas under the curve are kept in ``docs/_parts/assumptions.csv``, one row per method,
test and seed, and not computed again without ``--renew``. The verdicts are in
``src/pigmil/estimators/assumptions.json``; the table of the documentation and the cards of the
methods are made from it.
ABMIL and MI-Net are run only if they are named, and need torch.
"""

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np

from pigmil.datasets import ASSUMPTION_TESTS
from pigmil.estimators import all_estimators, get_estimator
from pigmil.evaluation._assumptions import AssumptionTest, assumption_aucs

PARTS = Path(__file__).parents[1] / "docs" / "_parts"
VERDICTS = Path(__file__).parents[1] / "src" / "pigmil" / "estimators" / "assumptions.json"
COLUMNS = ("method", "test", "seed", "train_auc", "test_auc")
SIZES = {"n_train_bags": 200, "n_test_bags": 200}


def read(path):
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def forget(path, names):
    """Remove the rows of some methods."""
    kept = [row for row in read(path) if row["method"] not in names]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)


def run(path, names, seeds, budget):
    """Add what is missing, seed by seed, so that every seed has all three tests."""
    done = {(row["method"], row["test"], int(row["seed"])) for row in read(path)}
    if not path.exists():
        path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for name in names:
        start = time.process_time()
        for seed in range(seeds):
            for test in ASSUMPTION_TESTS:
                if (name, test, seed) in done:
                    continue
                aucs = assumption_aucs(get_estimator(name)(), test, seed, **SIZES)
                with path.open("a", encoding="utf-8", newline="") as file:
                    row = [name, test, seed, *(f"{auc:.4f}" for auc in aucs)]
                    csv.writer(file, lineterminator="\n").writerow(row)
            if time.process_time() - start > budget:
                break
        print(f"{name}: seeds to {seed}, {time.process_time() - start:.0f} s", flush=True)


def summary(rows):
    """Return verdict and areas of each method and test; two seeds are the least."""
    found = {}
    for name in (card.name for card in all_estimators(deep=True)):
        for test in ASSUMPTION_TESTS:
            pairs = [
                (float(row["train_auc"]), float(row["test_auc"]))
                for row in rows
                if (row["method"], row["test"]) == (name, test)
            ]
            if len(pairs) > 1:
                one = AssumptionTest(test, *np.array(pairs).T)
                found.setdefault(name, {})[test] = {
                    "verdict": one.verdict,
                    "auc": round(float(one.test_auc.mean()), 3),
                    "margin": round((one.interval[1] - one.interval[0]) / 2, 3),
                    "train_auc": round(float(one.train_auc.mean()), 3),
                    "seeds": len(pairs),
                }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds per method")
    parser.add_argument("--methods", nargs="*", help="printed names; all if not given")
    parser.add_argument("--renew", action="store_true", help="compute the methods named again")
    parser.add_argument("--file", type=Path, default=PARTS / "assumptions.csv")
    parser.add_argument("--verdicts", type=Path, default=VERDICTS)
    chosen = parser.parse_args()
    names = chosen.methods or [card.name for card in all_estimators()]
    if chosen.renew:
        forget(chosen.file, names)
    run(chosen.file, names, chosen.seeds, chosen.budget)
    text = json.dumps(summary(read(chosen.file)), indent=1)
    chosen.verdicts.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
