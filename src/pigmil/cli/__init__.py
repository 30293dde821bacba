"""The command line: one readable message per error, and JSON for other programs."""

import signal
import sys
from typing import Any

from pigmil._core.errors import import_optional

__all__ = ["main"]


def main() -> None:
    """Run the ``pigmil`` command."""
    # Schedulers send SIGTERM; handle it like Ctrl-C, so that unfinished files are removed.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        import_optional("typer", extra="cli", purpose="The command line")
        import_optional("rich", extra="cli", purpose="The command line")
        from pigmil.cli._app import app

        for stream in (sys.stdout, sys.stderr):  # print any text in any locale
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ImportError as error:
        sys.exit(f"error: {error}")


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt
