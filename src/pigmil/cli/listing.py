"""``pigmil methods``, ``pigmil datasets`` and ``pigmil convert``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pigmil._core.errors import BagFormatError
from pigmil.cli.console import DebugOption, JsonOption, Output, QuietOption, command
from pigmil.cli.data import (
    BagOption,
    FormatOption,
    InfoOption,
    InstanceLabelOption,
    LabelOption,
    as_options,
    check_targets,
    open_bags,
)
from pigmil.cli.models import complete_method


def complete_name(incomplete: str) -> list[str]:
    """Names of data sets that begin so, for shell completion."""
    from pigmil import datasets

    return [name for name in datasets.list_datasets() if name.startswith(incomplete)]


NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="See `pigmil datasets list`.", autocompletion=complete_name
    ),
]


@command
def methods(
    output: Output,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show the whole card of one method.",
            autocompletion=complete_method,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """List all methods, or show the card of one.

    Example:

      pigmil methods MILES
    """  # fmt: skip
    from pigmil.estimators import all_estimators

    cards = all_estimators()
    if name is not None:
        from pigmil.estimators import card_of

        card = card_of(name)
        output.result = asdict(card)
        for field, value in asdict(card).items():
            if value not in ("", {}):
                output.say(f"{field:11} {_yes(value)}")
        return
    output.result = {"methods": [asdict(card) for card in cards]}
    output.table(
        ["method", "year", "detects", "classifies", "use"],
        [
            (card.name, card.year, _yes(card.detects), _yes(card.classifies), card.when_to_use)
            for card in cards
        ],
        left=(0, 4),
    )
    output.say("`pigmil methods NAME` shows the paper and the cost of one.")


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
    """List the data sets that can be loaded by name.

    They are looked for in the folder PIGMIL_DATA, then in the cache; then they are fetched.
    """
    from pigmil import datasets

    entries = [datasets.info(name) for name in datasets.list_datasets()]
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
    """Tell everything that is known of a data set: origin, licence, defects.

    Example:

      pigmil datasets info musk1
    """
    from pigmil import datasets

    entry = datasets.info(name)
    output.result = asdict(entry)
    for field, value in asdict(entry).items():
        output.say(f"{field:20} {value}")


@command
def datasets_fetch(
    output: Output,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Data sets.", autocompletion=complete_name),
    ],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Fetch data sets into the cache and check them.

    Example:

      pigmil datasets fetch musk1 elephant
    """
    from pigmil import datasets

    for name in names:
        datasets.info(name)  # a misspelt name is told before anything is fetched
    fetched = {}
    with output.progress("fetching") as report:
        for number, name in enumerate(names):
            report(number, len(names), name)
            fetched[name] = repr(datasets.load_dataset(name))
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
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Leave out what OUT cannot hold.", show_default=False)
    ] = False,
    bag: BagOption = None,
    label: LabelOption = None,
    instance_label: InstanceLabelOption = None,
    info: InfoOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Convert bags from one format to another.

    What OUT has no place for is an error, unless --lossy says to leave it out.

    Examples:

      pigmil convert musk1.data musk1.parquet

      pigmil convert table.csv bags.npz --bag molecule --label active
    """
    from pigmil.io import write_bags

    check_targets(source, {"OUT": target}, {})
    bags = open_bags(
        source, format=format, bag=bag, label=label, instance_label=instance_label, info=info,
        labelled=False,
    )  # fmt: skip
    try:
        write_bags(bags, target, format=to_format, **({"lossy": True} if lossy else {}))
    except BagFormatError as error:
        raise BagFormatError(as_options(str(error), format="to-format")) from error
    output.result = {"bags": bags.n_bags, "instances": bags.n_instances, "target": target}
    output.wrote(target, repr(bags))
