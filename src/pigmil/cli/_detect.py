"""``pigmil detect`` and ``pigmil demo``: find the instances that make bags positive."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pigmil._core.text import count
from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import Method, Result, method_option, output_option, result_option

if TYPE_CHECKING:
    from pigmil.bags import Bags

# Held-out predictions for the report refit the method; they are left out if that takes longer.
_FOLDS, _MAX_SECONDS = 5, 60.0
_FDR = 0.1
_MAX_REFITTED = 20_000  # instances up to which methods are fitted again unless --fdr asks for it
_MAX_COLUMNS = 3  # of information on an instance, in the printed table
# Table I of the paper: detected instances that are positive, in per cent.
TABLE_I = {
    "BASIC": {"PIGMIL": 95, "KDE_min": 80, "KDE": 80, "KDE_max": 80},
    "RHOMBUS": {"PIGMIL": 95, "KDE_min": 85, "KDE": 90, "KDE_max": 95},
    "RING": {"PIGMIL": 100, "KDE_min": 100, "KDE": 0, "KDE_max": 0},
}


@command
def detect(
    output: Output,
    data: inputs.DataArgument,
    fdr: Annotated[float | None, method_option(min=0.001, max=0.999, show_default="0.1")] = None,
    to: Annotated[Path | None, output_option(show_default="DATA-instances.csv")] = None,
    report: Annotated[Path | None, result_option(show_default="DATA-report.html")] = None,
    no_report: Result[bool] = False,
    top: Annotated[int, result_option(min=0)] = 10,
    images: Result[str | None] = None,
    raw: Result[bool] = False,
    marks: Method[Path | None] = None,
    fit: inputs.FitOptions = inputs.FIT_OPTIONS,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
) -> None:
    """Find the instances that make the bags positive.

    Fits a method on all bags, ranks the instances of the positive bags by score, and writes the
    ranking and a report. Existing files are replaced. An instance is detected if it stands out
    clearly from the instances of held-out negative bags: on average, at most a share FDR of the
    detected instances is false. The best instance of each bag is marked as well.

    Parameters
    ----------
    data : str
        File of bags, folder of slides, or name of a data set.
    fdr : float
        False discovery rate: average share of false detections to allow.
    to : Path
        Ranked table: .csv, .tsv, .parquet or .json; or .h5ad, a copy of AnnData with the scores and
        calls of all cells in obs.
    report : Path
        Report: .html or .md.
    no_report : bool
        Write no report.
    top : int
        Rows to print.
    images : str
        Column with picture files to show in the report.
    raw : bool
        Do not protect text that a spreadsheet would run as a formula.
    marks : Path
        Table of instances that are known to be positive or not, with the columns bag, instance
        (position in the bag, from 0) and positive (yes or no): .csv or .parquet. The report saves
        one.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active --positive yes

      pigmil detect slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil detect musk1 -o conformations.parquet --method MILD --fdr 0.05

      pigmil detect tiles.csv --info x --info y --method PIGMIL --set n_instances_per_bag=3

      pigmil detect cells.csv --marks marks.csv
    """  # fmt: skip
    import numpy as np

    from pigmil.bags import BagImputer, BagScaler, mark_values
    from pigmil.evaluation._splits import bag_groups, duplicate_groups, with_fold_groups
    from pigmil.report import detection_summary, write_report
    from pigmil.report._ranking import detected_mask, ranked_rows, ranking_columns

    stem = Path(data).stem
    to = to or Path(f"{stem}-instances.csv")
    page = None if no_report else report or Path(f"{stem}-report.html")
    console.check_targets(
        data, {"--output": (to, console.INSTANCE_TABLES), "--report": (page, console.REPORTS)}
    )
    model = fit.build(detects=True)
    if images is not None and inputs.is_table(data):
        read = replace(read, info=list(dict.fromkeys([*(read.info or []), images])))
    bags = inputs.open_bags(data, read, output=output)
    if read.impute is not None:
        bags = BagImputer(strategy=read.impute.value).fit_transform(bags)
    model.set_params(pos_label=inputs.find_positive_label(bags, fit.pos_label))
    scaled = BagScaler().fit_transform(bags) if fit.scale else bags
    has_copies = len(set(duplicate_groups(bags).tolist())) < bags.n_bags
    grouping = (*(read.group or []), *(["duplicates"] if has_copies else []))
    groups = bag_groups(bags, grouping or None)
    training, known = with_fold_groups(scaled, groups), None
    if marks is not None:
        known = mark_values(bags, marks)
        training = training.with_marks(known, pos_label=model.pos_label)
        groups = None  # a column of the bags with marks
        n_known = [int((known == value).sum()) for value in (1, 0)]
        output.print("Marks used: {} positive, {} negative.".format(*n_known))
    with inputs.start_cluster(fit.workers):
        start = time.perf_counter()
        inputs.fit_with_progress(output, model, training)
        seconds = time.perf_counter() - start
        selection = _select(output, model, training, fdr, groups, fit.seed)
    rows = ranked_rows(model, bags)
    detected = detected_mask(model, bags, selection)
    ranked = ranking_columns(bags, model.instance_scores_, rows, detected, known)
    ranked["best_of_bag"] = ranked["rank"] == 1
    adjusted = np.full(bags.n_instances, np.nan)
    if selection is not None:
        adjusted[selection.instances] = selection.adjusted
        ranked["adjusted_p_value"] = adjusted[rows]
    if to.suffix.lower() == ".h5ad":
        columns = {"score": model.instance_scores_, "called": detected, "adjusted": adjusted}
        console.write_obs(columns, data, bags, to)
    else:
        console.write_table(ranked, to, raw=raw)
    _print_detection(output, bags, model, ranked, top, selection)
    output.add_file(to, f"{count(len(rows), 'ranked instance')} of positive bags")
    output.result["instances"] = to
    output.result["marks"] = 0 if known is None else int((~np.isnan(known)).sum())
    if page is not None:
        with output.progress("writing the report"):
            summary = detection_summary(
                model,
                scaled,
                original=bags if fit.scale else None,
                source=Path(data).name,
                seed=fit.seed,
                command=console.command_line(),
                folds=_FOLDS if _FOLDS * seconds <= _MAX_SECONDS else 0,
                groups=tuple(read.group) if read.group else None,
                selection=selection,
                images=images,
                image_folder=Path(data).parent,
                marks=known,
            )
            write_report(summary, page)
        output.add_file(page, "report; open it in a browser")


def _select(
    output: Output, model: Any, bags: "Bags", fdr: float | None, groups: Any, seed: int
) -> Any:
    """Call instances by scores of bags held out; return None if there are too few bags."""
    from pigmil.evaluation import select_instances

    # The folds of a method that holds out bags itself keep groups together already.
    own_folds = getattr(model, "_holds_out_bags", False)
    if fdr is None and not own_folds and bags.n_instances > _MAX_REFITTED:
        output.warn(
            f"The share of false detections is not estimated: it takes five more fits of "
            f"{model.card.name}; pass --fdr {_FDR} for it, or use SoftPIGMIL, which needs none."
        )
        return None
    try:
        with output.progress("checking on held-out bags") as report_progress:
            return select_instances(
                model,
                bags,
                fdr=_FDR if fdr is None else fdr,
                groups=None if own_folds else groups,
                random_state=seed,
                callback=lambda done, total: report_progress(done, total, "fits"),
            )
    except ValueError as error:
        if fdr is not None:
            raise
        output.warn(f"The share of false detections cannot be estimated: {error}")
        return None


def _print_detection(
    output: Output, bags: "Bags", model: Any, ranked: dict[str, Any], top: int, selection: Any
) -> None:
    """Print the verdict and the top of the ranking; fill the JSON result."""
    import numpy as np

    from pigmil.report._ranking import info_columns

    n_positive = int((bags.y == model.positive_label_).sum())
    n_detected = int(ranked["detected"].sum())
    level = "; the share of false detections is not known."
    if selection is not None:
        level = f", at a false discovery rate of {100 * selection.fdr:g} %."
    output.print(
        f"{model.card.name} detected {count(n_detected, 'instance')} in "
        f"{count(n_positive, 'positive bag')} (of {count(bags.n_bags, 'bag')}){level}"
    )
    if selection is not None:
        output.print(f"How sure is this? {selection.diagnosis.headline}")
        for line in (*selection.diagnosis.lines, *selection.notes):
            output.print(f"- {line}")
    if top:
        varying = info_columns(bags)[0]
        known = [name for name in ranked if name in varying or name.rpartition("_")[0] in varying]
        names = ["bag", "instance", "score", "detected", "best_of_bag", *known[:_MAX_COLUMNS]]
        columns = {name.replace("_of_", " of "): ranked[name][:top] for name in names}
        columns["score"] = [f"{score:.4g}" for score in columns["score"]]
        for name in ("detected", "best of bag"):
            columns[name] = np.where(columns[name], "yes", "")
        rows = list(zip(*columns.values(), strict=True))
        title = f"Highest scores ({len(rows):,} of {len(ranked['bag']):,})"
        output.table(list(columns), rows, title=title)
    output.result = {
        "method": model.card.name,
        "bags": bags.n_bags,
        "positive_bags": n_positive,
        "fdr": None if selection is None else selection.fdr,
        "detected": _listed(ranked, ranked["detected"]),
        "best_of_each_bag": _listed(ranked, ranked["best_of_bag"]),
        "diagnosis": None if selection is None else selection.diagnosis.to_dict(),
    }
    if bags.instance_labels is not None and n_detected:
        labels = ranked["instance_label"][ranked["detected"]]
        share = float(np.mean(labels == np.unique(bags.instance_labels)[-1]))
        output.print(f"{100 * share:.1f} % of the detected instances are labelled positive.")
        output.result["detection_accuracy"] = share


def _listed(ranked: dict[str, Any], chosen: Any) -> list[dict[str, Any]]:
    """Return bag, instance and score of the chosen rows."""
    names = ("bag", "instance", "score")
    columns = [ranked[name][chosen] for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@command
def demo(
    output: Output,
    folder: Annotated[Path, output_option()] = Path("pigmil-demo"),
    seeds: Annotated[int, method_option(min=1)] = 10,
    seed: Method[int] = 0,
) -> None:
    """Detect the positive instances of the paper's three synthetic sets.

    Prints the percentage of detected instances that are truly positive, with the figures of the
    paper's Table I for comparison, and writes a picture and a report. Takes about a minute.

    Parameters
    ----------
    folder : Path
        Folder for the picture and the report.
    seeds : int
        Number of random draws of each data set.
    seed : int
        Random seed.

    Example:

      pigmil demo --output demo
    """
    import numpy as np
    from matplotlib.figure import Figure

    from pigmil import datasets
    from pigmil.report import detection_summary, plot_bags, write_report
    from pigmil.report._figures import write_figure

    shares: dict[str, dict[str, float]] = {name: {} for name in TABLE_I}
    examples: dict[str, Any] = {}
    jobs = [(name, method) for name, printed in TABLE_I.items() for method in printed]
    with output.progress("detecting") as report:
        for done, (name, method) in enumerate(jobs, 1):
            right = []
            for number in range(seeds):
                bags = getattr(datasets, f"make_{name.lower()}")(random_state=seed + number)
                model = inputs.FitOptions(method, seed=seed).build().fit(bags)
                right.append(np.mean(bags.instance_labels[model.detected_instances_] == 1))
                if method == "PIGMIL":
                    examples.setdefault(name, (bags, model))
            shares[name][method] = 100 * float(np.mean(right))
            report(done, len(jobs), f"{name} {method}")
    output.table(
        ["data set", *TABLE_I["RING"]],
        [
            (name, *(f"{shares[name][m]:.0f} (paper {value})" for m, value in printed.items()))
            for name, printed in TABLE_I.items()
        ],
        title=f"Detected instances that are truly positive, % (mean of {count(seeds, 'draw')})",
    )
    output.result = {"seeds": seeds, "detection_accuracy": shares}
    folder.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(13, 5), layout="constrained")
    for ax, (name, (bags, model)) in zip(figure.subplots(1, 3), examples.items(), strict=True):
        plot_bags(bags, detected=model, title=name, ax=ax)
    write_figure(figure, folder / "detected.png", dpi=110)
    output.add_file(folder / "detected.png", "the three sets; detected instances are circled")
    bags, model = examples["RHOMBUS"]
    summary = detection_summary(
        model, bags, source="RHOMBUS, synthetic", seed=seed, command=console.command_line()
    )
    page = write_report(summary, folder / "report.html")
    output.add_file(page, "report on RHOMBUS; open it in a browser")
