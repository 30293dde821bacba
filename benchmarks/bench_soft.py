"""Average precision and top-1 hit rate of SoftPIGMIL and others on labelled sets, set by set.

python benchmarks/bench_soft.py FOLDER                        # all Parquet files of the folder
python benchmarks/bench_soft.py FOLDER --sets birds_10 wdbc --methods SoftPIGMIL MILD
python benchmarks/bench_soft.py FOLDER --choices              # other settings; leave one family out
python benchmarks/bench_soft.py FOLDER --choices --halves     # the same with half of the bags
python benchmarks/bench_soft.py --synthetic 20                # BASIC, RHOMBUS and RING over seeds
python benchmarks/bench_soft.py --large 2                     # weak concepts in large bags

Columns of a file: bag, bag_label, instance_label (positive if above 0), and features f0, f1, ...
Instance labels are used to report only. Results are kept in a file and not computed again; delete
it after a change of a method.

``--choices`` fits SoftPIGMIL once per set and keeps the scores of its models in the folder MEMBERS.
From these it combines the final score anew for other settings: temperature, power of the stability,
share of the forest, and without each kind of model, scale or width. The forest is not fitted again.
The last lines compare the settings that SoftPIGMIL has with those that are best on all sets, and
with those that are best on the sets of other families (leave one family out).
"""

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from pigmil import Bags, BagScaler, SoftPIGMIL, metrics
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators import get_estimator
from pigmil.estimators._soft_weights import auc_standard_error, copy_penalty

METHODS = ["SoftPIGMIL", "PIGMIL", "MILD", "Ins-KI-SVM", "EM-DD"]
# Sets of one source or kind, by how their names begin; every other set is a family of its own.
FAMILIES = {"birds": "birds", "frost": "letters", "g_": "tables", "s_": "synthetic"}
FAMILIES |= {"digits": "digits", "mnist": "digits", "benzene": "atoms", "logic7": "atoms"}
# Temperature, power of the stability, share of the forest, and what is left out.
TAKEN = (0.5, 2, 0.35, ("nothing", None))
LEFT_OUT = [
    ("nothing", None),
    *(("kind", kind) for kind in ("walk", "noisy_or")),
    *(("scale", kind) for kind in ("raw", "standard", "rank", "whitened", "squares", "bins")),
    *(("width", width) for width in (0.0, 0.7, 1.0, 1.5, 3.0)),
]
CHOICES = list(itertools.product((0.25, 0.5, 1.0), (0, 2, 4, 8), (0.0, 0.2, 0.35, 0.5), LEFT_OUT))


def build(name: str):
    method = get_estimator(name)()
    return method.set_params(random_state=0) if "random_state" in method.get_params() else method


def load(path: Path) -> Bags:
    import pandas as pd

    frame = pd.read_parquet(path).sort_values("bag", kind="stable")
    features = [name for name in frame.columns if name[0] == "f" and name[1:].isdigit()]
    return Bags.from_flat(
        frame[features].to_numpy(np.float64),
        frame["bag"].to_numpy(),
        y=(frame["bag_label"] > 0).astype(int).to_numpy(),
        instance_labels=(frame["instance_label"] > 0).astype(int).to_numpy(),
    )


def measure(name: str, bags: Bags) -> dict[str, float]:
    """Fit one method; those that do not scale features themselves get them standardized."""
    method = build(name)
    rows = bags if name == "SoftPIGMIL" else BagScaler().fit_transform(bags)
    start = time.process_time()
    scores = method.fit(rows, bags.y).instance_scores_
    seconds = time.process_time() - start
    inside = np.repeat(bags.y == 1, bags.sizes)
    labels = bags.instance_labels
    precision = metrics.instance_average_precision(scores[inside], labels[inside], missing="lowest")
    return {
        "ap": 100 * precision,
        "top1": 100 * metrics.top1_hit_rate(scores, bags, bags.y, labels),
        "seconds": seconds,
    }


def tables(folder: Path, names: list[str], methods: list[str], store: Path) -> None:
    results = json.loads(store.read_text()) if store.exists() else {}
    print(f"{'AP / top-1, %':20}" + "".join(f"{name:>16}" for name in methods))
    for name in names:
        bags = None
        for method in methods:
            key = f"{method} {name}"
            if key not in results:
                bags = load(folder / f"{name}.parquet") if bags is None else bags
                results[key] = measure(method, bags)
                store.write_text(json.dumps(results, indent=1))
        row = [results[f"{method} {name}"] for method in methods]
        cells = "".join(f"{cell['ap']:8.1f} /{cell['top1']:6.1f}" for cell in row)
        print(f"{name:20}{cells}", flush=True)
    cells = ""
    for method in methods:
        rows = [results[f"{method} {name}"] for name in names]
        means = [np.mean([row[key] for row in rows]) for key in ("ap", "top1")]
        cells += f"{means[0]:8.1f} /{means[1]:6.1f}"
    print(f"{'mean':20}{cells}")


