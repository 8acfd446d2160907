"""The face of estimators that leave tables: what they add to the answers of their network."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from eigentree.data.tables.weights import positive_weights
from eigentree.em.estep.expected_tables import expected_counts
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.inference.networks.hidden_variables import HiddenAnswers
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.data.tables.labeled_table import LabeledTable

__all__ = ["LatentMixin"]


class LatentMixin(HiddenAnswers, DensityMixin):
    """What users ask of an estimator whose fit leaves tables.

    Attributes
    ----------
    network_ : LatentNetwork
    init : object
        Where the fit started, if the user gave a network.
    n_jobs : int
    """

    network_: LatentNetwork
    init: Any
    n_jobs: int

    @property
    def _tables(self) -> LatentNetwork:
        self._require_fit()
        return self.network_

    @property
    def tables_(self) -> dict[Any, LabeledTable]:
        """The learned tables by variable (by remainder on an undirected graph), axes and states named."""
        return self._tables.labeled_tables

    @property
    def n_parameters_(self) -> int:
        """How many free parameters were learned."""
        return self._tables.n_parameters

    def bic(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion on rows: the lower, the better.

        It is -2 · log-likelihood + `n_parameters_` · log(number of rows); missing cells are summed out, and
        weighted rows are as many as their weights add up to.
        """
        deviance, rows = self._deviance(X, sample_weight)
        return deviance + self.n_parameters_ * math.log(rows)

    def aic(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return Akaike's information criterion on rows, -2 · log-likelihood + 2 · `n_parameters_`."""
        return self._deviance(X, sample_weight)[0] + 2 * self.n_parameters_

    def expected_counts(
        self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None
    ) -> dict[Any, LabeledTable]:
        """Return how often each cell of each table is expected to have been used, given rows (the E-step).

        As `eigentree.expected_counts` of `network_`.
        """
        return expected_counts(self._tables, X, sample_weight, self.n_jobs)

    def _deviance(self, X: ArrayLike | Any, sample_weight: ArrayLike | None) -> tuple[float, float]:
        """Return -2 · log-likelihood, and how many rows there are."""
        log_prob = self.score_samples(X)
        weights = positive_weights(sample_weight, len(log_prob))
        # An impossible row of weight 0 is no row.
        used = weights > 0
        return -2 * float(weights[used] @ log_prob[used]), float(weights.sum())

    def _in_order(self, network: LatentNetwork) -> LatentNetwork:
        """Return learned tables with hidden states in canonical order, unless the user's start has named them."""
        return network if isinstance(self.init, LatentNetwork) else network.ordered()
