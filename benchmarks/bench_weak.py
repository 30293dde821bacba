"""Map of what SoftPIGMIL finds in large bags: share and shift of the positives, number of bags.

    python benchmarks/bench_weak.py RESULTS.csv                    # compute what is missing
    python benchmarks/bench_weak.py RESULTS.csv --draw FIGURE.svg  # draw what is there

Half of the bags are positive. An instance has 512 independent features of unit variance; a share of
the instances of a positive bag is moved along one direction by so many standard deviations. A draw
counts as found if the best instance of at least 80 % of the positive bags is positive. Noise is
normal, t-distributed with 5 degrees of freedom (``--noise t``), or normal with an offset of 0.2
standard deviations per bag and feature (``--noise offset``).
"""

import argparse
import csv
import itertools
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from pigmil import Bags, SoftPIGMIL
from pigmil.metrics import hit_at_k, instance_average_precision

SIZE, WIDTH = 1000, 512
SHARES, SHIFTS, N_BAGS = (0.005, 0.01, 0.02, 0.04), (3.0, 3.4, 4.0, 5.0), (50, 100)
COLUMNS = ("noise", "n_bags", "share", "shift", "draw", "top1", "precision", "found", "seconds")


def draw_bags(n_bags: int, share: float, shift: float, seed: int, noise: str) -> Bags:
    rng = np.random.default_rng(seed)
    shape = (n_bags * SIZE, WIDTH)
    values = rng.standard_normal(shape, dtype=np.float32)
    if noise == "t":  # of unit variance
        values /= np.sqrt(rng.chisquare(5, shape).astype(np.float32) / 5) * np.sqrt(5 / 3)
    if noise == "offset":
        values += np.repeat(0.2 * rng.standard_normal((n_bags, WIDTH)), SIZE, axis=0)
    y = np.arange(n_bags) % 2
    truth = np.zeros((n_bags, SIZE), dtype=np.int64)
    truth[y == 1, : round(share * SIZE)] = 1
    direction = rng.standard_normal(WIDTH)
    moved = np.flatnonzero(truth)
    values[moved] += (shift * direction / np.linalg.norm(direction)).astype(np.float32)
    offsets = np.arange(n_bags + 1) * SIZE
    return Bags(values, offsets, y=y, instance_labels=truth.ravel(), check_finite=False)


def measure(n_bags: int, share: float, shift: float, draw: int, noise: str) -> dict:
    bags = draw_bags(n_bags, share, shift, draw, noise)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SoftPIGMIL(random_state=0).fit(bags)
    seconds = time.process_time() - start
    inside = np.repeat(bags.y == 1, SIZE)
    scores, truth = model.instance_scores_, bags.instance_labels
    top1 = 100 * hit_at_k(scores, bags, k=1)
    precision = 100 * instance_average_precision(scores[inside], truth[inside])
    return {"top1": f"{top1:.1f}", "precision": f"{precision:.1f}", "found": int(top1 >= 80),
            "seconds": f"{seconds:.1f}"}  # fmt: skip


def draw_map(rows: list[dict], path: Path) -> None:
    sizes = sorted({int(row["n_bags"]) for row in rows})
    size = (1.5 + 3 * len(sizes), 3.4)
    fig, axes = plt.subplots(1, len(sizes), figsize=size, sharey=True, layout="constrained")
    for axis, n_bags in zip(axes, sizes, strict=True):
        table = np.full((len(SHARES), len(SHIFTS)), np.nan)
        for row, column in np.ndindex(table.shape):
            held = [
                float(entry["top1"])
                for entry in rows
                if int(entry["n_bags"]) == n_bags
                and float(entry["share"]) == SHARES[row]
                and float(entry["shift"]) == SHIFTS[column]
            ]
            if held:
                table[row, column] = np.mean(held)
                colour = "white" if table[row, column] < 60 else "black"
                axis.text(column, row, f"{table[row, column]:.0f}", ha="center", va="center",
                          color=colour)  # fmt: skip
        picture = axis.imshow(table, origin="lower", vmin=0, vmax=100, cmap="viridis")
        axis.set_xticks(range(len(SHIFTS)), [f"{shift:g}" for shift in SHIFTS])
        axis.set_yticks(range(len(SHARES)), [f"{100 * share:g} %" for share in SHARES])
        axis.set_title(f"{n_bags} bags of {SIZE:,}")
        axis.set_xlabel("shift (standard deviations)")
    axes[0].set_ylabel("positives in a positive bag")
    fig.colorbar(picture, ax=axes, label="best instance positive, %")
    fig.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--draw", type=Path)
    parser.add_argument("--noise", choices=("normal", "t", "offset"), default="normal")
    parser.add_argument("--bags", type=int, nargs="+", default=N_BAGS)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--shifts", type=float, nargs="+", default=SHIFTS)
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args()
    rows = []
    if options.results.exists():
        with options.results.open(newline="") as file:
            rows = list(csv.DictReader(file))
    if options.draw:
        draw_map([row for row in rows if row["noise"] == options.noise], options.draw)
        return
    known = {tuple(row[name] for name in COLUMNS[:5]) for row in rows}
    cells = itertools.product(range(options.draws), options.bags, options.shifts, options.shares)
    with options.results.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if file.tell() == 0:
            writer.writeheader()
        for draw, n_bags, shift, share in cells:
            key = (options.noise, str(n_bags), str(share), str(shift), str(draw))
            if key in known:
                continue
            found = measure(n_bags, share, shift, draw, options.noise)
            writer.writerow(dict(zip(COLUMNS[:5], key, strict=True)) | found)
            file.flush()
            print(*key, *found.values())


if __name__ == "__main__":
    main()
