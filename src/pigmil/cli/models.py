"""``pigmil fit`` and ``pigmil predict``, and how a method is named on the command line."""

import ast
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil.cli.console import DebugOption, JsonOption, Output, QuietOption, SeedOption, command
from pigmil.cli.data import (
    TABLES,
    BagOption,
    DataArgument,
    FormatOption,
    InfoOption,
    LabelOption,
    check_targets,
    open_bags,
    write_table,
)

if TYPE_CHECKING:
    from pigmil.bags import Bags


def complete_method(incomplete: str) -> list[str]:
    """Names of methods that begin so, for shell completion."""
    from pigmil.estimators.registry import METHODS

    return [name for name in METHODS if name.lower().startswith(incomplete.lower())]


MethodOption = Annotated[
    str,
    typer.Option(
        "--method", "-m", help="Name of the method, see `pigmil methods`.",
        autocompletion=complete_method,
    ),
]  # fmt: skip
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of the method, as name=value; may be repeated."),
]


def build_method(name: str, settings: list[str] | None, seed: int, *, detects: bool = False) -> Any:
    """A method with its parameters from ``name=value`` texts."""
    from pigmil.estimators import get_estimator

    kind = get_estimator(name)
    known = [
        name
        for name in inspect.signature(kind.__init__).parameters
        if name not in ("self", "callback")
    ]
    values: dict[str, Any] = {}
    for text in settings or []:
        key, separator, value = text.partition("=")
        if not separator or key not in known:
            raise ValueError(
                f"--set {text}: expected name=value with a parameter of {name}; they are "
                f"{', '.join(known)}."
            )
        try:
            values[key] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            values[key] = value
    if "random_state" in known:
        values.setdefault("random_state", seed)
    if detects and not kind.card.detects:
        raise ValueError(
            f"{kind.card.name} labels bags but does not score instances; `pigmil methods` says "
            "which do."
        )
    return kind(**values)


def fit_told(output: Output, model: Any, bags: "Bags", pipeline: Any = None) -> None:
    """Fit a method, or the pipeline it ends, with a bar that follows its steps if it tells them."""
    with output.progress(f"fitting {model.card.name}") as tell:
        told = "callback" in model.get_params()
        if told:
            most = model.max_updates
            model.set_params(
                callback=lambda step: tell(step.n_updates, most, f"updating {model.card.name}")
            )
        try:
            (model if pipeline is None else pipeline).fit(bags, bags.y)
        finally:
            if told:  # it belongs to this call and not to the model
                model.set_params(callback=None)


