"""Average precision and top-1 hit rate of SoftPIGMIL and others on labelled sets, set by set.

python benchmarks/bench_soft.py FOLDER                        # all Parquet files of the folder
python benchmarks/bench_soft.py FOLDER --sets birds_10 wdbc --methods SoftPIGMIL MILD
python benchmarks/bench_soft.py FOLDER --what-pays            # other settings, all bags and halves
python benchmarks/bench_soft.py --synthetic 20                # BASIC, RHOMBUS and RING over seeds
python benchmarks/bench_soft.py --large 2                     # weak concepts in large bags
python benchmarks/bench_soft.py --bags musk1 tiger            # bag_rule on registered data sets
python benchmarks/bench_soft.py FOLDER --parts all --store all.json --methods SoftPIGMIL

Columns of a file: bag, bag_label, instance_label (positive if above 0), and features f0, f1, ...
Instance labels are used to report only. Results are kept in a file and not computed again; delete
it after a change of a method.

``--what-pays`` fits SoftPIGMIL on each set and on two halves of its bags, and keeps the scores of
its models in the folder MEMBERS. From these it combines the final score anew: without each kind of
model, scale, width and the forest, and with other temperatures. The forest is not fitted again.
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from pigmil import Bags, BagScaler, SoftPIGMIL, metrics
from pigmil.datasets import load_dataset, make_basic, make_rhombus, make_ring
from pigmil.estimators import get_estimator
from pigmil.estimators._soft_models import SETTINGS, model_weights

METHODS = ["SoftPIGMIL", "PIGMIL", "MILD", "Ins-KI-SVM", "EM-DD"]
# What is left out, or another temperature or share of the forest.
CHOICES = ["nothing", "walk", "noisy_or", *SETTINGS.scales, *map(str, SETTINGS.widths)]
CHOICES += [("temperature", value) for value in (0.25, 0.7, 1.0)]
CHOICES += [("forest_share", value) for value in (0.0, 0.2, 0.5)]


def build(name: str, parts: str = "one"):
    method = SoftPIGMIL(parts=parts) if name == "SoftPIGMIL" else get_estimator(name)()
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


def judge(scores: np.ndarray, bags: Bags) -> tuple[float, float]:
    """Return average precision inside positive bags and top-1 hit rate, in percent."""
    inside, labels = np.repeat(bags.y == 1, bags.sizes), bags.instance_labels
    precision = metrics.instance_average_precision(scores[inside], labels[inside], missing="lowest")
    return 100 * precision, 100 * metrics.hit_at_k(scores, bags, bags.y, labels)


def measure(name: str, bags: Bags, parts: str = "one") -> dict[str, float]:
    """Fit one method; those that do not scale features themselves get them standardized."""
    method = build(name, parts)
    rows = bags if name == "SoftPIGMIL" else BagScaler().fit_transform(bags)
    start = time.process_time()
    scores = method.fit(rows, bags.y).instance_scores_
    seconds = time.process_time() - start
    return dict(zip(("ap", "top1"), judge(scores, bags), strict=True), seconds=seconds)


def tables(folder: Path, names: list[str], methods: list[str], store: Path, parts: str) -> None:
    results = json.loads(store.read_text()) if store.exists() else {}
    print(f"{'AP / top-1, %':20}" + "".join(f"{name:>16}" for name in methods))
    for name in names:
        bags = None
        for method in methods:
            key = f"{method} {name}"
            if key not in results:
                bags = load(folder / f"{name}.parquet") if bags is None else bags
                results[key] = measure(method, bags, parts)
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

    def _combine(self, bags, work, family, settings):
        self.positions, self.family = work.positions, family
        both = super()._combine(bags, work, family, settings)
        scores = family.scores(family.weights[:, :1])[:, 0]
        share = (1.0 - settings.forest_share) / scores[~work.inside].std()
        self.trees = both[0][work.positions] - share * scores
        return both


def part_of(bags: Bags, half: str) -> Bags:
    if not half:
        return bags
    splitter = StratifiedKFold(2, shuffle=True, random_state=0)
    return bags[[test for _, test in splitter.split(bags.y, bags.y)][int(half)]]


def members(bags: Bags, stored: Path) -> dict[str, np.ndarray]:
    """Return the scores of all models on one set, fitted if they are not stored."""
    if not stored.exists():
        model = Recorded(random_state=0).fit(bags)
        stored.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            stored,
            scores=np.array([each.scores[:, 0] for each in model.family.models], dtype=np.float32),
            names=[name.split() for name in model.model_names_],
            aucs=model.model_aucs_,
            trees=model.trees,
            positions=model.positions,
        )
    return dict(np.load(stored))


def combine(part: dict[str, np.ndarray], bags: Bags, choice) -> np.ndarray:
    """Return the final scores that another choice gives."""
    kept, settings = np.ones(len(part["aucs"]), dtype=bool), SETTINGS
    if isinstance(choice, str):
        kept = ~(part["names"] == choice).any(axis=1)
    else:
        settings = replace(SETTINGS, **dict([choice]))
    weights = model_weights(part["aucs"][kept], bags.y == 1, settings)
    outside = np.repeat(bags.y == 0, bags.sizes)[part["positions"]]
    found = weights @ part["scores"][kept]
    found *= (1 - settings.forest_share) / found[outside].std()
    found += settings.forest_share * part["trees"] / part["trees"][outside].std()
    scores = np.full(bags.n_instances, np.nan)
    scores[part["positions"]] = found
    return scores


def what_pays(folder: Path, names: list[str], store: Path) -> None:
    print(f"{'AP / top-1, %':28}{'all bags':>16}{'halves':>16}")
    rows: dict[int, list] = {1: [], 2: []}
    for name in names:
        whole = load(folder / f"{name}.parquet")
        for half in ("", "0", "1"):
            bags = part_of(whole, half)
            part = members(bags, store / f"{name}@{half}.npz")
            found = [judge(combine(part, bags, choice), bags) for choice in CHOICES]
            rows[2 if half else 1].append(found)
    means = [np.mean(rows[key], axis=0) for key in (1, 2)]
    for choice, *cells in zip(CHOICES, *means, strict=True):
        label = f"without {choice}" if isinstance(choice, str) else f"{choice[0]} {choice[1]}"
        print(f"{label:28}" + "".join(f"{ap:8.2f} /{top:6.2f}" for ap, top in cells))


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


def bag_rules(names: list[str]) -> None:
    """Print bag accuracy and AUC over five folds, by the best instance and by the chosen rule."""
    print(f"{'accuracy, % / AUC':30}{'max':>16}{'auto':>16}  chosen")
    for name in names:
        bags = load_dataset(name)
        bags = bags if not bags.is_sparse else bags.with_instances(bags.instances.toarray())
        positive = bags.y == max(np.unique(bags.y))
        values, chosen = np.empty((2, len(positive))), []
        splitter = StratifiedKFold(5, shuffle=True, random_state=0)
        for train, test in splitter.split(positive, positive):
            model = SoftPIGMIL(bag_rule="auto", random_state=0).fit(bags[train], positive[train])
            values[1, test] = model.decision_function(bags[test])
            chosen.append(type(model.bag_model_).__name__ if model.bag_model_ else "max")
            scores = model.decision_function_instances(bags[test])
            values[0, test] = np.maximum.reduceat(scores, bags[test].offsets[:-1])
        cells = [
            f"{100 * np.mean((row > 0) == positive):8.1f} /{roc_auc_score(positive, row):6.3f}"
            for row in values
        ]
        print(f"{name:30}{''.join(cells)}  {' '.join(chosen)}", flush=True)


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
    parser.add_argument(
        "--what-pays", type=Path, metavar="MEMBERS", nargs="?", const="bench_members"
    )
    parser.add_argument("--synthetic", type=int, metavar="SEEDS", default=0)
    parser.add_argument("--large", type=int, metavar="SEEDS", default=0)
    parser.add_argument("--bags", nargs="+", default=[])
    parser.add_argument("--parts", choices=["one", "all"], default="one")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.large:
        for method in arguments.methods:
            large(method, arguments.large)
    elif arguments.synthetic:
        synthetic(arguments.methods, arguments.synthetic)
    elif arguments.bags:
        bag_rules(arguments.bags)
    elif arguments.folder is None:
        parser.error("name a folder of Parquet files, or --bags, --synthetic or --large")
    else:
        names = arguments.sets or sorted(path.stem for path in arguments.folder.glob("*.parquet"))
        if arguments.what_pays is not None:
            what_pays(arguments.folder, names, arguments.what_pays)
        else:
            tables(arguments.folder, names, arguments.methods, arguments.store, arguments.parts)


if __name__ == "__main__":
    main()
