"""Calls and verdicts against the truth: false share, power, and confidence beside precision.

python benchmarks/bench_selection.py FOLDER --splits 20              # all Parquet files
python benchmarks/bench_selection.py FOLDER --sets wdbc --method MI-SVM
python benchmarks/bench_selection.py FOLDER --labels shuffled --splits 3 --largest 0.5

Columns of a file: see bench_soft.py. Instance labels are used to report only. The first split is
all bags of a set, the others are random four fifths of the bags of each class. With shuffled labels
there is nothing to find; with flipped ones each label is wrong with a probability of one quarter.
Results are kept in a file and not computed again; delete it after a change of a method. No fit is
started after --seconds, and no set of more than --largest MB is used.
"""

import argparse
import json
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from bench_soft import build, load
from scipy.stats import spearmanr

from pigmil import Bags, BagScaler, select_instances
from pigmil.metrics import instance_average_precision

NOT_STANDARD = ("logic7_atoms",)  # a single instance does not make the bag positive


def part_of(bags: Bags, split: int) -> Bags:
    rng = np.random.default_rng(split)
    sides = [rng.permutation(np.flatnonzero(bags.y == label)) for label in (0, 1)]
    kept = [side[: len(side) if split == 0 else int(np.ceil(0.8 * len(side)))] for side in sides]
    return bags[np.sort(np.concatenate(kept))]


def draw_labels(y: np.ndarray, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "shuffled":
        return rng.permutation(y)
    return np.where(rng.random(len(y)) < 0.25, 1 - y, y) if kind == "flipped" else y


def measure(method: str, bags: Bags, y: np.ndarray) -> dict:
    """Fit, select at a level of 0.1, and compare with the instance labels."""
    bags = bags if method == "SoftPIGMIL" else BagScaler().fit_transform(bags)
    start = time.process_time()
    model = build(method).fit(bags, y)
    middle = time.process_time()
    selection = select_instances(model, bags, y)
    end = time.process_time()
    inside, truth = np.repeat(y == 1, bags.sizes), bags.instance_labels == 1
    right = int(truth[selection.called].sum())
    return {
        "false": 1 - right / len(selection.called) if len(selection.called) else 0.0,
        "power": right / int(truth.sum()),
        "ap": instance_average_precision(
            model.instance_scores_[inside], truth[inside], missing="lowest"
        ),
        "confidence": selection.diagnosis.confidence,
        "verdict": selection.diagnosis.verdict,
        "alarms": len(selection.diagnosis.alarms),
        "seconds": [middle - start, end - middle],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--method", default="SoftPIGMIL")
    parser.add_argument("--labels", choices=("true", "shuffled", "flipped"), default="true")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("bench_selection.json"))
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--largest", type=float, default=np.inf)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kind, method = arguments.labels, arguments.method
    known = json.loads(arguments.store.read_text()) if arguments.store.exists() else {}
    sizes = {path.stem: path.stat().st_size / 1e6 for path in arguments.folder.glob("*.parquet")}
    names = arguments.sets or [
        name for name in sorted(sizes, key=sizes.get) if sizes[name] <= arguments.largest
    ]
    end = time.monotonic() + arguments.seconds
    rows: dict[str, list[dict]] = {name: [] for name in names}
    for split in range(arguments.splits):
        for name in names:
            key = f"{method} {name} {kind} {split}"
            if key not in known and time.monotonic() < end:
                bags = load(arguments.folder / f"{name}.parquet")
                bags = part_of(bags, split if kind == "true" else 0)
                known[key] = measure(method, bags, draw_labels(bags.y, kind, split))
                arguments.store.write_text(json.dumps(known))
            if key in known:
                rows[name].append(known[key])
    rows = {name: found for name, found in rows.items() if found}
    print(f"{'set':20}{'false':>8}{'power':>8}{'AP':>8}{'sure':>8}{'splits':>8}  verdicts")
    means = {}
    for name, found in rows.items():
        keys = ("false", "power", "ap", "confidence")
        means[name] = [float(np.mean([row[key] for row in found])) for key in keys]
        figures = "".join(f"{value:8.2f}" for value in means[name])
        verdicts = Counter(row["verdict"] + "!" * row["alarms"] for row in found)
        print(f"{name:20}{figures}{len(found):8}  {dict(verdicts)}")
    every = [row for found in rows.values() for row in found]
    print(len(every), "fits:", dict(Counter(row["verdict"] for row in every)))
    print("CPU seconds of fits and of selections:", np.sum([r["seconds"] for r in every], axis=0))
    if kind == "true":
        false, power = np.array([means[n] for n in means if n not in NOT_STANDARD])[:, :2].T
        print(f"mean false share {false.mean():.3f}, power {power.mean():.2f}")
        print(f"at most 0.12 on {int((false <= 0.12).sum())} of {len(false)} sets")
        first = np.array([(found[0]["ap"], found[0]["confidence"]) for found in rows.values()])
        print(f"rank correlation of confidence and AP, all bags: {spearmanr(*first.T)[0]:.2f}")


if __name__ == "__main__":
    main()
