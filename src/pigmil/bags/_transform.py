"""Instance transformers of scikit-learn, applied to bags."""

import contextlib
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from pigmil._core._sklearn_compat import StrOptions, fit_context, validate_data
from pigmil.bags._container import Bags
from pigmil.bags._convert import as_bags, is_lazy, is_plain_table


# The inner transformer returns tables of the kind asked for; bags must stay bags.
class OnInstances(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Apply an instance transformer of scikit-learn to bags.

    The transformer is fitted on the instances of the training bags only and then applied to
    every instance; bags, ids, labels and info do not change. A transformer that uses labels
    (feature selection) gets the label of the bag for each of its instances. A plain 2-D table
    is returned as a table. Missing values reach the transformer, so that imputers work here.

    Parameters
    ----------
    transformer : transformer
        Any scikit-learn transformer that keeps the number of rows.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> from pigmil import Bags, OnInstances
    >>> bags = Bags.from_list([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    >>> OnInstances(StandardScaler()).fit_transform(bags).instances.ravel().round(2)
    array([-1.22,  0.  ,  1.22])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {"transformer": [object]}

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def _new_transformer(self, *, sparse: bool) -> Any:
        """Return an unfitted clone for instances that are sparse or dense."""
        return clone(self.transformer)

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> "OnInstances":
        """Fit the transformer on the instances of these bags.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes, or bags on disk (:func:`pigmil.scan_bags`) if the
            transformer has ``partial_fit``.
        y : array of shape (n_bags,), optional
            Labels of the bags, for transformers that use them.
        """
        is_table = is_plain_table(X)
        data = X if is_table or is_lazy(X) else as_bags(X, missing="keep")
        transformer = self._new_transformer(sparse=sp.issparse(X) if is_table else data.is_sparse)
        if is_table:
            transformer.fit(X, y)
            validate_data(self, X, skip_check_array=True)
        else:
            y = data.y if y is None else np.asarray(y)
            if is_lazy(X):
                self._fit_blocks(transformer, data, y)
            else:
                transformer.fit(data.instances, None if y is None else np.repeat(y, data.sizes))
            self.n_features_in_ = data.n_features
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        self.transformer_ = transformer
        return self

    def _fit_blocks(self, transformer: Any, bags: Any, y: Any) -> None:
        """Fit on bags on disk, block by block."""
        if not hasattr(transformer, "partial_fit"):
            raise TypeError(
                f"{type(transformer).__name__} has no partial_fit, which fitting on bags on disk "
                "needs (StandardScaler, IncrementalPCA and MiniBatchDictionaryLearning have it). "
                "Call .load() first if the bags fit in memory."
            )
        start = 0
        for block in bags.blocks():
            labels = None if y is None else np.repeat(y[start : start + len(block)], block.sizes)
            transformer.partial_fit(block.instances, labels)
            start += len(block)

    def transform(self, X: Any) -> Any:
        """Transform every instance; returns :class:`Bags` for bags and a table for a table."""
        check_is_fitted(self, "transformer_")
        if is_lazy(X):
            return X.with_transformer(self)
        if is_plain_table(X):
            return self.transformer_.transform(X)
        bags, names = as_bags(X, missing="keep"), None
        instances = self.transformer_.transform(bags.instances)
        if bags.feature_names is not None:
            with contextlib.suppress(AttributeError, ValueError):
                given = np.array(bags.feature_names, object)
                names = self.transformer_.get_feature_names_out(given)
        missing = "keep" if bags.has_missing else "raise"
        return bags.with_instances(instances, feature_names=names, missing=missing)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the output features, as the transformer gives them."""
        check_is_fitted(self, "transformer_")
        return self.transformer_.get_feature_names_out(input_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.transformer, "__sklearn_tags__"):
            inner = self.transformer.__sklearn_tags__()
            tags.input_tags.sparse = inner.input_tags.sparse
            tags.input_tags.allow_nan = inner.input_tags.allow_nan
            tags.target_tags.required = inner.target_tags.required
            tags.transformer_tags.preserves_dtype = inner.transformer_tags.preserves_dtype
        return tags


class BagScaler(OnInstances, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Scale every feature to zero mean and unit variance over the training instances.

    The same as ``OnInstances(StandardScaler(...))``, the preprocessing of the paper.

    Parameters
    ----------
    with_mean : bool or "auto", default="auto"
        Whether to subtract the mean. ``"auto"`` does for dense instances; sparse ones would
        become dense.
    with_std : bool, default=True
        Whether to divide by the standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags, BagScaler
    >>> bags = Bags.from_list([np.array([[0.0], [2.0]]), np.array([[4.0]])])
    >>> float(BagScaler().fit_transform(bags).instances.mean())
    0.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "with_mean": ["boolean", StrOptions({"auto"})],
        "with_std": ["boolean"],
    }

    def __init__(self, *, with_mean: bool | str = "auto", with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    @property
    def transformer(self) -> StandardScaler:
        """The scaler that is cloned in ``fit``."""
        return StandardScaler(with_mean=bool(self.with_mean), with_std=self.with_std)

    def _new_transformer(self, *, sparse: bool) -> Any:
        transformer = super()._new_transformer(sparse=sparse)
        if self.with_mean == "auto":
            transformer.set_params(with_mean=not sparse)
        return transformer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.with_mean is not True
        return tags


class BagImputer(OnInstances, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Replace missing values by the median or mean of the feature over the training instances.

    The same as ``OnInstances(SimpleImputer(strategy=..., keep_empty_features=True))``.

    Parameters
    ----------
    strategy : {"median", "mean"}, default="median"
        How missing values are replaced; features without any value become 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import BagImputer, Bags
    >>> bags = Bags.from_list([np.array([[1.0], [np.nan], [3.0]])], missing="keep")
    >>> BagImputer().fit_transform(bags).instances.ravel()
    array([1., 2., 3.])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "strategy": [StrOptions({"median", "mean"})]
    }

    def __init__(self, *, strategy: str = "median") -> None:
        self.strategy = strategy

    @property
    def transformer(self) -> SimpleImputer:
        """The imputer that is cloned in ``fit``."""
        return SimpleImputer(strategy=self.strategy, keep_empty_features=True)


def scaled_pipeline(method: Any, bags: Bags) -> Pipeline:
    """Return a pipeline of z-scoring and a method; sparse instances are scaled, not centred.

    Where values are missing, the pipeline begins by imputing the median of the training instances.

    Examples
    --------
    >>> from pigmil import MILES
    >>> from pigmil.datasets import make_ring
    >>> list(scaled_pipeline(MILES(), make_ring(random_state=0)).named_steps)
    ['scale', 'method']
    """
    steps = [("scale", BagScaler()), ("method", method)]
    if getattr(bags, "has_missing", False):
        steps.insert(0, ("impute", BagImputer()))
    return Pipeline(steps)
