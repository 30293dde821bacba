"""Run a comparison with the counting method: STORE DATA.npz JOBS [RETRY]; waits for a line first.

JOBS is the number of worker processes, 0 to compute in this process.
"""

import json
import sys

import fake_methods
import numpy as np

from pigmil import Bags
from pigmil.evaluation import compare

fake_methods.register()
store, data, jobs, *retry = sys.argv[1:]
arrays = np.load(data)
bags = Bags(arrays["instances"], arrays["offsets"], y=arrays["y"])
print("ready", flush=True)
sys.stdin.readline()
results = compare(
    ["Counting"],
    {"data": bags},
    repeats=2,
    folds=4,
    store=store,
    n_jobs=int(jobs) or None,
    retry_failed=bool(retry),
    callback=lambda progress: print(f"done {progress.done} of {progress.total}", flush=True),
)
print(json.dumps([row["status"] for row in results.rows]), flush=True)
