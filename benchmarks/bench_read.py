"""Reading long tables: rows a second and peak memory, in memory and mapped.

python benchmarks/bench_read.py                          # 100,000 instances x 50
python benchmarks/bench_read.py --instances 1000000      # the figure of the documentation
python benchmarks/bench_read.py --mixed                  # rows of a bag far from each other

Peak memory is what the read adds to the program after its imports (Linux: VmHWM).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from pigmil import Bags, write_bags

# Runs alone, so that its peak memory is that of one read; imports are counted before it.
CHILD = """
import json, sys, time
import numpy as np
from pigmil import read_bags
path, warm, mapped = sys.argv[1:4]
read_bags(warm, memory_map=True if mapped else None)
def peak():  # of this program alone: ru_maxrss also counts the parent it was started from
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
before, wall, cpu = peak(), time.perf_counter(), time.process_time()
bags = read_bags(path, memory_map=mapped or None)
print(json.dumps({
    "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
    "before": before, "peak": peak(), "rows": bags.n_instances,
}))
"""


def make(folder: Path, n_instances: int, n_features: int, bag_size: int, mixed: bool) -> Bags:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n_instances, n_features)).round(6)
    n_bags = max(1, n_instances // bag_size)
    owner = np.arange(n_instances) * n_bags // n_instances
    bags = Bags.from_flat(values, owner, y=np.arange(n_bags) % 2)
    for suffix in ("csv", "parquet"):
        write_bags(bags[:2], folder / f"warm.{suffix}")
        if not mixed:
            write_bags(bags, folder / f"table.{suffix}")
    if mixed:
        write_mixed(folder, values, owner, rng)
    return bags


def write_mixed(folder: Path, values: np.ndarray, owner: np.ndarray, rng) -> None:
    """Write the rows in random order, as a join or a shuffled export leaves them."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    order = rng.permutation(len(owner))
    columns = {"bag": owner[order], "bag_label": owner[order] % 2}
    columns |= {f"f{at}": values[order, at] for at in range(values.shape[1])}
    table = pa.table(columns)
    pyarrow.csv.write_csv(table, folder / "table.csv")
    pyarrow.parquet.write_table(table, folder / "table.parquet", row_group_size=1 << 17)


def measure(folder: Path, suffix: str, mapped: bool) -> dict:
    target = str(folder / "mapped.npy") if mapped else ""
    arguments = [str(folder / f"table.{suffix}"), str(folder / f"warm.{suffix}"), target]
    run = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--bag-size", type=int, default=100)
    parser.add_argument("--mixed", action="store_true", help="rows in random order")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        bags = make(folder, options.instances, options.features, options.bag_size, options.mixed)
        size = bags.instances.nbytes / 1e6
        print(
            f"{bags.n_instances:,} instances x {bags.n_features}, {bags.n_bags:,} bags, "
            f"{size:.0f} MB as float64; made in {time.perf_counter() - start:.1f} s"
        )
        print(
            f"{'format':10}{'file MB':>9}{'':>9}{'rows/s':>12}{'cpu s':>8}{'peak MB + start':>17}"
        )
        for suffix in ("parquet", "csv"):
            for mapped in (False, True):
                found = measure(folder, suffix, mapped)
                file = (folder / f"table.{suffix}").stat().st_size / 1e6
                over = (found["peak"] - found["before"]) / 1e6
                print(
                    f"{suffix:10}{file:9.0f}{'mapped' if mapped else 'memory':>9}"
                    f"{found['rows'] / found['wall']:12,.0f}{found['cpu']:8.1f}{over:17.0f}"
                )


if __name__ == "__main__":
    main()
