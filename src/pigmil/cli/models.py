"""``pigmil fit`` and ``pigmil predict``, and how a method is named on the command line."""

import ast
import inspect
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import Pipeline

from pigmil.bags import BagScaler, OnInstances
from pigmil.cli.console import DebugOption, JsonOption, Output, QuietOption, SeedOption, command
from pigmil.cli.data import (
    BagOption,
    DataArgument,
    FormatOption,
    LabelOption,
    open_bags,
    write_table,
)
from pigmil.estimators import get_estimator
from pigmil.estimators.persistence import load, save

MethodOption = Annotated[
    str, typer.Option("--method", "-m", help="Name of the method, see `pigmil methods`.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of the method, as name=value; may be repeated."),
]


def build_method(name: str, settings: list[str] | None, seed: int, *, detects: bool = False) -> Any:
    """A method with its parameters from ``name=value`` texts."""
    kind = get_estimator(name)
    known = inspect.signature(kind.__init__).parameters
    values: dict[str, Any] = {}
    for text in settings or []:
        key, separator, value = text.partition("=")
        if not separator or key not in known:
            names = ", ".join(name for name in known if name != "self")
            raise ValueError(
                f"--set {text}: expected name=value with a parameter of {name}; they are {names}."
            )
        try:
            values[key] = ast.literal_eval(value)
        except (SyntaxError, ValueError):
            values[key] = value
    if "random_state" in known:
        values.setdefault("random_state", seed)
    if detects and not kind.card.detects:
        raise ValueError(f"{kind.card.name} labels bags but does not score instances.")
    return kind(**values)


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
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Fit a method on labelled bags and save the model.

    Example:

      pigmil fit musk1 -o musk.skops --set prototypes=pool
    """
    bags = open_bags(data, format=format, bag=bag, label=label)
    steps = [("method", build_method(method, set_, seed))]
    if scale:
        steps.insert(0, ("scale", BagScaler(with_mean=not bags.is_sparse)))
    model = Pipeline(steps)
    with output.progress(f"fitting {method}"):
        model.fit(bags, bags.y)
    save(model, to)
    output.wrote(to, f"{steps[-1][1].card.name} fitted on {bags.n_bags} bags")
    output.result = {"method": steps[-1][1].card.name, "bags": bags.n_bags, "model": to}


@command
def predict(
    output: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file `pigmil fit` wrote.")],
    data: DataArgument,
    to: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Bags: .csv, .tsv, .parquet or .json."),
    ] = None,
    instances: Annotated[
        Path | None, typer.Option("--instances", help="Also score every instance, to this file.")
    ] = None,
    format: FormatOption = None,
    bag: BagOption = None,
    label: LabelOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Label bags with a saved model.

    Example:

      pigmil predict musk.skops new-molecules.csv -o predictions.csv --instances scores.csv
    """
    pipeline = load(model)
    bags = open_bags(data, format=format, bag=bag, label=label, labelled=False)
    method = pipeline[-1]
    _check_features(pipeline, bags)
    if not method.card.classifies and instances is None:
        raise ValueError(f"{method.card.name} labels no bags; ask for --instances.")
    output.result = {"method": method.card.name, "bags": bags.n_bags}
    if method.card.classifies:
        to = to or Path(f"{Path(data).stem}-predictions.csv")
        table: dict[str, Any] = {
            "bag": bags.ids,
            "predicted": pipeline.predict(bags),
            "decision": pipeline.decision_function(bags),
        }
        if hasattr(pipeline, "predict_proba"):
            table["probability"] = pipeline.predict_proba(bags)[:, 1]
        if bags.y is not None:
            table["label"] = bags.y
            right = float(np.mean(table["predicted"] == bags.y))
            output.say(f"{100 * right:.1f} % of the {bags.n_bags} bags as labelled.")
            output.result["accuracy"] = right
        output.wrote(write_table(table, to), f"{bags.n_bags} bags")
    if instances is not None:
        if not method.card.detects:
            raise ValueError(f"{method.card.name} does not score instances.")
        features = pipeline[:-1].transform(bags) if len(pipeline) > 1 else bags
        index = bags.bag_index
        scored = {
            "bag": bags.ids[index],
            "instance": np.arange(bags.n_instances) - bags.offsets[index],
            "score": method.decision_function_instances(features),
        }
        output.wrote(write_table(scored, instances), f"{bags.n_instances} instances")


def _check_features(pipeline: Any, bags: Any) -> None:
    """Tell a file with other features before a step fails on it."""
    first = pipeline[0]
    expected = getattr(first, "n_features_in_", bags.n_features)
    if isinstance(first, OnInstances) and expected != bags.n_features:
        raise ValueError(
            f"The model was fitted on {expected} features, this file has {bags.n_features}."
        )
    fitted = getattr(pipeline[-1], "feature_names_in_", None)
    if fitted is not None and bags.feature_names is not None:
        absent = [name for name in fitted if name not in bags.feature_names]
        if absent:
            raise ValueError(
                f"The model was fitted on features that this file does not have: "
                f"{', '.join(map(repr, absent[:5]))}{' ...' if len(absent) > 5 else ''}."
            )
