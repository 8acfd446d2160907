"""`EMJunctionTree`: conditional probability tables learned by EM (section 9)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.counting.structure_and_schema import resolved
from eigentree.data.streams.encoded_stream import any_rows_and_columns
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.constraints import Constraints
from eigentree.em.em_report import StartReport
from eigentree.em.init.trees import KINDS
from eigentree.em.mixed.emission_choice import (
    checked_emissions,
    families_of_columns,
    families_on_graph,
)
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.size_search import average
from eigentree.em.tree_fit import TreeFit, fit_rows
from eigentree.errors import ParameterError, quoted
from eigentree.estimators.fits.memory_sample import EMSettings
from eigentree.estimators.fits.tree_fits import arranged, size_problem, tree_fit
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin, warn_interrupted
from eigentree.estimators.mixins.latent_mixin import LatentMixin, checked_init
from eigentree.graphs.learned_templates import open_template
from eigentree.inference.networks.network import LatentNetwork
from eigentree.progress import shown_search
from eigentree.validation import generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.em.init.trees import Kind
    from eigentree.em.optimize.stopping import Rule
    from eigentree.em.size_search import SearchProblem, SearchState
    from eigentree.em.sizes import SizeSearch
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.learned_templates import HiddenChowLiu
    from eigentree.graphs.templates import Template
    from eigentree.validation import Seed

__all__ = ["EMJunctionTree"]


@estimator_class
class EMJunctionTree(IterativeMixin, LatentMixin):
    """Conditional probability tables learned by expectation maximisation.

    Parameters
    ----------
    structure : LatentGraph, Template, "auto", or a graph of networkx, pgmpy or pyagrum
        A graph, a template such as ``zoo.HMM(order=2)`` that builds one from the columns of the data, or "auto": an
        average of fits whose structure and size are chosen by held-out log-likelihood.
    n_init : int
        The number of starts, of which the one with the highest objective is kept; in a multi-start, how many
        candidates at most run until they have converged; with "auto", how many fits are averaged at most.
    tol : float, optional
        What `stopping` compares with; by default it depends on the number of rows (Notes).
    max_iter : int
        Most iterations of an EM run.
    init : {"multistart", "spectral", "mixture", "copy", "random"} or LatentNetwork
        Where to start; "multistart" compares all the initialisers that it stands beside on growing samples of the
        rows, and from a network there is one run.
    stopping : {"gain", "paper"}
        When a run has converged: once the log-likelihood is expected to rise no further than by `tol`, or once it
        has risen by less than `tol` in one iteration, as the paper has it (section 9).
    pseudo_counts : float or "auto"
        Added to every expected count (a Dirichlet prior); with 0, cells that were never seen together can be
        impossible, and "auto" is 0.1, or more where rows are few.
    accelerate : bool
        Take quasi-Newton steps (L-BFGS, whose first step is EM's own); one that would lower the objective is
        shortened or taken back.
    validation_fraction : float
        The share of the rows that is held out; the tables with the highest log-likelihood of these are kept, and
        end the run.
    finish_rows : int, "auto" or None
        The number of rows of the last run; None: all rows; "auto": all that are in memory, of others a sample.
    random_state : int, Generator or None
    n_jobs : int
        Threads that share the rows.
    verbose : int
        Show progress if positive, where rich is installed and stderr is a terminal.
    categories : mapping of str to sequence of labels, or one sequence, optional
        All labels of some columns by name, or those of every column; by default those that occur or are declared.
    handle_unknown : {"error", "missing"}
        What a label is that its column does not have: an error, or a missing cell.
    numeric : {"emissions", "quantiles", "error"}
        What a column of numbers is: numbers with an emission, bins with about equally many rows, or an error.
    emissions : "auto", str, or dict
        The family of the distribution of number columns given the state of their parents: the name of one for all,
        or a dict of columns, or of tuples of columns that share a distribution, to names (Notes).
    fixed : dict, optional
        Entries of tables that keep their values, by variable: an array like the table with NaN where entries are
        free, or a mapping of some of the variable's states to probabilities.
    equal : list of tuples, optional
        Ties, each of variables whose tables are equal, as ``[("q1", "q2")]``; a member may be a variable and the
        states of some of its parents, as ``("q1", {"h": 0})``.

    Attributes
    ----------
    network_ : LatentNetwork
        The learned tables, states of hidden variables in canonical order (`LatentNetwork.ordered`) or in that of
        `init`; hidden variables that no observed one depends on keep those of the start.
    tables_ : dict of LabeledTable
        The same with names; `n_parameters_` is the number of free parameters, `n_constraints_` how many more there
        would be without `fixed` and `equal`.
    graph_ : LatentGraph
    start_ : StartReport
        Which start was kept, by how much it was ahead, and which candidates there were.
    pseudo_counts_ : float
        The pseudo-counts that were used.
    history_ : array
        The objective of the best run on all rows, start included, which never decreases; the last is that of
        `network_`, unless validation rows chose an earlier iteration.
    validation_history_ : array
        The mean log probability of the validation rows at each iteration of it; empty if there are none.
    objectives_ : array
        Where each run on all rows ended.
    n_iter_ : int
        Iterations of the best run.
    converged_ : bool
        Whether the best run ended by `stopping`, or by the validation rows.
    finish_rows_ : int
        The number of rows of it.
    search_ : SizeSearch
        With "auto": which sizes were tried, and their held-out log-likelihoods; ``search_.plot()`` draws them.
    n_features_in_ : int

    Notes
    -----
    **structure="auto"** chooses among trees of hidden variables (`zoo.HiddenChowLiu`) of several sizes, mixtures of
    such trees, latent classes, and the Chow-Liu tree of the columns. The average of several fits is a mixture whose
    hidden states are no classes. Up to 2,000 rows there is one fit for each of five folds, whatever `n_init` says.
    `history_` is the log-likelihood of the rows in each pass and iteration of the best fit, which may fall, and
    `objectives_` that of each fit that was tried. `max_iter`, `tol`, `stopping` and `accelerate` are not used, and
    `pseudo_counts="auto"` is 0.01. One last iteration is on all rows, held-out ones included.

    **init**: "spectral": the tables recovered from a spectral fit; "mixture": classes around rows that are far from
    each other; "copy": hidden variables that are noisy copies of the classes of a fitted mixture; "random": random
    tables.

    **stopping**: "gain" ends a run once all further iterations are expected to raise the log-likelihood per row by
    no more than `tol`; only a saddle can look like an optimum. "paper" ends it once the log-likelihood f satisfies
    ``|f(t) - f(t-1)| <= tol · (|f(t)| + |f(t-1)|) / 2``. By default `tol` is 1e-4 for "paper", and for "gain" 4e-6
    nats, or 1/200 of the chance error (p / 2n for p entries of tables and n rows) where that is more and 32,000
    rows differ.

    **pseudo_counts**: the objective is the log-likelihood plus the sum of all log parameters, each times its
    pseudo-count. The first 0.25 are the same for all entries of a table; what goes beyond is spread, as many on the
    average, as the states of each column are among all rows (those of hidden variables uniformly). "auto" is 0.1,
    which hardly changes anything but what was never seen; while there are less than 50 rows for each entry of the
    tables, it is that of 0.1, 0.3, 1 and 3 with the highest marginal likelihood (Cheeseman and Stutz), which
    depends neither on labels nor on the order of rows or columns. Under constraints "auto" is 0.1.

    **finish_rows="auto"**: all rows that are in memory, or of which no more differ than fit into it; of others a
    sample of 1,000,000, or 1,000 for each entry of the tables where that is more.

    **emissions**: "gaussian", "full" (a covariance for a group), "tied", "student", "lognormal", "gamma",
    "poisson", "negative_binomial", "semiparametric", "normal_scores", "ordinal" (of ordered labels), "categorical"
    (numbers are labels), or a dict of such a name as "family" and its settings. One name is of each column, or, of
    "full" and other families of groups, of all that have the same parents together (where ``structure="auto"``, of
    each). "auto": Gaussians, and negative binomials of counts; for ``structure="auto"`` chosen on held-out rows.

    **fixed, equal**: arrays have the axes of parents first; a mapping has one probability for all states of the
    parents, or one for each; what is free shares what remains. With numbers of hidden states in these, the states
    come in the order of the constraints. Of one parent, ``("q1", 0)`` is short; the distributions of a table that
    is tied to nothing, as ``[("q1",)]``, are equal to each other.

    Figure 3's protocol is ``init="random", n_init=5, stopping="paper", tol=1e-4, accelerate=False,
    pseudo_counts=0``.

    **validation_fraction**: a run ends when the held-out log-likelihood has not risen for some iterations. With
    ``structure="auto"``, 0 stands for a tenth, and up to 2,000 rows for five-fold cross-validation.

    Examples
    --------
    >>> from eigentree import zoo
    >>> truth = LatentNetwork.random(zoo.mixture(columns=4, hidden_states=2, observed_states=3), seed=0)
    >>> model = EMJunctionTree(zoo.Mixture(hidden_states=2), random_state=0).fit(truth.sample(500, seed=1))
    >>> model.network_.tables["x0"].shape
    (2, 3)
    >>> model.converged_
    True
    >>> bool(np.all(np.diff(model.history_) >= 0))
    True
    """

    structure: LatentGraph | Template | Any = "auto"
    n_init: int = 5
    tol: float | None = None
    max_iter: int = 1000
    _: KW_ONLY
    init: LatentNetwork | Literal["multistart"] | Kind = "multistart"
    stopping: Rule = "gain"
    pseudo_counts: float | Literal["auto"] = "auto"
    accelerate: bool = True
    validation_fraction: float = 0.0
    finish_rows: int | Literal["auto"] | None = "auto"
    random_state: Seed = None
    n_jobs: int = 1
    verbose: int = 0
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"
    numeric: NumericRule = "emissions"
    emissions: Any = "auto"
    fixed: Mapping[Any, Any] | None = None
    equal: Sequence[Any] | None = None

    _pseudo_count_rules = ("auto",)

    pseudo_counts_: float = field(init=False)
    finish_rows_: int = field(init=False)
    search_: SizeSearch = field(init=False)

    @learns
    def fit(
        self,
        X: ArrayLike | Any,
        y: object = None,
        sample_weight: ArrayLike | str | None = None,
        validation: ArrayLike | Any | None = None,
    ) -> Self:
        """Return the estimator after a fit to rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes, None, NaN, null or -1 for a missing cell; or a stream: files, a lazy frame, an iterator
            of batches, a Dask DataFrame, `Partitions`.
        y : ignored
        sample_weight : array-like of shape (rows,), or str, optional
            How often each row counts, which need not be whole; of a stream the name of a column.
        validation : array-like of shape (rows, columns), a data frame, or rows of letters, optional
            Held-out rows, to be used as `validation_fraction` says; in place of a share of `X`.

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the best so far is kept.
        ConvergenceWarning
            When `max_iter` ended the best run before it converged.
        UserWarning
            When a stream has so many rows that the fit ends on a sample, and `finish_rows` did not say so.
        """
        self._check_arguments(validation)
        random = generator(self.random_state)
        if (template := open_template(self.structure)) is not None:
            return self._fit_sizes(template, X, sample_weight, validation, random)
        remembered = self._remembered(X, sample_weight=sample_weight)
        graph, columns, rows = resolved(self.structure, X, ReadOptions.of(self, sample_weight))
        families, how = self._families(columns, graph), (rows, sample_weight, validation, random)
        fit: TreeFit
        if families:
            # What numbers need is imported once there are some.
            from eigentree.estimators.fits.number_fits import mixed_fit

            fit, finish, count = mixed_fit(self._settings, graph, columns, families, *how)
        else:
            fit, finish, count = tree_fit(self._settings, graph, columns, *how)
        init = checked_init(self.init, fit.graph) if isinstance(self.init, LatentNetwork) else self._start
        most = self.max_iter * (self.n_init if init == "random" else 1)
        has_choice = self.pseudo_counts == "auto" and not families and not fit.constrained
        states = fit_rows(fit, finish, init, self.n_init, random, has_choice)
        last, objective, state = self._followed(states, most, self.max_iter)
        if finish is not None and objective is not last.whole:
            count = finish.size
        network = arranged(last, state.best[1].parameters, self._in_order)
        return self._become(
            {
                "columns_": columns,
                "network_": self._named(network, columns),
                "pseudo_counts_": last.pseudo_counts,
                "finish_rows_": count,
            }
            | remembered
            | ({"n_constraints_": fit.constrained.n_constraints} if fit.constrained else {})
            | self._run_attributes(state, objective.weight, fit.validation)
        )

    def _fit_sizes(
        self,
        template: HiddenChowLiu,
        X: ArrayLike | Any,
        sample_weight: ArrayLike | None,
        validation: ArrayLike | Any | None,
        random: np.random.Generator,
    ) -> Self:
        """Return the estimator after a search over the sizes of a learned tree."""
        if self._start != "multistart":
            raise ParameterError(
                f"structure={quoted(self.structure)} searches for a size and starts of its own; leave init out"
            )
        if self.fixed is not None or self.equal is not None:
            raise ParameterError(
                f"structure={quoted(self.structure)} is learned, so fixed and equal have no tables to name; give a "
                f"graph, or a template such as zoo.Mixture()"
            )
        found, columns = any_rows_and_columns(X, ReadOptions.of(self, sample_weight))
        how = (columns, found, sample_weight, validation, random)
        problem: SearchProblem
        if families_of_columns(self.emissions, columns):
            from eigentree.estimators.fits.number_fits import mixed_problem

            problem, count = mixed_problem(self._settings, template, self.emissions, *how)
        else:
            problem, count = size_problem(self._settings, template, *how)
        state, converged = self._searched(problem.search(random))
        network, sizes = average(problem, state)
        best, fit = state.best, state.best.fits[0]
        return self._become(
            {
                "columns_": columns,
                "network_": self._in_order(network).with_columns(columns),
                "pseudo_counts_": problem.pseudo_counts,
                "search_": sizes,
                "start_": StartReport(best.trial.start, best.trial.log_likelihood, math.nan),
                "history_": np.array(fit.history),
                "validation_history_": np.array(fit.validation),
                "objectives_": np.array([each for member in state.members for each in member.log_likelihoods]),
                "n_iter_": fit.passes,
                "converged_": converged,
                "finish_rows_": count,
            }
        )

    def _searched(self, states: Iterator[SearchState]) -> tuple[SearchState, bool]:
        """Return the last of the states of a search, shown as they come, and whether it came to its end."""
        state: SearchState | None = None
        try:
            with shown_search(self.verbose) as report:
                for state in states:
                    report(state)
        except KeyboardInterrupt:
            if state is None or not state.members:
                raise
            warn_interrupted(f"the search over sizes, at {state.size}")
            return state, False
        assert state is not None
        return state, True

    def _check_arguments(self, validation: object) -> None:
        self._check_runs(KINDS, LatentNetwork)
        checked_emissions(self.emissions)
        if validation is not None and self.validation_fraction:
            raise ParameterError("validation rows are given, so validation_fraction must be 0")
        if self.finish_rows is not None and not (isinstance(self.finish_rows, str) and self.finish_rows == "auto"):
            whole_number("finish_rows", self.finish_rows)

    @property
    def _settings(self) -> EMSettings:
        """How EM runs."""
        how = (self.max_iter, self.pseudo_counts, self.validation_fraction)
        return EMSettings(
            self._stopping, *how, self.n_init, self.accelerate, self.n_jobs, self._constraints, self.finish_rows
        )

    @property
    def _constraints(self) -> Constraints:
        """What is fixed and what is equal."""
        return Constraints(self.fixed, self.equal)

    def _named(self, network: LatentNetwork, columns: Columns) -> LatentNetwork:
        """Return a learned network with the names of states."""
        return network.with_columns(columns)

    def _families(self, columns: Columns, graph: LatentGraph) -> dict[tuple[str, ...], Any]:
        """Return the family of each number column, or group of them."""
        return families_on_graph(self.emissions, columns, graph)

    def _stopping(self, rows: int, weight: float, parameters: int) -> Stopping:
        """Return when a run on so many rows that differ has converged."""
        if self.tol is not None:
            return Stopping(self.stopping, float(self.tol))
        return Stopping.usual(self.stopping, rows, weight, parameters)
