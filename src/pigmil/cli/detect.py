"""``pigmil detect``: which instances make the bags positive."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from pigmil.bags import Bags, BagScaler
from pigmil.cli.console import DebugOption, JsonOption, Output, QuietOption, SeedOption, command
from pigmil.cli.data import (
    BagOption,
    DataArgument,
    FormatOption,
    InstanceLabelOption,
    LabelOption,
    open_bags,
    write_table,
)
from pigmil.cli.models import MethodOption, SetOption, build_method


@command
def detect(
    output: Output,
    data: DataArgument,
    method: MethodOption = "PIGMIL",
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Ranked table: .csv, .tsv, .parquet or .json."),
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="HTML or .md report.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    top: Annotated[int, typer.Option("--top", help="Rows to print.", min=0)] = 10,
    scale: Annotated[bool, typer.Option(help="Z-score the features first.")] = True,
    set_: SetOption = None,
    format: FormatOption = None,
    bag: BagOption = None,
    label: LabelOption = None,
    instance_label: InstanceLabelOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Find the instances that make the bags positive.

    Fits a detecting method on all bags, ranks the instances of the positive bags and writes the
    ranking and a report.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active

      pigmil detect musk1 -o conformations.parquet --method MILD
    """
    bags = open_bags(data, format=format, bag=bag, label=label, instance_label=instance_label)
    model = build_method(method, set_, seed, detects=True)
    stem = Path(data).stem
    to = to or Path(f"{stem}-instances.csv")
    scaled = BagScaler().fit_transform(bags) if scale and not bags.is_sparse else bags
    with output.progress(f"fitting {model.card.name}"):
        model.fit(scaled)
    ranked = ranking(bags, model)
    write_table(ranked, to)
    positive = int((bags.y == model.classes_[1]).sum())
    output.say(
        f"{model.card.name} detected {len(model.detected_instances_)} instances in {positive} "
        f"positive bags of {bags.n_bags}."
    )
    shown = min(top, len(ranked["bag"]))
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
    output.wrote(to, f"{len(ranked['bag'])} instances of positive bags, ranked")
    output.result = {
        "method": model.card.name,
        "bags": bags.n_bags,
        "positive_bags": positive,
        "detected": model.detected_instances_,
        "instances": to,
    }
    if bags.instance_labels is not None:
        found = bags.instance_labels[model.detected_instances_]
        share = float(np.mean(found == np.unique(bags.instance_labels)[-1]))
        output.say(f"Of the detected instances {100 * share:.1f} % are labelled positive.")
        output.result["detection_accuracy"] = share
    if not no_report:
        from pigmil.report import detection_summary, write_report

        target = report or Path(f"{stem}-report.html")
        summary = detection_summary(
            model, scaled, original=bags, source=data, seed=seed, command=_command(data, method)
        )
        output.wrote(write_report(summary, target), "report, opens in any browser")


def _command(data: str, method: str) -> str:
    return f"pigmil detect {data} --method {method}"


def ranking(bags: Bags, model: Any) -> dict[str, Any]:
    """Instances of the positive bags by falling score, as columns of a table."""
    inside = np.repeat(bags.y == model._positive_label(), bags.sizes)
    rows = np.flatnonzero(inside)
    scores = model.instance_scores_[rows]
    order = rows[np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")]
    detected = np.zeros(bags.n_instances, dtype=bool)
    detected[model.detected_instances_] = True
    columns: dict[str, Any] = {
        "bag": bags.ids[bags.bag_index[order]],
        "instance": order - bags.offsets[bags.bag_index[order]],
        "score": model.instance_scores_[order],
        "detected": detected[order],
    }
    if bags.instance_labels is not None:
        columns["instance_label"] = bags.instance_labels[order]
    for name, values in bags.instance_info.items():
        if values.ndim == 1:
            columns[name] = values[order]
    return columns
