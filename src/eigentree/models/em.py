"""EM and stepwise online EM for latent junction trees: what the paper compares with (section 9).

Both climb the likelihood of the tables of a `LatentNetwork`, by the E-step and the steps of `eigentree.em`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from eigentree.checks import finite_number, generator, one_of, whole_number
from eigentree.data.columns import Columns
from eigentree.data.resolving import resolve_structure
from eigentree.data.rows import Rows
from eigentree.data.weights import checked_weights
from eigentree.em.climbing import USUAL_TOLERANCES, Problem, Stopping, has_converged
from eigentree.em.distinct import DistinctRows, columns_with_gaps
from eigentree.em.entrants import KINDS
from eigentree.em.fitting import fitted
from eigentree.em.online import Learner
from eigentree.em.outcome import StartOutcome
from eigentree.em.parameters import ParameterLayout
from eigentree.em.progress import shown_progress
from eigentree.em.racing import Course
from eigentree.em.smoothing import FEW_PSEUDO_COUNTS, chosen_pseudo_counts
from eigentree.errors import DataError, NetworkError, ParameterError
from eigentree.exact.network import LatentNetwork
from eigentree.kernels.compiling import announced
from eigentree.models.tables_face import TablesFace
from eigentree.notices import notice

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes, Floats
    from eigentree.checks import Seed
    from eigentree.em.climbing import Rule
    from eigentree.em.entrants import Kind
    from eigentree.em.racing import Standing
    from eigentree.structures.graph import LatentGraph
    from eigentree.structures.templates import Template

__all__ = ["EMJunctionTree", "OnlineEMJunctionTree"]


class _TablesFace(TablesFace):
    """The face of an estimator whose fit leaves tables, step by step."""

    pseudo_counts: Any
    _pseudo_count_rules: ClassVar[tuple[str, ...]] = ()
    history_: Floats
    n_iter_: int
    converged_: bool

    def _check_shared(self) -> None:
        whole_number("n_jobs", self.n_jobs)
        if not (isinstance(self.pseudo_counts, str) and self.pseudo_counts in self._pseudo_count_rules):
            finite_number("pseudo_counts", self.pseudo_counts, 0.0)


class EMJunctionTree(_TablesFace):
    """Tables learned by expectation maximisation.

    Parameters
    ----------
    structure : LatentGraph or Template
        A graph, or a template such as ``zoo.HMM(order=2)`` that builds one from the columns of the data.
    restarts : int
        How many starts to climb from, where `init` names their kind; the best end is kept. In a race, how many may
        be climbed to the end.
    tol : float, optional
        Of `stopping`: unless given, 1e-4 for "paper", and for "gain" 4e-6 nats per row, or 1/200 of the error
        that chance makes (p / 2n for p entries of tables and n rows) where that is more and 32,000 rows differ.
    max_iter : int
        Most steps of a climb.
    init : {"race", "spectral", "mixture", "copy", "random"} or LatentNetwork
        Where to start. "spectral": the tables that a spectral fit tells. "mixture": classes around rows that are
        far from each other. "copy": hidden variables that are noisy copies of the classes of a fitted mixture.
        "random": tables at random, each climbed to the end. "race": all of these, raced on growing parts of the
        rows. Of a network there is one climb only.
    stopping : {"gain", "paper"}
        When a climb ends. "gain": once the log-likelihood per row is expected to rise by no more than `tol` however
        long it went on; only a saddle can look like a summit. "paper": once the log-likelihood f satisfies
        |f(t) - f(t-1)| <= tol · (|f(t)| + |f(t-1)|) / 2 (section 9).
    pseudo_counts : float or "auto"
        Added to every expected count (a symmetric Dirichlet prior); the objective is then the log-likelihood plus
        `pseudo_counts` times the sum of all log parameters. With 0, cells that were never seen together can have
        probability zero. "auto" is 0.1, which prevents that and hardly changes anything else; but from 10 rows on,
        and while there are less than 50 for each entry of the tables, it is chosen among 0.1 to 4 by a fifth of the
        rows that is held out: the largest that is as good as the best but for chance.
    accelerate : bool
        Extrapolate from earlier steps (L-BFGS, begun with EM's own step); one that would lower the objective is
        shortened or taken back.
    validation_fraction : float
        The share of the rows that is not learned from: the tables under which it was likeliest are kept, and the
        climb ends when it has not become likelier for some steps.
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
    start_ : StartOutcome
        Which start won, by how much, and what was raced.
    pseudo_counts_ : float
        The pseudo-counts that were used.
    history_ : array
        The objective of the best climb on all rows, start included; it never decreases. Its last is that of
        `network_`, unless validation rows chose an earlier step.
    validation_history_ : array
        The mean log probability of the validation rows at each step of it; empty if there are none.
    objectives_ : array
        Where each climb on all rows ended.
    n_iter_ : int
        Steps of the best climb.
    converged_ : bool
        Whether the best climb ended by `stopping`, or by the validation rows.
    n_features_in_ : int

    Notes
    -----
    Figure 3's protocol is ``init="random", restarts=5, stopping="paper", tol=1e-4, accelerate=False,
    pseudo_counts=0``.

    Examples
    --------
    >>> from eigentree import zoo
    >>> truth = LatentNetwork.random(zoo.mixture(columns=4, components=2, observed_states=3), seed=0)
    >>> model = EMJunctionTree(zoo.Mixture(components=2), random_state=0).fit(truth.sample(500, seed=1))
    >>> model.network_.tables["x0"].shape
    (2, 3)
    >>> model.converged_
    True
    >>> bool(np.all(np.diff(model.history_) >= 0))
    True
    """

    _pseudo_count_rules = ("auto",)

    start_: StartOutcome
    pseudo_counts_: float
    validation_history_: Floats
    objectives_: Floats

    def __init__(
        self,
        structure: LatentGraph | Template,
        restarts: int = 5,
        tol: float | None = None,
        max_iter: int = 1000,
        *,
        init: LatentNetwork | Literal["race"] | Kind = "race",
        stopping: Rule = "gain",
        pseudo_counts: float | Literal["auto"] = "auto",
        accelerate: bool = True,
        validation_fraction: float = 0.0,
        random_state: Seed = None,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.restarts = restarts
        self.tol = tol
        self.max_iter = max_iter
        self.init = init
        self.stopping = stopping
        self.pseudo_counts = pseudo_counts
        self.accelerate = accelerate
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @announced
    def fit(
        self,
        X: ArrayLike | Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        validation: ArrayLike | Any | None = None,
    ) -> Self:
        """Return the estimator after learning from rows of codes.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        y : ignored
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; need not be whole.
        validation : array-like of shape (rows, columns), or a data frame, optional
            Other rows, to stop by as `validation_fraction` says; in place of a share of `X`.

        Warns
        -----
        RuntimeWarning
            When the fit was interrupted (Ctrl-C) and the best so far is kept.
        """
        self._check_arguments(validation)
        graph = resolve_structure(self.structure, X)
        random = generator(self.random_state)
        course = self._course(graph, X, sample_weight, validation, random)
        init = _checked_init(self.init, graph) if isinstance(self.init, LatentNetwork) else self.init
        most = self.max_iter * (self.restarts if init == "random" else 1)
        # Draws of their own, made in any case, so that the same number given leads to the same fit.
        (draws,) = random.spawn(1)
        if self.pseudo_counts == "auto":
            course = replace(course, pseudo_counts=chosen_pseudo_counts(course, init, draws))
        standing: Standing | None = None
        try:
            with shown_progress(self.verbose, "EM", most) as report:
                for standing in fitted(course, init, self.restarts, random):
                    report(standing.steps, standing.objective)
                assert standing is not None
                report(most, standing.objective)
        except KeyboardInterrupt:
            if standing is None:
                raise
            standing = standing.rescued(course)
            _warn_interrupted(f"{standing.steps} steps on all rows")
        return self._published(course, standing)

    def _published(self, course: Course, standing: Standing) -> Self:
        best = max((climb for _, climb in standing.climbs), key=lambda climb: climb.score)
        network = self._in_order(course.whole.layout.network(best.parameters))
        held = course.validation.weight if course.validation else 1.0
        return self._become(
            {
                "model_": network.model,
                "network_": network,
                "pseudo_counts_": course.pseudo_counts,
                "start_": StartOutcome.of(standing, course.whole.weight),
                "history_": np.array(best.history),
                "validation_history_": np.array(best.validation) / held,
                "objectives_": np.array([climb.history[-1] for _, climb in standing.climbs]),
                "n_iter_": len(best.history) - 1,
                "converged_": best.converged,
            }
        )

    def _check_arguments(self, validation: object) -> None:
        whole_number("restarts", self.restarts)
        whole_number("max_iter", self.max_iter)
        one_of("stopping", self.stopping, tuple(USUAL_TOLERANCES))
        if not isinstance(self.init, LatentNetwork):
            one_of("init", self.init, ("race", *KINDS), NetworkError)
        if not finite_number("validation_fraction", self.validation_fraction, 0.0) < 1:
            raise ParameterError(f"validation_fraction is less than 1, not {self.validation_fraction!r}")
        if validation is not None and self.validation_fraction:
            raise ParameterError("validation rows are given, so validation_fraction must be 0")
        if self.tol is not None:
            finite_number("tol", self.tol, 0.0)
        self._check_shared()

    def _course(
        self,
        graph: LatentGraph,
        X: ArrayLike | Any,
        sample_weight: ArrayLike | None,
        validation: ArrayLike | Any | None,
        random: np.random.Generator,
    ) -> Course:
        """Return the rows to climb on, with those to validate by, and how to climb."""
        codes, states, weights = _encoded(X, graph, sample_weight)
        held: DistinctRows | None = None
        if validation is not None:
            held = DistinctRows.of(*_encoded(validation, graph, None))
        elif self.validation_fraction:
            order = random.permutation(len(codes))
            kept, out = np.split(order, [len(codes) - round(self.validation_fraction * len(codes))])
            if not weights[kept].any() or not weights[out].any():
                raise DataError(
                    f"validation_fraction={self.validation_fraction!r} of {len(codes)} rows leaves none to learn "
                    f"from, or none to validate by; give more rows or another share"
                )
            held = DistinctRows.of(codes[out], states, weights[out])
            weights = weights.copy()
            weights[out] = 0.0
        rows = DistinctRows.of(codes, states, weights)
        gaps = columns_with_gaps(rows.codes, graph)
        pseudo_counts = FEW_PSEUDO_COUNTS if isinstance(self.pseudo_counts, str) else float(self.pseudo_counts)
        checked: Problem | None = None
        if held is not None:
            gaps |= columns_with_gaps(held.codes, graph)
            checked = Problem.of(graph, held, gaps, 0.0, self.n_jobs)
        learned = int(ParameterLayout.of(graph).learned.sum())
        stopping = Stopping.usual(self.stopping, rows, learned)
        if self.tol is not None:
            stopping = Stopping(self.stopping, float(self.tol))
        return Course(
            graph, rows, gaps, pseudo_counts, stopping, self.max_iter, self.accelerate, self.n_jobs, checked
        )


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
        finite_number("tol", self.tol, 0.0)
        self._check_shared()

    def _learner(self, graph: LatentGraph, random: np.random.Generator) -> Learner:
        if self.init is None:
            (seed,) = random.spawn(1)
            start = LatentNetwork.random(graph, seed=seed)
        else:
            start = _checked_init(self.init, graph)
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


def _checked_init(init: LatentNetwork, graph: LatentGraph) -> LatentNetwork:
    if not isinstance(init, LatentNetwork):
        raise NetworkError(f"init is a LatentNetwork, not {type(init).__name__}")
    if init.graph != graph:
        raise NetworkError("init belongs to another graph than the structure; build it on the same one")
    return init


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
