"""``pigmil detect``: which instances make the bags positive."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    REPORTS,
    TABLES,
    BagOption,
    DataArgument,
    FormatOption,
    InfoOption,
    InstanceLabelOption,
    LabelOption,
    check_targets,
    open_bags,
    write_table,
)
from pigmil.cli.models import MethodOption, SetOption, build_method, fit_told

if TYPE_CHECKING:
    from pigmil.bags import Bags

# Held-out predictions for the report refit the method; beyond this they are left out.
_FOLDS, _SECONDS = 5, 60.0


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
    scale: Annotated[bool, typer.Option(help="Z-score the features first.")] = True,
    set_: SetOption = None,
    format: FormatOption = None,
    bag: BagOption = None,
    label: LabelOption = None,
    instance_label: InstanceLabelOption = None,
    info: InfoOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Find the instances that make the bags positive.

    Fits a detecting method on all bags, ranks the instances of the positive bags, and writes the
    ranking and a report. Files of an earlier run are replaced.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active

      pigmil detect musk1 -o conformations.parquet --method MILD

      pigmil detect tiles.csv --info x --info y --set n_instances_per_bag=3
    """  # fmt: skip
    from pigmil.bags import BagScaler
    from pigmil.report import detection_summary, write_report

    stem = Path(data).stem
    to = to or Path(f"{stem}-instances.csv")
    page = None if no_report else report or Path(f"{stem}-report.html")
    check_targets(
        data, {"--output": to, "--report": page}, {"--output": TABLES, "--report": REPORTS}
    )
    model = build_method(method, set_, seed, detects=True)
    bags = open_bags(
        data, format=format, bag=bag, label=label, instance_label=instance_label, info=info
    )
    scaled = BagScaler(with_mean=not bags.is_sparse).fit_transform(bags) if scale else bags
    start = time.perf_counter()
    fit_told(output, model, scaled)
    seconds = time.perf_counter() - start
    ranked = ranking(bags, model)
    write_table(ranked, to)
    tell(output, bags, model, ranked, top)
    output.wrote(to, f"{len(ranked['bag'])} instances of positive bags, ranked")
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
                folds=_FOLDS if _FOLDS * seconds <= _SECONDS else 0,
            )
            write_report(summary, page)
        output.wrote(page, "report, opens in any browser")


def tell(output: Output, bags: "Bags", model: Any, ranked: dict[str, Any], top: int) -> None:
    """Print what was detected and the head of the ranking, and note it for machines."""
    import numpy as np

    positive = int((bags.y == model.positive_label_).sum())
    output.say(
        f"{model.card.name} detected {len(model.detected_instances_)} instances in {positive} "
        f"positive bags of {bags.n_bags}."
    )
    shown = min(top, len(ranked["bag"]))
    if shown:
        output.table(
            ["bag", "instance", "score", "detected"],
            [
                (
                    ranked["bag"][row],
                    ranked["instance"][row],
                    f"{ranked['score'][row]:.4g}",
                    "yes" if ranked["detected"][row] else "",
                )
                for row in range(shown)
            ],
            title=f"Highest scores ({shown} of {len(ranked['bag'])})",
        )
    owner = bags.bag_index[model.detected_instances_]
    output.result = {
        "method": model.card.name,
        "bags": bags.n_bags,
        "positive_bags": positive,
        "detected": [
            {"bag": bags.ids[bag], "instance": row - bags.offsets[bag],
             "score": model.instance_scores_[row]}
            for bag, row in zip(owner, model.detected_instances_, strict=True)
        ],
    }  # fmt: skip
    if bags.instance_labels is not None:
        found = bags.instance_labels[model.detected_instances_]
        share = float(np.mean(found == np.unique(bags.instance_labels)[-1]))
        output.say(f"Of the detected instances {100 * share:.1f} % are labelled positive.")
        output.result["detection_accuracy"] = share


def ranking(bags: "Bags", model: Any) -> dict[str, Any]:
    """Instances of the positive bags by falling score, as columns of a table."""
    from pigmil.report.ranking import detected_mask, ranked_rows

    order = ranked_rows(model, bags)
    owner = bags.bag_index[order]
    columns: dict[str, Any] = {
        "bag": bags.ids[owner],
        "instance": order - bags.offsets[owner],
        "score": model.instance_scores_[order],
        "detected": detected_mask(model, bags)[order],
    }
    if bags.instance_labels is not None:
        columns["instance_label"] = bags.instance_labels[order]
    for name, values in bags.instance_info.items():
        if values.ndim == 1:
            columns[f"{name}_" if name in columns else name] = values[order]
        elif values.ndim == 2:
            for number in range(values.shape[1]):
                columns[f"{name}_{number}"] = values[order, number]
    return columns
