"""The ``pigmil`` command, and its subcommands that list and convert."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from pigmil._core import __version__
from pigmil.cli import _console as console
from pigmil.cli import _inputs as inputs
from pigmil.cli import _models as models
from pigmil.cli._compare import compare
from pigmil.cli._console import Output, command, unwrap_paragraphs
from pigmil.cli._detect import demo, detect
from pigmil.cli._inputs import result_option

DESCRIBED = (
    "name", "title", "bags", "positive", "negative", "instances", "features", "sparse",
    "instance_labels", "licence", "citation", "defects", "notes", "addresses", "content_sha256",
)  # fmt: skip


@command
def methods(
    output: Output,
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
) -> None:
    """List all methods, or describe one.

    Parameters
    ----------
    name : str
        Describe this method.

    Example:

      pigmil methods MILES
    """  # fmt: skip
    from pigmil.estimators import all_estimators

    if name is not None:
        from pigmil.estimators import card_of, get_estimator
        from pigmil.estimators.registry import assumption_results

        fields = asdict(card_of(name))
        differences: Any = getattr(get_estimator(name)(), "differences_from_paper", list)()
        fields["assumptions"] = [
            f"{test.replace('_', ' ')}: {one['verdict']}, {one['auc']:.2f} ({one['seeds']} seeds)"
            for test, one in assumption_results(name).items()
        ]
        fields["differs_from_paper"] = [f"{paper} -> {here}" for paper, here in differences]
        output.result = fields
        _print_fields(output, fields)
        return
    cards = all_estimators()
    output.result = {"methods": [asdict(card) for card in cards]}
    shown = ("name", "year", "detects", "classifies", "when_to_use")
    rows = [[_yes_or_no(getattr(card, field)) for field in shown] for card in cards]
    output.table(["method", "year", "detects", "classifies", "when to use"], rows, left=(0, 4))
    output.print("`pigmil methods NAME` shows the paper and the cost of a method.")


def _print_fields(output: Output, fields: dict[str, Any]) -> None:
    """Print one field per line, lists with one item per line; leave out empty fields."""
    filled = {name: value for name, value in fields.items() if value not in (None, "", (), [], {})}
    width = max(map(len, filled))
    for name, value in filled.items():
        lines = value if isinstance(value, list | tuple) else [value]
        for number, line in enumerate(lines):
            label = "" if number else name.replace("_", " ")
            output.print(f"{label:{width}}  {_yes_or_no(line)}")


def _yes_or_no(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


@command
def datasets_list(output: Output) -> None:
    """List the data sets that can be loaded by name.

    Data sets are read from the folder PIGMIL_DATA or the cache; others are downloaded.
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
def datasets_info(output: Output, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Describe a data set: size, licence, citation, known defects and origin.

    Parameters
    ----------
    name : str
        See `pigmil datasets list`.

    Example:

      pigmil datasets info musk1
    """
    from pigmil import datasets

    output.result = asdict(datasets.info(name))
    _print_fields(output, {field: output.result[field] for field in DESCRIBED})


@command
def datasets_fetch(
    output: Output, names: Annotated[list[str], typer.Argument(metavar="NAME...")]
) -> None:
    """Download data sets into the cache and verify them.

    Parameters
    ----------
    names : list of str
        Data sets.

    Example:

      pigmil datasets fetch musk1 elephant
    """
    from pigmil import datasets

    for name in names:
        datasets.info(name)  # report a misspelt name before downloading
    fetched = {}
    with output.progress("fetching") as report:
        for number, name in enumerate(names, 1):
            fetched[name] = repr(datasets.load_dataset(name))
            report(number, len(names), name)
    for name, description in fetched.items():
        output.print(f"{name}: {description}")
    output.result = {"fetched": fetched}


@command
def convert(
    output: Output,
    source: Annotated[str, typer.Argument(metavar="IN")],
    target: Annotated[Path, typer.Argument(metavar="OUT")],
    format: Annotated[str | None, result_option("--to-format")] = None,
    read: inputs.ReadOptions = inputs.NO_OPTIONS,
) -> None:
    """Convert bags from one format to another.

    Parameters
    ----------
    source : str
        File, or name of a data set.
    target : Path
        File; the suffix determines the format.
    format : str
        Format of OUT, if the suffix does not determine it.

    Examples:

      pigmil convert bags.mat bags.parquet

      pigmil convert table.csv bags.npz --bag molecule --label active
    """
    from pigmil.io import write_bags

    console.check_targets(source, {"OUT": (target, ())})
    with output.progress("converting"):
        bags = inputs.open_bags(source, read, labelled=False)
        write_bags(bags, target, format=format)
    output.result = {"bags": bags.n_bags, "instances": bags.n_instances, "target": target}
    output.add_file(target, repr(bags))


app = typer.Typer(
    name="pigmil",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
data_sets = typer.Typer(help="List, describe and fetch real data sets.", no_args_is_help=True)
app.add_typer(data_sets, name="datasets")

for function in (
    demo, detect, models.fit, models.predict, models.heatmap, models.retrieve, compare, convert,
    methods,
):  # fmt: skip
    app.command()(function)
for name, function in (("list", datasets_list), ("info", datasets_info), ("fetch", datasets_fetch)):
    data_sets.command(name)(function)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"pigmil {__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the instances that make a bag positive.

    Start with:

      pigmil demo

      pigmil detect mydata.csv --bag molecule --label active

    Every command has --help with examples, and --json for use in programs. Exit status: 0 success,
    1 failure, 2 wrong usage or input, 130 stopped with Ctrl-C.
    """


root.__doc__ = unwrap_paragraphs(root.__doc__)
app.callback()(root)
