"""Does the stated doubt follow the truth? Confidence against average precision on labelled sets.

python benchmarks/bench_diagnosis.py FOLDER --method MI-SVM
python benchmarks/bench_diagnosis.py FOLDER --sets wdbc vehicle --permutations 20

With --permutations the labels of the bags are shuffled, so that there is nothing to find, and the
share of verdicts other than "nothing found" is printed. Instance labels are used to report only.
Held-out scores are shared with bench_fdr.py, and all results are kept in the same folder.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from bench_fdr import open_set, split_scores
from bench_soft import build
from scipy.stats import spearmanr

from pigmil import diagnose
from pigmil.evaluation._diagnosis import NOTHING
from pigmil.evaluation._selection import call_instances
from pigmil.metrics import instance_average_precision


def diagnose_set(folder: Path, name: str, method: str, store: Path) -> dict[str, object]:
    bags = open_set(folder, name, method)
    selection = call_instances(split_scores(method, name, bags, 0, store), bags)
    row = diagnose(build(method), bags, selection=selection).to_dict()
    inside = np.repeat(bags.y == 1, bags.sizes)
    scores = build(method).fit(bags).instance_scores_
    row["ap"] = instance_average_precision(
        scores[inside], bags.instance_labels[inside], missing="lowest"
    )
    return row


def diagnose_noise(folder: Path, name: str, method: str, seed: int) -> dict[str, object]:
    bags = open_set(folder, name, method)
    y = np.random.default_rng(seed).permutation(bags.y)
    return diagnose(build(method), bags, y, random_state=seed).to_dict()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--method", default="SoftPIGMIL")
    parser.add_argument("--permutations", type=int, default=0)
    parser.add_argument("--store", type=Path, default=Path("bench_fdr"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    method, folder = arguments.method, arguments.folder
    smallest_first = sorted(folder.glob("*.parquet"), key=lambda path: path.stat().st_size)
    names = arguments.sets or [path.stem for path in smallest_first]
    kind = "noise" if arguments.permutations else "diagnosis"
    path = arguments.store / f"{kind}-{method}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(path.read_text()) if path.exists() else {}
    false_alarms = []
    for name in names:
        for seed in range(max(1, arguments.permutations)):
            key = f"{name} {seed}"
            if key not in results:
                results[key] = (
                    diagnose_noise(folder, name, method, seed)
                    if arguments.permutations
                    else diagnose_set(folder, name, method, arguments.store)
                )
                path.write_text(json.dumps(results, indent=1))
            row = results[key]
            if arguments.permutations:
                false_alarms.append(row["verdict"] != NOTHING)
                continue
            print(
                f"{name:20}AP {row['ap']:5.2f}  confidence {row['confidence']:5.2f}  "
                f"AUC {row['auc']:5.2f}  stability {row['stability'] or np.nan:5.2f}  "
                f"whole bag {row['bag_summary_auc'] or np.nan:5.2f}  {row['verdict']}, "
                f"{len(row['alarms'])} alarms",
                flush=True,
            )
        if arguments.permutations:
            print(f"{name:20}{np.mean(false_alarms[-arguments.permutations :]):6.2f}", flush=True)
    if arguments.permutations:
        print(f"{sum(false_alarms)} of {len(false_alarms)} fits on noise are called weak or good")
    else:
        rows = [results[f"{name} 0"] for name in names]
        order = spearmanr([row["ap"] for row in rows], [row["confidence"] for row in rows])
        print(f"rank correlation of confidence and AP over {len(rows)} sets: {order[0]:.2f}")


if __name__ == "__main__":
    main()
