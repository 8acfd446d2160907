"""How many pseudo-counts: those with the highest marginal likelihood, where rows are few beside parameters.

With few rows the prior matters more than anything else, and which one is right depends on the data: classes that
are nearly alike need several pseudo-counts, classes far apart next to none. The marginal likelihood is a sum over
all rows and cells, so neither seed, order nor labels decide, and no row has to be held out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from eigentree.em.multistart import SHARE_OF_CHANCE
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.em.optimize.objective import Objective
    from eigentree.em.tree_fit import TreeFit

__all__ = ["PSEUDO_COUNTS", "ROWS_PER_PARAMETER", "log_marginal_likelihood", "smoothed"]

PSEUDO_COUNTS = (0.1, 0.3, 1.0, 3.0)
"""Those to choose from, half an order of magnitude apart: from one that rules out nothing and hardly changes
anything else to one that outweighs some rows of each class."""

ROWS_PER_PARAMETER = 50
"""With more rows for each entry of the tables the chance error is below 0.01 nats per row, and the prior can spare
a part of that only: the fewest are enough."""


def smoothed(fit: TreeFit, parameters: Floats, rows: float) -> tuple[float, Floats]:
    """Return the pseudo-counts with the highest marginal likelihood, and the parameters that EM reaches with them.

    More and more are tried while the marginal likelihood rises, each EM run from where the last one ended; the
    first is the given fit, with the fewest. It may have a sample of all `rows`.
    """
    chosen, highest = PSEUDO_COUNTS[0], log_marginal_likelihood(fit.whole, parameters)
    count = fit.whole.layout.learned_count
    if rows > ROWS_PER_PARAMETER * count:
        return chosen, parameters
    stopping = Stopping.within_chance(SHARE_OF_CHANCE, count, fit.whole.weight)
    for pseudo_counts in PSEUDO_COUNTS[1:]:
        objective = replace(fit, pseudo_counts=pseudo_counts).whole
        *_, run = em_run(objective, parameters, stopping, fit.max_iter)
        value = log_marginal_likelihood(objective, run.parameters)
        if not value > highest:
            break
        chosen, highest, parameters = pseudo_counts, value, run.parameters
    return chosen, parameters


def log_marginal_likelihood(objective: Objective, parameters: Floats) -> float:
    """Return the marginal likelihood of the data under their Dirichlet prior (Cheeseman and Stutz, 1996).

    It is that of the data completed by their expected counts, whose integral is known, times by how much the data
    themselves are more probable than the completed ones at the same parameters.
    """
    from scipy.special import gammaln

    layout, prior = objective.layout, objective.prior
    counts, log_likelihood, _ = objective.counted(parameters)
    learned = prior > 0
    counts = np.where(learned, counts, 0.0)
    totals, weights, sizes = (layout.totals(each)[learned] for each in (counts, prior, learned.astype(float)))
    counts, prior, entries = counts[learned], prior[learned], parameters[learned]
    completed = gammaln(counts + prior) - gammaln(prior) + (gammaln(weights) - gammaln(totals + weights)) / sizes
    used = counts > 0
    return float(completed.sum()) + log_likelihood - float(counts[used] @ np.log(entries[used]))
