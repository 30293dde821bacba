"""Every method on every labelled set, for the benchmark page of the documentation.

python benchmarks/bench_page.py run FOLDER                    # all methods on all Parquet files
python benchmarks/bench_page.py run FOLDER --methods MILES MILD --sets wdbc libras
python benchmarks/bench_page.py page                          # tables, diagrams and text

Columns of a file: bag, bag_label, instance_label (positive if above 0), and features f0, f1, ...
ABMIL and MI-Net are among the methods where torch is installed. ``run`` can be stopped and run
again: finished cells are kept in the store. It writes
``docs/_parts/benchmark.csv``, one row per method and set, and ``benchmark_sets.csv``; ``page``
makes ``benchmark_answer.md``, ``benchmark.md`` and two diagrams from these. Rows of other methods
and sets are kept.
"""

import argparse
import warnings
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
from bench_soft import load

from pigmil.estimators import all_estimators
from pigmil.evaluation import Results, compare
from pigmil.evaluation._statistics import compare_over_datasets

PARTS = Path(__file__).parents[1] / "docs" / "_parts"
MEASURES = {
    "detection_ap": "AP",
    "detection_accuracy": "top-1",
    "instance_ap": "AP, new bags",
    "top1": "top-1, new bags",
    "auc": "AUC",
    "accuracy": "accuracy",
    "fit_seconds": "CPU s",
    "peak_mb": "MiB",
}
# Kinds of data sets: title and condition on a row of benchmark_sets.csv.
KINDS = {
    "fewer than 10 % of the instances of positive bags are positive": "positive_share < 0.1",
    "10 to 30 % are positive": "0.1 <= positive_share < 0.3",
    "30 % or more are positive": "positive_share >= 0.3",
    "fewer than 20 features": "features < 20",
    "50 features or more": "features >= 50",
    "bags of 30 instances or more on average": "bag_size >= 30",
    "fewer than 60 bags": "bags < 60",
}

# What the data are: title and sets. logic7_atoms breaks the standard assumption on purpose and
# synthetic sets are no kind of data.
FIELDS = {
    "Pictures cut into pieces, as slides into tiles": (
        "digits3_lo", "digits9", "mnist4", "mnist_bags_9", "satimage4", "segment_a", "texture",
    ),
    "Sound": ("birds_10", "birds_13", "birds_4"),
    "Molecules, one row per atom": ("benzene_atoms_400",),
    "Cells of patients": ("pbmc_cd56nk",),
    "Text: words, letters, counts": (
        "toxic_words", "docs_stats", "g_spam_15", "g_spam_24", "frost_0", "frost_12", "frost_13",
        "frost_15",
    ),
    "Tables and sensors": (
        "g_adult_13", "g_adult_25", "g_diabetes_13", "magic", "vehicle", "mushroom", "wdbc",
        "libras", "penbased", "twonorm",
    ),
}  # fmt: skip
NEARLY = 0.05  # a quicker method is named where it is at most this much below the best


def describe(name, bags):
    """Return the facts about a set that kinds of data are made of."""
    in_positive = (bags.y == 1)[bags.bag_index]
    return {
        "set": name,
        "bags": bags.n_bags,
        "positive_bags": int((bags.y == 1).sum()),
        "instances": bags.n_instances,
        "features": bags.n_features,
        "bag_size": round(bags.n_instances / bags.n_bags, 1),
        "positive_share": round(float(bags.instance_labels[in_positive].mean()), 3),
    }


