"""``pigmil fit``, ``predict``, ``heatmap`` and ``retrieve``: models in files."""

import re
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pigmil._core.text import count, did_you_mean, listed
from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import (
    Data,
    Result,
    TextList,
    method_option,
    output_option,
    result_option,
)

_NAME_BYTES = 100  # of a file name; 255 is the limit of most systems
FdrOption = Annotated[float | None, method_option(min=0.001, max=0.999)]
HeatmapFormat = StrEnum("HeatmapFormat", ["png", "geojson"])


@command
def fit(
    output: Output,
    data: inputs.DataArgument,
    to: Annotated[Path, output_option()],
    fitting: inputs.FitOptions = inputs.FIT_OPTIONS,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
    stream: Data[bool] = False,
) -> None:
    """Fit a method on labelled bags and save the model.

    A model file contains no code and can be shared; `pigmil predict` refuses files that do.

    Parameters
    ----------
    data : str
        File of bags, folder of slides, or name of a data set.
    to : Path
        Model file, such as model.skops.
    stream : bool
        Read the bags from disk block by block.

    Examples:

      pigmil fit musk1 -o musk.skops

      pigmil fit molecules.csv --label active --positive yes -o m.skops --method MILES --set C=2

      pigmil fit slides/ --labels slides.csv --stream -o m.skops
    """
    from sklearn.pipeline import Pipeline

    from pigmil.bags import BagImputer, scaled_pipeline
    from pigmil.estimators.persistence import save_model
    from pigmil.evaluation._splits import bag_groups, with_fold_groups

    console.check_targets(data, {"--output": (to, ())})
    method = fitting.build()
    bags = inputs.open_bags(data, read, lazy=stream, output=output)
    method.set_params(pos_label=inputs.find_positive_label(bags, fitting.pos_label))
    model = scaled_pipeline(method, bags) if fitting.scale else Pipeline([("method", method)])
    if read.impute is not None:
        steps = [step for step in model.steps if step[0] != "impute"]
        model = Pipeline([("impute", BagImputer(strategy=read.impute.value)), *steps])
    groups = bag_groups(bags, tuple(read.group)) if read.group else None
    with output.progress(f"fitting {method.card.name}"):
        model.fit(with_fold_groups(bags, groups), bags.y)
    save_model(model, to)
    print_verdict(output, method)
    output.add_file(to, f"{method.card.name} fitted on {count(bags.n_bags, 'bag')}")
    output.result |= {"method": method.card.name, "bags": bags.n_bags, "model": to}


@command
def predict(
    output: Output,
    model: inputs.ModelArgument,
    data: inputs.DataArgument,
    to: Annotated[Path | None, output_option(show_default="DATA-predictions.csv")] = None,
    instances: Result[Path | None] = None,
    fdr: FdrOption = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
    stream: Data[bool] = False,
) -> None:
    """Classify bags with a saved model.

    Labels in the data are optional; if there are any, the accuracy is printed.

    Parameters
    ----------
    model : Path
        File of `pigmil fit`.
    data : str
        File of bags, folder of slides, or name of a data set.
    to : Path
        Predictions: .csv or .parquet.
    instances : Path
        Also write the instances, best first, to this file; with --stream to this folder.
    fdr : float
        Call instances positive, so that on average at most this share of them is false; needs a
        model of SoftPIGMIL.
    stream : bool
        Read the bags from disk block by block.

    Examples:

      pigmil predict musk.skops new-molecules.csv

      pigmil predict musk.skops new-molecules.csv -o bags.csv --instances instances.csv --fdr 0.1

      pigmil predict m.skops slides/ --stream -o bags.csv --instances scores/
    """  # fmt: skip
    import numpy as np

    from pigmil.bags import BagImputer
    from pigmil.metrics import instance_scores
    from pigmil.scale import predict_to_parquet

    pipeline, method = load_pipeline(model)
    if not method.card.classifies and instances is None:
        raise ValueError(f"{method.card.name} does not classify bags; pass --instances FILE.")
    if instances is not None:
        check_scores_instances(method, "drop --instances")
    to = (to or Path(f"{Path(data).stem}-predictions.csv")) if method.card.classifies else None
    targets = {"--output": to, "--instances": None if stream else instances}
    kinds = {"--output": console.TABLES, "--instances": console.INSTANCE_TABLES}
    console.check_targets(data, {name: (path, kinds[name]) for name, path in targets.items()})
    imputer = getattr(pipeline, "named_steps", {}).get("impute")
    if read.impute is None and isinstance(imputer, BagImputer):
        read = replace(read, impute=inputs.Impute(imputer.strategy))
    bags = inputs.open_bags(data, read, labelled=False, lazy=stream, output=output)
    if not stream:
        bags = with_fitted_features(output, method, bags)
    output.result = {"method": method.card.name, "bags": bags.n_bags}
    print_verdict(output, method)
    selection = None if fdr is None else _select(output, pipeline, bags, fdr)
    if to is not None:
        table = _predict_bags(output, pipeline, bags)
        if selection is not None:
            called = bags.bag_index[selection.called]
            table["called"] = np.bincount(called, minlength=bags.n_bags)
            table["share_called"] = table["called"] / bags.sizes
        output.add_file(console.write_table(table, to), count(bags.n_bags, "bag"))
    scored = count(bags.n_instances, "instance")
    columns: dict[str, Any] = {}
    if selection is not None:
        adjusted = np.full(bags.n_instances, np.nan)
        adjusted[selection.instances] = selection.adjusted
        columns = {"adjusted_p_value": adjusted, "called": adjusted <= selection.fdr}
    if instances is not None and stream:
        with output.progress("scoring instances"):
            files = predict_to_parquet(pipeline, bags, instances, columns=columns)
        output.add_file(instances, f"{scored} in {count(len(files), 'file')}")
    elif instances is not None:
        with output.progress("scoring instances"):
            columns = {"score": instance_scores(pipeline, bags), **columns}
            _write_instances(columns, data, bags, instances)
        output.add_file(instances, scored)


