"""The exceptions and warnings of the library, and what raises them: problems, absent packages."""

import importlib
import itertools
from collections.abc import Iterable
from typing import Any

# Packages whose name differs from that of their module.
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "scikit_posthocs": "scikit-posthocs"}


class PigmilError(Exception):
    """Base of every error raised by the library on purpose.

    Parameters
    ----------
    *args : object
        The message.
    parameter : str, optional
        The parameter that the error is about, or that avoids it. The command line names its option
        instead, in front of the message unless the message has it as ``name=``.

    Examples
    --------
    >>> BagFormatError("There is no column 'mol'.", parameter="bag").parameter
    'bag'
    """

    def __init__(self, *args: object, parameter: str | None = None) -> None:
        super().__init__(*args)
        self.parameter = parameter


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


class StoreError(PigmilError, ValueError):
    """A results store that cannot be used; the message names the file and the reason."""


class SingletonBagsWarning(UserWarning):
    """A model fitted on bags was handed a plain table, which is read as bags of one instance."""


class PositiveLabelWarning(UserWarning):
    """Labels are text and ``pos_label`` is not given: the last in alphabetical order is taken."""


class ChanceWarning(UserWarning):
    """A fit ranks bags held out no better than chance: its scores mean nothing."""


class Problems:
    """Collect all problems of an input, so that one error reports all of them.

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
        self.messages: list[str] = []

    def add(self, problem: str) -> None:
        """Add one problem."""
        self.messages.append(problem)

    def add_each(self, problems: Iterable[str], total: int, kind: str) -> None:
        """Add the first few problems of a kind, and their total number."""
        listed = list(itertools.islice(problems, 3))
        self.messages += listed
        if total > len(listed):
            self.messages.append(f"... and {total - len(listed)} more {kind}.")

    def raise_if_any(self, error: type[PigmilError] = BagsError) -> None:
        """Raise one error that lists all problems, if there are any."""
        if not self.messages:
            return
        lines = self.messages[: self.limit]
        if len(self.messages) > self.limit:
            lines.append(f"... and {len(self.messages) - self.limit} more problems.")
        text = "\n".join([f"{self.what} cannot be used:", *(f"- {line}" for line in lines)])
        raise error(text)


def import_optional(name: str, *, extra: str, purpose: str) -> Any:
    """Import a package of an extra, or say how to install it.

    Parameters
    ----------
    name : str
        The module to import, dots allowed.
    extra : str
        The extra of ``pigmil`` that brings it.
    purpose : str
        What it is needed for, as the start of a sentence: ``"Reading parquet"``.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        install = f"pip install {_DISTRIBUTIONS.get(package, package)}"
        raise MissingDependencyError(
            f"{purpose} needs the package '{package}', which cannot be imported ({error}). "
            f"Install it with: {install} (part of the extra '{extra}')"
        ) from error
