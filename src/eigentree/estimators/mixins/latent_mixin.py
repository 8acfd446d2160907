"""Queries of estimators that learn conditional probability tables, beside those of their network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.estep.expected_tables import expected_counts
from eigentree.errors import NetworkError
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.inference.networks.hidden_variables import HiddenQueries
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labeled_table import LabeledTable
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.hidden_variables import NetworkModel

__all__ = ["LatentMixin", "checked_init", "encoded"]


class LatentMixin(HiddenQueries, DensityMixin):
    """Queries of an estimator that learns the conditional probability tables of a `network_`."""

    network_: LatentNetwork
    n_constraints_: int = 0
    init: Any
    n_jobs: int
    pseudo_counts: Any

    @property
    def _tables(self) -> LatentNetwork:
        return self.network_

    @property
    def model_(self) -> NetworkModel:
        """The exact model of `network_`, built when it is first needed."""
        return self._tables.model

    @property
    def _model(self) -> NetworkModel:
        return self.model_

    @property
    def tables_(self) -> dict[Any, LabeledTable]:
        """The learned tables by variable (by remainder on an undirected graph), axes and states named.

        Of a number, mean and standard deviation in each state; `emissions_` has all of its parameters.
        """
        return self._tables.labeled_tables

    @property
    def emissions_(self) -> dict[Any, Emission]:
        """The learned distributions of number columns, by name, or by tuple of names where several share one."""
        found = self._tables.measurement.all_emissions.items()
        return {names[0] if len(names) == 1 else names: emission for names, emission in found}

    @property
    def n_parameters_(self) -> int:
        """How many free parameters were learned."""
        return self._tables.n_parameters - self.n_constraints_

    def _prediction(self, target: str) -> tuple[Sequence[Any], Callable[[Rows], tuple[Floats, int]]]:
        """Return the same of a hidden variable, whose labels are the numbers of its states."""
        if target not in self._model.graph.hidden:
            return super()._prediction(target)

        def posterior(rows: Rows) -> tuple[Floats, int]:
            found, lost = self._marginals(rows, (target,))
            return found[target], lost

        return range(self._model.graph.states[target]), posterior

    def bic(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the Bayesian information criterion on rows: the lower, the better.

        It is -2 · log-likelihood + `n_parameters_` · log(number of rows); missing cells are marginalised out, and
        weighted rows are as many as their weights add up to. It compares fits of maximum likelihood: a fit with
        pseudo-counts is warned of.
        """
        return self._criteria(X, sample_weight).bic

    def aic(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> float:
        """Return Akaike's information criterion on rows, -2 · log-likelihood + 2 · `n_parameters_`."""
        return self._criteria(X, sample_weight).aic

    def criteria(self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None) -> Criteria:
        """Return all information criteria on rows by name, with log-likelihood, parameters and entropy R².

        `Criteria` says what each is. They compare fits of maximum likelihood, as `bic` does.
        """
        rows = self._rows(X)
        hidden = self._model.graph.hidden
        found = self._marginals(rows, hidden)[0].values() if hidden else ()
        weights = positive_weights(sample_weight, rows.count)
        return self._criteria(rows, sample_weight, [(posterior, weights) for posterior in found])

    def expected_counts(
        self, X: ArrayLike | Any, sample_weight: ArrayLike | None = None
    ) -> dict[Any, LabeledTable]:
        """Return how often each cell of each table is expected to have been used, given rows (the E-step).

        As `eigentree.expected_counts` of `network_`.
        """
        return expected_counts(self._tables, X, sample_weight, self.n_jobs)

    def _criteria(
        self,
        X: ArrayLike | Any,
        sample_weight: ArrayLike | None,
        posteriors: Sequence[tuple[Floats, Floats]] = (),
    ) -> Criteria:
        log_prob = self.score_samples(X)
        weights = positive_weights(sample_weight, len(log_prob))
        prior = float(vars(self).get("pseudo_counts_", self.pseudo_counts))
        return Criteria.of_rows(log_prob, weights, self.n_parameters_, float(weights.sum()), prior, posteriors)

    def _in_order(self, network: LatentNetwork) -> LatentNetwork:
        """Return learned tables with hidden states in canonical order, unless the user's start has named them."""
        return network if isinstance(self.init, LatentNetwork) else network.ordered()


def checked_init(init: LatentNetwork, graph: LatentGraph) -> LatentNetwork:
    """Return the network to start from, once it is one of the graph."""
    if not isinstance(init, LatentNetwork):
        raise NetworkError(f"init is a LatentNetwork, not {type(init).__name__}")
    # EM reads ordered labels as numbers, of which the graph of a fit has one state.
    ordered = dict.fromkeys((name for group in init.all_emissions for name in group), 1)
    if init.graph.with_states(ordered) != graph:
        raise NetworkError("init belongs to another graph than the structure; build it on the same one")
    return init


def encoded(
    X: ArrayLike | Any, columns: Columns, sample_weight: ArrayLike | None
) -> tuple[Codes, tuple[int, ...], Floats]:
    """Return the codes of all rows, the numbers of states of their columns, and their weights."""
    rows = Rows.of(X, columns)
    codes = rows.encode()
    weights = positive_weights(sample_weight, rows.count)
    warn_of_few(weights)
    return codes, rows.columns.states, weights
