"""`OnlineEMJunctionTree`: stepwise online EM, which the paper compares with (section 9)."""

from __future__ import annotations

from dataclasses import KW_ONLY, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from eigentree.counting.structure_and_schema import resolved
from eigentree.data.streams.encoded_stream import Encoded, Spool, StreamedRows
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import NO_WEIGHT
from eigentree.em.optimize.stopping import has_converged
from eigentree.em.parameters import ParameterLayout
from eigentree.em.stepwise import Learner
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin, warn_interrupted, warn_not_converged
from eigentree.estimators.mixins.latent_mixin import LatentMixin, checked_init, encoded
from eigentree.inference.networks.network import LatentNetwork
from eigentree.progress import shown_progress
from eigentree.validation import finite_number, generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.templates import Template
    from eigentree.validation import Seed

__all__ = ["OnlineEMJunctionTree"]

STRETCH_CELLS = 2**24
"""Most cells of a stream that are in memory at a time, and whose rows `fit` takes in a new order."""


@estimator_class
class OnlineEMJunctionTree(IterativeMixin, LatentMixin):
    """Tables learned by stepwise online EM (Liang and Klein, 2009).

    Expected counts per row are kept as a running average, in which mini-batch k = 0, 1, … has the weight
    (k + 2) ** -stepsize; the tables follow after each mini-batch.

    Parameters
    ----------
    structure : LatentGraph, Template, or a graph of networkx, pgmpy or pyagrum
        A graph, or a template such as ``zoo.HMM(order=2)`` that builds one from the columns of the first data.
    stepsize : float
        More than 0.5 and at most 1; the smaller, the faster old mini-batches are forgotten.
    batch_size : int
        Rows of a mini-batch.
    passes : int
        Most passes of `fit` over the data, each in a new order.
    tol : float
        `fit` ends when the objective f of the passes satisfies
        ``|f(t) - f(t-1)| <= tol · (|f(t)| + |f(t-1)|) / 2``.
    init : LatentNetwork, optional
        Where to start; a random network by default.
    pseudo_counts : float
        Added to every expected count over all rows seen (a symmetric Dirichlet prior).
    random_state : int, Generator or None
        For the start, and for the order of rows in `fit`.
    n_jobs, verbose, categories, handle_unknown, numeric
        As those of `EMJunctionTree`.

    Attributes
    ----------
    network_ : LatentNetwork
    graph_ : LatentGraph
    history_ : array
        For each pass of `fit`, or each call of `partial_fit`, the log-likelihood of its rows, each under the tables
        just before its mini-batch was learned from.
    n_iter_ : int
        Mini-batches so far.
    converged_ : bool
        Whether `fit` ended by `tol`.
    learner_ : Learner
        The running average of expected counts, which `partial_fit` continues.
    n_features_in_ : int

    Examples
    --------
    >>> from eigentree import zoo
    >>> graph = zoo.hmm(length=5, hidden_states=2, observed_states=3)
    >>> rows = LatentNetwork.random(graph, seed=0).sample(400, random_state=1)
    >>> model = OnlineEMJunctionTree(graph, batch_size=50, random_state=0)
    >>> model.partial_fit(rows[:200]).partial_fit(rows[200:]).n_iter_
    8
    """

    structure: LatentGraph | Template | Any = None
    stepsize: float = 0.7
    batch_size: int = 256
    passes: int = 10
    tol: float = 1e-4
    _: KW_ONLY
    init: LatentNetwork | None = None
    pseudo_counts: float = 0.0
    random_state: Seed = None
    n_jobs: int = 1
    verbose: int = 0
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"
    numeric: NumericRule = "error"

    learner_: Learner = field(init=False)

    @learns
    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | str | None = None) -> Self:
        """Return the estimator after a fit to rows in several passes, from the start.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes, None, NaN, null or -1 for a missing cell; or a stream, such as the path of Parquet
            files.
        y : ignored
        sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the tables so far are kept.
        ConvergenceWarning
            When the passes ended before the fit converged.

        Notes
        -----
        Each pass over a stream takes rows in a new order within stretches that fit into memory, one after the
        other.
        """
        self._check_arguments()
        graph, columns, stretches = self._stretches_of(X, sample_weight, often=True)
        random = generator(self.random_state)
        learner = self._learner(graph, random)
        history: list[float] = []
        converged = False
        try:
            with shown_progress(self.verbose, "online EM", self.passes) as report:
                while len(history) < self.passes and not converged:
                    log_likelihood = 0.0
                    for first, codes, weights in stretches():
                        order = random.permutation(len(codes))
                        for state, value in learner.updates(codes[order], weights[order], first + order):
                            learner = state
                            log_likelihood += value
                    history.append(log_likelihood)
                    report(len(history), history[-1])
                    converged = len(history) > 1 and has_converged(history[-2], history[-1], self.tol)
        except KeyboardInterrupt:
            if not learner.batches:
                raise
            warn_interrupted(f"pass {len(history) + 1} of {self.passes}")
        else:
            warn_not_converged(converged, self.passes, "passes")
        return self._published(learner, history, converged, columns)

    @learns
    def partial_fit(
        self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | str | None = None
    ) -> Self:
        """Return the estimator after one more pass, over more rows in their order.

        Parameters are as in `fit`. How the rows of a stream are cut into batches does not matter.
        """
        known = "learner_" in vars(self)
        if not known:
            self._check_arguments()
        graph, columns, stretches = self._stretches_of(X, sample_weight)
        learner = self.learner_ if known else self._learner(graph, generator(self.random_state))
        history = self.history_.tolist() if known else []
        log_likelihood = 0.0
        for first, codes, weights in stretches():
            for state, value in learner.updates(codes, weights, first + np.arange(len(codes))):
                learner = state
                log_likelihood += value
        return self._published(learner, [*history, log_likelihood], False, columns)

    def _stretches_of(
        self, X: ArrayLike | Any, sample_weight: ArrayLike | str | None, often: bool = False
    ) -> tuple[LatentGraph, Columns, Callable[[], Iterator[tuple[int, Codes, Floats]]]]:
        """Return graph, columns, and what yields stretches of rows: the number of the first, codes and weights.

        Rows in memory are one stretch. `partial_fit` reads graph and columns from its first rows only.
        """
        known = not often and "learner_" in vars(self)
        rows: Any
        if known:
            graph, columns = self.learner_.graph, self._columns
            rows = StreamedRows.of(X, columns, sample_weight) if is_stream(X) else X
        else:
            graph, columns, rows = resolved(self.structure, X, ReadOptions.of(self, sample_weight))
            columns.require_states()
        if not isinstance(rows, Encoded):
            codes, _, weights = encoded(rows, columns, sample_weight)
            return graph, columns, lambda: iter([(0, codes, weights)])
        if often and not isinstance(rows, Spool):
            rows = Spool.of(columns, rows.chunks())
        size = self.batch_size * max(1, STRETCH_CELLS // (self.batch_size * len(columns.names)))
        return graph, columns, lambda: _stretches(rows, size)

    def _check_arguments(self) -> None:
        if self.structure is None:
            raise ParameterError(
                "OnlineEMJunctionTree needs a structure: a template such as et.zoo.Mixture(4), a LatentGraph, or "
                "et.learn_structure(X), which learns one from rows"
            )
        if not 0.5 < finite_number("stepsize", self.stepsize, 0.0) <= 1:
            raise ParameterError(f"stepsize is more than 0.5 and at most 1, not {quoted(self.stepsize)}")
        whole_number("batch_size", self.batch_size)
        whole_number("passes", self.passes)
        finite_number("tol", self.tol, 0.0)
        self._check_shared()

    def _learner(self, graph: LatentGraph, random: np.random.Generator) -> Learner:
        if self.init is None:
            (seed,) = random.spawn(1)
            start = LatentNetwork.random(graph, random_state=seed)
        else:
            start = checked_init(self.init, graph)
        learner = Learner.of(graph, ParameterLayout.of(graph).vector(start), float(self.stepsize))
        pseudo_counts = float(self.pseudo_counts)
        return replace(learner, batch_size=self.batch_size, pseudo_counts=pseudo_counts, threads=self.n_jobs)

    def _published(self, learner: Learner, history: list[float], converged: bool, columns: Columns) -> Self:
        network = self._in_order(learner.network).with_columns(columns)
        return self._become(
            {
                "columns_": columns,
                "network_": network,
                "learner_": learner,
                "history_": np.array(history),
                "n_iter_": learner.batches,
                "converged_": converged,
            }
        )


def _stretches(rows: Encoded, size: int) -> Iterator[tuple[int, Codes, Floats]]:
    """Yield the number of the first row, codes and weights of so many rows of a stream at a time."""
    first, total = 0, 0.0
    for codes, given in rows.stretches(size):
        weights = np.ones(len(codes)) if given is None else given.astype(np.float64)
        total += float(weights.sum())
        yield first, codes, weights
        first += len(codes)
    if not first:
        raise DataError("the data have no rows; give at least one")
    if not total:
        raise DataError(NO_WEIGHT)
