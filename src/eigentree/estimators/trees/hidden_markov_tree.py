"""`HiddenMarkovTree`: a hidden state at every node of trees of any shape, learned by EM."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from eigentree.data.sequences.forests import Forest, relabelled_trees
from eigentree.data.sequences.sequence_codes import per_step
from eigentree.data.tables.restore import filled_rows, sampled_rows
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.chain_fit import ChainLayout, fit_chain
from eigentree.em.mixed.emission_choice import checked_emissions
from eigentree.em.number_chains import (
    ForestFit,
    ForestObjective,
    NumberChainLayout,
    channel_families,
    chosen_families,
    started_emissions,
)
from eigentree.em.optimize.stopping import SHARE_OF_ERROR, Stopping
from eigentree.errors import DataError
from eigentree.estimators.mixins.chain_tables import ChainTablesMixin
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin
from eigentree.estimators.mixins.sequence_mixin import distributions_or_uniform
from eigentree.inference.networks.hidden_variables import Decoded
from eigentree.inference.queries import warn_undefined
from eigentree.inference.sequences.tree_chain import TreeChain, pass_of
from eigentree.validation import (
    FILL_METHODS,
    MOST_THREADS,
    check_cells,
    finite_number,
    generator,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.validation import FillMethod, Seed

__all__ = ["HiddenMarkovTree"]

IMPOSSIBLE = "trees are impossible under this model"


@estimator_class
class HiddenMarkovTree(ChainTablesMixin, IterativeMixin):
    """A hidden Markov tree: the state of a node depends on its parent's state, its cells on its own.

    Data are a table with one row for each node, of categories, numbers, or some of both, and the row of each node's
    parent. Trees have any shape; children of a node are unordered, and independent given its state. A tree in which
    each node has one child is a sequence, and the model a hidden Markov model.

    Parameters
    ----------
    hidden_states : int
    n_init : int
        In a multi-start, how many candidates at most run until they have converged; else the number of starts.
    tol : float, optional
        A run ends once it is expected to gain no more than this per node; by default 0.005 p / 2n, for p free
        parameters and n nodes.
    max_iter : int
        The most iterations of an EM run.
    init : {"multistart", "clusters", "random"}
        Where to start: clusters of nodes (k-means), random states about single nodes, or several of both, the worse
        ones dropped after short runs ("multistart").
    pseudo_counts : float
        Added to every expected count (a Dirichlet prior).
    emissions : str or mapping
        What columns of numbers show in each state, as for `HMM`.
    numeric : {"emissions", "quantiles", "error"}
        What continuous columns are: numbers with a density in each state, bins, or an error.
    random_state : int, Generator or None
    n_jobs, verbose, categories, handle_unknown
        As those of `EMJunctionTree`.

    Attributes
    ----------
    tables_ : dict
        "start" (of roots), "transitions", P(state | parent's state), and "emissions"; states are numbered by size,
        the largest first.
    emissions_ : dict of tuple of str to Emission
        What each group of columns of numbers shows in each state.
    n_parameters_, n_iter_ : int
    start_ : StartReport
    history_ : array
        The objective of the best run, start included; it never decreases.
    converged_ : bool
    columns_ : Columns

    Examples
    --------
    >>> import eigentree as et
    >>> kind = ["wood", "wood", "leaf", "leaf", "wood", "wood", "leaf", "leaf", "leaf"]
    >>> parents = [-1, 0, 0, 1, 1, -1, 5, 5, 5]
    >>> model = et.HiddenMarkovTree(hidden_states=2, random_state=0).fit(kind, parents)
    >>> model.score_samples(kind, parents).shape
    (2,)
    >>> model.predict(kind, parents).shape
    (9,)
    """

    hidden_states: int = 2
    n_init: int = 5
    tol: float | None = None
    max_iter: int = 1000
    _: KW_ONLY
    init: Literal["multistart", "clusters", "random"] = "multistart"
    pseudo_counts: float = 0.1
    emissions: str | Mapping[Any, Any] = "auto"
    numeric: NumericRule = "emissions"
    random_state: Seed = None
    n_jobs: int = 1
    verbose: int = 0
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"

    model_: TreeChain = field(init=False)

    _unit = "node"

    @learns
    def fit(
        self, X: ArrayLike | Any, parents: ArrayLike | Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Return the estimator after learning from trees.

        Parameters
        ----------
        X : table, or list of trees
            A table with one row for each node, in any order, or labelled trees: `Tree`, Penn brackets or nested
            tuples.
        parents : array-like of int, shape (nodes,), or the name of a column
            Of a table, the row of each node's parent, from 0; -1 or missing for a root.
        sample_weight : array-like of shape (trees,), optional
            How often each tree counts, in the order of their roots.

        Notes
        -----
        Missing cells are marginalised out. The nodes of labelled trees are their labels and words, each before its
        children.
        """
        self._check_arguments()
        forest = Forest.grown(X, parents, ReadOptions.of(self))
        weights = positive_weights(sample_weight, forest.count)
        warn_of_few(weights)
        random = generator(self.random_state)
        objective = self._objective(forest, weights, random)
        tol = self.tol
        if tol is None:
            tol = Stopping.within_chance(SHARE_OF_ERROR, objective.layout.free_count, objective.weight).tol
        fit = ForestFit(objective, Stopping("gain", float(tol)), self.max_iter)
        found = fit_chain(fit, self.init, self.n_init, random)
        *_, state = self._followed(
            ((None, objective, each) for each in found), self.max_iter * self.n_init, self.max_iter
        )
        layout, best = objective.layout, state.best[1].parameters
        (links,), shown = layout.parts(layout.split(best)[0])
        chain = TreeChain(forest.columns, tuple(links), tuple(shown), (), layout.numbered(best))
        start, moves = objective.expected_links(best)
        return self._become(
            {
                "model_": chain.permuted([np.argsort(-(start + moves.sum(axis=0)), kind="stable")]),
                "columns_": forest.columns,
                "n_parameters_": layout.free_count,
            }
            | self._remembered(forest, sample_weight=sample_weight)
            | self._run_attributes(state, objective.weight, None)
        )

    @our_arithmetic
    def score_samples(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> Floats:
        """Return the log probability of each tree given its shape, missing cells marginalised out.

        Where columns are numbers it is a log density. Trees stand in the order of their roots.
        """
        forest = self._forest(X, parents)
        log_prob = self.model_.log_prob(forest, whole_number("n_jobs", self.n_jobs, most=MOST_THREADS))
        warn_undefined(int(np.isneginf(log_prob).sum()), f"of {len(log_prob)} {IMPOSSIBLE}")
        return log_prob

    def score(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> float:
        """Return the mean log probability of the trees."""
        return float(self.score_samples(X, parents).mean())

    @our_arithmetic
    def predict_proba(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> Floats:
        """Return P(hidden state | its tree) of each node, shape (nodes, states), in the order of the rows."""
        forest = self._forest(X, parents)
        then = "their hidden states are taken as uniform"
        proba = distributions_or_uniform(self.model_.smoothed(forest), then, f"nodes of {IMPOSSIBLE}")
        return np.asarray(per_step(forest, proba))

    @our_arithmetic
    def decode(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> Decoded:
        """Return the jointly most probable hidden states of each tree, node by node, and their log probability."""
        forest = self._forest(X, parents)
        states, log_prob = self.model_.decoded(forest)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"{IMPOSSIBLE}; their hidden states are -1")
        return Decoded(per_step(forest, states), log_prob)

    def predict(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> Any:
        """Return the most probable hidden state of each node, jointly over its tree: those of `decode`."""
        return self.decode(X, parents).states

    @our_arithmetic
    def impute(
        self,
        X: ArrayLike | Any,
        parents: ArrayLike | Any = None,
        method: FillMethod = "mode",
        random_state: Seed = None,
    ) -> Any:
        """Return the table with its missing cells imputed from all of their trees, in the form in which it came.

        Parameters
        ----------
        X, parents
            As for `fit`.
        method : {"mode", "mean", "median", "sample"}
            As that of `HMM.impute`.
        random_state : int, Generator or None
            For "sample".
        """
        one_of("method", method, FILL_METHODS)
        forest, columns, random = self._forest(X, parents), self._columns, generator(random_state)
        known: Any = "mode" if method == "median" and not columns.number_places else method
        cells, lost = self.model_.filled(forest, known, random)
        warn_undefined(lost, f"{IMPOSSIBLE}; their missing cells are imputed as if no cell were known")
        rows = Rows.of_codes(per_step(forest, forest.codes), columns)
        if parents is None:
            labels, trees = columns.labels(columns.names[0]), cast("list[Any]", X)
            return relabelled_trees(trees, [labels[code] for code in per_step(forest, cells)[:, 0].tolist()])
        return filled_rows(X, rows, columns, per_step(forest, cells), random if method == "sample" else None)

    @our_arithmetic
    def sample(self, parents: ArrayLike, random_state: Seed = None) -> Any:
        """Return the nodes of trees sampled from the model, in the form of the training table.

        Parameters
        ----------
        parents : array-like of int, shape (nodes,)
            The shapes of the trees: the row of each node's parent, -1 for a root.
        random_state : int, Generator or None
        """
        columns, random = self._columns, generator(random_state)
        forest = Forest.shaped(parents, columns)
        check_cells("the trees", forest.steps * len(columns.names), "draw fewer or smaller ones", DataError)
        cells = per_step(forest, self.model_.drawn_nodes(forest, random))
        return sampled_rows(columns, cells if cells.dtype.kind == "f" else cells.astype(np.int64), random)

    def bic(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> float:
        """Return the Bayesian information criterion, -2 · log-likelihood + `n_parameters_` · log(nodes)."""
        return self.criteria(X, parents).bic

    def aic(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> float:
        """Return Akaike's information criterion, -2 · log-likelihood + 2 · `n_parameters_`."""
        return self.criteria(X, parents).aic

    @our_arithmetic
    def criteria(self, X: ArrayLike | Any, parents: ArrayLike | Any = None) -> Criteria:
        """Return all information criteria by name, with log-likelihood, parameters and entropy R² of the nodes."""
        forest = self._forest(X, parents)
        log_prob, prior = self.score_samples(forest), float(self.pseudo_counts)
        posteriors = [(self.model_.smoothed(forest), np.ones(forest.steps))]
        nodes = float(forest.steps)
        return Criteria.of_rows(log_prob, np.ones(forest.count), self.n_parameters_, nodes, prior, posteriors)

    def _forest(self, X: Any, parents: Any) -> Forest:
        """Return trees as the model reads them."""
        self._require_fit()
        return X if isinstance(X, Forest) else Forest.grown(X, parents, self._columns)

    def _objective(self, forest: Forest, weights: Floats, random: np.random.Generator) -> ForestObjective:
        states = self.hidden_states
        every = np.ones((states, states), np.bool_)
        tables = ChainLayout((states,), 1, forest.columns.states, (every,))
        families = channel_families(self.emissions, forest.columns)
        prior = float(self.pseudo_counts)
        if families:
            families = chosen_families(families, forest, weights, tables, prior, random)
        numbers = started_emissions(families, pass_of(forest, weights, {}, self.n_jobs), states)
        layout = NumberChainLayout.of(tables, numbers)
        return ForestObjective(layout, pass_of(forest, weights, numbers, self.n_jobs), layout.prior(prior, 0.0))

    def _check_arguments(self) -> None:
        states = whole_number("hidden_states", self.hidden_states)
        check_cells("the transitions", states * states, "take fewer hidden_states", DataError)
        whole_number("n_init", self.n_init)
        whole_number("max_iter", self.max_iter)
        one_of("init", self.init, ("multistart", *ForestObjective.initialisers))
        if self.tol is not None:
            finite_number("tol", self.tol, 0.0)
        checked_emissions(self.emissions)
        self._check_shared()
