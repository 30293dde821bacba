"""Base classes of all methods: they validate bags and labels and call one hook per task."""

import warnings
from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import ClassifierTags, assert_all_finite, check_consistent_length
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pigmil._core._sklearn_compat import check_sample_weight, fit_context, validate_data
from pigmil._core.errors import PositiveLabelWarning, SingletonBagsWarning
from pigmil._core.segments import segment_argmax, segment_gather, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import (
    ORIGINAL_ROW,
    Bags,
    as_bags,
    before_marks,
    check_no_missing,
    is_plain_table,
)
from pigmil.estimators._parameters import (
    Card,
    complete_constraints,
    fill_shared_entries,
    with_parameters,
)
from pigmil.estimators._selection import inner_splits, logistic_slope, min_error_threshold
from pigmil.estimators._svm_solvers import class_costs
from pigmil.scale import LazyBags, map_instances, stream

_LARGEST_VALUE = 1e150  # whose square, summed over features, is still finite
_LARGEST_LOGIT = 36.0  # probabilities of 0 and 1 in double precision


def _has_probabilities(method: "BaseMIL") -> bool:
    if not getattr(method, "probability", False):
        raise AttributeError(f"{type(method).__name__} has predict_proba if probability=True.")
    return True


def _detects(method: "BaseMIL") -> bool:
    if not method.card.detects:
        raise AttributeError(f"{type(method).__name__} does not score instances.")
    return True