def run(folder, methods, sets, store, limit, parts, retry):
    """Compute what the store lacks, the smallest sets first, and write the two tables.

    Ctrl-C ends the computation; the tables then hold what is finished.
    """
    known = {name: load(folder / f"{name}.parquet") for name in sets}
    known = dict(sorted(known.items(), key=lambda item: item[1].instances.size))
    try:
        compare(
            methods, known, repeats=1, folds=2, tune=False, store=store, time_limit=limit,
            callback=report, retry_failed=retry,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped", flush=True)
    results = Results.from_store(store)
    frame = results.frame.reindex(columns=["data", "method", *MEASURES])
    means = frame.groupby(["data", "method"])[list(MEASURES)].mean()
    means["folds"] = frame.groupby(["data", "method"]).size()
    pairs = dict.fromkeys((row["data"], row["method"]) for row in results.rows)
    cells = [
        {
            "set": pair[0],
            "method": pair[1],
            **(means.loc[pair] if pair in means.index else {"folds": 0}),
        }
        for pair in pairs
    ]
    update(parts / "benchmark.csv", cells, ["set", "method"])
    rows = [describe(name, bags) for name, bags in known.items()]
    update(parts / "benchmark_sets.csv", rows, ["set"])


def report(progress):
    if progress.error or progress.done % 20 == 0:
        cell = progress.cell
        print(
            f"{progress.done}/{progress.total} {cell.data} {cell.method} {progress.error or ''}",
            flush=True,
        )


def update(path, rows, key):
    """Write the rows over those of the file with the same key."""
    new = pd.DataFrame(rows)
    old = pd.read_csv(path) if path.exists() else new.iloc[:0]
    both = pd.concat([part for part in (old, new) if len(part)])
    kept = both.drop_duplicates(key, keep="last").sort_values(key)
    kept.to_csv(path, index=False, float_format="%.4g")


def table_of(cells, measure, methods):
    """One row per set and one column per method; what did not finish both folds is missing."""
    done = cells[(cells["folds"] == 2) & cells["method"].isin(methods)]
    table = done.pivot_table(index="set", columns="method", values=measure)
    return table.reindex(columns=[name for name in methods if name in table])


def significance(table):
    """Compare methods over sets; a method that did not finish is the last on the set."""
    return compare_over_datasets(table.fillna(-1.0))


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def number(value, digits=1, scale=100.0):
    return "–" if value != value else f"{scale * value:.{digits}f}"


def ranking(cells, methods, measures, by):
    """Markdown table of mean measures, best average rank first, and the outcome of the tests."""
    outcome = significance(table_of(cells, by, methods))
    means = {name: table_of(cells, name, methods).mean() for name in measures}
    medians = {name: table_of(cells, name, methods).median() for name in ("fit_seconds", "peak_mb")}
    finished = table_of(cells, by, methods).notna().sum()
    rows = [
        (
            method,
            f"{rank:.2f}",
            *(number(means[name].get(method, float("nan"))) for name in measures),
            number(medians["fit_seconds"][method], 2, 1.0),
            number(medians["peak_mb"][method], 0, 1.0),
            str(finished[method]),
        )
        for method, rank in outcome.ranks.sort_values().items()
    ]
    titles = [MEASURES[name] for name in measures]
    head = ("method", "mean rank", *titles, "CPU s, median", "MiB, median", "sets")
    return markdown(head, rows), outcome


def diagram(outcome, path):
    """Draw the critical-difference diagram."""
    import matplotlib.pyplot as plt
    import scikit_posthocs

    figure, ax = plt.subplots(figsize=(8, 0.3 * len(outcome.ranks) + 1), layout="constrained")
    scikit_posthocs.critical_difference_diagram(outcome.ranks, outcome.nemenyi, ax=ax)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def sentence(outcome, what):
    best = outcome.ranks.sort_values()
    level = [
        name for name in best.index[1:] if best[name] - best.iloc[0] < outcome.critical_difference
    ]
    return (
        f"Friedman's test of equal {what} over {outcome.n_datasets} sets: "
        f"p = {outcome.friedman_p:.1g}. Critical difference of mean ranks at level 0.05: "
        f"{outcome.critical_difference:.2f}. Best: {best.index[0]}. Not significantly worse: "
        f"{', '.join(level) or 'none'}.\n"
    )


def by_kind(cells, sets, detectors, classifiers):
    """Markdown table of the best three methods for every kind of data."""
    rows = []
    for title, condition in KINDS.items():
        names = sets.query(condition)["set"]
        if names.empty:
            continue
        best = []
        for measure, methods in (("detection_ap", detectors), ("auc", classifiers)):
            part = table_of(cells[cells["set"].isin(names)], measure, methods)
            means = part.fillna(0.0).mean().nlargest(3)
            best.append(", ".join(f"{name} {100 * mean:.0f}" for name, mean in means.items()))
        rows.append((title, str(len(names)), *best))
    return markdown(("sets where", "sets", "instances: mean AP", "bags: mean AUC"), rows)


def by_field(cells, detectors, classifiers):
    """Markdown table: for each field the best method, and the quickest that is nearly as good."""
    rows = []
    for title, names in FIELDS.items():
        part = cells[cells["set"].isin(names)]
        n_sets = part["set"].nunique()
        if not n_sets:
            continue
        found = [
            recommended(part, "detection_ap", detectors),
            recommended(part, "auc", classifiers),
        ]
        rows.append((title, str(n_sets), *found))
    head = ("your data", "sets", "to find the instances (mean AP)", "to label bags (mean AUC)")
    return markdown(head, rows)


def recommended(cells, measure, methods):
    """Name the best method by its mean and the quickest that is nearly as good, with figures."""
    means = table_of(cells, measure, methods).fillna(0.0).mean()
    seconds = table_of(cells, "fit_seconds", methods).mean()
    best = means.idxmax()
    near = seconds[means[means >= means[best] - NEARLY].index]
    quick = near.idxmin()

    def figures(name):
        return f"{name} {number(means[name])} ({seconds[name]:.2g} CPU s)"

    return f"**{figures(best)}**" + ("" if quick == best else f"; quick: {figures(quick)}")


def per_set(cells, sets, measure, methods):
    """Markdown table of one measure, a row per set, the best of a row in bold."""
    table = table_of(cells, measure, methods)
    rows = []
    for name, row in table.iterrows():
        best = row.max()
        rows.append((name, *(f"**{number(v)}**" if v == best else number(v) for v in row)))
    mean = table.mean()
    rows.append(("mean of those finished", *(number(value) for value in mean)))
    return markdown(("set", *table.columns), rows)


def page(parts):
    """Write the part of the page that is made from the tables."""
    cells = pd.read_csv(parts / "benchmark.csv")
    sets = pd.read_csv(parts / "benchmark_sets.csv")
    # Only sets on which every method was tried are comparable. Methods that need an extra are left
    # out of the ranking until they were tried on all of these.
    core = {card.name for card in all_estimators()}
    tried = cells.groupby("set")["method"].agg(set)
    complete = tried.index[[core <= names for names in tried]]
    left_out = sorted(set(sets["set"]) - set(complete))
    cells, sets = (table[table["set"].isin(complete)] for table in (cells, sets))
    everywhere = cells.groupby("method")["set"].nunique() == len(complete)
    cells = cells[cells["method"].map(everywhere)]
    cards = [card for card in all_estimators(deep=True) if card.name in set(cells["method"])]
    detectors = [card.name for card in cards if card.detects]
    classifiers = [card.name for card in cards if card.classifies]
    instances = ["detection_ap", "detection_accuracy", "instance_ap", "top1"]
    by_instance, instance_outcome = ranking(cells, detectors, instances, "detection_ap")
    by_bag, bag_outcome = ranking(cells, classifiers, ["auc", "accuracy"], "auc")
    diagram(instance_outcome, parts / "benchmark_instances.svg")
    diagram(bag_outcome, parts / "benchmark_bags.svg")
    facts = [tuple(map(str, row)) for row in sets.itertuples(index=False)]
    text = [
        f"{len(cards)} methods on {len(sets)} sets"
        + (f"; not run with all methods: {', '.join(left_out)}" if left_out else "")
        + ".\n",
        "# By the shape of the data\n",
        "The three best methods by their mean over the sets of each kind, in per cent. A method "
        "that did not finish counts as 0.\n",
        by_kind(cells, sets, detectors, classifiers),
        "# Instances\n",
        sentence(instance_outcome, "average precision"),
        by_instance,
        "![Critical difference of the average precision](benchmark_instances.svg)\n",
        "# Bags\n",
        sentence(bag_outcome, "AUC"),
        by_bag,
        "![Critical difference of the AUC of bags](benchmark_bags.svg)\n",
        "# Set by set\n",
        "## Average precision of instances, training bags\n",
        per_set(cells, sets, "detection_ap", detectors),
        "## AUC of held-out bags\n",
        per_set(cells, sets, "auc", classifiers),
        "## The sets\n",
        markdown([name.replace("_", " ") for name in sets.columns], facts),
    ]
    (parts / "benchmark.md").write_text("\n".join(text), encoding="utf-8")
    answer = by_field(cells, detectors, classifiers)
    (parts / "benchmark_answer.md").write_text(answer, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["run", "page"])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--store", type=Path, default=Path("benchmark.sqlite"))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per method and fold")
    parser.add_argument("--retry", action="store_true", help="compute failed cells again")
    parser.add_argument("--parts", type=Path, default=PARTS, help="folder of the tables")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.task == "page":
        page(chosen.parts)
        return
    if chosen.folder is None:
        parser.error("name a folder of Parquet files")
    sets = chosen.sets or sorted(path.stem for path in chosen.folder.glob("*.parquet"))
    deep = find_spec("torch") is not None
    methods = chosen.methods or [card.name for card in all_estimators(deep=deep)]
    run(chosen.folder, methods, sets, chosen.store, chosen.limit, chosen.parts, chosen.retry)


if __name__ == "__main__":
    main()
