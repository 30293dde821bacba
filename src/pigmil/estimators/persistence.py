"""Models on disk, written by skops; loading builds known classes only and runs no code."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from pigmil._core.errors import ModelFileError
from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional
from pigmil.estimators._model_archive import ModelArchive, regular_size
from pigmil.estimators._model_classes import admitted_classes
from pigmil.estimators._model_schema import Schema, UnknownParts
from pigmil.estimators._model_state import check_objects

_FORMAT = 1


def save_model(model: Any, path: str | os.PathLike[str]) -> Path:
    """Write a fitted model, or a pipeline with one, to a file.

    Parameters
    ----------
    model : estimator
        What to keep.
    path : path
        The file, usually with the suffix ``.skops``; it is written atomically.

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

    The file is checked as a whole before anything is built from it: the names and sizes of its
    members, the kinds of its nodes, and the classes it asks for. Only the methods of this
    library, the parts they are made of, and the classes of scikit-learn that are common around
    them are built; a file that holds anything else is refused with its name.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of str, optional
        Further classes to build, by full name, for pipelines with steps from elsewhere. Name only
        classes whose code you know: their state is restored as the file has it. Functions and
        methods are never built.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, was changed, or holds what is not admitted.
    """
    path = Path(path)
    size = regular_size(path)
    admit = admitted_classes(trusted)
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            # The versions are compared below, in one message.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            schema = Schema(ModelArchive(file, size), admit)
            content = schema.build()
        check_objects(schema.objects)
    except UnknownParts as error:
        raise ModelFileError(
            f"'{path}' holds parts that pigmil does not know and will not build: {error}. If you "
            "trust where the file comes from, pass the full names of its classes as "
            "trusted=[...]; functions and methods are never built (of a search with a scoring "
            "function save best_estimator_)."
        ) from None
    except Exception as error:  # a damaged archive fails in as many ways as there are bytes
        raise ModelFileError(
            f"'{path}' is not a model file of pigmil, or is damaged ({error}). Save the model "
            "again with pigmil.save_model."
        ) from error
    return _checked(content, path)


def _checked(content: Any, path: Path) -> Any:
    from pigmil._core.version import __version__

    if not isinstance(content, dict) or set(content) != {"format", "pigmil", "sklearn", "model"}:
        raise ModelFileError(f"'{path}' was not written by pigmil.save_model.")
    written = {name: content[name] for name in ("pigmil", "sklearn")}
    if type(content["format"]) is not int or not all(
        isinstance(version, str) and len(version) <= 100 for version in written.values()
    ):
        raise ModelFileError(f"'{path}' does not name its format and versions as expected.")
    if content["format"] > _FORMAT:
        raise ModelFileError(
            f"'{path}' was written by pigmil {written['pigmil']}, a newer version than this one "
            f"({__version__}); update pigmil to load it."
        )
    if not isinstance(content["model"], BaseEstimator):
        raise ModelFileError(f"'{path}' holds no estimator.")
    current = {"pigmil": __version__, "sklearn": sklearn.__version__}
    other = [f"{name} {value}" for name, value in written.items() if value != current[name]]
    if other:
        warnings.warn(
            f"'{path}' was written with {' and '.join(other)}; here are "
            f"{' and '.join(f'{name} {value}' for name, value in current.items())}. Results may "
            "differ; fit the model again if in doubt.",
            UserWarning,
            stacklevel=3,
        )
    return content["model"]
