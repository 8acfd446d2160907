"""Conditional training: its objective, L-BFGS from the smoothed generative fit, and how near to that it stays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.em.conditional.free_coordinates import FreeCoordinates
from eigentree.em.holdout import folds_of
from eigentree.em.mixed.mixed_objective import MixedLayout, MixedObjective
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import SHARE_OF_ERROR, USUAL_TOLERANCES, Stopping
from eigentree.em.smoothing import PSEUDO_COUNTS
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.threads import one_thread

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.em.mixed.mixed_rows import MixedRows
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.parameters import ParameterLayout

__all__ = ["ALPHAS", "ClassRows", "ConditionalFit", "ConditionalObjective", "LabelledData", "fit_conditional"]

ALPHAS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Penalties to choose from, half an order of magnitude apart: standard deviations of log-odds from 0.1, at which
hardly anything moves, to about 30, beyond which probabilities are 0 or 1."""

MEMORY = 100
"""How many earlier steps L-BFGS looks back on: its products with these cost less than a pass over rows, and where
numbers are collinear it needs half as many steps as with 10."""


@dataclass(frozen=True, eq=False)
class ConditionalObjective:
    """What conditional training maximises, as a function of free coordinates that are 0 where training starts.

    It is the sum over rows of ``log P(row, class) - weight · log P(row)``: with the weight 1 the conditional
    log-likelihood, with 0 that of generative training, and between a convex combination of both (Bouchard and
    Triggs, 2004). Both have the prior of generative training, which so has the share that the weight leaves. A
    ridge penalty, ``alpha / 2`` times the sum of the squares of the coordinates, holds them near 0: a Gaussian
    prior around the start.

    Attributes
    ----------
    coordinates : FreeCoordinates
    joint : Objective
        Of the rows with their classes.
    marginal : Objective
        Of the same rows without them.
    conditional_weight : float
    alpha : float
    """

    coordinates: FreeCoordinates
    joint: Objective
    marginal: Objective
    conditional_weight: float = 1.0
    alpha: float = 0.0

    def value_and_gradient(self, at: Floats) -> tuple[float, Floats]:
        """Return the objective and its gradient: expected counts with the class clamped less those with it free."""
        clamped, slopes = self.coordinates.value_and_gradient(self.joint, at)
        free, others = self.coordinates.value_and_gradient(self.marginal, at)
        value, gradient = clamped - self.conditional_weight * free, slopes - self.conditional_weight * others
        return value - 0.5 * self.alpha * float(at @ at), gradient - self.alpha * at

    def log_likelihood(self, at: Floats) -> float:
        """Return the conditional log-likelihood of the classes; -inf if a row is impossible."""
        parameters = self.coordinates.moved(at)
        return self.joint.log_likelihood(parameters) - self.marginal.log_likelihood(parameters)


class ConditionalFit(NamedTuple):
    """Parameters after conditional training, the penalty, what was tried to choose it, and whether it converged.

    `tried` has the mean held-out log P(label | what is observed) of each penalty; infinity is generative training.
    """

    parameters: Floats
    alpha: float
    tried: dict[float, float]
    converged: bool


@dataclass(frozen=True, eq=False)
class LabelledData(ABC):
    """Data with their labels, and how they are learned from.

    Attributes
    ----------
    rows : DistinctRows, MixedRows or WeighedSequences
        What can be held out, with weights.
    pseudo_counts : float
        Of generative training.
    """

    rows: Any
    pseudo_counts: float

    @abstractmethod
    def objective(self, rows: Any, clamped: bool) -> Objective:
        """Return the objective of rows whose labels are known, or left out."""

    @abstractmethod
    def known(self, rows: Any) -> float:
        """Return the weight of the labels that are known."""

    @property
    def divided(self) -> Any:
        """The rows of which some are held out."""
        return self.rows

    def conditional(self, rows: Any, start: Floats) -> ConditionalObjective:
        """Return the objective of conditional training on rows, as a function of how far parameters are moved."""
        joint = self.objective(rows, True)
        marginal: Any = self.objective(rows, False)
        # Pseudo-counts follow from the cells of rows, those of the class among them.
        marginal = replace(marginal, prior=joint.prior)
        return ConditionalObjective(FreeCoordinates(joint, start), joint, marginal)

    def smoothed(self, rows: Any, start: Floats) -> Floats:
        """Return the parameters of generative training after an M-step with the most pseudo-counts it chooses from.

        Generative training counts twice what two columns both show, so its log-odds are too large, most of all
        those of what few rows of a class show: they are no centre of a penalty.
        """
        pseudo_counts = max(self.pseudo_counts, PSEUDO_COUNTS[-1])
        return replace(self, pseudo_counts=pseudo_counts).objective(rows, True).em_update(start)

    def refitted(self, rows: Any, start: Floats, max_iter: int) -> Floats:
        """Return the parameters that generative training finds on rows, from those of a fit to more rows.

        What these rows lack may be in others, so there are always pseudo-counts.
        """
        objective = replace(self, pseudo_counts=max(self.pseudo_counts, PSEUDO_COUNTS[0])).objective(rows, True)
        stopping = Stopping.usual("gain", len(rows.weights), objective.weight, objective.layout.learned_count)
        *_, run = em_run(objective, start, stopping, max_iter)
        return run.parameters