def _write_instances(columns: dict[str, Any], data: str, bags: Any, path: Path) -> None:
    """Write scores and calls of all instances, best first, or as columns of AnnData."""
    import numpy as np

    from pigmil.report._ranking import ranking_columns

    if path.suffix.lower() == ".h5ad":
        console.write_obs(columns, data, bags, path)
        return
    scores = columns.pop("score")
    order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")
    table = ranking_columns(bags, scores, order)
    table |= {name: values[order] for name, values in columns.items()}
    console.write_table(table, path)


def print_verdict(output: Output, method: Any) -> None:
    """Print the method of a model and how far to trust it, as far as the fit knows."""
    from pigmil.evaluation import diagnose

    try:
        found = diagnose(method)
    except ValueError:
        output.print(
            f"{method.card.name}: its fit does not show how far to trust it; pigmil detect does."
        )
        return
    output.print(f"{method.card.name}: {found.headline}.")
    for alarm in found.alarms:
        output.warn(alarm)
    output.result["diagnosis"] = found.to_dict()


def _select(output: Output, pipeline: Any, bags: Any, fdr: float) -> Any:
    """Call instances of new bags, or of those of the fit, with a saved model."""
    from pigmil.evaluation import select_instances
    from pigmil.evaluation._cells import last_step

    method = last_step(pipeline)
    if not hasattr(method, "held_out_"):
        raise ValueError(
            f"A model of {method.card.name} keeps no scores of bags held out, so that --fdr cannot "
            "be computed; fit SoftPIGMIL on labels of two classes, or use pigmil detect."
        )
    with output.progress("calling instances"):
        selection = select_instances(pipeline, bags, fdr=fdr)
    for line in selection.lines:
        output.print(line)
    output.result |= {"fdr": fdr, "called": len(selection.called)}
    return selection


def _predict_bags(output: Output, pipeline: Any, bags: Any) -> dict[str, Any]:
    """Return predictions as columns; if the bags have labels, print the accuracy."""
    import numpy as np

    with output.progress("classifying bags"):
        table: dict[str, Any] = {"bag": bags.ids, "predicted": pipeline.predict(bags)}
        decisions = pipeline.decision_function(bags)
        probabilities = pipeline.predict_proba(bags) if hasattr(pipeline, "predict_proba") else None
    for name, values in (("decision", decisions), ("probability", probabilities)):
        if values is not None and decisions.ndim == 1:
            table[name] = values if values.ndim == 1 else values[:, 1]
        elif values is not None:  # more than two classes: one column per class
            columns = zip(pipeline.classes_, values.T, strict=True)
            table |= {f"{name} {label}": column for label, column in columns}
    if bags.y is None:
        return table
    table["label"] = bags.y
    unknown = sorted(set(map(str, bags.y)) - set(map(str, pipeline.classes_)))
    if unknown:
        output.warn(
            f"the model does not know the labels {', '.join(unknown[:5])} (it knows "
            f"{', '.join(map(str, pipeline.classes_))}); no accuracy is computed."
        )
        return table
    accuracy = float(np.mean(table["predicted"].astype(str) == bags.y.astype(str)))
    output.print(f"{100 * accuracy:.1f} % of {count(bags.n_bags, 'bag')} classified correctly.")
    output.result["accuracy"] = accuracy
    return table


