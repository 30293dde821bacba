"""``pigmil methods``, ``pigmil datasets`` and ``pigmil convert``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pigmil import datasets
from pigmil.cli.console import DebugOption, JsonOption, Output, QuietOption, command
from pigmil.cli.data import (
    BagOption,
    FormatOption,
    InstanceLabelOption,
    LabelOption,
    open_bags,
)
from pigmil.estimators import all_estimators
from pigmil.io import write_bags

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="See `pigmil datasets list`.")]


@command
def methods(
    output: Output,
    name: Annotated[str | None, typer.Argument(help="Show the whole card of one method.")] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """List all methods, or show the card of one.

    Example:

      pigmil methods MILES
    """
    cards = all_estimators()
    if name is not None:
        from pigmil.estimators import card_of

        card = card_of(name)
        output.result = asdict(card)
        for field, value in asdict(card).items():
            output.say(f"{field:11} {_yes(value)}")
        return
    output.result = {"methods": [asdict(card) for card in cards]}
    output.table(
        ["method", "year", "detects", "classifies", "cost", "use"],
        [
            (card.name, card.year, _yes(card.detects), _yes(card.classifies), card.cost, card.use)
            for card in cards
        ],
    )


def _yes(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


@command
def datasets_list(
    output: Output,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """List the data sets that can be loaded by name."""
    entries = [datasets.info(name) for name in datasets.list()]
    output.result = {"datasets": [asdict(entry) for entry in entries]}
    output.table(
        ["name", "bags +/-", "instances x features", "instance labels"],
        [
            (
                entry.name,
                f"{entry.positive}/{entry.negative}",
                f"{entry.instances} x {entry.features}",
                "all" if entry.instance_labels else "-",
            )
            for entry in entries
        ],
    )


@command
def datasets_info(
    output: Output,
    name: NameArgument,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Tell everything that is known of a data set: origin, licence, defects."""
    entry = datasets.info(name)
    output.result = asdict(entry)
    for field, value in asdict(entry).items():
        output.say(f"{field:20} {value}")


@command
def datasets_fetch(
    output: Output,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Data sets.")],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Fetch data sets into the cache and check them."""
    fetched = {}
    with output.progress("fetching") as report:
        for number, name in enumerate(names):
            report(number, len(names), name)
            fetched[name] = repr(datasets.load(name))
    for name, told in fetched.items():
        output.say(f"{name}: {told}")
    output.result = {"fetched": fetched}


@command
def convert(
    output: Output,
    source: Annotated[str, typer.Argument(metavar="IN", help="File, or name of a data set.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="File; its suffix says the format.")
    ],
    format: FormatOption = None,
    to_format: Annotated[
        str | None, typer.Option("--to-format", help="Format of OUT, if its suffix does not say.")
    ] = None,
    bag: BagOption = None,
    label: LabelOption = None,
    instance_label: InstanceLabelOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Convert bags from one format to another.

    Example:

      pigmil convert musk1.data musk1.parquet
    """
    bags = open_bags(
        source, format=format, bag=bag, label=label, instance_label=instance_label, labelled=False
    )
    write_bags(bags, target, format=to_format)
    output.result = {"bags": bags.n_bags, "instances": bags.n_instances, "target": target}
    output.wrote(target, repr(bags))
