"""The command line: one readable message per error, and JSON for other programs."""

import signal
import sys
from typing import Any

from pigmil._core.optional import import_optional
from pigmil.cli._streams import (
    FAILED,
    INTERRUPTED,
    OutputError,
    discard_output,
    prepare_streams,
    writing_output,
)

__all__ = ["main"]


def main() -> None:
    """Run the ``pigmil`` command."""
    # Schedulers send SIGTERM; handle it like Ctrl-C, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        prepare_streams()
        import_optional("typer", extra="cli", purpose="The command line")
        import_optional("rich", extra="cli", purpose="The command line")
        from pigmil.cli._app import app

        with writing_output():  # commands handle errors of other files themselves
            try:
                app()
            finally:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader left early, as in `pigmil methods | head -1`
        discard_output()
        sys.exit(FAILED)
    except OutputError as error:
        discard_output()
        sys.exit(f"error: Cannot write to standard output: {error}.")
    except ImportError as error:
        sys.exit(f"error: {error}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
