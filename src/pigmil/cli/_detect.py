"""``pigmil detect`` and ``pigmil demo``: find the instances that make bags positive."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pigmil._core.text import count
from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import Result, method_option, output_option, result_option

if TYPE_CHECKING:
    from pigmil.bags import Bags

_FDR = 0.1
_MAX_REFITTED = 20_000  # instances up to which methods are fitted again unless --fdr asks for it
_MAX_COLUMNS = 3  # of information on an instance, in the printed table


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
    marks: Annotated[Path | None, method_option(exists=True, dir_okay=False)] = None,
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
        Ranked table: .csv or .parquet; or .h5ad, a copy of AnnData with the scores and calls of all
        cells in obs.
    report : Path
        Report: .html or .md.
    no_report : bool
        Write no report.
    top : int
        Rows to print.
    images : str
        Column with picture files to show in the report.
    marks : Path
        Table of instances that are known to be positive or not, with the columns bag, instance
        (position in the bag, from 0) and positive (yes or no): .csv or .parquet. The report saves
        one.

    Examples:

      pigmil detect molecules.csv --bag molecule --label active --positive yes

      pigmil detect slides/ --labels labels.csv --id slide_id --label tumour --group patient

      pigmil detect musk1 -o conformations.parquet --method MILD --fdr 0.05

      pigmil detect tiles.csv --info x --info y --method PIGMIL --set max_updates=50

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
    bags = inputs.open_bags(data, read, images=images, output=output)
    if read.impute is not None:
        bags = BagImputer(strategy=read.impute.value).fit_transform(bags)
    positive = inputs.find_positive_label(bags, fit.pos_label)
    if len(np.unique(bags.y)) > 2:
        if positive is None:
            raise ValueError("There are more than two labels; name one with --positive.")
        bags, positive = bags.with_labels((bags.y == positive).astype(int)), 1
    model.set_params(pos_label=positive)
    scaled = BagScaler().fit_transform(bags) if fit.scale else bags
    has_copies = len(set(duplicate_groups(bags).tolist())) < bags.n_bags
    grouping = (*(read.group or []), *(["duplicates"] if has_copies else []))
    groups = bag_groups(bags, grouping or None)
    training, known = with_fold_groups(scaled, groups), None
    if marks is not None:
        known = mark_values(bags, marks)
        training = training.with_marks(known, pos_label=positive)
        groups = None  # a column of the bags with marks
        n_known = [int((known == value).sum()) for value in (1, 0)]
        output.print("Marks used: {} positive, {} negative.".format(*n_known))
    with output.progress(f"fitting {model.card.name}"):
        model.fit(training, training.y)
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
        columns = {"score": model.instance_scores_, "called": detected}
        columns["adjusted_p_value"] = adjusted
        console.write_obs(columns, data, bags, to)
        written = "scores and calls in obs"
    else:
        console.write_table(ranked, to)
        written = f"{count(len(rows), 'ranked instance')} of positive bags"
    _print_detection(output, bags, model, ranked, top, selection)
    output.add_file(to, written)
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
def demo(output: Output, folder: Annotated[Path, output_option()] = Path("pigmil-demo")) -> None:
    """Detect the positive instances of three synthetic data sets, where they are known.

    Prints how many of the called instances are truly positive, and writes a report.

    Parameters
    ----------
    folder : Path
        Folder for the report.

    Example:

      pigmil demo --output demo
    """
    from pigmil import datasets, select_instances
    from pigmil.report import detection_summary, write_report

    rows = []
    for name in ("BASIC", "RHOMBUS", "RING"):
        bags = getattr(datasets, f"make_{name.lower()}")(random_state=0)
        with output.progress(f"detecting in {name}"):
            model = inputs.FitOptions().build().fit(bags)
        selection = select_instances(model, bags)
        right = int((bags.instance_labels[selection.called] == 1).sum())
        rows.append([name, bags.n_bags, len(selection.called), right])
    columns = ["data set", "bags", "called", "truly positive"]
    level = f"at a false-discovery rate of {100 * selection.fdr:g} %"
    output.table(columns, rows, title=f"Instances called by {model.card.name} {level}")
    output.result = {"rows": [dict(zip(columns, row, strict=True)) for row in rows]}
    folder.mkdir(parents=True, exist_ok=True)
    summary = detection_summary(model, bags, source="RING, synthetic", selection=selection)
    page = write_report(summary, folder / "report.html")
    output.add_file(page, "report on RING; open it in a browser")