class Recorded(SoftPIGMIL):
    """SoftPIGMIL that keeps its models and what the forest adds."""

    def _fit_models(self, work, *arguments):
        self.work, self.models = work, super()._fit_models(work, *arguments)
        return self.models

    def _add_forest(self, models, work, scores, held_out):
        both = super()._add_forest(models, work, scores, held_out)
        self.trees = both[0] - 0.65 * scores / scores[~work.inside].std()
        return both


def members(folder: Path, name: str, store: Path) -> dict[str, np.ndarray]:
    """Return the scores of all models on one set, fitted if they are not stored.

    A name that ends in @0 or @1 stands for one of two halves of the bags.
    """
    stored = store / f"{name}.npz"
    if not stored.exists():
        stem, _, half = name.partition("@")
        bags = load(folder / f"{stem}.parquet")
        if half:
            splitter = StratifiedKFold(2, shuffle=True, random_state=0)
            bags = bags[[test for _, test in splitter.split(bags.y, bags.y)][int(half)]]
        start = time.process_time()
        model = Recorded(random_state=0).fit(bags)
        seconds = time.process_time() - start
        inside = np.repeat(bags.y == 1, bags.sizes)
        if len(model.work.positions) < bags.n_instances:
            raise ValueError(f"{name}: not all instances were worked with")
        fits = [fit for _, fit in model.models.fits]
        store.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            stored,
            scores=np.array([fit.scores for fit in fits], dtype=np.float32),
            trees=model.trees,
            copies=copy_penalty(model.work.rows, model.work.offsets, model.work.positive),
            aucs=model.models.aucs,
            stabilities=model.models.stabilities,
            kind=[fit.kind for fit in fits],
            scale=[model.models.scales[view.scale].kind for view, _ in model.models.fits],
            width=[view.width or 0.0 for view, _ in model.models.fits],
            inside=inside,
            labels=bags.instance_labels,
            n_bags=[(bags.y == 1).sum(), (bags.y == 0).sum()],
            final=model.instance_scores_,
            top1=metrics.top1_hit_rate(model.instance_scores_, bags, bags.y, bags.instance_labels),
            seconds=seconds,
        )
    return dict(np.load(stored))


def precision_with(part: dict[str, np.ndarray], setting: tuple) -> float:
    """Return the average precision of the final score that other settings give."""
    temperature, power, share, (what, value) = setting
    kept = np.full(len(part["aucs"]), True) if value is None else part[what] != value
    aucs, stabilities = part["aucs"][kept], np.maximum(part["stabilities"][kept], 0.1)
    error = auc_standard_error(float(aucs.max()), *part["n_bags"])
    weights = np.exp((aucs - aucs.max()) / np.hypot(temperature * error, 0.005))
    weights *= stabilities**power
    weights[weights < 0.01 * weights.max()] = 0.0
    inside, trees = part["inside"], part["trees"]
    scores = (weights / weights.sum()) @ part["scores"][kept]
    scores = (1 - share) * scores / scores[~inside].std() - part["copies"]
    scores += share * trees / trees[~inside].std()
    labels = part["labels"][inside]
    return 100 * metrics.instance_average_precision(scores[inside], labels, missing="lowest")


def family_of(name: str) -> str:
    name = name.partition("@")[0]
    return next((family for start, family in FAMILIES.items() if name.startswith(start)), name)


def choices(folder: Path, names: list[str], store: Path) -> None:
    table = []
    print(f"{'AP / top-1, %':20}{'SoftPIGMIL':>16}{'CPU s':>8}")
    rows = []
    for name in names:
        part = members(folder, name, store)
        inside = part["inside"]
        ap = metrics.instance_average_precision(
            part["final"][inside], part["labels"][inside], missing="lowest"
        )
        rows.append((100 * ap, 100 * float(part["top1"]), float(part["seconds"])))
        print(f"{name:20}{rows[-1][0]:8.1f} /{rows[-1][1]:6.1f}{rows[-1][2]:8.1f}", flush=True)
        table.append([precision_with(part, setting) for setting in CHOICES])
    means = np.mean(rows, axis=0)
    print(f"{'mean':20}{means[0]:8.1f} /{means[1]:6.1f}{means[2]:8.1f}")
    found = np.array(table)
    taken = found[:, CHOICES.index(TAKEN)]
    for number, label in enumerate(("temperature", "power of stability", "share of the forest")):
        for value in sorted({setting[number] for setting in CHOICES}):
            other = (*TAKEN[:number], value, *TAKEN[number + 1 :])
            print(f"{label:20} {value:<22}{found[:, CHOICES.index(other)].mean():7.2f}")
    for left_out in LEFT_OUT:
        mean = found[:, CHOICES.index((*TAKEN[:3], left_out))].mean()
        print(f"{'without':20} {' '.join(map(str, left_out)):22}{mean:7.2f}")
    families = np.array([family_of(name) for name in names])
    honest = np.zeros(len(names))
    for family in sorted(set(families)):
        mine = families == family
        honest[mine] = found[mine, np.argmax(found[~mine].mean(axis=0))]
    print(f"{len(CHOICES)} settings, {len(set(families))} families")
    print(f"as taken {taken.mean():.2f}, best {found.mean(axis=0).max():.2f}, ", end="")
    print(f"chosen without the family of the set {honest.mean():.2f}")


