"""The ``pigmil`` command and its subcommands."""

from typing import Annotated

import typer

from pigmil._core.version import __version__
from pigmil.cli import _listing as listing
from pigmil.cli import _models as models
from pigmil.cli._compare import compare
from pigmil.cli._console import unwrap_paragraphs
from pigmil.cli._detect import demo, detect

app = typer.Typer(
    name="pigmil",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
data_sets = typer.Typer(help="List, describe and fetch real data sets.", no_args_is_help=True)
app.add_typer(data_sets, name="datasets")

app.command("demo")(demo)
app.command("detect")(detect)
app.command("fit")(models.fit)
app.command("predict")(models.predict)
app.command("heatmap")(models.heatmap)
app.command("compare")(compare)
app.command("convert")(listing.convert)
app.command("methods")(listing.methods)
data_sets.command("list")(listing.datasets_list)
data_sets.command("info")(listing.datasets_info)
data_sets.command("fetch")(listing.datasets_fetch)


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
