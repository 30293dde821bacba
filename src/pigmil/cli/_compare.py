"""``pigmil compare``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import Method, Result, TextList, method_option

DEFAULT_METHODS = "SoftPIGMIL,PIGMIL,MILES,MI-Kernel,miGraph"
RIVALS = ("Statistics SVC", "Statistics boosting")  # plain methods, rows of every comparison
# Rare parameters of a comparison, for --set.
SWITCHES = ("rivals", "group_duplicates", "retry_failed")
SETTINGS = (*SWITCHES, "time_limit", "memory_limit")


@command
def compare(
    output: Output,
    data: Annotated[list[str], typer.Argument(metavar="DATA...")],
    methods: Annotated[
        TextList,
        method_option("--methods", "-m", show_default=DEFAULT_METHODS),
    ] = None,
    repeats: Annotated[int, method_option(min=1)] = 5,
    folds: Annotated[int, method_option(min=2)] = 10,
    tune: Method[bool] = True,
    set_: Method[TextList] = None,
    store: Result[Path] = Path("pigmil-results.sqlite"),
    metric: Result[str] = "accuracy",
    export: Result[list[Path] | None] = None,
    report: Result[Path | None] = None,
    pos_label: inputs.PositiveOption = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
    jobs: Annotated[int, method_option("--jobs", "-j", min=1)] = 1,
    seed: Method[int] = 0,
) -> None:
    """Compare methods on data sets by repeated cross-validation.

    A cell is one method on one fold of one data set. Each finished cell is stored at once: after
    Ctrl-C, run the same command again to continue. Statistics SVC and Statistics boosting, which
    know of no instances, are compared too; --set rivals=false leaves them out.

    Parameters
    ----------
    data : list of str
        Files, or names of data sets.
    methods : list of str
        Methods, separated by commas; may be repeated.
    repeats : int
        Repeats of cross-validation.
    folds : int
        Number of folds.
    tune : bool
        Tune parameters by inner cross-validation.
    set_ : list of str
        Other parameter of the comparison, as name=value: rivals=false, group_duplicates=true (keep
        identical bags in one fold), retry_failed=true, time_limit=SECONDS and memory_limit=MIB of a
        cell. May be repeated.
    store : Path
        Results file; resumed if it exists.
    metric : str
        Metric to print.
    export : list of Path
        Write results: .md, .tex, .csv or .json. Existing files of results are replaced.
    report : Path
        Report: .html or .md.
    pos_label : str
        The positive label; needed for text labels.
    jobs : int
        Number of parallel workers.
    seed : int
        Random seed.

    Examples:

      pigmil compare mydata.parquet --methods PIGMIL,MILES,miGraph -j 2 --export table.md

      pigmil compare slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil compare musk1 elephant fox --repeats 1 --report comparison.html
    """  # fmt: skip
    from pigmil.estimators import card_of
    from pigmil.evaluation import compare as run
    from pigmil.evaluation._results import EXPORTS, holds_results
    from pigmil.report._comparison import METRICS

    names = [name.strip() for text in methods or [DEFAULT_METHODS] for name in text.split(",")]
    names = [name for name in names if name]
    known = {card_of(name).name for name in names}  # report a misspelt name before reading data
    if metric not in METRICS:
        raise ValueError(f"--metric {metric}: choose one of {', '.join(METRICS)}.")
    settings = inputs.named_values("--set", set_, SETTINGS, " of the comparison")
    for name in SWITCHES:
        if not isinstance(settings.get(name, True), bool):
            raise ValueError(f"--set {name}: expected true or false, got {settings[name]!r}.")
    if settings.pop("rivals", True):
        names += [name for name in RIVALS if name not in known]
    targets: dict[str, Any] = {"--store": (store, ()), "--report": (report, console.REPORTS)}
    targets |= {f"--export {path.name}": (path, tuple(EXPORTS)) for path in export or []}
    console.check_targets(data, targets)
    for path in filter(Path.is_file, export or []):
        if not holds_results(path):
            raise ValueError(f"--export: '{path}' exists and holds no results; choose another.")
    if read.impute == inputs.Impute.mean:
        raise ValueError("--impute mean: a comparison imputes the median of the training bags.")
    sets: dict[str, Any] = {}
    for item in data:
        name = Path(item).stem if Path(item).exists() else item
        if name in sets:
            raise ValueError(f"Two data sets are called '{name}'; rename one of the files.")
        sets[name] = _with_two_labels(inputs.open_bags(item, read, output=output), pos_label)
    duplicates = ["duplicates"] if settings.pop("group_duplicates", False) else []
    with output.progress("comparing") as report_progress:
        results = run(
            names,
            sets,
            repeats=repeats,
            folds=folds,
            store=store,
            n_jobs=jobs,
            tune=tune,
            random_state=seed,
            groups=(*(read.group or []), *duplicates) or None,
            callback=lambda step: report_progress(
                step.done, step.total, f"{step.cell.data} {step.cell.method}"
            ),
            **settings,
        )
    _print_comparison(output, results, metric)
    for path in export or []:
        output.add_file(results.export(path, metric), "results")
    if report is not None:
        from pigmil.report import comparison_summary, write_report

        summary = comparison_summary(results, command=console.command_line())
        output.add_file(write_report(summary, report), "report; open it in a browser")
    output.add_file(store, "all cells; run again to resume or extend")


def _with_two_labels(bags: Any, positive: str | None) -> Any:
    """Return bags with the labels 0 and 1; methods distinguish more classes, none is positive."""
    import numpy as np

    if positive is None and len(np.unique(bags.y)) > 2:
        return bags
    chosen = inputs.find_positive_label(bags, positive)
    return bags if chosen is None else bags.with_labels((bags.y == chosen).astype(int))


def _print_comparison(output: Output, results: Any, metric: str) -> None:
    """Print the table of results and the ranks; fill the JSON result."""
    from pigmil.report import _comparison as comparison

    if len(results.rows) == len(results.failures):
        raise console.CommandFailedError(f"All cells failed.\n{results.summary()}")
    output.print(results.summary())
    table = comparison.printed_table(results, metric)
    output.table(table.columns, table.rows, title=table.title)
    output.print(comparison.legend(results, metric))
    for sentence in results.best_methods(metric):
        output.print(sentence)
    differences = comparison.significant_differences(results, metric)
    for sentence in differences[:10]:
        output.print(f"- {sentence}")
    significance = results.significance(metric)
    if significance.n_datasets > 1:
        ranks = significance.ranks.sort_values().items()
        listed = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks)
        output.print(f"average ranks: {listed}; {comparison.outcome_over_sets(significance)}")
    output.result = {
        "metric": metric,
        "table": results.table(metric).to_dict(orient="index"),
        "differences": differences,
        "failures": results.failures,
        "findings": results.findings,
    }
