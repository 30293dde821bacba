"""The command line: one readable message a mistake, and results for machines too."""

from pigmil._core.optional import import_optional


def main() -> None:
    """Entry point of the ``pigmil`` command."""
    import_optional("typer", extra="cli", purpose="The command line")
    import_optional("rich", extra="cli", purpose="The command line")
    from pigmil.cli.app import app

    app()
