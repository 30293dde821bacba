"""Bag-KI-SVM and Ins-KI-SVM: a convex search for the instance that makes a bag positive."""

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.segments import offsets_of, segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._instance_svm import KernelInstanceClassifier, averages
from pigmil.estimators._key_instances import Atoms, KeyInstanceProgramme
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators._selection import content_order

_MOST_NEGATIVES = 6000  # 150 MB for the matrix of the dual
# With more instances than this the kernel with that many negatives does not fit in memory.
_MANY_INSTANCES = 10000
_FEWER_NEGATIVES = 2000


@with_parameters
class _KISVM(KernelInstanceClassifier):
    """Base class of both levels; a subclass defines the rows that represent negative bags."""

    C: float = 1.0
    tol: float = 1e-2

    @abstractmethod
    def _negative_rows(self, bags: Bags, negatives: IntArray) -> tuple[Any, FloatArray]:
        """Return the combinations that represent negative bags, and their share of a cost."""

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        self._set_kernel_width(bags.instances)
        # Exchanging the instance of one bag after another ends in an optimum that depends on order.
        order = content_order(bags)
        chosen = order[positive[order]]
        rows = segment_gather(bags.offsets, chosen)
        single = averages(rows, np.ones(len(rows), dtype=np.int64), bags.n_instances)
        means = averages(rows, bags.sizes[chosen], bags.n_instances)
        negative, shares = self._negative_rows(bags, order[~positive[order]])
        combination = sp.csr_array(sp.vstack([single, means, negative]))
        costs = self._class_costs(positive)
        row_costs = self.C * np.concatenate([np.full(len(chosen), costs[1]), costs[0] * shares])

        atoms = Atoms(bags.instances, combination, self.kernel_width_)
        offsets = offsets_of(bags.sizes[chosen])
        programme = KeyInstanceProgramme(atoms, offsets, 1.0 / row_costs, self.tol)
        coefficients, objectives, self.mixture_ = programme.solve(self.max_iter)

        weights = combination.T @ coefficients
        self._set_support(bags.instances, weights, float(weights.sum()))
        self.objectives_ = np.array(objectives)
        self.n_iter_ = len(objectives)
        self._set_detection(bags, positive, self._score_instances(bags))


