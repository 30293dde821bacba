"""Processor time of a whole PIGMIL fit on real sets, warm, and of the first call in a new process.

python benchmarks/bench_fit.py [--sets musk1 elephant ...] [--cold]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from pigmil import PIGMIL, BagScaler
from pigmil.datasets import load_dataset

# Bars in CPU seconds, where the project has set one.
BARS = {
    "musk1": 1.0,
    "elephant": 2.0,
    "musk2": 3.0,
    "birds_filtered_brown_creeper": 30.0,
    "gitte_spam_13": 300.0,
}
FIRST_CALL = """
import time
start = time.perf_counter()
from pigmil import PIGMIL
from pigmil.datasets import make_ring
bags = make_ring(random_state=0)
ready = time.perf_counter()
PIGMIL(random_state=0, similarity="{similarity}").fit(bags)
first = time.perf_counter() - ready
again = time.perf_counter()
PIGMIL(random_state=0, similarity="{similarity}").fit(bags)
print(ready - start, first, time.perf_counter() - again)
"""


def warm(sets: list[str], similarity: str) -> None:
    print(f"{'set':32}{'similarity':>11}{'cpu s':>8}{'bar':>8}{'pool':>6}{'tries':>7}")
    for name in sets:
        bags = BagScaler().fit_transform(load_dataset(name))
        PIGMIL(random_state=0, similarity=similarity, max_updates=1).fit(bags)  # loads the kernels
        start = time.process_time()
        model = PIGMIL(random_state=0, similarity=similarity).fit(bags)
        seconds = time.process_time() - start
        bar = BARS.get(name, float("nan"))
        print(
            f"{name:32}{similarity:>11}{seconds:8.2f}{bar:8.0f}{len(model.pool_):6}"
            f"{len(model.trace_):7}",
            flush=True,
        )


def cold() -> None:
    print(f"{'similarity':12}{'state':>12}{'import s':>10}{'first fit':>11}{'next fit':>10}")
    for similarity in ("rbf", "svm"):
        with tempfile.TemporaryDirectory() as folder:
            for state in ("never run", "cached"):
                found = subprocess.run(
                    [sys.executable, "-c", FIRST_CALL.format(similarity=similarity)],
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                values = np.array(found.stdout.split(), dtype=float)
                print(f"{similarity:12}{state:>12}" + "".join(f"{v:10.2f}" for v in values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(BARS))
    parser.add_argument("--similarity", nargs="+", default=["rbf"])
    parser.add_argument("--cold", action="store_true")
    arguments = parser.parse_args()
    if arguments.cold:
        cold()
        return
    for similarity in arguments.similarity:
        warm(arguments.sets, similarity)


if __name__ == "__main__":
    main()
