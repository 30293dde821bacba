"""Does the stated doubt follow the truth? Confidence against average precision on labelled sets.

python benchmarks/bench_diagnosis.py FOLDER --method MI-SVM
python benchmarks/bench_diagnosis.py FOLDER --sets wdbc vehicle --labels shuffled --draws 20
python benchmarks/bench_diagnosis.py FOLDER --sets wdbc vehicle --labels flipped --share 0.25

With shuffled labels there is nothing to find, and the share of verdicts other than "nothing found"
is printed; with flipped ones, the verdicts and the alarms. Instance labels are used to report only.
All scores are stored in a folder, which bench_fdr.py shares, and not computed again.
"""

import argparse
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from bench_fdr import open_set, split_scores
from bench_soft import build
from scipy.stats import spearmanr

from pigmil import Bags
from pigmil.evaluation._diagnosis import NOTHING, Diagnosis, Refits, judge, refit
from pigmil.evaluation._selection import call_instances
from pigmil.metrics import instance_average_precision


def draw_labels(y: np.ndarray, kind: str, share: float, seed: int) -> np.ndarray:
    """Return the labels of bags as they are, shuffled, or each flipped with a probability."""
    rng = np.random.default_rng(seed)
    if kind == "shuffled":
        return rng.permutation(y)
    return np.where(rng.random(len(y)) < share, 1 - y, y) if kind == "flipped" else y


def diagnose_set(
    method: str, name: str, bags: Bags, y: np.ndarray, seed: int, store: Path
) -> Diagnosis:
    held_out = split_scores(method, name, bags, seed, store, y)
    path = store / f"refits-{method}-{name}-{seed}.npz"
    if not path.exists():
        np.savez(path, **vars(refit(build(method), bags, y, held_out, seed)))
    with np.load(path) as file:
        refits = Refits(file["halves"], float(file["rival_auc"]))
    return judge(bags, call_instances(held_out, bags, method=method), refits, seed)


def average_precision(method: str, name: str, bags: Bags, store: Path) -> float:
    """Return the average precision of a fit on all bags, inside the positive ones."""
    path = store / f"fit-{method}-{name}.npy"
    if not path.exists():
        np.save(path, build(method).fit(bags).instance_scores_)
    inside = np.repeat(bags.y == 1, bags.sizes)
    scores, labels = np.load(path)[inside], bags.instance_labels[inside]
    return instance_average_precision(scores, labels, missing="lowest")


def describe(found: Diagnosis) -> str:
    return (
        f"confidence {found.confidence:5.2f}  AUC {found.auc:5.2f}  "
        f"stability {found.stability:5.2f}  whole bag {found.bag_summary_auc:5.2f}  "
        f"{found.verdict}, {len(found.alarms)} alarms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--method", default="SoftPIGMIL")
    parser.add_argument("--labels", choices=("true", "shuffled", "flipped"), default="true")
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("bench_fdr"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kind, method = arguments.labels, arguments.method
    smallest_first = sorted(
        arguments.folder.glob("*.parquet"), key=lambda path: path.stat().st_size
    )
    names = arguments.sets or [path.stem for path in smallest_first]
    tag = {"true": "", "shuffled": "-shuffled", "flipped": f"-flipped{arguments.share:g}"}[kind]
    found, precisions = [], []
    for name in names:
        bags = open_set(arguments.folder, name, method)
        for seed in range(arguments.draws):
            y = draw_labels(bags.y, kind, arguments.share, seed)
            diagnosis = diagnose_set(method, name + tag, bags, y, seed, arguments.store)
            found.append(diagnosis)
            line = f"{name:18}{describe(diagnosis)}"
            if kind == "true":
                precisions.append(average_precision(method, name, bags, arguments.store))
                line += f"  AP {precisions[-1]:.2f}"
            print(line, flush=True)
            for alarm in diagnosis.alarms:
                print(f"    {alarm}")
    print(f"{len(found)} fits on {kind} labels:", dict(Counter(one.verdict for one in found)))
    if kind == "shuffled":
        wrong = sum(one.verdict != NOTHING for one in found)
        print(f"{wrong} of {len(found)} are not called {NOTHING!r}")
    elif kind == "flipped":
        print(sum(any("labels" in alarm for alarm in one.alarms) for one in found), "label alarms")
    else:
        order = spearmanr(precisions, [one.confidence for one in found])[0]
        print(f"rank correlation of confidence and AP over {len(names)} sets: {order:.2f}")


if __name__ == "__main__":
    main()
