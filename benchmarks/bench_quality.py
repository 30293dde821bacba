"""Bag accuracy of methods on the real sets by the benchmark protocol, and in the paper's table.

python benchmarks/bench_quality.py --methods MILES MILD --sets musk1 fox --repeats 5

Results are kept in a store (--store) and not computed again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from pigmil.evaluation import compare

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from reproduction.printed import REAL, TABLE_II


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=list(TABLE_II))
    parser.add_argument("--sets", nargs="+", default=list(REAL))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--no-tune", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--store", type=Path)
    arguments = parser.parse_args()
    print(f"{'method':16}{'set':20}{'accuracy':>9}{'std':>6}{'paper':>7}{'diff':>7}{'cpu s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.methods:
            for set_name in arguments.sets:
                results = compare(
                    [name],
                    [set_name],
                    repeats=arguments.repeats,
                    folds=arguments.folds,
                    tune=not arguments.no_tune,
                    n_jobs=arguments.jobs,
                    store=arguments.store or Path(folder) / "results.sqlite",
                )
                if len(results.failures) == len(results.rows):
                    print(f"{name:16}{set_name:20} {results.summary()}", flush=True)
                    continue
                mean = results.table().iloc[0, 0]
                std = results.table(statistic="std").iloc[0, 0]
                frame = results.frame
                seconds = (frame["fit_seconds"] + frame["predict_seconds"]).sum()
                printed = TABLE_II[name][set_name][0] if name in TABLE_II else float("nan")
                failed = f"  {len(results.failures)} cells failed" if results.failures else ""
                print(
                    f"{name:16}{set_name:20}{mean:9.1f}{std:6.1f}{printed:7.1f}"
                    f"{mean - printed:+7.1f}{seconds:8.1f}{failed}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