def load_pipeline(path: Path) -> tuple[Any, Any]:
    """Return the content of a model file, and the method in it; raise an error if there is none."""
    from pigmil.estimators.persistence import load_model

    pipeline = load_model(path)
    method = pipeline[-1] if hasattr(pipeline, "steps") else pipeline
    if not hasattr(method, "card"):
        raise ValueError(
            f"'{path}' holds a {type(method).__name__}, not a method of pigmil or a pipeline that "
            "ends in one; of a search save best_estimator_."
        )
    if not hasattr(method, "n_features_in_"):
        raise ValueError(f"The {method.card.name} in '{path}' was not fitted.")
    return pipeline, method


def check_scores_instances(method: Any, otherwise: str) -> None:
    """Raise an error if a method does not score instances, or scores them once per class."""
    if not method.card.detects:
        raise ValueError(f"{method.card.name} does not score instances; {otherwise}.")
    if len(method.classes_) > 2:
        raise ValueError(
            f"The model distinguishes {len(method.classes_)} classes and has a score per class for "
            "every instance; instances are written and drawn for models of two classes only. In "
            "Python, decision_function_instances returns one column per class."
        )


def with_fitted_features(output: Output, method: Any, bags: Any) -> Any:
    """Return bags with the features of the model, chosen by name if both have names."""
    if bags.feature_names is None and bags.n_features != method.n_features_in_:
        raise ValueError(
            f"The model was fitted on {method.n_features_in_} features, and these bags have "
            f"{bags.n_features}; pass bags with the features of the fit."
        )
    fitted = list(getattr(method, "feature_names_in_", ()))
    position = {name: number for number, name in enumerate(bags.feature_names or ())}
    if not fitted or not position or fitted == list(position):
        return bags  # the model itself compares the number of features
    missing = [name for name in fitted if name not in position]
    if missing:
        raise ValueError(
            f"This file lacks features that the model was fitted on: {listed(missing, 5)}."
        )
    extra = position.keys() - set(fitted)
    if extra:
        output.warn(f"columns that the model does not use are dropped: {listed(sorted(extra), 5)}")
    return bags.with_instances(
        bags.instances[:, [position[name] for name in fitted]],
        feature_names=fitted,
        missing="keep" if bags.has_missing else "raise",
    )


@command
def heatmap(
    output: Output,
    model: inputs.ModelArgument,
    data: inputs.DataArgument,
    only: Result[TextList] = None,
    fdr: FdrOption = None,
    folder: Annotated[Path | None, output_option(show_default="DATA-heatmaps")] = None,
    formats: Annotated[list[HeatmapFormat], result_option("--as")] = [HeatmapFormat.png],  # noqa: B006 - never changed
    scale: Result[float | None] = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
) -> None:
    """Draw the instances of bags at their coordinates, coloured by score.

    Tiles that are called positive have an outline, and a class of their own in GeoJSON. The
    coordinates are the column `coords` of slide files, or the columns `x` and `y` of a table.

    Parameters
    ----------
    model : Path
        File of `pigmil fit`.
    data : str
        File of bags, folder of slides, or name of a data set.
    only : list of str
        Id of a bag to draw; may be repeated.
    fdr : float
        Outline the tiles called positive, on average at most this share of them false; 0.1 for
        models of SoftPIGMIL.
    folder : Path
        Folder.
    formats : list of str
        geojson is for QuPath; may be repeated.
    scale : float
        Level-0 pixels per unit, for geojson.

    Examples:

      pigmil heatmap model.skops slides.h5 --only slide_7

      pigmil heatmap model.skops tiles.csv --info x --info y --as png --as geojson
    """
    from matplotlib.figure import Figure

    from pigmil.metrics import instance_scores
    from pigmil.report import plot_heatmap, write_geojson
    from pigmil.report._figures import write_figure
    from pigmil.report._tiles import required_coordinates, slides_of

    pipeline, method = load_pipeline(model)
    check_scores_instances(method, "there is no heat map")
    with output.progress("reading bags"):
        bags = inputs.open_bags(data, read, labelled=False)
    required_coordinates(bags)
    chosen = _positions(bags, "--only", only) if only else range(bags.n_bags)
    ids = [str(name) for name in bags.ids]
    output.result = {"method": method.card.name}
    print_verdict(output, method)
    fitted = with_fitted_features(output, method, bags)
    with output.progress("scoring instances"):
        scores, called = instance_scores(pipeline, fitted), None
    if fdr is not None or hasattr(method, "held_out_"):
        called = _select(output, pipeline, fitted, 0.1 if fdr is None else fdr).called
    folder = folder or Path(f"{Path(data).stem}-heatmaps")
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(dict.fromkeys(kind.value for kind in formats))
    jobs = [(at, slide) for at in chosen for slide in slides_of(bags, at)]
    names = _file_names([slide or ids[at] for at, slide in jobs])
    written: list[dict[str, Any]] = []
    with output.progress("drawing") as report_progress:
        for done, ((at, slide), name) in enumerate(zip(jobs, names, strict=True), 1):
            place: dict[str, Any] = {"called": called, "slide": slide}
            for kind in kinds:
                path = folder / f"{name}.{kind}"
                if kind == "geojson":
                    write_geojson(bags, scores, at, path, scale=scale, **place)
                else:
                    figure = Figure(figsize=(7, 6), layout="constrained")
                    plot_heatmap(bags, scores, at, ax=figure.subplots(), **place)
                    write_figure(figure, path, dpi=150)
                written.append({"bag": ids[at], "slide": slide, "file": path})
            report_progress(done, len(jobs), ids[at])
    output.files += [str(item["file"]) for item in written]
    output.print(f"wrote {count(len(written), 'file')} to {folder}")
    output.result["heatmaps"] = written


