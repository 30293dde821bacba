"""Run a comparison with the counting method: STORE DATA.npz JOBS; waits for a line first."""

import json
import sys

import fake_methods
import numpy as np

from pigmil import Bags
from pigmil.evaluation import compare

fake_methods.register()
store, data, jobs = sys.argv[1:]
held = np.load(data)
bags = Bags(held["instances"], held["offsets"], y=held["y"])
print("ready", flush=True)
sys.stdin.readline()
results = compare(
    ["Counting"],
    {"data": bags},
    repeats=2,
    folds=4,
    store=store,
    n_jobs=int(jobs),
    callback=lambda progress: print(f"done {progress.done} of {progress.total}", flush=True),
)
print(json.dumps([row["status"] for row in results.rows]), flush=True)
