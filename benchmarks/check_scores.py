"""Scores and picks of every method on ten development sets, and a comparison of two such runs.

    python benchmarks/check_scores.py run FILE.npz [--methods NAME ...] [--sets NAME ...]
    python benchmarks/check_scores.py compare BEFORE.npz AFTER.npz

Every method is fitted with its defaults and ``random_state=0`` on three of four bags and scores
all of them. A run writes after every method and continues a file that has some methods already.
Set the environment variable PIGMIL_DATA, and one thread: OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from pigmil import as_bags, estimators

SETS = (
    "birds_10",
    "frost_12",
    "g_diabetes_13",
    "g_spam_24",
    "libras",
    "pbmc_cd56nk",
    "s_outliers",
    "segment_a",
    "vehicle",
    "wdbc",
)
VARIANTS = {
    "PIGMIL.faithful": lambda: estimators.PIGMIL.faithful(random_state=0),
    "PIGMIL.paper": lambda: estimators.PIGMIL.paper(random_state=0),
}


def build(name):
    if name in VARIANTS:
        return VARIANTS[name]()
    method = estimators.get_estimator(name)()
    return method.set_params(random_state=0) if "random_state" in method.get_params() else method


def method_names():
    try:
        import torch  # noqa: F401
    except ImportError:
        return [*estimators.registry.METHODS, *VARIANTS]
    return [*estimators.registry.METHODS, *VARIANTS, *estimators.registry.DEEP_METHODS]


def load(name):
    """Return the bags of a set, in the order of the file, and whether each is positive."""
    table = pd.read_parquet(Path(os.environ["PIGMIL_DATA"]) / "detection" / f"{name}.parquet")
    features = table.drop(columns=["bag", "bag_label", "instance_label"]).to_numpy(np.float64)
    groups = table.groupby("bag", sort=False).indices.values()
    y = np.array([table["bag_label"].iloc[rows[0]] > 0 for rows in groups])
    return [features[rows] for rows in groups], y.astype(int)


def results(name, bags, y):
    train = np.flatnonzero(np.arange(len(bags)) % 4 != 3)
    model = build(name).fit(as_bags([bags[i] for i in train]), y[train])
    found = {}
    if hasattr(model, "decision_function"):
        found["bag scores"] = model.decision_function(as_bags(bags))
    if hasattr(model, "detected_instances_"):
        found["instance scores"] = model.decision_function_instances(as_bags(bags))
        found["fitted scores"] = model.instance_scores_
        found["picks"] = model.detected_instances_
    return found


def run(path, names, sets):
    found = dict(np.load(path)) if path.exists() else {}
    data = {name: load(name) for name in sets}
    for name in names:
        start = time.process_time()
        for set_name, (bags, y) in data.items():
            if f"{name}|{set_name}|done" in found:
                continue
            try:
                for kind, values in results(name, bags, y).items():
                    found[f"{name}|{set_name}|{kind}"] = np.asarray(values)
                found[f"{name}|{set_name}|done"] = np.array(1)
            except Exception as error:  # a method that fails here is a result too
                print(f"{name} {set_name}: {error!r}")
        temporary = path.with_suffix(".part.npz")
        np.savez_compressed(temporary, **found)
        temporary.replace(path)
        print(f"{name:16} {time.process_time() - start:8.1f} CPU s", flush=True)


def compare(before, after):
    before, after = dict(np.load(before)), dict(np.load(after))
    names = list(dict.fromkeys(key.split("|")[0] for key in after))
    for name in names:
        differences, equal_picks, n_picks, missing = {}, 0, 0, []
        for key in [key for key in before if key.split("|")[0] == name]:
            kind = key.split("|")[2]
            old, new = before[key], after.get(key)
            if new is None or old.shape != new.shape:
                missing.append(key)
            elif kind == "picks":
                equal_picks += int((old == new).sum())
                n_picks += old.size
            elif kind != "done" and not np.array_equal(old, new, equal_nan=True):
                both = np.isfinite(old) & np.isfinite(new)
                relative = np.abs(old - new)[both].max(initial=0.0) / max(np.ptp(old[both]), 1e-300)
                differences[kind] = max(differences.get(kind, 0.0), relative)
        picks = f"picks equal {equal_picks / n_picks:7.2%}" if n_picks else " " * 19
        text = ", ".join(f"{kind} {size:.1e} of the range" for kind, size in differences.items())
        print(f"{name:16} {picks}  {text or 'scores identical'}")
        for key in missing:
            print(f"{'':16} missing or of another shape: {key}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run")
    runner.add_argument("path", type=Path)
    runner.add_argument("--methods", nargs="+")
    runner.add_argument("--sets", nargs="+", default=SETS)
    comparer = commands.add_parser("compare")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.command == "run":
        run(arguments.path, arguments.methods or method_names(), arguments.sets)
    else:
        compare(arguments.before, arguments.after)