def synthetic(methods: list[str], seeds: int) -> None:
    makers = {"BASIC": make_basic, "RHOMBUS": make_rhombus, "RING": make_ring}
    for method in methods:
        for name, make in makers.items():
            shares = []
            for seed in range(seeds):
                bags = make(random_state=seed)
                found = build(method).fit(bags).detected_instances_
                shares.append(100 * metrics.detection_accuracy(found, bags.instance_labels))
            print(
                f"{method:14}{name:10}{np.mean(shares):8.2f} (lowest {min(shares):.0f})", flush=True
            )


def weak_bags(kind: str, n_bags: int, size: int, share: float, shift: float, seed: int) -> Bags:
    """Draw normal instances with 512 features; a share of those of every second bag is shifted.

    ``kind``: along one random direction ("direction"), along the feature of least variance ("low
    variance"), along one of three directions and half as far again ("three concepts"), or along a
    direction in features that depend on 40 common factors ("correlated").
    """
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_bags * size, 512), dtype=np.float32)
    if kind == "correlated":
        factors = rng.standard_normal((n_bags * size, 40), dtype=np.float32)
        rows += factors @ rng.normal(0, 0.3, size=(40, 512)).astype(np.float32)
    spread = np.geomspace(3.0, 0.05, 512) if kind == "low variance" else np.ones(512)
    rows *= spread.astype(np.float32)
    towards = rng.standard_normal((3, 512))
    towards *= shift / np.linalg.norm(towards, axis=1, keepdims=True)
    if kind == "low variance":
        towards = np.zeros((1, 512))
        towards[0, -1] = shift * spread[-1]
    towards = 1.5 * towards if kind == "three concepts" else towards[:1]
    labels = np.zeros(n_bags * size, dtype=np.int64)
    for bag in range(0, n_bags, 2):
        chosen = bag * size + rng.permutation(size)[: int(share * size)]
        labels[chosen] = 1
        rows[chosen] += towards[rng.integers(len(towards), size=len(chosen))].astype(np.float32)
    y = 1 - np.arange(n_bags) % 2
    return Bags.from_flat(rows, np.repeat(np.arange(n_bags), size), y=y, instance_labels=labels)


def large(method: str, seeds: int) -> None:
    cases = [
        ("direction", 100, 1000, 0.01, 3.4),
        ("direction", 40, 2000, 0.02, 3.4),
        ("low variance", 100, 1000, 0.01, 3.4),
        ("three concepts", 100, 1000, 0.01, 3.4),
        ("correlated", 100, 1000, 0.01, 5.0),
    ]
    print(f"{'kind':16}{'bags':>6}{'size':>6}{'share':>7}{'shift':>7}{'top-1':>8}{'AP':>7}{'s':>7}")
    for case in cases:
        rows = [measure(method, weak_bags(*case, seed)) for seed in range(seeds)]
        top1, precision, seconds = (
            np.mean([row[key] for row in rows]) for key in ("top1", "ap", "seconds")
        )
        kind, n_bags, size, share, shift = case
        print(
            f"{kind:16}{n_bags:6}{size:6}{share:7}{shift:7}{top1:8.1f}{precision:7.1f}"
            f"{seconds:7.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--store", type=Path, default=Path("bench_soft.json"))
    parser.add_argument("--choices", type=Path, metavar="MEMBERS", nargs="?", const="bench_members")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--synthetic", type=int, metavar="SEEDS", default=0)
    parser.add_argument("--large", type=int, metavar="SEEDS", default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.large:
        for method in arguments.methods:
            large(method, arguments.large)
    elif arguments.synthetic:
        synthetic(arguments.methods, arguments.synthetic)
    elif arguments.folder is None:
        parser.error("name a folder of Parquet files, or --synthetic or --large SEEDS")
    else:
        names = arguments.sets or sorted(path.stem for path in arguments.folder.glob("*.parquet"))
        if arguments.choices is not None:
            if arguments.halves:
                names = [f"{name}@{half}" for name in names for half in range(2)]
            choices(arguments.folder, names, Path(arguments.choices))
        else:
            tables(arguments.folder, names, arguments.methods, arguments.store)


if __name__ == "__main__":
    main()
