"""Base of mi-SVM and MI-SVM: alternate training and imputing labels until nothing changes."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.typing import FloatArray
from pigmil.estimators._instance_svm import InstanceSVM, KernelInstanceClassifier, Signs
from pigmil.estimators._svm_solvers import class_costs
from pigmil.estimators.base import AcceptsWeights


@dataclass(frozen=True, slots=True)
class Alternation:
    """Result of :func:`alternate`.

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
    problem : str
        Why it did not converge; empty if it did.
    """

    scores: FloatArray
    signs: Signs
    objectives: list[float]
    converged: bool
    problem: str = ""


def alternate(
    svm: InstanceSVM,
    start: Signs,
    impute: Callable[[FloatArray], Signs],
    costs_of: Callable[[Signs], tuple[float, float]],
    *,
    max_iter: int,
) -> Alternation:
    """Train on imputed labels and impute from the trained scores until the labels stop changing.

    With equal costs no step raises the objective, so there are finitely many; with unequal ones
    labels may recur. The loop then ends with the best of the cycle.

    Parameters
    ----------
    svm : InstanceSVM
        Trained in place; on return it holds the model of the result.
    start : array of int8
        First labels: 1, -1, and 0 for instances that are not trained on.
    impute : callable
        Labels from the scores of all instances.
    costs_of : callable
        Cost factors of the two classes for given labels.
    max_iter : int
        Largest number of trainings.

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
        cause = f"but repeated a cycle of {len(history) - first} rounds; the best is kept"
        signs = history[first + int(np.argmin(objectives[first:]))]
        scores = svm.fit(signs, costs_of(signs))
    return Alternation(scores, signs, objectives, False, cause)


class WitnessSVM(AcceptsWeights, KernelInstanceClassifier):
    """Base class of mi-SVM and MI-SVM: the alternation and the scores.

    A subclass defines in ``_fit`` the first labels and how labels are imputed.
    """

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
        probability: bool = False,
        pos_label: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.length_unit = length_unit
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.probability = probability
        self.pos_label = pos_label

    def _alternate(
        self,
        svm: InstanceSVM,
        starts: Sequence[Signs],
        impute: Callable[[FloatArray], Signs],
        costs_of: Callable[[Signs], tuple[float, float]] | None = None,
    ) -> Alternation:
        """Run the alternation from each start and keep the model of lowest objective."""

        def instance_costs(signs: Signs) -> tuple[float, float]:
            used = signs != 0
            return class_costs(
                self.class_weight,
                signs[used] > 0,
                self.classes_,
                self.positive_label_,
                svm.weights[used],
            )

        costs_of = costs_of or instance_costs
        best: Alternation | None = None
        for start in starts:
            result = alternate(svm, start, impute, costs_of, max_iter=self.max_iter)
            # Of equal objectives the first is kept; they differ in what the solver leaves open.
            if best is None or result.objectives[-1] < best.objectives[-1] * (1 - self.tol):
                best = result
                self._set_support(svm.instances, svm.signed, svm.intercept)
        assert best is not None
        if best.problem:
            warnings.warn(
                f"The labels of {type(self).__name__} did not converge {best.problem}.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.objectives_ = np.array(best.objectives)
        self.n_iter_ = len(best.objectives)
        return best
