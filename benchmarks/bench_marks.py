"""Average precision on unmarked instances after marks chosen by three rules, and a figure.

python benchmarks/bench_marks.py FOLDER --sets birds_10 wdbc
python benchmarks/bench_marks.py FOLDER --figure docs/_static/marks.png    # of what is stored

Rounds of 10, 10, 30 and 50 marks: SoftPIGMIL is fitted on the bags with all marks so far, a rule
picks the next instances of positive bags, and the instance labels answer. "best" takes the
instances of highest score, "random" any, "suggested" those of :func:`pigmil.suggest_instances`.
Average precision is that of instances of positive bags without a mark. As the easy positives are
marked first, it is compared with that of the model without marks on the same instances: the gain.
A round in which fewer than five positives are left unmarked is left out. "all labels" is a
comparison: randomized trees fitted to all instance labels of the other bags, in five folds.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from bench_soft import load
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

from pigmil import SoftPIGMIL, suggest_instances
from pigmil.metrics import instance_average_precision

ROUNDS = (10, 20, 50, 100)
RULES = ("best", "random", "suggested")
LABELS = "all labels"
WEAK = 90.0  # average precision below which marks are wanted


def pick(rule: str, model: SoftPIGMIL, bags, marked, marks: np.ndarray, n: int) -> np.ndarray:
    if rule == "suggested":
        return suggest_instances(model, marked, n)
    rows = np.flatnonzero((bags.y[bags.bag_index] == 1) & np.isnan(marks))
    if rule == "random":
        return np.random.default_rng(n).permutation(rows)[:n]
    return rows[np.argsort(-model.decision_function_instances(bags)[rows], kind="stable")[:n]]


def measure(bags, rule: str) -> dict:
    """Return the precision without marks, and per round that without and with its marks."""
    truth, inside = bags.instance_labels == 1, bags.y[bags.bag_index] == 1
    model = SoftPIGMIL().fit(bags)
    before = model.decision_function_instances(bags)
    marks, marked, curve = np.full(bags.n_instances, np.nan), bags, {}
    for n in ROUNDS:
        rows = pick(rule, model, bags, marked, marks, n - int((~np.isnan(marks)).sum()))
        marks[rows] = truth[rows]
        marked = bags.with_marks(marks)
        model = SoftPIGMIL().fit(marked)
        rest = inside & np.isnan(marks)
        if truth[rest].sum() < 5:
            break
        after = model.decision_function_instances(bags)
        precision = [instance_average_precision(s[rest], truth[rest]) for s in (before, after)]
        curve[str(n)] = [100 * value for value in precision]
    start = 100 * instance_average_precision(before[inside], truth[inside])
    return {"start": start, "curve": curve}


def by_all_labels(bags) -> dict:
    truth, inside = bags.instance_labels == 1, bags.y[bags.bag_index] == 1
    trees = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0)
    chances = cross_val_predict(
        trees,
        bags.instances,
        truth,
        groups=bags.bag_index,
        cv=GroupKFold(5),
        method="predict_proba",
    )[:, 1]
    return {"start": 100 * instance_average_precision(chances[inside], truth[inside]), "curve": {}}


def gains(known: dict, rule: str, weak: bool) -> dict[int, list[float]]:
    found = {n: [] for n in ROUNDS}
    for key, row in known.items():
        if key.endswith(f" {rule}") and (row["start"] < WEAK) == weak:
            for n, (without, with_marks) in row["curve"].items():
                found[int(n)].append(with_marks - without)
    return found


def print_tables(known: dict) -> None:
    names = list(dict.fromkeys(key.split()[0] for key in known))
    print(f"{'set':20}{'0 marks':>8}" + "".join(f"{f'{r} 50':>14}" for r in RULES) + f"  {LABELS}")
    for name in sorted(names, key=lambda name: known[f"{name} {RULES[0]}"]["start"]):
        rows = [known.get(f"{name} {rule}", {"curve": {}})["curve"].get("50") for rule in RULES]
        cells = [f"{row[0]:.0f} -> {row[1]:.0f}" if row else "-" for row in rows]
        start, labels = (known[f"{name} {rule}"]["start"] for rule in (RULES[0], LABELS))
        print(f"{name:20}{start:8.1f}" + "".join(f"{c:>14}" for c in cells) + f"{labels:12.1f}")
    for weak in (True, False):
        print(f"mean gain (sets) on sets {'below' if weak else 'from'} {WEAK:g}, by marks {ROUNDS}")
        part = [name for name in names if (known[f"{name} {RULES[0]}"]["start"] < WEAK) == weak]
        means = [np.mean([known[f"{n} {r}"]["start"] for n in part]) for r in (RULES[0], LABELS)]
        print(f"without marks {means[0]:.1f}, by {LABELS} {means[1]:.1f}")
        for rule in RULES:
            found = gains(known, rule, weak).values()
            print(f"{rule:12}" + "".join(f"{np.mean(v):+8.1f} ({len(v)})" for v in found if v))


def draw(known: dict, path: Path) -> None:
    import matplotlib.pyplot as plt

    parts = [weak for weak in (True, False) if gains(known, "random", weak)[ROUNDS[0]]]
    figure, axes = plt.subplots(
        1, len(parts), figsize=(4 * len(parts), 3), layout="constrained", squeeze=False, sharey=True
    )
    for ax, weak in zip(axes[0], parts, strict=True):
        for rule in RULES:
            found = gains(known, rule, weak)
            at = [n for n in ROUNDS if found[n]]
            ax.plot([0, *at], [0, *(np.mean(found[n]) for n in at)], marker="o", label=rule)
        n_sets = len(gains(known, "random", weak)[ROUNDS[0]])
        side = "below" if weak else "from"
        ax.set(title=f"{n_sets} sets {side} {WEAK:g} without marks", xlabel="marks")
        ax.axhline(0, color="0.7", linewidth=1)
    axes[0, 0].set_ylabel("gain in average precision")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", default=[])
    parser.add_argument("--store", type=Path, default=Path("bench_marks.json"))
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = json.loads(arguments.store.read_text()) if arguments.store.exists() else {}
    for name in arguments.sets:
        for rule in (*RULES, LABELS):
            if f"{name} {rule}" not in known:
                start = time.process_time()
                bags = load(arguments.folder / f"{name}.parquet")
                known[f"{name} {rule}"] = (
                    by_all_labels(bags) if rule == LABELS else measure(bags, rule)
                )
                arguments.store.write_text(json.dumps(known))
                print(name, rule, f"{time.process_time() - start:.1f} CPU s", flush=True)
    print_tables(known)
    if arguments.figure:
        draw(known, arguments.figure)


if __name__ == "__main__":
    main()