@command
def fit(
    output: Output,
    data: DataArgument,
    to: Annotated[Path, typer.Option("--output", "-o", help="The model file, say model.skops.")],
    method: MethodOption = "PIGMIL",
    scale: Annotated[bool, typer.Option(help="Z-score the features first.")] = True,
    set_: SetOption = None,
    format: FormatOption = None,
    bag: BagOption = None,
    label: LabelOption = None,
    info: InfoOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Fit a method on labelled bags and save the model.

    The file holds no code: it can be handed on, and `pigmil predict` refuses one that does.

    Examples:

      pigmil fit musk1 -o musk.skops

      pigmil fit molecules.csv --label active -o m.skops --method MILES --set C=2
    """
    from sklearn.pipeline import Pipeline

    from pigmil.bags import BagScaler
    from pigmil.estimators.persistence import save_model

    check_targets(data, {"--output": to}, {})
    fitted = build_method(method, set_, seed)
    bags = open_bags(data, format=format, bag=bag, label=label, info=info)
    steps = [("method", fitted)]
    if scale:
        steps.insert(0, ("scale", BagScaler(with_mean=not bags.is_sparse)))
    model = Pipeline(steps)
    fit_told(output, fitted, bags, model)
    save_model(model, to)
    output.wrote(to, f"{fitted.card.name} fitted on {bags.n_bags} bags")
    output.result = {"method": fitted.card.name, "bags": bags.n_bags, "model": to}


@command
def predict(
    output: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file `pigmil fit` wrote.")],
    data: DataArgument,
    to: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Bags: .csv, .tsv, .parquet or .json.",
            show_default="DATA-predictions.csv",
        ),
    ] = None,
    instances: Annotated[
        Path | None, typer.Option("--instances", help="Also score every instance, to this file.")
    ] = None,
    format: FormatOption = None,
    bag: BagOption = None,
    label: LabelOption = None,
    info: InfoOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Label bags with a saved model.

    Labels in the data are not needed; where there are some, they are compared.

    Examples:

      pigmil predict musk.skops new-molecules.csv

      pigmil predict musk.skops new-molecules.csv -o bags.csv --instances instances.csv
    """  # fmt: skip
    from pigmil.estimators.persistence import load_model

    pipeline = load_model(model)
    method = pipeline[-1] if hasattr(pipeline, "steps") else pipeline
    if not method.card.classifies and instances is None:
        raise ValueError(f"{method.card.name} labels no bags; ask for --instances FILE.")
    if instances is not None and not method.card.detects:
        raise ValueError(f"{method.card.name} does not score instances; leave out --instances.")
    if method.card.classifies:
        to = to or Path(f"{Path(data).stem}-predictions.csv")
    check_targets(
        data, {"--output": to, "--instances": instances},
        {"--output": TABLES, "--instances": TABLES},
    )  # fmt: skip
    bags = open_bags(data, format=format, bag=bag, label=label, info=info, labelled=False)
    bags = with_fitted_features(output, method, bags)
    output.result = {"method": method.card.name, "bags": bags.n_bags}
    if to is not None and method.card.classifies:
        table = _predicted(output, pipeline, bags)
        output.wrote(write_table(table, to), f"{bags.n_bags} bags")
    if instances is not None:
        scaled = pipeline is not method and len(pipeline) > 1
        features = pipeline[:-1].transform(bags) if scaled else bags
        index = bags.bag_index
        scored = {
            "bag": bags.ids[index],
            "instance": _places(bags),
            "score": method.decision_function_instances(features),
        }
        output.wrote(write_table(scored, instances), f"{bags.n_instances} instances")


def _places(bags: "Bags") -> Any:
    import numpy as np

    return np.arange(bags.n_instances) - bags.offsets[bags.bag_index]


def _predicted(output: Output, pipeline: Any, bags: "Bags") -> dict[str, Any]:
    """Predictions as columns; where the bags carry labels, how many agree."""
    import numpy as np

    table: dict[str, Any] = {
        "bag": bags.ids,
        "predicted": pipeline.predict(bags),
        "decision": pipeline.decision_function(bags),
    }
    if hasattr(pipeline, "predict_proba"):
        table["probability"] = pipeline.predict_proba(bags)[:, 1]
    if bags.y is None:
        return table
    table["label"] = bags.y
    strange = sorted(set(map(str, bags.y)) - set(map(str, pipeline.classes_)))
    if strange:
        output.warn(
            f"labels {', '.join(strange[:5])} of the data are none of the model's "
            f"({', '.join(map(str, pipeline.classes_))}); they are not compared."
        )
        return table
    right = float(np.mean(table["predicted"].astype(str) == bags.y.astype(str)))
    output.say(f"{100 * right:.1f} % of the {bags.n_bags} bags as labelled.")
    output.result["accuracy"] = right
    return table


def with_fitted_features(output: Output, method: Any, bags: "Bags") -> "Bags":
    """The features the model was fitted on, picked by name where both sides have names."""
    fitted = getattr(method, "feature_names_in_", None)
    names = bags.feature_names
    if fitted is None or names is None or list(fitted) == list(names):
        if bags.n_features != method.n_features_in_:
            raise ValueError(
                f"The model was fitted on {method.n_features_in_} features, and this file has "
                f"{bags.n_features}."
            )
        return bags
    absent = [name for name in fitted if name not in names]
    if absent:
        raise ValueError(
            f"The model was fitted on features that this file does not have: "
            f"{', '.join(map(repr, absent[:5]))}{' ...' if len(absent) > 5 else ''}."
        )
    extra = [name for name in names if name not in set(fitted)]
    if extra:
        output.warn(
            f"columns the model does not know are left out: {', '.join(map(repr, extra[:5]))}"
            f"{' ...' if len(extra) > 5 else ''}"
        )
    place = {name: number for number, name in enumerate(names)}
    return bags.with_instances(
        bags.instances[:, [place[name] for name in fitted]], feature_names=list(fitted)
    )
