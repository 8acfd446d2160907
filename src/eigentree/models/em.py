"""EM and stepwise online EM for latent junction trees: what the paper compares with (section 9).

Both climb the likelihood of the tables of a `LatentNetwork`, by the E-step and the steps of `eigentree.em`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from eigentree.checks import finite_number, generator, whole_number
from eigentree.data.columns import Columns
from eigentree.data.resolving import resolve_structure
from eigentree.data.rows import Rows
from eigentree.data.weights import checked_weights
from eigentree.em.climbing import Problem, climbed, has_converged
from eigentree.em.distinct import DistinctRows, columns_with_gaps
from eigentree.em.expectation import Expectation
from eigentree.em.online import Learner
from eigentree.em.progress import shown_progress
from eigentree.errors import DataError, NetworkError, ParameterError
from eigentree.exact.network import LatentNetwork
from eigentree.kernels.compiling import announced
from eigentree.models.tables_face import TablesFace
from eigentree.notices import notice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.checks import Seed
    from eigentree.em.climbing import Climb
    from eigentree.structures.graph import LatentGraph
    from eigentree.structures.templates import Template

__all__ = ["EMJunctionTree", "OnlineEMJunctionTree"]


class _TablesFace(TablesFace):
    """The face of an estimator whose fit leaves tables, step by step."""

    tol: float
    pseudo_counts: float
    history_: Floats
    n_iter_: int
    converged_: bool

    def _check_shared(self) -> None:
        whole_number("n_jobs", self.n_jobs)
        finite_number("tol", self.tol, 0.0)
        finite_number("pseudo_counts", self.pseudo_counts, 0.0)


class EMJunctionTree(_TablesFace):
    """Tables learned by expectation maximisation, from several starts.

    Parameters
    ----------
    structure : LatentGraph or Template
        A graph, or a template such as ``zoo.HMM(order=2)`` that builds one from the columns of the data.
    restarts : int
        How many random starts to climb from; the best end is kept.
    tol : float
        A climb ends when the log-likelihood f satisfies |f(t) - f(t-1)| <= tol · (|f(t)| + |f(t-1)|) / 2.
    max_iter : int
        Most steps of a climb.
    init : LatentNetwork, optional
        Where to start; there is then one climb only.
    pseudo_counts : float
        Added to every expected count (a symmetric Dirichlet prior); the objective is then the log-likelihood plus
        `pseudo_counts` times the sum of all log parameters.
    accelerate : bool
        Extrapolate from earlier steps (Anderson's method); a step that would lower the objective is taken back.
    random_state : int, Generator or None
    n_jobs : int
        Threads that share the rows.
    verbose : int
        Show progress if positive, where rich is installed and stderr is a terminal.

    Attributes
    ----------
    network_ : LatentNetwork
        The learned tables. Hidden variables that no observed one depends on keep the tables of the start. States
        of hidden variables are in canonical order (`LatentNetwork.ordered`), or in that of `init` if it is given.
    tables_ : dict of LabeledTable
        The same with names; `n_parameters_` is how many of their entries are free.
    graph_ : LatentGraph
    history_ : array
        The objective of the best climb, start included; it never decreases, and its last is that of `network_`.
    objectives_ : array
        Where each climb ended.
    n_iter_ : int
        Steps of the best climb.
    converged_ : bool
        Whether the best climb ended by `tol`.
    n_features_in_ : int

    Examples
    --------
    >>> from eigentree import zoo
    >>> truth = LatentNetwork.random(zoo.mixture(columns=4, components=2, observed_states=3), seed=0)
    >>> model = EMJunctionTree(zoo.Mixture(components=2), restarts=2, random_state=0).fit(truth.sample(500, seed=1))
    >>> model.network_.tables["x0"].shape
    (2, 3)
    >>> bool(np.all(np.diff(model.history_) >= 0))
    True
    """

    def __init__(
        self,
        structure: LatentGraph | Template,
        restarts: int = 5,
        tol: float = 1e-4,
        max_iter: int = 1000,
        *,
        init: LatentNetwork | None = None,
        pseudo_counts: float = 0.0,
        accelerate: bool = False,
        random_state: Seed = None,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.restarts = restarts
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.pseudo_counts = pseudo_counts
        self.accelerate = accelerate
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @announced
    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the estimator after learning from rows of codes.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        y : ignored
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; need not be whole.

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the best so far is kept.
        """
        self._check_arguments()
        graph = resolve_structure(self.structure, X)
        rows = DistinctRows.of(*_encoded(X, graph, sample_weight))
        starts = _starts(graph, self.init, generator(self.random_state), self.restarts)
        expectation = Expectation.of(graph, columns_with_gaps(rows.codes, graph), len(rows.codes))
        coded = expectation.coded(rows.codes, rows.weights)
        problem = Problem(expectation, coded, rows.first, float(self.pseudo_counts), self.n_jobs)
        climbs: list[Climb] = []
        try:
            with shown_progress(self.verbose, "EM", len(starts) * self.max_iter) as report:
                for number, start in enumerate(starts):
                    done, vector = number * self.max_iter, problem.layout.vector(start)
                    for climb in climbed(problem, vector, self.tol, self.max_iter, self.accelerate):
                        climbs[number:] = [climb]
                        report(done + len(climb.history) - 1, climb.history[-1])
                    report(done + self.max_iter, climbs[-1].history[-1])
        except KeyboardInterrupt:
            if not climbs:
                raise
            _warn_interrupted(f"start {len(climbs)} of {len(starts)}")
        best = max(climbs, key=lambda climb: climb.history[-1])
        network = self._in_order(problem.layout.network(best.here.parameters))
        return self._become(
            {
                "model_": network.model,
                "network_": network,
                "history_": np.array(best.history),
                "objectives_": np.array([climb.history[-1] for climb in climbs]),
                "n_iter_": len(best.history) - 1,
                "converged_": best.converged,
            }
        )

    def _check_arguments(self) -> None:
        whole_number("restarts", self.restarts)
        whole_number("max_iter", self.max_iter)
        self._check_shared()


class OnlineEMJunctionTree(_TablesFace):
    """Tables learned by stepwise online EM (Liang and Klein, 2009).

    Expected counts per row are kept as a running average, in which mini-batch k = 0, 1, … has the weight
    (k + 2) ** -stepsize; the tables follow after each mini-batch.

    Parameters
    ----------
    structure : LatentGraph or Template
        A graph, or a template such as ``zoo.HMM(order=2)`` that builds one from the columns of the first data.
    stepsize : float
        More than 0.5 and at most 1; the smaller, the faster old mini-batches are forgotten.
    batch_size : int
        Rows of a mini-batch.
    passes : int
        Most passes of `fit` over the data, each in a new order.
    tol : float
        `fit` ends when the objective f of the passes satisfies |f(t) - f(t-1)| <= tol · (|f(t)| + |f(t-1)|) / 2.
    init : LatentNetwork, optional
        Where to start; a random network by default.
    pseudo_counts : float
        Added to every expected count over all rows seen (a symmetric Dirichlet prior).
    random_state : int, Generator or None
        For the start, and for the order of rows in `fit`.
    n_jobs : int
        Threads that share the rows of a mini-batch.
    verbose : int
        Show progress if positive, where rich is installed and stderr is a terminal.

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
        The running average of expected counts, from which `partial_fit` goes on.
    n_features_in_ : int

    Examples
    --------
    >>> from eigentree import zoo
    >>> graph = zoo.hmm(length=5, hidden_states=2, observed_states=3)
    >>> rows = LatentNetwork.random(graph, seed=0).sample(400, seed=1)
    >>> model = OnlineEMJunctionTree(graph, batch_size=50, random_state=0)
    >>> model.partial_fit(rows[:200]).partial_fit(rows[200:]).n_iter_
    8
    """

    learner_: Learner

    def __init__(
        self,
        structure: LatentGraph | Template,
        stepsize: float = 0.7,
        batch_size: int = 256,
        passes: int = 10,
        tol: float = 1e-4,
        *,
        init: LatentNetwork | None = None,
        pseudo_counts: float = 0.0,
        random_state: Seed = None,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.stepsize = stepsize
        self.batch_size = batch_size
        self.passes = passes
        self.tol = tol
        self.init = init
        self.pseudo_counts = pseudo_counts
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @announced
    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the estimator after learning from rows of codes, in several passes; what it knew is forgotten.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        y : ignored
        sample_weight : array-like of shape (rows,), optional

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the tables so far are kept.
        """
        self._check_arguments()
        graph = resolve_structure(self.structure, X)
        codes, _, weights = _encoded(X, graph, sample_weight)
        random = generator(self.random_state)
        learner = self._learner(graph, random)
        history: list[float] = []
        converged = False
        try:
            with shown_progress(self.verbose, "online EM", self.passes) as report:
                while len(history) < self.passes and not converged:
                    order = random.permutation(len(codes))
                    log_likelihood = 0.0
                    for lesson in learner.lessons(codes[order], weights[order], order):
                        learner = lesson.learner
                        log_likelihood += lesson.log_likelihood
                    history.append(log_likelihood)
                    report(len(history), history[-1])
                    converged = len(history) > 1 and has_converged(history[-2], history[-1], self.tol)
        except KeyboardInterrupt:
            if not learner.batches:
                raise
            _warn_interrupted(f"pass {len(history) + 1} of {self.passes}")
        return self._published(learner, history, converged)

    @announced
    def partial_fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the estimator after learning from more rows, in their order and once.

        Parameters are as in `fit`.
        """
        known = "learner_" in vars(self)
        if not known:
            self._check_arguments()
        graph = self.learner_.graph if known else resolve_structure(self.structure, X)
        codes, _, weights = _encoded(X, graph, sample_weight)
        learner = self.learner_ if known else self._learner(graph, generator(self.random_state))
        history = self.history_.tolist() if known else []
        log_likelihood = 0.0
        for lesson in learner.lessons(codes, weights, np.arange(len(codes))):
            learner = lesson.learner
            log_likelihood += lesson.log_likelihood
        return self._published(learner, [*history, log_likelihood], False)

    def _check_arguments(self) -> None:
        if not 0.5 < finite_number("stepsize", self.stepsize, 0.0) <= 1:
            raise ParameterError(f"stepsize is more than 0.5 and at most 1, not {self.stepsize!r}")
        whole_number("batch_size", self.batch_size)
        whole_number("passes", self.passes)
        self._check_shared()

    def _learner(self, graph: LatentGraph, random: np.random.Generator) -> Learner:
        start = _starts(graph, self.init, random, 1)[0]
        stepsize, pseudo_counts = float(self.stepsize), float(self.pseudo_counts)
        return Learner.of(graph, start, stepsize, self.batch_size, pseudo_counts, self.n_jobs)

    def _published(self, learner: Learner, history: list[float], converged: bool) -> Self:
        network = self._in_order(learner.network)
        return self._become(
            {
                "model_": network.model,
                "network_": network,
                "learner_": learner,
                "history_": np.array(history),
                "n_iter_": learner.batches,
                "converged_": converged,
            }
        )


def _starts(
    graph: LatentGraph, init: LatentNetwork | None, random: np.random.Generator, restarts: int
) -> list[LatentNetwork]:
    if init is None:
        return [LatentNetwork.random(graph, seed=seed) for seed in random.spawn(restarts)]
    if not isinstance(init, LatentNetwork):
        raise NetworkError(f"init is a LatentNetwork, not {type(init).__name__}")
    if init.graph != graph:
        raise NetworkError("init belongs to another graph than the structure; build it on the same one")
    return [init]


def _encoded(
    X: ArrayLike | Any, graph: LatentGraph, sample_weight: ArrayLike | None
) -> tuple[Codes, tuple[int, ...], Floats]:
    """Return the codes of all rows, the numbers of states of their columns, and their weights."""
    rows = Rows.of(X, Columns.of(graph))
    codes = rows.encode()
    weights = checked_weights(sample_weight, rows.count)
    if weights is None:
        return codes, rows.columns.states, np.ones(rows.count)
    if not weights.any():
        raise DataError("there are no rows, or all rows have weight 0; there is nothing to learn from")
    return codes, rows.columns.states, weights.astype(np.float64)


def _warn_interrupted(where: str) -> None:
    notice(f"the fit was interrupted in {where}; the best so far is kept")