class BaseMIL(BaseEstimator, metaclass=ABCMeta):
    """Base class of all methods.

    A subclass implements ``_fit(bags, positive)`` and, if it detects, ``_score_instances(bags)``;
    ``fit`` validates and calls them. Its class attribute ``card`` describes the method.

    With more than two labels one model per class is fitted against all other classes
    (``estimators_``), and there is one score per class.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    positive_label_ : label
        With two classes, the one that counts as positive.
    estimators_ : list
        With more than two classes, the model of each class against the rest.
    """

    card: ClassVar[Card]
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _accepts_sparse: ClassVar[bool] = False
    _fits_lazy_bags: ClassVar[bool] = False  # whether ``_fit`` takes LazyBags too
    instance_scores_: FloatArray
    threshold_: float
    detected_instances_: IntArray

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__doc__ = fill_shared_entries(cls.__doc__)
        if "card" in vars(cls):
            detects = cls._score_instances is not BaseMIL._score_instances
            classifies = issubclass(cls, MILClassifier)
            cls.card = cls.card.completed(cls.__doc__, detects=detects, classifies=classifies)
        if "__init__" in vars(cls):
            cls._parameter_constraints = complete_constraints(cls)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes; a 2-D array is bags of one instance. Some
            methods also fit on bags that stay on disk, see :func:`pigmil.scan_bags`.
        y : array of shape (n_bags,), optional
            Labels. Of two values the greater is the positive class unless ``pos_label`` is given.
            Optional if ``X`` has labels.

        Returns
        -------
        self
        """
        return self._fit_checked(X, y)

    def _fit_checked(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        bags = self._check_X(X, reset=True)
        y = self._check_y(bags.y if y is None else y, bags)
        self._fitted_on_bags = bool(bags.sizes.max() > 1)
        self.__dict__.pop("estimators_", None)
        if sample_weight is None:
            self._fit_labelled(bags, y)
            self._refer_to_original(bags)
            return self
        if isinstance(bags, LazyBags):
            raise TypeError(
                f"{type(self).__name__} takes sample_weight for instances in memory only; call "
                ".load() first if they fit."
            )
        weights = check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights > 0)
        if len(np.unique(y[kept])) < len(self.classes_):
            raise ValueError(
                f"{type(self).__name__} needs bags of every class to learn from, but the bags of "
                f"weight above 0 have the labels {np.unique(y[kept]).tolist()} only."
            )
        self._fit_labelled(bags[kept], y[kept], weights[kept])
        if len(kept) < len(y):
            self._add_left_out(bags, kept)
        self._refer_to_original(bags)
        return self

    def _fit_labelled(self, bags: Any, y: NDArray[Any], weights: FloatArray | None = None) -> None:
        weighted = () if weights is None else (weights,)
        if len(self.classes_) > 2:
            self._fit_one_vs_rest(bags, y, *weighted)
        else:
            self._fit(bags, y == self.positive_label_, *weighted)
        self._calibrate(bags, y, *weighted)

    def _add_left_out(self, bags: Bags, kept: IntArray) -> None:
        """Let fitted attributes refer to all bags that were given, also those of weight 0."""
        rows = segment_gather(bags.offsets, kept)
        models = getattr(self, "estimators_", [])
        for model in models:
            model._add_left_out(bags, kept)
        if not models:
            self._renumber(bags, kept, rows)
        if self.card.detects:
            self.detected_instances_ = rows[self.detected_instances_]
            fitted = self.instance_scores_
            self.instance_scores_ = self.decision_function_instances(bags)
            self.instance_scores_[rows] = fitted

    def _renumber(self, bags: Bags, kept: IntArray, rows: IntArray) -> None:
        """Let further attributes of a model refer to all bags.

        ``kept`` and ``rows`` are the places among all bags and instances of those fitted on.
        """

    def _refer_to_original(self, bags: Any) -> None:
        """Let the detection refer to the bags before :meth:`pigmil.Bags.with_marks`."""
        found = before_marks(bags)
        if found is None or not self.card.detects:
            return
        before, rows, marks = found
        copies_of = bags.instance_info[ORIGINAL_ROW]
        for name in ("detected_instances_", "rival_instances_"):
            if hasattr(self, name):
                setattr(self, name, np.unique(copies_of[getattr(self, name)]))
        self.instance_scores_ = self.instance_scores_[rows]
        held_out: Any = getattr(self, "held_out_", None)
        if held_out is not None:
            self.held_out_ = held_out.before_marks(before, rows, marks)

    def _fit_one_vs_rest(self, bags: Bags, y: NDArray[Any], *weights: FloatArray) -> None:
        """Fit one model per class, and collect what they detect."""
        self.estimators_ = [
            self._binary_clone(label).fit(bags, y == label, *weights) for label in self.classes_
        ]
        models = self.estimators_
        if hasattr(models[0], "n_iter_"):
            self.n_iter_ = max(model.n_iter_ for model in models)
        if self.card.detects:
            self.instance_scores_ = np.column_stack([model.instance_scores_ for model in models])
            # Every bag is positive in one of the models.
            self.detected_instances_ = np.sort(
                np.concatenate([model.detected_instances_ for model in models])
            )

    def _binary_clone(self, label: Any) -> Any:
        """Return an unfitted copy for the labels False and True, where True is ``label``."""
        settings: dict[str, Any] = {"pos_label": None, "probability": False}
        class_weight = getattr(self, "class_weight", None)
        if isinstance(class_weight, dict):
            others = [other for other in self.classes_ if other != label]
            rest = float(np.mean([class_weight.get(other, 1.0) for other in others]))
            # Keys 1 and 0 equal True and False, and model files can hold them.
            settings["class_weight"] = {1: class_weight.get(label, 1.0), 0: rest}
        known = self.get_params(deep=False)
        return clone(self).set_params(**{k: v for k, v in settings.items() if k in known})

    def _calibrate(self, bags: Bags, y: NDArray[Any], *weights: FloatArray) -> None:
        """Prepare probabilities; only classifiers have them."""

    @abstractmethod
    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        """Run the algorithm: ``positive`` marks the positive bags; set the fitted attributes.

        In a subclass of :class:`AcceptsWeights` there is a third argument, the weights of the
        bags, all above 0, or None.
        """

    def _score_instances(self, bags: Bags) -> FloatArray:
        """Score every instance, higher is more positive; implemented where ``card.detects``."""
        raise NotImplementedError

    def _set_detection(
        self, bags: Bags | LazyBags, positive: BoolArray, scores: FloatArray
    ) -> None:
        """Set ``instance_scores_`` and pick the best-scored instance of each positive bag."""
        self.instance_scores_ = np.asarray(scores, dtype=np.float64)
        self.detected_instances_ = segment_argmax(self.instance_scores_, bags.offsets)[positive]

    def _set_threshold(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        scores: FloatArray,
        called: BoolArray | None = None,
        **weighting: Any,
    ) -> None:
        """Set ``threshold_``, then the detection by the scores less the threshold.

        Of all thresholds it is the one at which "the best instance is above it" agrees most often
        with the labels of the training bags, or with what ``called`` says of them.
        ``weighting`` is passed on to :func:`~pigmil.estimators._selection.min_error_threshold`.
        """
        best = segment_reduce(np.maximum, scores, bags.offsets)
        self.threshold_ = min_error_threshold(
            best, positive if called is None else called, **weighting
        )
        self._set_detection(bags, positive, scores - self.threshold_)

    def _class_costs(
        self, positive: BoolArray, weights: FloatArray | None = None
    ) -> tuple[float, float]:
        """Return the factors that ``class_weight`` gives negative and positive bags."""
        labels = self.classes_, self.positive_label_
        return class_costs(self.class_weight, positive, *labels, weights)

    def _check_X(self, X: Any, *, reset: bool) -> Any:
        """Return bags; raise an error if the method cannot be fitted on them or score them."""
        name = type(self).__name__
        is_lazy = isinstance(X, LazyBags)
        if is_lazy and reset and not self._fits_lazy_bags:
            raise TypeError(
                f"{name} fits on instances in memory only. Call .load() first if the "
                f"{X.nbytes / 1e9:.1f} GB fit, or use a method that fits on bags on disk: "
                "SoftPIGMIL, PIGMIL, MaxPoolingLR, MMIL, KDEMin. Predictions stream for every "
                "method."
            )
        is_table = not isinstance(X, Bags | LazyBags) and is_plain_table(X)
        if is_table:
            X = self._check_table(X, reset=reset)
        bags = X if is_lazy else as_bags(X)
        if bags.is_sparse and not self._accepts_sparse:
            raise TypeError(
                f"{name} needs dense instances, and these are sparse; use "
                "bags.with_instances(bags.instances.toarray()) if they fit in memory."
            )
        if not is_table:
            self._check_features(bags, reset=reset)
        if is_lazy and bags.n_bags == 0:
            raise ValueError(f"{name} needs bags to learn from, and there are none.")
        if not is_lazy:
            if bags.has_missing:
                check_no_missing(bags, name)
            _check_magnitude(bags)
        return bags

    def _check_table(self, X: Any, *, reset: bool) -> Any:
        if not reset and self._fitted_on_bags:
            warnings.warn(
                f"{type(self).__name__} was fitted on bags of several instances and is given a "
                "2-D table: each row is read as a bag of one instance. Pass Bags, a list of 2-D "
                "arrays, or a DataFrame with a 'bag' column.",
                SingletonBagsWarning,
                stacklevel=5,
            )
        accepted = "csr" if self._accepts_sparse else False
        dtypes = [np.float64, np.float32]
        return validate_data(self, X, reset=reset, accept_sparse=accepted, dtype=dtypes)

    def _check_features(self, bags: Bags | LazyBags, *, reset: bool) -> None:
        names = bags.feature_names
        if reset:
            self.n_features_in_ = bags.n_features
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            return
        if bags.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {bags.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        fitted = getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None and list(fitted) != list(names):
            pairs = enumerate(zip(fitted, names, strict=True))
            wrong = [f"{i} was {old!r}, is {new!r}" for i, (old, new) in pairs if old != new]
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise ValueError(f"The features are not those of fit: {', '.join(wrong[:5])}{more}.")

    def _check_y(self, y: Any, bags: Bags) -> NDArray[Any]:
        """Return the labels of the bags; set ``classes_`` and ``positive_label_``."""
        name = type(self).__name__
        if y is None:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None: give the labels of "
                "the bags, or bags that have labels."
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_consistent_length(bags.sizes, y)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        labels, chosen = self.classes_.tolist(), getattr(self, "pos_label", None)
        if len(labels) < 2:
            raise ValueError(
                f"{name} needs bags of both classes to learn from, but all {bags.n_bags} bags are "
                f"of one class, '{labels[0]}'."
            )
        self.__dict__.pop("positive_label_", None)
        if len(labels) > 2:
            if chosen is not None:
                raise ValueError(
                    f"pos_label={chosen!r} is for two classes, and y has {len(labels)}: {labels}. "
                    "Leave it out for one model per class, or pass y == pos_label."
                )
            return y
        if chosen is not None and chosen not in self.classes_:
            raise ValueError(f"pos_label={chosen!r} is not among the labels {labels}.")
        self.positive_label_ = self.classes_[1] if chosen is None else chosen
        if chosen is None and isinstance(self.positive_label_, str):
            warnings.warn(
                f"{name} takes {labels[1]!r} as the positive class, the last of the labels "
                f"{labels} in alphabetical order. Set pos_label to choose.",
                PositiveLabelWarning,
                stacklevel=4,
            )
        return y

    def _check_and_score(self, X: Any, hook: str, method: str) -> FloatArray:
        """Return the scores by a hook, one column per class if there are more than two.

        ``method`` is the method that gives the same for each block of bags on disk.
        """
        check_is_fitted(self, "classes_")
        if isinstance(X, LazyBags):
            self._check_features(X, reset=False)
            return stream(self, method, X)
        bags = self._check_X(X, reset=False)
        columns = [getattr(model, hook)(bags) for model in getattr(self, "estimators_", [self])]
        scores = columns[0] if len(columns) == 1 else np.column_stack(columns)
        return np.asarray(scores, dtype=np.float64)

    @available_if(_detects)
    def decision_function_instances(self, X: Any) -> FloatArray:
        """Score every instance: the higher, the more positive.

        In methods that classify, instances above 0 are called positive.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_instances,) or (n_instances, n_classes)
            Aligned with ``as_bags(X).instances``; one column per class if there are more than
            two.
        """
        return self._check_and_score(X, "_score_instances", "decision_function_instances")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._accepts_sparse
        # Detectors learn from classes too; scikit-learn's checks read this tag.
        tags.classifier_tags = tags.classifier_tags or ClassifierTags()
        return tags


class AcceptsWeights(BaseMIL):
    """Mixin of the methods whose formulas allow weights of bags.

    A bag of weight 2 counts as two copies of it, and one of weight 0 as left out. A subclass takes
    the weights as third argument of ``_fit``.
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes; a 2-D array is bags of one instance. Some
            methods also fit on bags that stay on disk, see :func:`pigmil.scan_bags`.
        y : array of shape (n_bags,), optional
            Labels. Of two values the greater is the positive class unless ``pos_label`` is given.
            Optional if ``X`` has labels.
        sample_weight : array of shape (n_bags,), optional
            Weight of every bag, 1 by default. A bag of weight 2 counts as two copies of it, and
            one of weight 0 as left out. The folds of ``probability=True`` are made of bags, not
            of copies.

        Returns
        -------
        self
        """
        return self._fit_checked(X, y, sample_weight)

    @abstractmethod
    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        """Run the algorithm with weights of bags."""


@with_parameters
class MILClassifier(ClassifierMixin, BaseMIL):
    """Base class of the methods that label unseen bags.

    A subclass implements ``_score_bags(bags)``: above 0 the bag is called positive.

    Parameters
    ----------
    {probability}
    {pos_label}
    """

    probability: bool = False
    pos_label: Any = None

    @abstractmethod
    def _score_bags(self, bags: Bags) -> FloatArray:
        """Return the decision value of every bag, above 0 for the positive class."""

    def _positive_scores(self, X: Any) -> FloatArray:
        """Return the decision values for the positive class, or one column per class."""
        return self._check_and_score(X, "_score_bags", "_positive_scores")

    def decision_function(self, X: Any) -> FloatArray:
        """Return the decision value of every bag, above 0 where ``classes_[1]`` is predicted.

        With more than two classes there is one column per class, and the largest is predicted.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags,) or (n_bags, n_classes)
        """
        scores = self._positive_scores(X)
        if scores.ndim == 2:
            return scores
        # scikit-learn ties the sign to the order of the classes, for any ``pos_label``.
        return scores if self.positive_label_ == self.classes_[1] else -scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the label of every bag; a decision value of 0 is negative.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags,)
        """
        return self._labels_of(self.decision_function(X))

    def _labels_of(self, decisions: FloatArray) -> NDArray[Any]:
        """Return the labels that decision values stand for."""
        if decisions.ndim == 2:
            return self.classes_[decisions.argmax(axis=1)]
        positive_is_second = self.positive_label_ == self.classes_[1]
        is_second = decisions > 0 if positive_is_second else decisions >= 0
        return self.classes_[is_second.astype(np.intp)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class for every bag; needs ``probability=True``.

        ``1 / (1 + exp(-slope * score))``, with the slope fitted on scores of training bags by
        models that have not seen them. The class of the highest probability is the predicted one.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "probability_slope_")
        probability = expit(self.probability_slope_ * self._positive_scores(X))
        if probability.ndim == 2:
            # Far from all classes every probability may be 0: then all are equal.
            probability = np.maximum(probability, np.finfo(float).tiny)
            return probability / probability.sum(axis=1, keepdims=True)
        columns = [1.0 - probability, probability]
        if self.positive_label_ != self.classes_[1]:
            columns.reverse()
        return np.column_stack(columns)

    def _calibrate(self, bags: Bags, y: NDArray[Any], *weights: FloatArray) -> None:
        """Fit the slope of the probabilities on held-out scores of five folds."""
        if not getattr(self, "probability", False):
            return
        labels = self.classes_ if len(self.classes_) > 2 else [self.positive_label_]
        scores, truths = [], []
        for label in labels:
            positive = y == label
            values = np.empty(bags.n_bags)
            for train, test in inner_splits(bags, positive):
                own = [values[train] for values in weights]
                model = self._binary_clone(label).fit(bags[train], positive[train], *own)
                values[test] = map_instances(model._score_bags, bags[test])
            scores.append(values)
            truths.append(positive)
        self.probability_slope_ = logistic_slope(
            np.concatenate(scores),
            np.concatenate(truths),
            np.tile(weights[0], len(labels)) if weights else None,
        )


