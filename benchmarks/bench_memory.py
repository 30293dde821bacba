"""Peak memory and CPU time of a fit and a prediction on all bags, each in a separate process.

PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_memory.py
PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_memory.py --methods MILES --sets musk2

Default parameters, features z-scored. The peak is that of the whole process (Linux: VmHWM), imports
and data included; the bar is 1 GB. A method that is still at it after ``--limit`` CPU seconds is
stopped and reported.
"""

import argparse
import resource
import subprocess
import sys
import time

from pigmil import BagScaler, all_estimators
from pigmil.datasets import load_dataset
from pigmil.estimators import card_of, get_estimator

BAR_MB = 1000
LARGEST = ["gitte_adult_110", "gitte_spam_13", "birds_brown_creeper", "musk2"]


def one(method: str, name: str) -> None:
    """Fit and predict here, and print what it took."""
    bags = load_dataset(name)
    bags = BagScaler().fit_transform(bags)
    start = time.process_time()
    model = get_estimator(method)().fit(bags)
    model.predict(bags) if card_of(method).classifies else model.decision_function_instances(bags)
    seconds = time.process_time() - start
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    print(f"{seconds:9.1f}{peak * 1024 / 1e6:9.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=[card.name for card in all_estimators()])
    parser.add_argument("--sets", nargs="+", default=LARGEST)
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds per method and set")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one)
        return
    print(f"{'method':16}{'set':32}{'cpu s':>9}{'peak MB':>9}")
    for name in arguments.sets:
        for method in arguments.methods:
            limit = (arguments.limit, arguments.limit)
            done = subprocess.run(
                [sys.executable, "-W", "ignore", __file__, "--one", method, name],
                capture_output=True,
                text=True,
                preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_CPU, limit),
            )
            last = (done.stderr.strip().splitlines() or [f"stopped after {arguments.limit} s"])[-1]
            line = done.stdout.rstrip("\n") if done.returncode == 0 else f"  {last}"
            above = done.returncode == 0 and float(line.split()[1]) > BAR_MB
            print(f"{method:16}{name:32}{line}{'  above the bar' if above else ''}", flush=True)


if __name__ == "__main__":
    main()
