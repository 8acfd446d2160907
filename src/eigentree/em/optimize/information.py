"""How the log-likelihood of rows bends, as the gradients of single rows tell.

Near the top of a log-likelihood its curvature is the covariance of the gradients of the rows (Fisher's information;
steps by it are those of Berndt, Hall, Hall and Hausman). A part of the rows tells it for all of them. So a climb
that has come near the top of a part needs a few of Newton's steps on all rows, where steps that know only what
earlier ones have seen would need a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor, cho_solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats
    from eigentree.em.optimize.objective import Evaluation
    from eigentree.em.parameters import ParameterLayout
    from eigentree.em.tree_objective import TreeObjective

__all__ = ["Factored", "Information"]

MOST_PARAMETERS = 2_000
"""Of more, the curvature is a matrix that takes longer to factor than the steps that it saves."""

BATCHES_PER_PARAMETER = 3
"""How many batches of rows there are at most for each parameter: with fewer, chance bends some directions away."""

DAMPING = 0.01
"""The share of the curvature that rows without gaps would have, which is added: no step is a hundred times EM's."""

AT_A_TIME = 500
"""Batches whose gradients are in memory together."""

FEW_COUNTS = 2.0
"""Of a parameter with this expected count the rows tell half of what they could: the rest is as without gaps."""


@dataclass(frozen=True, eq=False)
class Information:
    """The curvature of a log-likelihood in the square roots of the parameters, at some of these.

    Attributes
    ----------
    learned : (parameters,)
        Which parameters rows can say anything about.
    told : (learned, learned)
        What rows tell, for each unit of their weight, damped.
    prior : (learned,)
        What pseudo-counts add, on the diagonal.
    """

    learned: Booleans
    told: Floats
    prior: Floats

    @staticmethod
    def pays(layout: ParameterLayout) -> bool:
        """Return whether parameters are few enough."""
        return 0 < layout.learned_count <= MOST_PARAMETERS

    @classmethod
    def of(cls, problem: TreeObjective, here: Evaluation) -> Information:
        """Return what rows tell at the parameters of an evaluation."""
        layout = problem.layout
        learned = layout.learned
        told = np.zeros((layout.learned_count,) * 2)
        for gradients in _gradients(problem, here):
            told += gradients.T @ gradients
        told /= problem.weight
        complete = 4.0 * here.totals[learned] / problem.weight
        counts = here.counts[learned]
        damping = complete * (DAMPING + FEW_COUNTS / (counts + FEW_COUNTS))
        # Where no row ever comes, nothing moves, whatever the curvature is.
        told[np.diag_indices_from(told)] += np.where(complete > 0, damping, 1.0)
        own, parameters = problem.prior[learned], here.parameters[learned]
        prior = 2.0 * (np.divide(own, parameters, out=np.zeros_like(own), where=parameters > 0))
        return cls(learned, told, prior + 2.0 * layout.totals(problem.prior)[learned])

    def factored(self, weight: float) -> Factored:
        """Return the curvature of rows of so much weight, ready to be solved for."""
        whole = weight * self.told
        whole[np.diag_indices_from(whole)] += self.prior
        return Factored(self.learned, cho_factor(whole, lower=True, overwrite_a=True, check_finite=False)[0])


@dataclass(frozen=True, eq=False)
class Factored:
    """A curvature as a product of triangles.

    Attributes
    ----------
    learned : (parameters,)
    lower : (learned, learned)
    """

    learned: Booleans
    lower: Floats

    def solved(self, gradient: Floats) -> Floats:
        """Return the step along which the gradient vanishes if the curvature is this."""
        step = np.zeros_like(gradient)
        step[self.learned] = cho_solve((self.lower, True), gradient[self.learned], check_finite=False)
        return step


def _gradients(problem: TreeObjective, here: Evaluation) -> Iterator[NDArray[np.float32]]:
    """Yield by how much the gradients of batches of rows differ from their mean, as if rows had one weight.

    Batches are drawn, whatever the order of the rows: else their gradients would not differ by chance alone.
    """
    layout, rows = problem.layout, problem.rows
    count = len(rows.weights)
    size = -(-count // (BATCHES_PER_PARAMETER * layout.learned_count))
    order = np.random.default_rng(0).permutation(count)
    roots = np.sqrt(here.parameters)
    mean = _slopes(layout, here.counts, roots) / problem.weight
    for some in np.split(order, range(size * AT_A_TIME, count, size * AT_A_TIME)):
        weights = rows.weights[some]
        counts = problem.expectation.batches(
            here.parameters, np.ascontiguousarray(rows.codes[:, some]), weights, size
        )
        firsts = np.arange(0, len(some), size)
        total, squares = (np.add.reduceat(each, firsts)[:, None] for each in (weights, weights**2))
        # The gradient of a batch varies by the sum of the squares of its weights.
        yield ((_slopes(layout, counts, roots) - total * mean) * np.sqrt(total / squares)).astype(np.float32)


def _slopes(layout: ParameterLayout, counts: Floats, roots: Floats) -> Floats:
    """Return the gradient in the roots of learned parameters, of rows with these expected counts."""
    slopes = np.divide(counts, roots, out=np.zeros_like(counts), where=roots > 0)
    gradient: Floats = 2.0 * (slopes - layout.totals(counts) * roots)[..., layout.learned]
    return gradient