class MaxInstanceClassifier(MILClassifier):
    """Base class of the classifiers in which the best instance decides for its bag."""

    def _score_bags(self, bags: Bags) -> FloatArray:
        return segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)


def decision_values(classifier: Any, X: Any) -> FloatArray:
    """Return how much a fitted classifier is for class 1: above 0 where it predicts it.

    Its ``decision_function``, or the logit of its ``predict_proba``, or 1 and -1 for the labels it
    predicts.

    Parameters
    ----------
    classifier : classifier
        Fitted on the labels 0 and 1.
    X : object
        What the classifier takes.

    Returns
    -------
    array of shape (n_samples,)

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0]] * 5, [0, 1, 1, 1, 1])
    >>> decision_values(model, [[0.0]]).round(3)  # log(0.8 / 0.2)
    array([1.386])
    """
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    if not hasattr(classifier, "predict_proba"):
        return np.where(np.asarray(classifier.predict(X)) == 1, 1.0, -1.0)
    share = np.asarray(classifier.predict_proba(X)[:, 1], dtype=np.float64)
    with np.errstate(divide="ignore"):
        logit = np.log(share) - np.log1p(-share)
    return np.clip(logit, -_LARGEST_LOGIT, _LARGEST_LOGIT)


def spread_out(values: NDArray[Any], places: IntArray, size: int) -> NDArray[Any]:
    """Return an array with the values at their places, and zeros elsewhere."""
    result = np.zeros(size, dtype=values.dtype)
    result[places] = values
    return result


def _check_magnitude(bags: Bags) -> None:
    """Raise an error that names the place if a value is too large to be squared."""
    values = bags.instances.data if bags.is_sparse else bags.instances
    if values.size == 0 or values.dtype == np.float32:  # whose largest value can be squared
        return
    if float(max(values.max(), -values.min())) <= _LARGEST_VALUE:
        return
    dense = np.abs(bags.instances)
    row, column = np.unravel_index(int(dense.argmax()), bags.instances.shape)
    bag = int(bags.bag_index[row])
    name = f" ({bags.feature_names[column]!r})" if bags.feature_names is not None else ""
    raise ValueError(
        f"Feature {column}{name} of instance {row - bags.offsets[bag]} in bag {bag} "
        f"({str(bags.ids[bag])!r}) is {bags.instances[row, column]:.3g}; values beyond "
        f"{_LARGEST_VALUE:.0e} overflow when they are squared. Divide the feature by a constant."
    )
