"""Fits and predictions on bags on disk: time, memory, growth, and two workers against one.

python benchmarks/bench_scale.py --folder /tmp/slides                     # 62,500 and 125,000 tiles
python benchmarks/bench_scale.py --folder /tmp/slides --sizes 125000 250000 500000 1000000
python benchmarks/bench_scale.py --folder /tmp/slides --only workers --sizes 500000

Writes one HDF5 file per slide of 1,000 tiles with 512 float32 features (2 kB per tile): tiles lie
around 40 centres in 16 directions, and 3 % of the tiles of positive slides around a centre of
their own, which is known. Every measurement runs in a process of its own; the peak is that of the
process (Linux: VmHWM) less what it held before the work. The limit of predictions is reading all
blocks and one product with a matrix of 512 x 240, in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WIDTH, TILES, SHARE = 512, 1000, 0.03


def write_slides(folder: Path, n_slides: int) -> None:
    """Write the slides that are not there yet; slide ``i`` is the same whatever their number."""
    import h5py

    folder.mkdir(parents=True, exist_ok=True)
    shared = np.random.default_rng(0)
    directions = shared.normal(size=(16, WIDTH)).astype("float32") / 4
    centres = 2 * shared.normal(size=(41, 16)).astype("float32")
    for slide in range(n_slides):
        path = folder / f"slide{slide:05d}.h5"
        if path.exists():
            continue
        rng = np.random.default_rng(1 + slide)
        kind = rng.integers(0, 40, size=TILES)
        positive = slide % 2
        if positive:
            kind[: int(SHARE * TILES)] = 40
        rng.shuffle(kind)
        tiles = (centres[kind] + rng.normal(size=(TILES, 16)).astype("float32")) @ directions
        tiles += rng.normal(scale=0.5, size=tiles.shape)
        temporary = path.with_suffix(".tmp")
        with h5py.File(temporary, "w") as file:
            file["features"] = tiles.astype("float32")
            file["features"].attrs["label"] = positive
            file["instance_labels"] = (kind == 40).astype("int8")
        temporary.rename(path)


def scan(folder: str, n_slides: int):
    from pigmil import Bags

    return Bags.scan([Path(folder) / f"slide{slide:05d}.h5" for slide in range(n_slides)])


def truth(bags) -> np.ndarray:
    import h5py

    parts = []
    for path in bags.paths:
        with h5py.File(path) as file:
            parts.append(file["instance_labels"][()])
    return np.concatenate(parts)


def status(name: str) -> float:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def average_precision(bags, scores: np.ndarray) -> float:
    """Mean over positive bags of the average precision of their instances."""
    from sklearn.metrics import average_precision_score

    marks, ends = truth(bags), bags.offsets
    return 100 * float(np.mean([
        average_precision_score(marks[ends[at] : ends[at + 1]], scores[ends[at] : ends[at + 1]])
        for at in np.flatnonzero(bags.y == 1)
    ]))  # fmt: skip


def build(name: str):
    from pigmil.estimators import get_estimator

    model = get_estimator(name)()
    return model.set_params(random_state=0) if "random_state" in model.get_params() else model


def measure_fit(folder: str, n_slides: int, name: str, where: str) -> dict:
    """Fit on disk, in memory, or on a cluster of so many workers."""
    from pigmil.scale import cluster_client

    start = time.perf_counter()
    bags = scan(folder, n_slides)
    scanned = time.perf_counter() - start
    with cluster_client(n_workers=int(where) if where.isdigit() else None):
        if where == "memory":
            bags_seen = bags.load(info=False)
        else:
            bags_seen = bags
        before = status("VmRSS")
        start, cpu = time.perf_counter(), time.process_time()
        model = build(name).fit(bags_seen)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    scores = model.instance_scores_
    return {
        "what": "fit", "model": name, "where": where, "tiles": bags.n_instances,
        "scan s": round(scanned, 2), "wall s": round(wall, 1), "cpu s": round(cpu, 1),
        "peak MB": round(status("VmHWM") - before), "AP": round(average_precision(bags, scores), 2),
    }  # fmt: skip


def measure_prediction(folder: str, n_slides: int, name: str) -> dict:
    """Stream the scores of a model fitted on few slides, and measure the limit beside it."""
    from pigmil.scale import map_blocks

    bags = scan(folder, n_slides)
    model = build(name).fit(bags[:20].load(info=False))
    matrix = np.random.default_rng(0).normal(size=(WIDTH, 240)).astype("float32")
    times: dict[str, list[float]] = {"read": [], "limit": [], "predict": []}
    before = status("VmRSS")
    for _ in range(3):
        start = time.perf_counter()
        for _ in map_blocks(_touch, bags):
            pass
        times["read"].append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in map_blocks(_multiply, bags, [matrix] * len(bags.partitions())):
            pass
        times["limit"].append(time.perf_counter() - start)
        start = time.perf_counter()
        model.decision_function_instances(bags)
        times["predict"].append(time.perf_counter() - start)
    best = {key: min(values) for key, values in times.items()}
    return {
        "what": "predict", "model": name, "tiles": bags.n_instances,
        **{f"{key} s": round(value, 2) for key, value in best.items()},
        "share of limit": round(best["limit"] / best["predict"], 2),
        "tiles per s": round(bags.n_instances / best["predict"]),
        "peak MB": round(status("VmHWM") - before),
    }  # fmt: skip


def _touch(block) -> int:
    return len(block)


def _multiply(block, matrix) -> float:
    return float((block.instances @ matrix)[-1, -1])


def run(*arguments: object) -> dict:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--one", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"what": " ".join(map(str, arguments)), "failed": last}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where slides are written and kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=[62_500, 125_000])
    parser.add_argument("--only", nargs="+", default=["fit", "predict", "workers", "memory"])
    parser.add_argument("--methods", nargs="+", default=["SoftPIGMIL", "MaxPoolingLR"])
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    if "--one" in sys.argv:
        kind, *rest = sys.argv[sys.argv.index("--one") + 1 :]
        measure = {"fit": measure_fit, "predict": measure_prediction}[kind]
        print(json.dumps(measure(rest[0], int(rest[1]), *rest[2:])))
        return
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    counts = sorted(max(2, size // TILES) for size in arguments.sizes)
    write_slides(folder, max(*counts, 100) if "memory" in arguments.only else counts[-1])

    def show(result: dict) -> dict:
        print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
        return result

    if "fit" in arguments.only:
        for name in arguments.methods:
            fits = [show(run("fit", folder, count, name, "disk")) for count in counts]
            if len(fits) > 1 and all("wall s" in fit for fit in fits):
                growth = np.log(fits[-1]["cpu s"] / fits[0]["cpu s"]) / np.log(
                    fits[-1]["tiles"] / fits[0]["tiles"]
                )
                print(f"{name}: exponent of CPU time {growth:.2f}", flush=True)
            if counts[0] * TILES * WIDTH * 4 < 4e9:
                show(run("fit", folder, counts[0], name, "memory"))
    if "predict" in arguments.only:
        for name in arguments.methods:
            show(run("predict", folder, counts[-1], name))
    if "workers" in arguments.only:
        one, two = (show(run("fit", folder, counts[-1], "SoftPIGMIL", n)) for n in (1, 2))
        if "wall s" in one and "wall s" in two:
            print(f"two workers against one: {one['wall s'] / two['wall s']:.2f} times as fast")
    if "memory" in arguments.only:
        for name in ("SoftPIGMIL", "PIGMIL"):
            show(run("fit", folder, 100, name, "memory"))


if __name__ == "__main__":
    main()
