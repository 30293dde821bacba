"""``pigmil demo``: detect positive instances in synthetic data."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pigmil._core.text import count
from pigmil.cli._console import (
    Output,
    command,
    command_line,
)
from pigmil.cli._inputs import SeedOption

SETS = ("BASIC", "RHOMBUS", "RING")
METHODS = ("PIGMIL", "KDE_min", "KDE", "KDE_max")
# Table I of the paper: per cent of the detected instances that are truly positive, by set.
PAPER = {"PIGMIL": (95, 95, 100), "KDE_min": (80, 85, 100), "KDE": (80, 90, 0),
         "KDE_max": (80, 95, 0)}  # fmt: skip


@command
def demo(
    output: Output,
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the picture and the report.")
    ] = Path("pigmil-demo"),
    seeds: Annotated[
        int, typer.Option("--seeds", help="Number of random draws of each data set.", min=1)
    ] = 10,
    seed: SeedOption = 0,
) -> None:
    """Detect the positive instances of the paper's three synthetic sets.

    Prints the percentage of detected instances that are truly positive, with the figures of the
    paper's Table I for comparison, and writes a picture and a report. Takes about a minute.

    Example:

      pigmil demo --output demo
    """
    import numpy as np

    from pigmil import datasets
    from pigmil.report import detection_summary, write_report

    shares: dict[str, dict[str, float]] = {}
    models: dict[str, Any] = {}
    total = len(SETS) * len(METHODS) * seeds
    with output.progress("detecting") as report:
        done = 0
        for set_name in SETS:
            make = getattr(datasets, f"make_{set_name.lower()}")
            shares[set_name] = {}
            for method in METHODS:
                shares_of_draws = []
                for number in range(seeds):
                    bags = make(random_state=seed + number)
                    model = _fit(method, bags, seed)
                    labels = bags.instance_labels[model.detected_instances_]
                    shares_of_draws.append(np.mean(labels == 1))
                    if method == "PIGMIL" and number == 0:
                        models[set_name] = (bags, model)
                    done += 1
                    report(done, total, f"{set_name} {method}")
                shares[set_name][method] = 100 * float(np.mean(shares_of_draws))
    output.table(
        ["data set", *METHODS],
        [
            (
                name,
                *(f"{shares[name][method]:.0f} (paper {PAPER[method][row]})" for method in METHODS),
            )
            for row, name in enumerate(SETS)
        ],
        title=f"Detected instances that are truly positive, % (mean of {count(seeds, 'draw')})",
    )
    output.result = {"seeds": seeds, "detection_accuracy": shares}
    folder.mkdir(parents=True, exist_ok=True)
    picture = _draw(models, folder / "detected.png")
    output.add_file(picture, "the three sets; detected instances are circled")
    bags, model = models["RHOMBUS"]
    summary = detection_summary(
        model, bags, source="RHOMBUS, synthetic", seed=seed, command=command_line()
    )
    output.add_file(
        write_report(summary, folder / "report.html"), "report on RHOMBUS; open it in a browser"
    )


def _fit(method: str, bags: Any, seed: int) -> Any:
    from pigmil.estimators import get_estimator

    model = get_estimator(method)()
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    return model.fit(bags)


def _draw(models: dict[str, Any], path: Path) -> Path:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    from pigmil.report import plot_bags
    from pigmil.report._figures import write_figure

    figure, axes = plt.subplots(1, len(models), figsize=(13, 5), layout="constrained")
    for ax, (name, (bags, model)) in zip(axes, models.items(), strict=True):
        plot_bags(bags, detected=model, title=name, ax=ax)
    write_figure(figure, path, dpi=110)
    plt.close(figure)
    return path
