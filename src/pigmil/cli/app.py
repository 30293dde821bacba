"""The ``pigmil`` command and its subcommands."""

from typing import Annotated

import typer

from pigmil._core.version import __version__
from pigmil.cli import compare as comparing
from pigmil.cli import demo as demonstrating
from pigmil.cli import detect as detecting
from pigmil.cli import listing, models
from pigmil.cli.console import flowing

app = typer.Typer(
    name="pigmil",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
data_sets = typer.Typer(help="Real data sets: list, info, fetch.", no_args_is_help=True)
app.add_typer(data_sets, name="datasets")

app.command("demo")(demonstrating.demo)
app.command("detect")(detecting.detect)
app.command("fit")(models.fit)
app.command("predict")(models.predict)
app.command("compare")(comparing.compare)
app.command("reproduce")(comparing.reproduce)
app.command("convert")(listing.convert)
app.command("methods")(listing.methods)
data_sets.command("list")(listing.datasets_list)
data_sets.command("info")(listing.datasets_info)
data_sets.command("fetch")(listing.datasets_fetch)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pigmil {__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Find the instances that make a bag positive.

    Start with:

      pigmil demo

      pigmil detect mydata.csv --bag molecule --label active

    Each command has --help with examples, and --json for machines. Exit status: 0 done, 1 the
    work failed, 2 wrong usage or input, 130 stopped with Ctrl-C.
    """


root.__doc__ = flowing(root.__doc__)
app.callback()(root)
