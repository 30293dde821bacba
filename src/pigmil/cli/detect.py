"""``pigmil detect``: find the instances that make bags positive."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.text import count
from pigmil.cli.console import (
    DebugOption,
    JsonOption,
    Output,
    QuietOption,
    SeedOption,
    command,
    command_line,
)
from pigmil.cli.data import (
    NO_OPTIONS,
    REPORTS,
    TABLES,
    DataArgument,
    PositiveOption,
    RawOption,
    ReadOptions,
    check_targets,
    find_positive_label,
    open_bags,
    write_table,
)
from pigmil.cli.models import MethodOption, SetOption, build_method, fit_with_progress

if TYPE_CHECKING:
    from pigmil.bags import Bags

# Held-out predictions for the report refit the method; they are left out if that takes longer.
_FOLDS, _MAX_SECONDS = 5, 60.0


@command
def detect(
    output: Output,
    data: DataArgument,
    method: MethodOption = "PIGMIL",
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
        typer.Option("--images", help="Column with picture files, shown in the report."),
    ] = None,
    read: ReadOptions = NO_OPTIONS,
    raw: RawOption = False,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Find the instances that make the bags positive.

    Fits a method on all bags, ranks the instances of the positive bags by score, and writes the
    ranking and a report. Existing files are replaced.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active --positive yes

      pigmil detect slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil detect musk1 -o conformations.parquet --method MILD

      pigmil detect tiles.csv --info x --info y --set n_instances_per_bag=3
    """  # fmt: skip
    from pigmil.bags import BagImputer, BagScaler
    from pigmil.report import detection_summary, write_report
    from pigmil.report.ranking import detected_mask, ranked_rows, ranking_columns

    stem = Path(data).stem
    to = to or Path(f"{stem}-instances.csv")
    page = None if no_report else report or Path(f"{stem}-report.html")
    check_targets(
        data, {"--output": to, "--report": page}, {"--output": TABLES, "--report": REPORTS}
    )
    model = build_method(method, set_, seed, detects=True)
    if images is not None:
        read = replace(read, info=list(dict.fromkeys([*(read.info or []), images])))
    bags = open_bags(data, read, output=output)
    if read.impute is not None:
        bags = BagImputer(strategy=read.impute.value).fit_transform(bags)
    model.set_params(pos_label=find_positive_label(bags, positive))
    scaled = BagScaler(with_mean=not bags.is_sparse).fit_transform(bags) if scale else bags
    start = time.perf_counter()
    fit_with_progress(output, model, scaled)
    seconds = time.perf_counter() - start
    ranked = ranking_columns(
        bags, model.instance_scores_, ranked_rows(model, bags), detected_mask(model, bags)
    )
    write_table(ranked, to, raw=raw)
    _print_detection(output, bags, model, ranked, top)
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
                images=images,
                image_folder=Path(data).parent,
            )
            write_report(summary, page)
        output.add_file(page, "report; open it in a browser")


def _print_detection(
    output: Output, bags: "Bags", model: Any, ranked: dict[str, Any], top: int
) -> None:
    """Print the detected instances and the top of the ranking; fill the JSON result."""
    import numpy as np

    n_positive = int((bags.y == model.positive_label_).sum())
    output.print(
        f"{model.card.name} detected {count(len(model.detected_instances_), 'instance')} in "
        f"{count(n_positive, 'positive bag')} (of {count(bags.n_bags, 'bag')})."
    )
    n_rows = min(top, len(ranked["bag"]))
    if n_rows:
        output.table(
            ["bag", "instance", "score", "detected"],
            [
                (
                    ranked["bag"][row],
                    ranked["instance"][row],
                    f"{ranked['score'][row]:.4g}",
                    "yes" if ranked["detected"][row] else "",
                )
                for row in range(n_rows)
            ],
            title=f"Highest scores ({n_rows} of {len(ranked['bag'])})",
        )
    owner = bags.bag_index[model.detected_instances_]
    output.result = {
        "method": model.card.name,
        "bags": bags.n_bags,
        "positive_bags": n_positive,
        "detected": [
            {"bag": bags.ids[bag], "instance": row - bags.offsets[bag],
             "score": model.instance_scores_[row]}
            for bag, row in zip(owner, model.detected_instances_, strict=True)
        ],
    }  # fmt: skip
    if bags.instance_labels is not None:
        detected = bags.instance_labels[model.detected_instances_]
        share = float(np.mean(detected == np.unique(bags.instance_labels)[-1]))
        output.print(f"{100 * share:.1f} % of the detected instances are labelled positive.")
        output.result["detection_accuracy"] = share
