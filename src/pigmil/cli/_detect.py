"""``pigmil detect``: find the instances that make bags positive."""

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.text import count
from pigmil.cli._console import (
    REPORTS,
    TABLES,
    Output,
    check_targets,
    command,
    command_line,
    write_table,
)
from pigmil.cli._inputs import (
    NO_OPTIONS,
    ClusterOption,
    DataArgument,
    MethodOption,
    PositiveOption,
    RawOption,
    ReadOptions,
    SeedOption,
    SetOption,
    WorkersOption,
    build_method,
    find_positive_label,
    fit_with_progress,
    has_columns,
    open_bags,
)

if TYPE_CHECKING:
    from pigmil.bags import Bags

# Held-out predictions for the report refit the method; they are left out if that takes longer.
_FOLDS, _MAX_SECONDS = 5, 60.0
# Calls and diagnosis take seven more fits; beyond this size only where --fdr asks for them.
_FDR, _MAX_INSTANCES = 0.1, 20_000
_MAX_COLUMNS = 3  # of information on an instance, in the printed table


@command
def detect(
    output: Output,
    data: DataArgument,
    method: MethodOption = "SoftPIGMIL",
    fdr: Annotated[
        float | None,
        typer.Option(
            "--fdr",
            help="False discovery rate: average share of false detections to allow.",
            min=0.001,
            max=0.999,
            show_default="0.1, up to 20,000 instances",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Ranked table: .csv, .tsv, .parquet or .json.",
            show_default="DATA-instances.csv",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", help="Report: .html or .md.", show_default="DATA-report.html"),
    ] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report.", show_default=False)
    ] = False,
    top: Annotated[int, typer.Option("--top", help="Rows to print.", min=0)] = 10,
    scale: Annotated[bool, typer.Option(help="Standardise the features first.")] = True,
    set_: SetOption = None,
    positive: PositiveOption = None,
    images: Annotated[
        str | None,
        typer.Option("--images", help="Column with picture files to show in the report."),
    ] = None,
    read: ReadOptions = NO_OPTIONS,
    raw: RawOption = False,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Find the instances that make the bags positive.

    Fits a method on all bags, ranks the instances of the positive bags by score, and writes the
    ranking and a report. Existing files are replaced. An instance is detected if it stands out
    clearly from the instances of held-out negative bags: on average, at most a share FDR of the
    detected instances is false. The best instance of each bag is marked as well.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active --positive yes

      pigmil detect slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil detect musk1 -o conformations.parquet --method MILD --fdr 0.05

      pigmil detect tiles.csv --info x --info y --method PIGMIL --set n_instances_per_bag=3
    """  # fmt: skip
    import numpy as np

    from pigmil.bags import BagImputer, BagScaler
    from pigmil.report import detection_summary, write_report
    from pigmil.report._ranking import detected_mask, ranked_rows, ranking_columns

    stem = Path(data).stem
    to = to or Path(f"{stem}-instances.csv")
    page = None if no_report else report or Path(f"{stem}-report.html")
    check_targets(
        data, {"--output": to, "--report": page}, {"--output": TABLES, "--report": REPORTS}
    )
    model = build_method(method, set_, seed, detects=True)
    if images is not None and has_columns(data, read):
        read = replace(read, info=list(dict.fromkeys([*(read.info or []), images])))
    bags = open_bags(data, read, output=output)
    if read.impute is not None:
        bags = BagImputer(strategy=read.impute.value).fit_transform(bags)
    model.set_params(pos_label=find_positive_label(bags, positive))
    scaled = BagScaler().fit_transform(bags) if scale else bags
    diagnosis = None
    with ExitStack() as stack:
        if cluster is not None or workers is not None:
            from pigmil.scale import cluster_client

            stack.enter_context(cluster_client(cluster, workers))
        start = time.perf_counter()
        fit_with_progress(output, model, scaled)
        seconds = time.perf_counter() - start
        if fdr is not None or bags.n_instances <= _MAX_INSTANCES:
            diagnosis = _diagnose(
                output, model, bags, scale=scale, fdr=fdr, groups=read.group or [], seed=seed
            )
    selection = None if diagnosis is None else diagnosis.selection
    rows = ranked_rows(model, bags)
    ranked = ranking_columns(
        bags, model.instance_scores_, rows, detected_mask(model, bags, selection)
    )
    ranked["best_of_bag"] = ranked["rank"] == 1
    if selection is not None:
        adjusted = np.full(bags.n_instances, np.nan)
        adjusted[selection.instances] = selection.adjusted
        ranked["adjusted_p_value"] = adjusted[rows]
    write_table(ranked, to, raw=raw)
    _print_detection(output, bags, model, ranked, top, diagnosis)
    output.add_file(to, f"{count(len(ranked['bag']), 'ranked instance')} of positive bags")
    output.result["instances"] = to
    if page is not None:
        with output.progress("writing the report"):
            summary = detection_summary(
                model,
                scaled,
                original=bags if scale else None,
                source=Path(data).name,
                seed=seed,
                command=command_line(),
                folds=_FOLDS if _FOLDS * seconds <= _MAX_SECONDS else 0,
                groups=tuple(read.group) if read.group else None,
                selection=selection,
                diagnosis=diagnosis,
                images=images,
                image_folder=Path(data).parent,
            )
            write_report(summary, page)
        output.add_file(page, "report; open it in a browser")


def _diagnose(
    output: Output,
    model: Any,
    bags: "Bags",
    *,
    scale: bool,
    fdr: float | None,
    groups: list[str],
    seed: int,
) -> Any:
    """Diagnose the fit on held-out bags; return None if there are too few bags."""
    from pigmil.bags import scaled_pipeline
    from pigmil.evaluation import diagnose
    from pigmil.evaluation._splits import duplicate_groups

    has_duplicates = len(set(duplicate_groups(bags).tolist())) < bags.n_bags
    grouping = (*groups, *(["duplicates"] if has_duplicates else []))
    try:
        with output.progress("checking on held-out bags") as report_progress:
            return diagnose(
                scaled_pipeline(model, bags) if scale else model,
                bags,
                fdr=_FDR if fdr is None else fdr,
                groups=grouping or None,
                random_state=seed,
                callback=lambda done, total: report_progress(done, total, "fits"),
            )
    except ValueError as error:
        if fdr is not None:
            raise
        output.warn(f"The share of false detections cannot be estimated: {error}")
        return None


def _print_detection(
    output: Output,
    bags: "Bags",
    model: Any,
    ranked: dict[str, Any],
    top: int,
    diagnosis: Any,
) -> None:
    """Print the diagnosis and the top of the ranking; fill the JSON result."""
    import numpy as np

    from pigmil.report._summary import reasons, verdict

    n_positive = int((bags.y == model.positive_label_).sum())
    n_detected = int(ranked["detected"].sum())
    output.print(
        f"{model.card.name} detected {count(n_detected, 'instance')} in "
        f"{count(n_positive, 'positive bag')} (of {count(bags.n_bags, 'bag')})"
        + (
            "; the share of false detections is not known."
            if diagnosis is None
            else f", at a false discovery rate of {100 * diagnosis.selection.fdr:g} %."
        )
    )
    if diagnosis is not None:
        output.print(f"How sure is this? {verdict(diagnosis)}")
        for reason in reasons(diagnosis):
            output.print(f"- {reason}")
    n_rows = min(top, len(ranked["bag"]))
    if n_rows:
        known = _known_columns(bags, ranked)
        output.table(
            ["bag", "instance", "score", "detected", "best of bag", *known],
            [
                (
                    ranked["bag"][row],
                    ranked["instance"][row],
                    f"{ranked['score'][row]:.4g}",
                    "yes" if ranked["detected"][row] else "",
                    "yes" if ranked["best_of_bag"][row] else "",
                    *(ranked[name][row] for name in known),
                )
                for row in range(n_rows)
            ],
            title=f"Highest scores ({n_rows:,} of {len(ranked['bag']):,})",
        )
    output.result = {
        "method": model.card.name,
        "bags": bags.n_bags,
        "positive_bags": n_positive,
        "fdr": None if diagnosis is None else diagnosis.selection.fdr,
        "detected": _listed(ranked, ranked["detected"]),
        "best_of_each_bag": _listed(ranked, ranked["best_of_bag"]),
        "diagnosis": None if diagnosis is None else diagnosis.to_dict(),
    }
    if bags.instance_labels is not None and n_detected:
        labels = ranked["instance_label"][ranked["detected"]]
        share = float(np.mean(labels == np.unique(bags.instance_labels)[-1]))
        output.print(f"{100 * share:.1f} % of the detected instances are labelled positive.")
        output.result["detection_accuracy"] = share


def _known_columns(bags: "Bags", ranked: dict[str, Any]) -> list[str]:
    """Return the first columns of a ranking that say which instance of its bag it is."""
    from pigmil.report._ranking import info_columns

    names, _ = info_columns(bags)
    known = [
        title
        for name in names
        for title in ranked
        if title == name or (title.startswith(f"{name}_") and title[len(name) + 1 :].isdigit())
    ]
    return known[:_MAX_COLUMNS]


def _listed(ranked: dict[str, Any], chosen: Any) -> list[dict[str, Any]]:
    """Return bag, instance and score of the chosen rows."""
    columns = [ranked[name][chosen] for name in ("bag", "instance", "score")]
    return [
        {"bag": bag, "instance": row, "score": score}
        for bag, row, score in zip(*columns, strict=True)
    ]