def _positions(bags: Any, option: str, names: list[str]) -> list[int]:
    """Return the positions of the bags that an option names by id."""
    ids = [str(name) for name in bags.ids]
    for name in names:
        if name not in ids:
            raise ValueError(
                f"{option} {name}: there is no such bag; ids are like '{ids[0]}'."
                + did_you_mean(name, ids)
            )
    return [ids.index(name) for name in names]


def _file_names(names: list[str]) -> list[str]:
    """Return a safe file name for each bag; with numbers where a system could see two as one."""
    safe = [re.sub(r"[^\w.\-]+", "_", name).encode()[:_NAME_BYTES] for name in names]
    unique = [name.decode(errors="ignore").strip("._") or "bag" for name in safe]
    if len({name.lower() for name in unique}) < len(names):
        unique = [f"{number}_{name}" for number, name in enumerate(unique, 1)]
    return unique


@command
def retrieve(
    output: Output,
    model: inputs.ModelArgument,
    data: inputs.DataArgument,
    query: Annotated[list[str], result_option("--query")],
    k: Annotated[int, result_option("-k", min=1)] = 10,
    score_weight: Result[float] = 0.3,
    to: Annotated[Path | None, output_option(show_default="DATA-matches.html")] = None,
    images: Result[str | None] = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
) -> None:
    """Find the bags that resemble a bag by the instances that make it positive.

    Compares the best instance of the query with all instances of the other bags, and prefers
    those that the model scores high.

    Parameters
    ----------
    model : Path
        File of `pigmil fit`.
    data : str
        File of bags, folder of slides, or name of a data set.
    query : list of str
        Id of the bag to ask with; may be repeated.
    k : int
        Number of bags to return.
    score_weight : float
        Weight of the score of a match; 0 ranks by distance alone.
    to : Path
        Page with the matches: .html or .md.
    images : str
        Column with picture files to show on the page.

    Example:

      pigmil retrieve model.skops pictures.csv --query tiger_17 --images file
    """
    from pigmil.report import retrieval_summary, write_report
    from pigmil.retrieval import InstanceIndex

    to = to or Path(f"{Path(data).stem}-matches.html")
    console.check_targets(data, {"--output": (to, console.REPORTS)})
    pipeline, method = load_pipeline(model)
    check_scores_instances(method, "there is nothing to compare")
    bags = inputs.open_bags(data, read, labelled=False, images=images, output=output)
    bags = with_fitted_features(output, method, bags)
    queries = bags.ids[_positions(bags, "--query", query)].tolist()
    with output.progress("comparing instances"):
        index = InstanceIndex(pipeline, score_weight=score_weight).fit(bags)
        summary = retrieval_summary(
            index, bags, queries, k=k, source=data,
            command=console.command_line(), images=images, image_folder=Path(data).parent,
        )  # fmt: skip
    found = [(asked["bag"], row) for asked in summary["queries"] for row in asked["rows"]]
    values = ("bag", "instance", "similarity", "distance", "score")
    matches = [{"query": bag} | {name: row[name] for name in values} for bag, row in found]
    output.result = {"method": method.card.name, "matches": matches}
    print_verdict(output, method)
    rows = [[f"{x:.3f}" if isinstance(x, float) else x for x in row.values()] for row in matches]
    output.table(["query", *values], rows, left=(0, 1))
    output.add_file(write_report(summary, to), count(len(matches), "match", "matches"))
