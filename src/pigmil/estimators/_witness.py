"""What mi-SVM and MI-SVM share: train, impute again, until nothing changes."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.estimators._instance_svm import InstanceSVM, Signs, kernel_scores, kernel_width
from pigmil.estimators._parameters import (
    AT_LEAST_ONE,
    CLASS_WEIGHT,
    LENGTH_UNIT,
    POS_LABEL,
    POSITIVE,
)
from pigmil.estimators._svm_solvers import class_costs
from pigmil.estimators.base import MaxInstanceClassifier


@dataclass(frozen=True, slots=True)
class Alternation:
    """Where the alternation ended.

    Attributes
    ----------
    scores : array of shape (n_instances,)
        Decision value of every instance under the last model.
    signs : array of int8 of shape (n_instances,)
        The labels that model was trained on.
    objectives : list of float
        The objective of every training.
    converged : bool
        Whether imputing from ``scores`` gives ``signs`` again.
    """

    scores: FloatArray
    signs: Signs
    objectives: list[float]
    converged: bool


def alternate(
    svm: InstanceSVM,
    start: Signs,
    impute: Callable[[FloatArray], Signs],
    costs_of: Callable[[Signs], tuple[float, float]],
    *,
    max_iter: int,
    name: str,
) -> Alternation:
    """Train on imputed labels and impute from the trained scores until the labels stand still.

    With equal costs no step raises the objective, so there are finitely many; with unequal ones
    labels may return. A label vector seen before ends the loop, with the best of the cycle as
    the result and a warning.

    Parameters
    ----------
    svm : InstanceSVM
        Trained in place; on return it holds the model of the result.
    start : array of int8
        First labels: 1, -1, and 0 for instances that take no part.
    impute : callable
        Labels from the scores of all instances.
    costs_of : callable
        Cost factors of the two classes for given labels.
    max_iter : int
        Most trainings.
    name : str
        Of the method, for the warning.

    Returns
    -------
    Alternation
    """
    signs, objectives = start, list[float]()
    seen: dict[bytes, int] = {}
    history: list[Signs] = []
    while True:
        costs = costs_of(signs)
        scores = svm.fit(signs, costs)
        objectives.append(svm.objective(scores, signs, costs))
        seen[signs.tobytes()] = len(history)
        history.append(signs)
        imputed = impute(scores)
        if np.array_equal(imputed, signs):
            return Alternation(scores, signs, objectives, True)
        if imputed.tobytes() in seen or len(history) >= max_iter:
            break
        signs = imputed
    first = seen.get(imputed.tobytes())
    cause = f"after max_iter={max_iter} rounds; raise max_iter"
    if first is not None:
        cause = f"but went in a circle of {len(history) - first} rounds; the best was kept"
        signs = history[first + int(np.argmin(objectives[first:]))]
        scores = svm.fit(signs, costs_of(signs))
    warnings.warn(
        f"{name} found no labels that stand still, {cause}.", ConvergenceWarning, stacklevel=2
    )
    return Alternation(scores, signs, objectives, False)


class WitnessSVM(MaxInstanceClassifier):
    """What mi-SVM and MI-SVM share: parameters, the alternation, the scores.

    The parameters are documented in the classes; a subclass says in ``_fit`` where labels start
    and how they are imputed.
    """

    _accepts_sparse = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions({"rbf", "linear"})],
        "C": POSITIVE,
        "gamma": POSITIVE,
        "length_unit": LENGTH_UNIT,
        "class_weight": CLASS_WEIGHT,
        "max_iter": AT_LEAST_ONE,
        "tol": POSITIVE,
        "pos_label": POS_LABEL,
    }

    def __init__(
        self,
        *,
        kernel: str = "rbf",
        C: float = 10.0,
        gamma: float = 0.5,
        length_unit: str | float = "auto",
        class_weight: Any = None,
        max_iter: int = 50,
        tol: float = 1e-3,
        pos_label: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.length_unit = length_unit
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.pos_label = pos_label

    def _alternate(
        self, bags: Bags, start: Signs, impute: Callable[[FloatArray], Signs], extra: Any = None
    ) -> Alternation:
        """Run the loop over the instances, then ``extra`` rows, and keep the model it ends with."""
        instances = bags.instances
        self.kernel_width_ = kernel_width(instances, self.kernel, self.gamma, self.length_unit)
        if extra is not None:
            stack = sp.vstack if bags.is_sparse else np.vstack
            instances = stack([instances, extra])

        def costs_of(signs: Signs) -> tuple[float, float]:
            taking_part = signs[signs != 0] > 0
            return class_costs(self.class_weight, taking_part, self.classes_, self.positive_label_)

        svm = InstanceSVM(instances, gamma=self.kernel_width_, C=self.C, tol=self.tol)
        found = alternate(
            svm, start, impute, costs_of, max_iter=self.max_iter, name=type(self).__name__
        )
        support = np.flatnonzero(svm.signed)
        self.support_instances_ = instances[support]
        self.dual_coef_ = svm.signed[support]
        self.intercept_ = svm.intercept
        self.objectives_ = np.array(found.objectives)
        self.n_iter_ = len(found.objectives)
        return found

    def _score_instances(self, bags: Bags) -> FloatArray:
        return kernel_scores(
            bags.instances,
            self.support_instances_,
            self.dual_coef_,
            self.intercept_,
            self.kernel_width_,
        )