@dataclass(frozen=True, eq=False)
class ClassRows(LabelledData):
    """Rows with their class as a column.

    Attributes
    ----------
    layout : ParameterLayout or MixedLayout
    numbers : tuple of str
        The columns of the numbers of `MixedRows`.
    target : str
        The column of the class.
    missing : frozenset of str
        The columns that may have missing cells.
    threads : int
    """

    rows: DistinctRows | MixedRows
    layout: ParameterLayout | MixedLayout
    numbers: tuple[str, ...]
    target: str
    missing: frozenset[str]
    threads: int

    def objective(self, rows: Any, clamped: bool) -> Objective:
        """Return the objective of rows whose class is known, or left out."""
        graph = self.layout.graph
        if not clamped:
            codes = rows.codes.copy(order="F")
            codes[:, graph.column(self.target)] = graph.states[self.target]
            rows = rows._replace(codes=codes)
        how = (self.missing | {self.target}, self.pseudo_counts, self.threads)
        if isinstance(self.layout, MixedLayout):
            return MixedObjective.of(self.layout, self.numbers, rows, *how)
        return TreeObjective.of(graph, rows, *how)

    def known(self, rows: Any) -> float:
        """Return the weight of the rows whose class is known."""
        graph = self.layout.graph
        return float(rows.weights[rows.codes[:, graph.column(self.target)] < graph.states[self.target]].sum())


def fit_conditional(
    rows: LabelledData,
    start: Floats,
    conditional_weight: float,
    alpha: float | Literal["auto"],
    max_iter: int,
    random: np.random.Generator,
) -> ConditionalFit:
    """Return the parameters after conditional training, from those of generative training."""
    tried: dict[float, float] = {}
    if alpha == "auto":
        alpha, tried = _chosen(rows, start, conditional_weight, max_iter, random)
    if math.isinf(alpha):
        return ConditionalFit(start, alpha, tried, True)
    objective = rows.conditional(rows.rows, rows.smoothed(rows.rows, start))
    objective = replace(objective, conditional_weight=conditional_weight, alpha=float(alpha))
    known = rows.known(rows.rows)
    stopping = Stopping("gain", USUAL_TOLERANCES["gain"])
    at, converged = _maximised(objective, np.zeros(objective.coordinates.size), known, stopping, max_iter)
    return ConditionalFit(objective.coordinates.moved(at), float(alpha), tried, converged)


def _chosen(
    rows: LabelledData, start: Floats, conditional_weight: float, max_iter: int, random: np.random.Generator
) -> tuple[float, dict[float, float]]:
    """Return the penalty with the highest held-out log P(label | observed), and that of each that was tried.

    Weaker and weaker ones are tried while it rises, each from where the last one ended, and each as far as is
    more than a small share of what chance makes of the rows.
    """
    training, held, places = [], [], []
    generatively = 0.0
    for fold in folds_of(rows.divided, 0.0, random):
        generative = rows.refitted(fold.rows, start, max_iter)
        own = rows.smoothed(fold.rows, generative)
        objective = replace(rows.conditional(fold.rows, own), conditional_weight=conditional_weight)
        count, known = objective.coordinates.size, rows.known(fold.rows)
        training.append((objective, known, Stopping.within_chance(SHARE_OF_ERROR, count, known)))
        places.append(np.zeros(count))
        generatively += rows.conditional(fold.validation, generative).log_likelihood(np.zeros(count))
        held.append((rows.conditional(fold.validation, own), rows.known(fold.validation)))
    weight = sum(known for _, known in held)
    tried = {math.inf: generatively / weight}
    last = -math.inf
    for alpha in ALPHAS:
        pairs = zip(training, places, strict=True)
        places = [
            _maximised(replace(own, alpha=alpha), at, known, near, max_iter)[0] for (own, known, near), at in pairs
        ]
        total = sum(fold.log_likelihood(at) for (fold, _), at in zip(held, places, strict=True))
        tried[alpha] = total / weight
        if tried[alpha] < last:
            break
        last = tried[alpha]
    return max(tried, key=tried.__getitem__), tried


def _maximised(
    objective: ConditionalObjective, start: Floats, weight: float, stopping: Stopping, max_iter: int
) -> tuple[Floats, bool]:
    """Return where L-BFGS ends from a start, and whether it has converged, given the weight of known labels."""
    from scipy.optimize import OptimizeResult, minimize

    history: list[float] = []

    def loss(at: Floats) -> tuple[float, Floats]:
        value, gradient = objective.value_and_gradient(at)
        return -value / weight, -gradient / weight

    def after_step(intermediate_result: OptimizeResult) -> None:
        history.append(-weight * float(intermediate_result.fun))
        if stopping.reached(history, weight):
            raise StopIteration

    options = {"maxiter": max_iter, "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0}
    with one_thread():
        found = minimize(loss, start, jac=True, method="L-BFGS-B", callback=after_step, options=options)
    return np.asarray(found.x), bool(found.status != 1)
