"""The command line: one readable message a mistake, and results for machines too."""

import signal
import sys
from typing import Any

from pigmil._core.optional import import_optional

INTERRUPTED = 130


def main() -> None:
    """Entry point of the ``pigmil`` command."""
    # Asked to end by a scheduler is like Ctrl-C: what is half-written is removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        import_optional("typer", extra="cli", purpose="The command line")
        import_optional("rich", extra="cli", purpose="The command line")
        from pigmil.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except ImportError as error:
        sys.exit(f"error: {error}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
