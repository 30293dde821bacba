"""The training bags by class, with the densities that everything else is computed from."""

import logging
from dataclasses import dataclass

import numpy as np

from pigmil._core.segments import segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import log_density, screened_log_densities, worth_screening
from pigmil.graph.candidates import WorkingScore, copy_penalty, two_sided_score, working_score

__all__ = ["ClassSplit"]

_logger = logging.getLogger("pigmil")


@dataclass(frozen=True)
class ClassSplit:
    """The training bags by class, and the log densities around their instances.

    Attributes
    ----------
    is_positive : array of bool of shape (n_bags,)
        Class of every training bag.
    positive, negative : Bags
        Bags of each class.
    rows : array of int of shape (n_positive_instances,)
        Flat training index of each instance of the positive bags.
    unit : float
        Unit of length.
    decays : tuple of float
        Decays of the densities, one row of the arrays below each.
    log_negative_density : array of shape (n_decays, n_instances)
        Of the negative bags at every training instance, its own bag left out.
    log_positive_density : array of shape (n_decays, n_positive_instances), or None
        Of the other positive bags at every instance of the positive bags, if it is needed.
    copy_penalty : array of shape (n_positive_instances,)
        See :func:`pigmil.graph.copy_penalty`.
    """

    is_positive: BoolArray
    positive: Bags
    negative: Bags
    rows: IntArray
    unit: float
    decays: tuple[float, ...]
    log_negative_density: FloatArray
    log_positive_density: FloatArray | None
    copy_penalty: FloatArray

    @classmethod
    def from_bags(
        cls,
        bags: Bags,
        is_positive: BoolArray,
        *,
        decays: tuple[float, ...],
        unit: float,
        two_sided: bool,
        screen: bool | str = False,
    ) -> "ClassSplit":
        """Split the bags by class and measure the densities.

        With ``screen`` (``"auto"``: where it saves time) most densities are estimated, see
        :func:`pigmil.distances.screened_log_densities`.
        """
        positive, negative = bags[is_positive], bags[~is_positive]
        rows = segment_gather(bags.offsets, np.flatnonzero(is_positive))
        if screen is True or (screen == "auto" and worth_screening(bags, is_positive)):
            densities = screened_log_densities(
                bags, is_positive, gammas=decays, unit=unit, two_sided=two_sided
            )
            _logger.info(
                "densities: exact for %d of %d instances of positive bags, estimated for the rest",
                densities.exact.sum(),
                len(rows),
            )
            return cls(
                is_positive,
                positive,
                negative,
                rows,
                unit,
                decays,
                densities.log_negative,
                densities.log_positive,
                copy_penalty(densities.in_negative, densities.in_positive),
            )
        own = np.where(is_positive, -1, np.cumsum(~is_positive) - 1)[bags.bag_index]
        if negative.n_bags == 1:
            own[:] = -1  # a single negative bag is all there is to compare with
        in_negative, in_positive = np.zeros(bags.n_instances), np.zeros(len(rows))
        log_negative = log_density(
            bags.instances, negative, gamma=decays, unit=unit, own_bag=own, copies=in_negative
        )
        log_positive = None
        if two_sided:
            log_positive = log_density(
                positive.instances,
                positive,
                gamma=decays,
                unit=unit,
                own_bag=positive.bag_index,
                copies=in_positive,
            )
        penalty = copy_penalty(in_negative[rows], in_positive)
        return cls(
            is_positive, positive, negative, rows, unit, decays, log_negative, log_positive, penalty
        )

    def working_scores(
        self,
        width: int,
        *,
        kind: WorkingScore = "supported",
        margin: float = 0.7,
        penalty: float = 10.0,
        literal: bool = False,
    ) -> FloatArray:
        """Return the working score of every instance of the positive bags.

        As :func:`pigmil.graph.working_score`, from the densities at hand.

        Parameters
        ----------
        width : int
            Index of the decay.
        kind, margin, penalty, literal
            As in :func:`pigmil.graph.working_score`; with ``literal`` the densities are measured
            anew.

        Returns
        -------
        array of shape (n_positive_instances,)
        """
        if literal:
            return working_score(
                self.positive.instances,
                self.negative,
                self.positive,
                kind=kind,
                own_bag=self.positive.bag_index,
                gamma=self.decays[width],
                unit=self.unit,
                margin=margin,
                penalty=penalty,
                literal=True,
            )
        log_negative = self.log_negative_density[width, self.rows]
        if self.log_positive_density is None:
            return np.exp(log_negative)
        log_positive = self.log_positive_density[width]
        score = two_sided_score(
            log_negative, log_positive, kind=kind, margin=margin, penalty=penalty
        )
        return score + self.copy_penalty
