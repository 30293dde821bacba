"""Kill comparisons and their workers at random moments: python kill_comparisons.py [N_KILLS].

After every kill the comparison is started again on the same store, until all kills are spent; then
it runs to its end. At the end no cell may be missing or computed twice once it was saved, and the
results must equal those of a comparison that was left in peace. Then four comparisons fill
one store at once, one of them is killed, and the others must return the same results.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCRIPT = """
import sys, json
from pigmil.datasets import make_ring
from pigmil.evaluation import compare
results = compare(["MILES", "Citation-kNN", "MILD"], {"ring": make_ring(random_state=0)}, repeats=4,
                  folds=5, store=sys.argv[1], n_jobs=2, tune=False, retry_failed=len(sys.argv) > 2,
                  callback=lambda step: print(step.done, flush=True))
times = {"fit_seconds", "predict_seconds", "peak_mb"}
print(json.dumps([[r["method"], r["repeat"], r["fold"], r["status"],
                   {k: str(v) for k, v in r["metrics"].items() if k not in times}]
                  for r in results.rows]), flush=True)
"""


def start(store, *more):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(store), *more], stdout=subprocess.PIPE, text=True
    )


def workers_of(pid):
    path = Path(f"/proc/{pid}/task")
    children = " ".join(file.read_text() for file in path.glob("*/children"))
    return [int(child) for child in children.split()]


def saved(store):
    if not store.exists():
        return {}
    connection = sqlite3.connect(
        f"file:{store}?mode=rw", uri=True, timeout=60
    )  # recovers as a comparison does
    rows = connection.execute("SELECT key, finished FROM cells WHERE status = 'done'").fetchall()
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return dict(rows)


def main(n_kills):
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        whole = start(Path(folder) / "whole.sqlite")
        expected = json.loads(whole.communicate(timeout=300)[0].splitlines()[-1])
        n_parents = n_workers = 0
        store = Path(folder) / "killed.sqlite"
        while n_parents + n_workers < n_kills:
            process = start(store, "retry")
            process.stdout.readline()  # the first cell of this start is saved
            time.sleep(draw.uniform(0, 0.5))
            before = saved(store)
            workers = workers_of(process.pid)
            if workers and draw.random() < 0.5:
                os.kill(draw.choice(workers), signal.SIGKILL)
                n_workers += 1
                time.sleep(draw.uniform(0, 0.3))
            n_parents += process.poll() is None
            process.kill()
            process.communicate(timeout=300)
            after = saved(store)
            assert before.items() <= after.items(), "a saved cell was lost or computed again"
            deadline = time.monotonic() + 5
            while any(Path(f"/proc/{worker}").exists() for worker in workers):
                assert time.monotonic() < deadline, "a worker outlived its parent"
                time.sleep(0.01)
            if len(after) == len(expected):
                store.unlink()
        process = start(store, "retry")
        results = json.loads(process.communicate(timeout=300)[0].splitlines()[-1])
        assert results == expected, "the results differ"
        assert len(saved(store)) == len(expected)
        store = Path(folder) / "shared.sqlite"
        killed, *others = [start(store) for _ in range(4)]
        killed.stdout.readline()
        killed.kill()
        killed.communicate(timeout=300)
        for process in others:
            assert json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) == expected
        assert len(saved(store)) == len(expected)
    print(f"{n_parents} comparisons and {n_workers} workers killed: nothing lost, none twice, "
          f"{len(expected)} results identical, also by four comparisons on one store")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
