"""The exceptions and warnings of the library, and a collector of all problems of an input."""

from collections.abc import Iterable


class PigmilError(Exception):
    """Base of every error raised by the library on purpose."""


class BagsError(PigmilError, ValueError):
    """Bags that cannot be used: the message lists every problem and where it is."""


class BagFormatError(BagsError):
    """A file that cannot be read as bags; the message has the file, the line or row, and a hint."""


class DataSetError(PigmilError, LookupError):
    """A data set that is unknown, cannot be found, or is not what its checksum promises."""


class MissingDependencyError(PigmilError, ImportError):
    """An optional package is needed for what was asked and is not installed."""


class ModelFileError(PigmilError, ValueError):
    """A saved model that is damaged, untrusted or does not fit this version."""


class SingletonBagsWarning(UserWarning):
    """A model fitted on bags was handed a plain table, which is read as bags of one instance."""


class PositiveLabelWarning(UserWarning):
    """Labels are text and ``pos_label`` is not given: the last in alphabetical order is taken."""


class Problems:
    """Collect all problems of an input, so that the user can fix them at once.

    Parameters
    ----------
    what : str
        Name of the input, for the first line of the message.
    limit : int, default=10
        Number of problems that are listed; the rest is only counted.

    Examples
    --------
    >>> problems = Problems("2 bags")
    >>> problems.add("Bag 0 is empty.")
    >>> problems.raise_if_any()
    Traceback (most recent call last):
    ...
    pigmil._core.errors.BagsError: 2 bags cannot be used:
    - Bag 0 is empty.
    """

    def __init__(self, what: str, *, limit: int = 10) -> None:
        self.what = what
        self.limit = limit
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Note one problem."""
        self.found.append(problem)

    def add_each(self, problems: Iterable[str], *, total: int, kind: str) -> None:
        """Note the first few of a kind of problem, and the total number."""
        shown = 0
        for problem in problems:
            if shown == 3:
                break
            self.found.append(problem)
            shown += 1
        if total > shown:
            self.found.append(f"... and {total - shown} more {kind}.")

    def raise_if_any(self, error: type[PigmilError] = BagsError) -> None:
        """Raise one error that lists all problems, if there are any."""
        if not self.found:
            return
        lines = self.found[: self.limit]
        if len(self.found) > self.limit:
            lines.append(f"... and {len(self.found) - self.limit} more problems.")
        raise error(f"{self.what} cannot be used:\n" + "\n".join(f"- {line}" for line in lines))
