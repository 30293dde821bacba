"""Models on disk through skops: loading builds known types only and runs no code from the file."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sklearn

from pigmil._core.errors import ModelFileError
from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional

_FORMAT = 1
# Rooms whose types make up a fitted model.
_OWN = ("pigmil.bags.", "pigmil.estimators.", "pigmil.graph.")


def save_model(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted model, or a pipeline with one, to a file.

    Parameters
    ----------
    model : estimator
        What to keep.
    path : path
        Where; by custom with the suffix ``.skops``. The file appears whole or not at all.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pigmil
    >>> bags = pigmil.datasets.make_ring(random_state=0)
    >>> model = pigmil.PIGMIL(random_state=0).fit(bags)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pigmil.save_model(model, Path(folder) / "ring.skops")
    ...     again = pigmil.load_model(path)
    >>> bool((again.predict(bags) == model.predict(bags)).all())
    True
    """
    skops = import_optional("skops.io", extra="models", purpose="Saving a model")
    from pigmil._core.version import __version__

    path = Path(path)
    content = {
        "format": _FORMAT,
        "pigmil": __version__,
        "sklearn": sklearn.__version__,
        "model": model,
    }
    with atomic_write(path) as temporary:
        skops.dump(content, temporary)
    return path


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read a model that :func:`save_model` wrote.

    Only types of numpy, scipy, scikit-learn and this library are built. A file that holds any
    other is refused with their names.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of str, optional
        Further types to build, by full name, for pipelines with steps from elsewhere. Name only
        what you know: see the skops documentation.

    Returns
    -------
    estimator
    """
    skops = import_optional("skops.io", extra="models", purpose="Loading a model")
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"There is no model file at '{path}'.")
    try:
        unknown = skops.get_untrusted_types(file=path)
    except Exception as error:  # a damaged archive fails in as many ways as there are bytes
        raise ModelFileError(
            f"'{path}' is not a model file of pigmil, or is damaged ({error}). Save the model "
            "again with pigmil.save_model."
        ) from error
    own = [name for name in unknown if name.startswith(_OWN)]
    strange = sorted(set(unknown) - set(own) - set(trusted))
    if strange:
        raise ModelFileError(
            f"'{path}' holds types that pigmil does not know and will not build: "
            f"{', '.join(strange)}. If you trust where the file comes from, pass their names as "
            "trusted=[...]."
        )
    try:
        content = skops.load(path, trusted=[*own, *trusted])
    except Exception as error:
        raise ModelFileError(f"'{path}' is damaged ({error}). Save the model again.") from error
    return _checked(content, path)


def _checked(content: Any, path: Path) -> Any:
    from pigmil._core.version import __version__

    if not isinstance(content, dict) or "model" not in content or "format" not in content:
        raise ModelFileError(f"'{path}' was not written by pigmil.save_model.")
    if content["format"] > _FORMAT:
        raise ModelFileError(
            f"'{path}' was written by pigmil {content['pigmil']}, a newer version than this one "
            f"({__version__}); update pigmil to load it."
        )
    current = {"pigmil": __version__, "sklearn": sklearn.__version__}
    other = [f"{name} {content[name]}" for name in current if content[name] != current[name]]
    if other:
        warnings.warn(
            f"'{path}' was written with {' and '.join(other)}; here are "
            f"{' and '.join(f'{name} {value}' for name, value in current.items())}. Results may "
            "differ; fit the model again if in doubt.",
            UserWarning,
            stacklevel=3,
        )
    return content["model"]
