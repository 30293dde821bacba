"""Growth of the time of a fit with bags, instances per bag and features.

Run ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_growth.py --write
docs/_parts/growth.md``: CPU time of a fit with kernels compiled before, the least of ``--repeats``,
on bags drawn here. The exponent is the slope of log time over log size, fitted over all sizes, and
between the last two, where fixed costs count least.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from pigmil import Bags
from pigmil.estimators import get_estimator

# One is varied, the others stay; sizes double.
START = {"bags": 100, "instances per bag": 8, "features": 16}
SIZES = {
    "bags": (50, 100, 200, 400),
    "instances per bag": (8, 16, 32, 64),
    "features": (8, 32, 128, 512),
}
METHODS = {
    "PIGMIL": {"random_state": 0},
    "PIGMIL, fixed C and width": {"random_state": 0, "C": 10.0, "embedding_decay": 1.0},
    "KDE_min": {},
    "MILD": {},
    "MILES": {},
    "mi-SVM": {},
    "miGraph": {},
    "Citation-kNN": {},
}


def draw(n_bags, bag_size, n_features, seed=0):
    """Half of the bags positive, with one instance of five from a cluster of its own."""
    rng = np.random.default_rng(seed)
    instances = rng.normal(size=(n_bags, bag_size, n_features))
    n_positive = max(1, bag_size // 5)
    shape = (n_bags // 2, n_positive, n_features)
    instances[: n_bags // 2, :n_positive] = 0.3 * rng.normal(size=shape) + 2 / np.sqrt(n_features)
    return Bags.from_list(list(instances), y=np.arange(n_bags) < n_bags // 2)


def seconds(name, parameters, bags, repeats):
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        get_estimator(name.split(",")[0])(**parameters).fit(bags)
        taken.append(time.process_time() - start)
    return min(taken)


def exponent(sizes, times):
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def measure(repeats, limit):
    """Times and exponents by method and by what grows; beyond ``limit`` seconds it stops."""
    for name, parameters in METHODS.items():
        get_estimator(name.split(",")[0])(**parameters).fit(draw(40, 6, 4))
        for what, sizes in SIZES.items():
            times = []
            for size in sizes:
                if times and times[-1] > limit:
                    break
                bags = draw(*{**START, what: size}.values())
                times.append(seconds(name, parameters, bags, repeats))
            yield name, what, sizes[: len(times)], times


def markdown(rows):
    head = ("method", "grows", "size: seconds", "exponent", "at the end")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, what, sizes, times in rows:
        cells = ", ".join(f"{size}: {t:.2g}" for size, t in zip(sizes, times, strict=True))
        slopes = exponent(sizes, times), exponent(sizes[-2:], times[-2:])
        lines.append(f"| {name} | {what} | {cells} | {slopes[0]:.1f} | {slopes[1]:.1f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="file for the table; printed if not given")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=float, default=10.0)
    chosen = parser.parse_args()
    rows = []
    for row in measure(chosen.repeats, chosen.limit):
        print(row[0], row[1], [round(t, 3) for t in row[3]], flush=True)
        rows.append(row)
    table = markdown(rows)
    if chosen.write:
        chosen.write.write_text(table, encoding="utf-8")
    else:
        print(table)


if __name__ == "__main__":
    main()
