"""Whether a change of the code leaves every try and update of PIGMIL as it was.

With the code before the change on the path, ``python benchmarks/check_updates.py record FILE.npz``;
with the code after it, ``python benchmarks/check_updates.py compare FILE.npz``. Options:
``--sets musk1 elephant``, ``--draws 20``.

Fits ``PIGMIL()``, ``PIGMIL.faithful()`` and ``PIGMIL.paper()`` on draws of BASIC, RHOMBUS and RING
and on the eleven sets of the paper. Vertices, instances and acceptances of all tries and the pools
must be equal; for objectives, instance scores and bag scores the largest difference relative to
the largest value is printed.
"""

import argparse
import sys
import time
import warnings

import numpy as np

from pigmil import PIGMIL, BagScaler
from pigmil.datasets import load_dataset, make_basic, make_rhombus, make_ring

MUSK = ("musk1", "musk2")
IMAGES = ("elephant", "fox", "tiger", "ucsb_breast")
TRAINS = ("eastwest", "westeast")
MOLECULES = ("mutagenesis_atoms", "mutagenesis_bonds", "mutagenesis_chains")
SETS = (*MUSK, *IMAGES, *TRAINS, *MOLECULES)
DRAWN = {"basic": make_basic, "rhombus": make_rhombus, "ring": make_ring}
CONFIGURATIONS = {"default": PIGMIL, "faithful": PIGMIL.faithful, "paper": PIGMIL.paper}
EXACT = ("initial", "pool", "detected", "best", "vertex", "instance", "accepted", "prototypes")


def tasks(sets, n_draws):
    for name, make in DRAWN.items():
        for seed in range(n_draws):
            yield f"{name}-{seed}", make(random_state=seed)
    for name in sets:
        yield name, BagScaler().fit_transform(load_dataset(name))


def outcome(bags, make):
    """Return what a fit found, as arrays by name."""
    model = make(random_state=0)
    model.fit(bags)
    trace = model.trace_
    return {
        "initial": model.initial_pool_,
        "pool": model.pool_,
        "detected": model.detected_instances_,
        "best": model.best_instances_,
        "vertex": trace.vertex,
        "instance": trace.instance,
        "accepted": trace.accepted,
        "prototypes": model.prototypes_,
        "objective": trace.objective,
        "instance_scores": model.instance_scores_,
        "bag_scores": model.decision_function(bags),
    }


def difference(before, after):
    if before.shape != after.shape:
        return np.inf
    scale = float(np.abs(before).max(initial=0.0)) or 1.0
    return float(np.abs(before - after).max(initial=0.0)) / scale


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--draws", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = dict(np.load(options.file)) if options.action == "compare" else {}
    found, unequal, n_tries, n_updates, largest = {}, [], 0, 0, {}
    start = time.process_time()
    for name, bags in tasks(options.sets, options.draws):
        for configuration, make in CONFIGURATIONS.items():
            results = outcome(bags, make)
            n_tries += len(results["accepted"])
            n_updates += int(results["accepted"].sum())
            for key, values in results.items():
                full = f"{name}/{configuration}/{key}"
                found[full] = values
                if options.action == "record":
                    continue
                if key in EXACT and not np.array_equal(values, known[full]):
                    unequal.append(full)
                elif key not in EXACT:
                    largest[key] = max(largest.get(key, 0.0), difference(known[full], values))
    if options.action == "record":
        np.savez_compressed(options.file, **found)
    print(f"{n_tries} tries, {n_updates} updates, {time.process_time() - start:.1f} CPU s")
    for key, value in largest.items():
        print(f"largest relative difference of {key}: {value:.1e}")
    print(f"{len(unequal)} results differ", *unequal, sep="\n  ")
    sys.exit(bool(unequal))


if __name__ == "__main__":
    main()