class BagKISVM(_KISVM):
    """Bag-KI-SVM: one constraint per bag; the mean of a negative bag must be negative.

    Implements the bag-level programme of the paper: which instance of each positive bag is its
    key is relaxed to a mixture of assignments; cutting planes add the assignment that is most
    violated, and each restricted problem is a multiple-kernel SVM with squared hinge loss. A
    negative bag enters by the mean of its instances in feature space. The key instance of a bag
    is its highest-scored one, and its score is the bag's decision value.

    Departs from the paper: the margin is fixed to 1 instead of maximised in the objective, which
    only scales the decision value; the most violated assignment, hard to find exactly, is
    sought by exchanging one bag's instance at a time until none helps, from several starts (the
    authors make one pass), so the result may be slightly worse than the optimum; the intercept is
    a constant 1 added to either kernel (the authors: to the linear one); widths
    are measured in ``length_unit``.

    Parameters
    ----------
    {kernel}
    C : float, default=1.0
        Cost of the squared hinge loss of a bag. Of 1, 10 and 100, the default is the best in the
        mean over Elephant, Fox, Tiger, a newsgroup, mutagenesis and breast cells.
    gamma : float, default=0.5
        Width of the Gaussian kernel, ``exp(-gamma |x - x'|^2 / unit^2)``; 0.5 is what
        scikit-learn calls "scale".
    {length_unit}
    class_weight : "balanced", dict or None, default=None
        Factors on ``C``; "balanced" counts bags.
    max_iter : int, default=50
        Largest number of assignments; a ConvergenceWarning is raised if they do not suffice.
    tol : float, default=1e-2
        Least relative fall of the objective that is worth another assignment after the first five
        rounds (the authors' values); restricted problems are solved to a tenth of it.
    {probability}
    {pos_label}

    Attributes
    ----------
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the key instance of each positive training bag.
    instance_scores_ : array of shape (n_instances,)
        Decision value of each training instance.
    support_instances_ : array or CSR of shape (n_support, n_features)
        Instances with a weight other than 0.
    dual_coef_ : array of shape (n_support,)
        Their weights.
    {intercept_}
    {kernel_width_}
    objectives_ : array
        Optimum of each restricted problem; it never rises.
    mixture_ : array
        Weight of each assignment; the first gives every bag the mean of its instances.
    n_iter_ : int
        Number of restricted problems.

    Notes
    -----
    In a narrow kernel an assignment raises the decision value at its own keys only, and the mixture
    divides the weight of a bag among them: too few bags are then called positive, though they are
    ranked well. In that case lower ``gamma`` or ``C``.

    Cost: O(n_instances^2 n_features) for the kernel of the means, in blocks; then small problems
    of n_bags rows. The kernel between the instances of positive bags and the negative rows is
    kept up to 400 MB, and computed again in every round beyond.

    When to use: A convex alternative to MI-SVM; the instances of negative bags are many.

    Defaults: gamma is scikit-learn's "scale"; C was chosen on Elephant, Fox, Tiger, a newsgroup,
    mutagenesis and breast cells, after a look at Musk-1.

    References
    ----------
    Li, Kwok, Tsang, Zhou: A Convex Method for Locating Regions of Interest with Multi-Instance
    Learning, ECML PKDD 2009.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.ki_svm import BagKISVM
    >>> bags = make_ring(random_state=0)
    >>> len(BagKISVM().fit(bags).detected_instances_)
    20
    """

    card = Card(
        "Bag-KI-SVM", "Key-instance SVM, one constraint per bag", grid={"gamma": (0.02, 1.0)}
    )

    def _negative_rows(self, bags: Bags, negatives: IntArray) -> tuple[Any, FloatArray]:
        rows = segment_gather(bags.offsets, negatives)
        means = averages(rows, bags.sizes[negatives], bags.n_instances)
        return means, np.ones(len(negatives))


class InsKISVM(_KISVM):
    """Ins-KI-SVM: as :class:`BagKISVM`, with a constraint for every negative instance.

    Parameters and attributes are those of :class:`BagKISVM`.

    Departs from the paper: as :class:`BagKISVM`; and the paper's constant between the slacks of
    positive bags and of negative instances is fixed so that every bag weighs the same: a
    negative instance costs ``C`` over the size of its bag. Of more than 6000 negative instances
    (2000 with more than 10000 instances) every second, third, ... is taken, because the matrix of
    the dual must fit in memory.

    Notes
    -----
    Cost: O(n_support n_instances n_features) for the kernel; then, in every round, a problem of
    n_support rows.

    When to use: A convex alternative to MI-SVM; every negative instance must stay negative.

    Defaults: gamma is scikit-learn's "scale"; C was chosen on Elephant, Fox, Tiger, a newsgroup,
    mutagenesis and breast cells, after a look at Musk-1.

    References
    ----------
    Li, Kwok, Tsang, Zhou: A Convex Method for Locating Regions of Interest with Multi-Instance
    Learning, ECML PKDD 2009.
    """

    card = Card(
        "Ins-KI-SVM",
        "Key-instance SVM, one constraint per negative instance",
        grid={"gamma": (0.02, 1.0)},
    )

    def _negative_rows(self, bags: Bags, negatives: IntArray) -> tuple[Any, FloatArray]:
        rows = segment_gather(bags.offsets, negatives)
        shares = np.repeat(1.0 / bags.sizes[negatives], bags.sizes[negatives])
        most = _MOST_NEGATIVES if bags.n_instances <= _MANY_INSTANCES else _FEWER_NEGATIVES
        step = -(-len(rows) // most)
        rows, shares = rows[::step], step * shares[::step]
        return averages(rows, np.ones(len(rows), dtype=np.int64), bags.n_instances), shares
