"""Seconds and peak memory of reading, beside the plain library call and the copy into one matrix.

python benchmarks/bench_read.py                       # 100 MB of values, 500 slides of 1,000 x 384
python benchmarks/bench_read.py --before ../old/src   # and with another version of the library
python benchmarks/bench_read.py --small               # a tenth of it

Each figure is the best of three reads in a separate process; peak memory is what the read adds
to the program after its imports (Linux: VmHWM).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CHILD = """
import json, sys, time
from pathlib import Path
import numpy as np

def peak():  # of this program alone: ru_maxrss also counts the parent it was started from
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

def parquet(path):
    import pyarrow.parquet
    table = pyarrow.parquet.read_table(path)
    names = [name for name in table.column_names if name not in ("bag", "bag_label")]
    ids = table.column("bag").to_pylist()
    return np.column_stack([table.column(name).to_numpy() for name in names])

def csv(path):
    import pyarrow.csv
    table = pyarrow.csv.read_csv(path)
    names = [name for name in table.column_names if name not in ("bag", "bag_label")]
    ids = table.column("bag").to_pylist()
    return np.column_stack([table.column(name).to_numpy() for name in names])

def npz(path):
    with np.load(path) as file:
        return {name: file[name] for name in file}["instances"]

def slides(path):
    import h5py
    parts = []
    for name in sorted(Path(path).iterdir()):
        with h5py.File(name) as file:
            parts.append((file["features"][:], file["coords"][:]))
    coords = np.concatenate([part for _, part in parts])
    return np.concatenate([part for part, _ in parts])

who, kind, path, warm = sys.argv[1:5]
if who == "library":
    read = {"slides": slides, "csv": csv, "npz": npz}.get(kind, parquet)
else:
    from pigmil import read_bags
    def read(path):
        return read_bags(path).instances
read(warm)
before, wall, cpu = peak(), time.perf_counter(), time.process_time()
values = read(path)
print(json.dumps({
    "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu,
    "peak": peak() - before, "values": values.nbytes, "sum": float(values.sum()),
}))
"""


def write_files(folder: Path, scale: float) -> dict[str, tuple[Path, Path]]:
    """Write tables and slides; return the file of each kind and a small one of the same kind."""
    import h5py
    import pyarrow as pa
    import pyarrow.parquet

    from pigmil import Bags, write_bags

    rng = np.random.default_rng(0)
    values = rng.normal(size=(int(200_000 * scale), 64)).round(6)
    bags = Bags.from_flat(values, np.arange(len(values)) // 100)
    bags = bags.with_labels(np.arange(bags.n_bags) % 2)
    files = {}
    for kind in ("parquet", "csv", "npz"):
        part = bags if kind != "csv" else bags[: bags.n_bags // 4]
        files[kind] = (folder / f"table.{kind}", folder / f"warm.{kind}")
        write_bags(part, files[kind][0])
        write_bags(bags[:2], files[kind][1])
    shuffled = rng.permutation(len(values))
    columns = {"bag": shuffled // 100, "bag_label": shuffled // 100 % 2}
    columns |= {f"f{at}": values[shuffled, at] for at in range(values.shape[1])}
    files["parquet, rows mixed"] = (folder / "mixed.parquet", folder / "warm.parquet")
    pyarrow.parquet.write_table(
        pa.table(columns), files["parquet, rows mixed"][0], row_group_size=1 << 16
    )
    files["slides"] = (folder / "slides", folder / "few")
    for target, count in zip(files["slides"], (int(500 * scale), 2), strict=True):
        target.mkdir()
        for slide in range(count):
            with h5py.File(target / f"s{slide:05d}.h5", "w") as file:
                file["features"] = rng.normal(size=(1000, 384)).astype(np.float32)
                file["coords"] = rng.integers(0, 10**5, size=(1000, 2))
    return files


def measure(who: str, kind: str, files: tuple[Path, Path], source: str | None) -> dict:
    environment = dict(os.environ) | ({"PYTHONPATH": source} if source else {})
    command = [sys.executable, "-c", CHILD, who, kind, *map(str, files)]
    runs = [
        json.loads(
            subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            ).stdout.splitlines()[-1]
        )
        for _ in range(3)
    ]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="source folder of another version of the library")
    parser.add_argument("--small", action="store_true", help="a tenth of the size")
    options = parser.parse_args()
    who = {"library": ("library", None), "pigmil": ("pigmil", None)}
    if options.before:
        who["before"] = ("pigmil", options.before)
    with tempfile.TemporaryDirectory() as name:
        files = write_files(Path(name), 0.1 if options.small else 1.0)
        print(
            f"{'':22}{'':10}{'wall s':>8}{'cpu s':>8}{'peak MB':>9}{'of library: wall, peak':>24}"
        )
        for kind, paths in files.items():
            found = {who_: measure(*pair[:1], kind, paths, pair[1]) for who_, pair in who.items()}
            assert len({round(run["sum"], 3) for run in found.values()}) == 1, kind
            for who_, run in found.items():
                base = found["library"]
                print(
                    f"{kind:22}{who_:10}{run['wall']:8.2f}{run['cpu']:8.2f}{run['peak'] / 1e6:9.0f}"
                    f"{run['wall'] / base['wall']:15.2f}{run['peak'] / base['peak']:9.2f}"
                )


if __name__ == "__main__":
    main()
