"""``pigmil compare``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pigmil._core.text import count
from pigmil.cli._console import (
    REPORTS,
    CommandFailedError,
    Output,
    check_targets,
    command,
    command_line,
)
from pigmil.cli._hints import as_options
from pigmil.cli._inputs import (
    NO_OPTIONS,
    ClusterOption,
    Impute,
    JobsOption,
    PositiveOption,
    ReadOptions,
    SeedOption,
    WorkersOption,
    complete_method,
    find_positive_label,
    open_bags,
)

DEFAULT_METHODS = "PIGMIL,MILES,MI-Kernel,miGraph,Citation-kNN"
EXPORTS = (".md", ".tex", ".csv", ".parquet", ".json")


@command
def compare(
    output: Output,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Files, or names of data sets.")
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--methods",
            "-m",
            help="Methods, separated by commas; may be repeated.",
            show_default=DEFAULT_METHODS,
            autocompletion=complete_method,
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Repeats of cross-validation.", min=1)] = 5,
    folds: Annotated[int, typer.Option(help="Number of folds.", min=2)] = 10,
    store: Annotated[Path, typer.Option(help="Results file; resumed if it exists.")] = Path(
        "pigmil-results.sqlite"
    ),
    tune: Annotated[bool, typer.Option(help="Tune parameters by inner cross-validation.")] = True,
    group_duplicates: Annotated[
        bool, typer.Option("--group-duplicates", help="Keep identical bags in one fold.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if the audit finds severe defects.")
    ] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Time limit per cell, in seconds.")
    ] = None,
    memory_limit: Annotated[
        float | None, typer.Option(help="Memory limit per cell, in MiB.")
    ] = None,
    metric: Annotated[str, typer.Option(help="Metric to print.")] = "accuracy",
    export: Annotated[
        list[Path] | None,
        typer.Option("--export", help="Write results: .md, .tex, .csv, .parquet or .json."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Report: .html or .md.")] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run failed cells again.")
    ] = False,
    positive: PositiveOption = None,
    read: ReadOptions = NO_OPTIONS,
    jobs: JobsOption = 1,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Compare methods on data sets by repeated cross-validation.

    A cell is one method on one fold of one data set. Each finished cell is stored at once: after
    Ctrl-C, run the same command again to continue.

    Examples:

      pigmil compare mydata.parquet --methods PIGMIL,MILES,miGraph -j 2 --export table.md

      pigmil compare slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil compare musk1 elephant fox --repeats 1 --report comparison.html
    """  # fmt: skip
    import numpy as np

    from pigmil.estimators import card_of
    from pigmil.evaluation import compare as run
    from pigmil.report._comparison import METRICS
    from pigmil.scale import cluster_client

    names = [
        name.strip() for text in methods or [DEFAULT_METHODS] for name in text.split(",")
        if name.strip()
    ]  # fmt: skip
    for name in names:
        card_of(name)  # report a misspelt name before reading data
    if metric not in METRICS:
        raise ValueError(f"--metric {metric}: choose one of {', '.join(METRICS)}.")
    targets: dict[str, Path | None] = {"--store": store, "--report": report}
    targets |= {f"--export {path.name}": path for path in export or []}
    check_targets(
        data[0], targets,
        {"--report": REPORTS} | {f"--export {path.name}": EXPORTS for path in export or []},
    )  # fmt: skip
    if read.impute == Impute.mean:
        raise ValueError("--impute mean: a comparison imputes the median of the training bags.")
    sets: dict[str, Any] = {}
    for item in data:
        name = Path(item).stem if Path(item).exists() else item
        if name in sets:
            raise ValueError(f"Two data sets are called '{name}'; rename one of the files.")
        bags = open_bags(item, read, output=output)
        # Methods distinguish more than two classes; none of them is the positive one.
        several = positive is None and len(np.unique(bags.y)) > 2
        chosen = None if several else find_positive_label(bags, positive)
        sets[name] = bags if chosen is None else bags.with_labels((bags.y == chosen).astype(int))
    grouping = (*(read.group or []), *(["duplicates"] if group_duplicates else []))
    with (
        cluster_client(cluster, workers) as client,
        output.progress("comparing") as report_progress,
    ):
        results = run(
            names,
            sets,
            repeats=repeats,
            folds=folds,
            store=store,
            n_jobs=None if client else jobs,
            tune=tune,
            random_state=seed,
            groups=grouping or None,
            strict=strict,
            retry_failed=retry_failed,
            time_limit=time_limit,
            memory_limit=memory_limit,
            callback=lambda step: report_progress(
                step.done, step.total, f"{step.cell.data} {step.cell.method}"
            ),
        )
    _print_comparison(output, results, metric)
    for path in export or []:
        output.add_file(results.export(path, metric), "results")
    if report is not None:
        from pigmil.report import comparison_summary, write_report

        summary = comparison_summary(results, command=command_line())
        output.add_file(write_report(summary, report), "report; open it in a browser")
    output.add_file(store, "all cells; run again to resume or extend")


def _print_comparison(output: Output, results: Any, metric: str) -> None:
    """Print the table of results and the ranks."""
    from pigmil.report._comparison import (
        INTERVALS,
        METRICS,
        significant_differences,
        single_set,
    )

    if len(results.rows) == len(results.failures):
        raise CommandFailedError(f"All cells failed.\n{results.summary()}")
    output.print(as_options(results.summary()))
    single = single_set(results, metric) if results.table(metric).shape[0] == 1 else None
    if single is not None:
        output.table(
            ["method", single["short"], "interval"],
            [
                (row["method"], "-" if row["mean"] is None else f"{row['mean']:.1f}",
                 row["interval"])
                for row in single["rows"]
            ],
            title=f"{single['data']}: {METRICS[metric]}",
        )  # fmt: skip
        output.print(f"interval: {single['how']}")
    else:
        kind = "interval" if metric in INTERVALS and len(results.intervals(metric)) else "text"
        table = results.table(metric, statistic=kind)
        output.table(["data set", *table.columns], [(name, *row) for name, row in table.iterrows()])
    for sentence in results.best_methods(metric):
        output.print(sentence)
    differences = significant_differences(results, metric)
    for sentence in differences[:10]:
        output.print(f"- {sentence}")
    if len(differences) > 10:
        output.print(f"- and {count(len(differences) - 10, 'more pair')}; see --report")
    significance = results.significance(metric)
    if significance.n_datasets > 1:
        output.print(
            "average ranks: "
            + ", ".join(
                f"{name} {rank:.2f}" for name, rank in significance.ranks.sort_values().items()
            )
            + f"; Friedman p = {significance.friedman_p:.3g}"
        )
    output.result = {
        "metric": metric,
        "table": results.table(metric).to_dict(orient="index"),
        "differences": differences,
        "within_error": results.within_error(metric).to_dict(orient="index"),
        "failures": results.failures,
        "findings": results.findings,
    }
