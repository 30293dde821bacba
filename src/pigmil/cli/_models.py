"""``pigmil fit`` and ``pigmil predict``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.text import count
from pigmil.cli._console import TABLES, Output, check_targets, command, write_table
from pigmil.cli._inputs import (
    NO_OPTIONS,
    ClusterOption,
    DataArgument,
    Impute,
    MethodOption,
    PositiveOption,
    RawOption,
    ReadOptions,
    SeedOption,
    SetOption,
    StreamOption,
    WorkersOption,
    build_method,
    find_positive_label,
    fit_with_progress,
    open_bags,
    scan_lazy_bags,
)

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.scale import LazyBags


@command
def fit(
    output: Output,
    data: DataArgument,
    to: Annotated[
        Path, typer.Option("--output", "-o", help="Model file, for example model.skops.")
    ],
    method: MethodOption = "PIGMIL",
    scale: Annotated[bool, typer.Option(help="Standardise the features first.")] = True,
    set_: SetOption = None,
    positive: PositiveOption = None,
    read: ReadOptions = NO_OPTIONS,
    stream: StreamOption = False,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    seed: SeedOption = 0,
) -> None:
    """Fit a method on labelled bags and save the model.

    A model file contains no code and can be shared; `pigmil predict` refuses files that do.

    Examples:

      pigmil fit musk1 -o musk.skops

      pigmil fit molecules.csv --label active --positive yes -o m.skops --method MILES --set C=2

      pigmil fit slides/ --labels slides.csv --workers 4 --method SoftPIGMIL -o m.skops
    """
    from sklearn.pipeline import Pipeline

    from pigmil.bags import BagImputer, scaled_pipeline
    from pigmil.estimators.persistence import save_model
    from pigmil.scale import cluster_client

    check_targets(data, {"--output": to}, {})
    fitted = build_method(method, set_, seed)
    bags: Any
    if stream or cluster or workers:
        bags = scan_lazy_bags(data, read)
    else:
        bags = open_bags(data, read, output=output)
    fitted.set_params(pos_label=find_positive_label(bags, positive))
    model = scaled_pipeline(fitted, bags) if scale else Pipeline([("method", fitted)])
    if read.impute is not None:
        steps = [step for step in model.steps if step[0] != "impute"]
        model = Pipeline([("impute", BagImputer(strategy=read.impute.value)), *steps])
    try:
        with cluster_client(cluster, workers):
            fit_with_progress(output, fitted, bags, model)
    except KeyboardInterrupt:
        output.errors.print("a fit cannot be resumed; run the same command again to start over")
        raise
    save_model(model, to)
    output.add_file(to, f"{fitted.card.name} fitted on {count(bags.n_bags, 'bag')}")
    output.result = {"method": fitted.card.name, "bags": bags.n_bags, "model": to}


@command
def predict(
    output: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `pigmil fit`.")],
    data: DataArgument,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Predictions: .csv, .tsv, .parquet or .json.",
            show_default="DATA-predictions.csv",
        ),
    ] = None,
    instances: Annotated[
        Path | None,
        typer.Option("--instances", help="Also write the instances, best first, to this file."),
    ] = None,
    read: ReadOptions = NO_OPTIONS,
    raw: RawOption = False,
    stream: StreamOption = False,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
) -> None:
    """Classify bags with a saved model.

    Labels in the data are optional; if there are any, the accuracy is printed.

    Examples:

      pigmil predict musk.skops new-molecules.csv

      pigmil predict musk.skops new-molecules.csv -o bags.csv --instances instances.csv

      pigmil predict m.skops slides/ --stream -o bags.csv --instances scores/
    """  # fmt: skip
    import numpy as np

    from pigmil.bags import BagImputer
    from pigmil.metrics import instance_scores
    from pigmil.report._ranking import ranking_columns
    from pigmil.scale import cluster_client

    pipeline, method = load_pipeline(model)
    if not method.card.classifies and instances is None:
        raise ValueError(f"{method.card.name} does not classify bags; pass --instances FILE.")
    if instances is not None and not method.card.detects:
        raise ValueError(f"{method.card.name} does not score instances; drop --instances.")
    if instances is not None:
        check_two_classes(method)
    if method.card.classifies:
        to = to or Path(f"{Path(data).stem}-predictions.csv")
    if stream or cluster or workers:
        check_targets(data, {"--output": to}, {"--output": TABLES})
        lazy = scan_lazy_bags(data, read, labelled=False)
        with cluster_client(cluster, workers):
            _predict_lazy(output, pipeline, method, lazy, to, instances, raw=raw)
        return
    check_targets(
        data, {"--output": to, "--instances": instances},
        {"--output": TABLES, "--instances": TABLES},
    )  # fmt: skip
    imputer = getattr(pipeline, "named_steps", {}).get("impute")
    if read.impute is None and isinstance(imputer, BagImputer):
        read = replace(read, impute=Impute(imputer.strategy))
    bags = open_bags(data, read, labelled=False, output=output)
    bags = with_fitted_features(output, method, bags)
    output.result = {"method": method.card.name, "bags": bags.n_bags}
    if to is not None and method.card.classifies:
        table = _predict_bags(output, pipeline, bags)
        output.add_file(write_table(table, to, raw=raw), count(bags.n_bags, "bag"))
    if instances is not None:
        scores = instance_scores(pipeline, bags)
        order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")
        scored = ranking_columns(bags, scores, order)
        output.add_file(
            write_table(scored, instances, raw=raw), count(bags.n_instances, "instance")
        )


def _predict_lazy(
    output: Output,
    pipeline: Any,
    method: Any,
    bags: "LazyBags",
    to: Path | None,
    instances: Path | None,
    *,
    raw: bool,
) -> None:
    """Write the predictions of bags on disk: a table of bags, and scores in a folder."""
    from pigmil.scale import predict_to_parquet

    output.result = {"method": method.card.name, "bags": bags.n_bags}
    if to is not None and method.card.classifies:
        table = _predict_bags(output, pipeline, bags)
        output.add_file(write_table(table, to, raw=raw), count(bags.n_bags, "bag"))
    if instances is not None:
        files = predict_to_parquet(pipeline, bags, instances)
        scored = f"{count(bags.n_instances, 'instance')} in {count(len(files), 'file')}"
        output.add_file(instances, scored)


def _predict_bags(output: Output, pipeline: Any, bags: "Bags | LazyBags") -> dict[str, Any]:
    """Return predictions as columns; if the bags have labels, print the accuracy."""
    import numpy as np

    table: dict[str, Any] = {"bag": bags.ids, "predicted": pipeline.predict(bags)}
    decisions = pipeline.decision_function(bags)
    probabilities = pipeline.predict_proba(bags) if hasattr(pipeline, "predict_proba") else None
    if decisions.ndim == 1:
        table["decision"] = decisions
        if probabilities is not None:
            table["probability"] = probabilities[:, 1]
    else:  # more than two classes: one column per class
        for name, values in (("decision", decisions), ("probability", probabilities)):
            if values is not None:
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


def check_two_classes(method: Any) -> None:
    """Raise an error if a method scores every instance once per class."""
    if len(method.classes_) > 2:
        raise ValueError(
            f"The model distinguishes {len(method.classes_)} classes and has a score per class for "
            "every instance; instances are written and drawn for models of two classes only. In "
            "Python, decision_function_instances returns one column per class."
        )


def with_fitted_features(output: Output, method: Any, bags: "Bags") -> "Bags":
    """Return bags with the features of the model, chosen by name if both have names."""
    fitted = getattr(method, "feature_names_in_", None)
    names = bags.feature_names
    if fitted is None or names is None or list(fitted) == list(names):
        if bags.n_features != method.n_features_in_:
            raise ValueError(
                f"The model was fitted on {count(method.n_features_in_, 'feature')}, but this file "
                f"has {bags.n_features}."
            )
        return bags
    missing = [name for name in fitted if name not in names]
    if missing:
        raise ValueError(
            f"This file lacks features that the model was fitted on: "
            f"{', '.join(map(repr, missing[:5]))}{' ...' if len(missing) > 5 else ''}."
        )
    extra = [name for name in names if name not in set(fitted)]
    if extra:
        output.warn(
            f"columns that the model does not use are dropped: {', '.join(map(repr, extra[:5]))}"
            f"{' ...' if len(extra) > 5 else ''}"
        )
    position = {name: number for number, name in enumerate(names)}
    return bags.with_instances(
        bags.instances[:, [position[name] for name in fitted]],
        feature_names=list(fitted),
        missing="keep" if bags.has_missing else "raise",
    )
