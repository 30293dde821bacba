"""Optional packages, imported when they are needed and not before."""

import importlib
from typing import Any

from pigmil._core.errors import MissingDependencyError

# Packages whose name differs from that of their module.
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "scikit_posthocs": "scikit-posthocs"}


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
