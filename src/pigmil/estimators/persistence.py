"""Save models with skops and load them again: only classes on an exact list are built."""

import importlib
import json
import os
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from pigmil._core.errors import ModelFileError, import_optional
from pigmil._core.files import atomic_write, available_memory
from pigmil.estimators.registry import DEEP_METHODS, METHODS

_FORMAT = 2  # 1 was written before the first release, with other fitted attributes

# What fitted methods and the steps of their pipelines are made of, besides the methods.
_PARTS = (
    "pigmil.bags._container.Bags",
    "pigmil.bags._transform.BagImputer",
    "pigmil.bags._transform.BagScaler",
    "pigmil.bags._transform.OnInstances",
    "pigmil.estimators._prototype_svm.PrototypeSVM",
    "pigmil.estimators._selection.HeldOutScores",
    "pigmil.estimators._soft_models.Scale",
    "pigmil.estimators._soft_models.ScaleScore",
    "pigmil.estimators._svm_solvers.KernelSVM",
    "pigmil.estimators._svm_solvers.LinearSVM",
    "pigmil.estimators.statistics.BagStatistics",
    "pigmil.graph.candidates.WorkingBags",
    "pigmil.graph.csdg.CSDG",
    "pigmil.graph.reading.PaperReading",
    "pigmil.graph.updating.Trace",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.decomposition._pca.PCA",
    "sklearn.dummy.DummyClassifier",
    "sklearn.ensemble._forest.ExtraTreesClassifier",
    "sklearn.ensemble._gb.GradientBoostingClassifier",
    "sklearn.feature_selection._variance_threshold.VarianceThreshold",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.linear_model._logistic.LogisticRegression",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._search.GridSearchCV",
    "sklearn.model_selection._search.RandomizedSearchCV",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass.OneVsRestClassifier",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.Normalizer",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._label.LabelBinarizer",
    "sklearn.svm._classes.LinearSVC",
    "sklearn.svm._classes.SVC",
    "sklearn.tree._classes.DecisionTreeRegressor",
    "sklearn.tree._classes.ExtraTreeClassifier",
    "sklearn.tree._tree.Tree",
)
_NUMBERS = ("bool", "bool_", "int32", "int64", "uint32", "uint64", "float32", "float64", "str_")
# Kind of node in a file -> the names it may carry. skops knows more kinds; no other is built.
# A key that is true or false is not among them: skops would read both as true.
_PLAIN = {
    "DTypeNode": {"numpy.dtype"},
    "DictNode": {"builtins.dict"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "MaskedArrayNode": {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"},  # of NumPy 1
    "NdArrayNode": {"numpy.ndarray", *(f"numpy.{name}" for name in _NUMBERS)},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "SparseMatrixNode": {"scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"},
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {"builtins.str", "builtins.int", "builtins.float", "numpy.str_", "numpy.int64"},
}
# How skops may write an object of a class that the caller trusts.
_TRUSTED_NODES = ("ObjectNode", "ConstructorFromReduceNode", "LossNode", "TreeNode")


def model_types() -> list[str]:
    """Return the full names of the classes that saved models are made of.

    :func:`load_model` builds these and no others. Pass them to other tools that load skops files:
    ``skops.io.load(path, trusted=...)``, or ``skops_trusted_types=...`` of mlflow.

    Examples
    --------
    >>> "pigmil.estimators.miles.MILES" in model_types()
    True
    """
    methods = [f"{module}.{name}" for name, module in {**METHODS, **DEEP_METHODS}.items()]
    return sorted([*methods, *_PARTS, *_PLAIN["SparseMatrixNode"], *_PLAIN["DTypeNode"]])


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
    path = Path(path)
    with atomic_write(path) as temporary:
        skops.dump({"format": _FORMAT, **_versions(), "model": model}, temporary)
    return path


def load_model(path: str | os.PathLike[str], *, trusted: Iterable[str] = ()) -> Any:
    """Read a model that :func:`save_model` wrote.

    The file is checked as a whole before anything is built from it. Only the methods of this
    library, the parts they are made of and the classes of scikit-learn that are common around
    them (:func:`model_types`) are built. The numbers in a model are taken as they are: a crafted
    one may predict nonsense, or crash when its trees are followed, so load models from people you
    know.

    Parameters
    ----------
    path : path
        The file.
    trusted : iterable of str, optional
        Full names of further classes to build, for classifiers and pipeline steps from elsewhere.
        Name only classes whose code you know: their state is restored as the file has it.
        Functions and methods are never built.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, was written by another version, or holds other classes.
    """
    skops = import_optional("skops.io", extra="models", purpose="Loading a model")
    path, further = Path(path), {_class_name(name) for name in trusted}
    if not path.is_file():
        raise ModelFileError(f"There is no model file at '{path}'; save_model writes one.")
    admitted = {**_PLAIN, **dict.fromkeys(_TRUSTED_NODES, further)}
    admitted["ObjectNode"] = further.union(model_types())
    admitted["TreeNode"] = further | {"sklearn.tree._tree.Tree"}
    loss = importlib.import_module("sklearn._loss._loss").CyHalfBinomialLoss
    # Its module calls itself _loss in scikit-learn 1.8, and is imported under that name too.
    admitted["LossNode"] = further | {f"{loss.__module__}.{loss.__name__}"}
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            # The versions are compared below, in one message.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            unknown = _unknown_parts(file, admitted)
            if not unknown:
                names = sorted(set().union(*admitted.values()))
                content = skops.load(file, trusted=names)
    except Exception as error:  # a damaged file fails in as many ways as there are bytes
        raise ModelFileError(
            f"'{path}' is not a model file of pigmil, or is damaged ({error!r}). Save the model "
            "again with pigmil.save_model."
        ) from error
    if unknown:
        raise ModelFileError(
            f"'{path}' holds parts that pigmil does not know and will not build: "
            f"{', '.join(unknown[:10])}. If you trust where the file comes from, pass the full "
            "names of its classes as trusted=[...]; functions and methods are never built (of a "
            "search with a scoring function save best_estimator_)."
        )
    return _checked(content, path)


def _unknown_parts(file: Any, admitted: dict[str, set[str]]) -> list[str]:
    """Return the names in a file that are not admitted; nothing is built or imported.

    skops builds nothing but the nodes of the schema, each of which names its kind and class.
    """
    with zipfile.ZipFile(file) as archive:
        nodes = list(_nodes(json.loads(archive.read("schema.json"))))
        # Every reference to a member reads it once more.
        size = sum(archive.getinfo(node["file"]).file_size for node in nodes if "file" in node)
    available = available_memory()
    if available is not None and size > available:
        raise MemoryError(f"{size >> 20} MiB of arrays, {available >> 20} MiB of memory")
    named = [(node["__loader__"], f"{node['__module__']}.{node['__class__']}") for node in nodes]
    return sorted(
        {f"{name} ({kind})" for kind, name in named if name not in admitted.get(kind, ())}
    )


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every node in a parsed schema, wherever it lies."""
    if isinstance(value, dict) and "__loader__" in value:
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list):
            yield from _nodes(item)


def _class_name(name: Any) -> str:
    """Return a name that a caller trusts, if it is a class's own name."""
    try:
        module, _, attribute = name.rpartition(".")
        found = getattr(importlib.import_module(module), attribute)
    except (AttributeError, ImportError, ValueError):
        found = None
    is_own = isinstance(found, type) and f"{found.__module__}.{found.__qualname__}" == name
    if not is_own or name.startswith("builtins."):
        raise ValueError(
            f"trusted names classes by their full name, 'package.module.Class'; {name!r} is not "
            "one. Functions and methods are never built from a file."
        )
    return str(name)


def _versions() -> dict[str, str]:
    from pigmil._core import __version__

    return {"pigmil": __version__, "sklearn": sklearn.__version__}


def _checked(content: Any, path: Path) -> Any:
    """Return the model in a file's content; warn if other versions wrote it."""
    here = _versions()
    if not isinstance(content, dict) or set(content) != {"format", "model", *here}:
        raise ModelFileError(f"'{path}' was not written by pigmil.save_model.")
    written = {name: str(content[name])[:100] for name in here}
    if content["format"] != _FORMAT:
        raise ModelFileError(
            f"'{path}' was written by pigmil {written['pigmil']}, whose models this version "
            f"({here['pigmil']}) does not read; fit the model again, or update pigmil."
        )
    if not isinstance(content["model"], BaseEstimator):
        raise ModelFileError(f"'{path}' holds no estimator.")
    if written != here:
        versions = [" and ".join(f"{k} {v}" for k, v in each.items()) for each in (written, here)]
        warnings.warn(
            f"'{path}' was written with {versions[0]}; here are {versions[1]}. Results may "
            "differ; fit the model again if in doubt.",
            UserWarning,
            stacklevel=3,
        )
    return content["model"]
