"""The bag stage of PIGMIL: accuracy and area under the ROC curve by bag labels.

python benchmarks/bench_bag_stage.py development   # the 44 sets in PIGMIL_DATA/detection
python benchmarks/bench_bag_stage.py paper         # the eleven sets of the paper
python benchmarks/bench_bag_stage.py paper --configurations faithful --repeats 5 --folds 10

Columns of ``default``: the two best-scored instances of every positive bag with their hard
negatives (the default), the same without the score column, and the pool with its hard negatives,
all on one detection. ``faithful`` has C and the width chosen inside the training folds, beside 1
and 1. Features are standardised in the fold.
"""

import argparse
import copy
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from pigmil import PIGMIL, Bags, BagScaler
from pigmil.datasets import load_dataset

PAPER = {
    "musk1": 83.4, "musk2": 87.2, "elephant": 80.0, "fox": 58.5, "tiger": 79.0,
    "ucsb_breast": 61.6, "eastwest": 61.0, "westeast": 52.0, "mutagenesis_atoms": 80.8,
    "mutagenesis_bonds": 81.5, "mutagenesis_chains": 77.1,
}  # fmt: skip


def development():
    folder = Path(os.environ["PIGMIL_DATA"]) / "detection"
    for file in sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_size):
        table = pd.read_parquet(file).sort_values("bag", kind="stable")
        first = table.groupby("bag", sort=True)["bag_label"].first()
        sizes = table.groupby("bag", sort=True).size().to_numpy()
        instances = table.filter(regex=r"^f\d+$").to_numpy(np.float64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        yield file.stem, Bags(instances, offsets, y=first.to_numpy())


def paper():
    for name in PAPER:
        yield name, load_dataset(name)


def fitted(configuration, train):
    """Return the models to compare, by name."""
    if configuration == "faithful":
        tuned = PIGMIL.faithful(random_state=0).fit(train)
        fixed = copy.copy(tuned).set_params(C=1.0, embedding_decay=1.0)
        return {"tuned": tuned, "fixed": fixed.with_pool(train, tuned.pool_)}
    best = PIGMIL(random_state=0).fit(train)
    without = copy.copy(best).set_params(score_column=False)
    return {
        "two best": best,
        "no score column": without.with_pool(train),
        "pool": best.with_pool(train, best.pool_),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", choices=("development", "paper"))
    parser.add_argument("--configurations", nargs="*", default=["default"])
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for configuration in options.configurations:
        means = {}
        for name, bags in development() if options.sets == "development" else paper():
            if options.only and name not in options.only:
                continue
            start, cells = time.process_time(), {}
            for repeat in range(options.repeats):
                n_folds = min(options.folds, *np.unique(bags.y, return_counts=True)[1])
                folds = StratifiedKFold(n_folds, shuffle=True, random_state=repeat)
                for train, test in folds.split(bags.y, bags.y):
                    scaler = BagScaler().fit(bags[train])
                    inside, outside = scaler.transform(bags[train]), scaler.transform(bags[test])
                    for label, model in fitted(configuration, inside).items():
                        values = model.decision_function(outside)
                        found, known = cells.setdefault((label, repeat), ([], []))
                        found.append(values)
                        known.append(outside.y == bags.y.max())
            parts = [name, f"{PAPER.get(name, float('nan')):.1f}"]
            for label in dict.fromkeys(label for label, _ in cells):
                accuracies, areas = [], []
                for (other, _), (values, known) in cells.items():
                    if other == label:
                        hits = [np.mean((v > 0) == k) for v, k in zip(values, known, strict=True)]
                        accuracies.append(100 * np.mean(hits))
                        pairs = [(k, v) for v, k in zip(values, known, strict=True)]
                        inner = [roc_auc_score(k, v) for k, v in pairs if 0 < k.mean() < 1]
                        areas.append(100 * np.mean(inner))
                means.setdefault(label, []).append((np.mean(accuracies), np.mean(areas)))
                parts.append(f"{label}: {np.mean(accuracies):.1f} {np.mean(areas):.1f}")
            print(" | ".join(parts), f"| {time.process_time() - start:.0f} CPU s", flush=True)
        table = {label: np.array(rows) for label, rows in means.items()}
        for label, rows in table.items():
            print(f"{configuration} {label}: mean accuracy and AUC", rows.mean(axis=0).round(2))
        first, *others = table
        for label in others:
            gain = table[first] - table[label]
            error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
            print(f"{first} minus {label}", gain.mean(axis=0).round(2), "+-", error.round(2))


if __name__ == "__main__":
    main()
