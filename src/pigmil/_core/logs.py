"""Log messages on standard error for the duration of one call."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def log_to_stderr(verbose: bool) -> Iterator[None]:
    """Show the INFO messages of the logger ``pigmil`` on standard error while the block runs.

    Without ``verbose`` nothing is changed: messages go where the program has set up logging to
    send them.

    Examples
    --------
    >>> import logging
    >>> with log_to_stderr(True):
    ...     logging.getLogger("pigmil").isEnabledFor(logging.INFO)
    True
    """
    if not verbose:
        yield
        return
    logger = logging.getLogger("pigmil")
    before = logger.level
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("pigmil: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(min(before, logging.INFO) if before else logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
