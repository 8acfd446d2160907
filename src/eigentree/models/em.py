"""EM and stepwise online EM for latent junction trees: what the paper compares with (section 9).

Both climb the likelihood of the tables of a `LatentNetwork`. The E-step is `Expectation`; the M-step is the
relative frequency of each expected count, for the CPTs of a directed graph and the clique conditionals (Eq. 6) of
an undirected one alike.
"""

from __future__ import annotations

import math
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from eigentree.data.columns import Columns
from eigentree.data.resolving import resolve_structure
from eigentree.data.rows import Rows
from eigentree.data.weights import checked_weights
from eigentree.em.expectation import CodedRows, Expectation, TableLayout
from eigentree.errors import DataError, NetworkError, ParameterError
from eigentree.exact.network import LatentNetwork
from eigentree.models.face import Face

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.structures.graph import LatentGraph
    from eigentree.structures.zoo import Template

    Floats = NDArray[np.float64]
    Report = Callable[[int, float], None]

MEMORY = 5
"""How many earlier steps an accelerated step looks back on."""


class EMJunctionTree(Face):
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
        The learned tables. Hidden variables that no observed one depends on keep the tables of the start.
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
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
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
        _check_whole("restarts", self.restarts)
        _check_whole("max_iter", self.max_iter)
        _check_whole("n_jobs", self.n_jobs)
        _check_at_least("tol", self.tol, 0.0)
        _check_at_least("pseudo_counts", self.pseudo_counts, 0.0)
        graph = resolve_structure(self.structure, X)
        layout = TableLayout.of(graph)
        starts = _starts(graph, self.init, self.random_state, self.restarts)
        rows = Rows.of(X, Columns.of(graph))
        codes, weights, first = _merged(
            rows.encode(0, rows.count), rows.columns.states, _weights(sample_weight, rows.count)
        )
        expectation = Expectation(layout, _missing(codes, graph), len(codes))
        problem = _Problem(expectation, expectation.coded(codes, weights), float(self.pseudo_counts), self.n_jobs)
        climbs: list[_Climb] = []
        try:
            with _progress(self.verbose, "EM", len(starts) * self.max_iter) as report:
                for number, start in enumerate(starts):
                    climb = _Climb(problem, layout.vector(start))
                    climbs.append(climb)
                    climb.begin(first)
                    done = number * self.max_iter
                    for step in climb.run(self.tol, self.max_iter, self.accelerate):
                        report(done + step, climb.history[-1])
                    report(done + self.max_iter, climb.history[-1])
        except KeyboardInterrupt:
            climbs = [climb for climb in climbs if climb.history]
            if not climbs:
                raise
            _warn_interrupted(f"start {len(climbs)} of {len(starts)}")
        best = max(climbs, key=lambda climb: climb.history[-1])
        self.network_ = layout.network(best.parameters)
        self.model_ = self.network_.model
        self.history_ = np.array(best.history)
        self.objectives_ = np.array([climb.history[-1] for climb in climbs])
        self.n_iter_ = len(best.history) - 1
        self.converged_ = best.converged
        return self


@dataclass(frozen=True, eq=False)
class _Problem:
    """What a climb maximises."""

    expectation: Expectation
    rows: CodedRows
    pseudo_counts: float
    threads: int

    def evaluate(self, parameters: Floats) -> tuple[Floats, float, int]:
        """Return the next parameters by one EM step, the objective here, and an impossible row or -1."""
        layout = self.expectation.layout
        counts, objective, impossible = self.expectation(parameters, self.rows, self.threads)
        if self.pseudo_counts:
            learned = parameters[layout.learned]
            if learned.min() > 0:
                objective += self.pseudo_counts * float(np.log(learned).sum())
            else:
                objective = -math.inf
            counts = counts + self.pseudo_counts * layout.learned
        return layout.normalised(counts, parameters), objective, impossible


class _Climb:
    """One climb: its objective so far, and the parameters that reach its last."""

    def __init__(self, problem: _Problem, parameters: Floats) -> None:
        self.problem = problem
        self.parameters = parameters
        self.following = parameters
        self.history: list[float] = []
        self.converged = False

    def begin(self, original: NDArray[np.int64]) -> None:
        """Evaluate the start; `original` says which row of the data each merged row was."""
        self.following, objective, impossible = self.problem.evaluate(self.parameters)
        if impossible >= 0:
            raise DataError(
                f"row {original[impossible]} has probability zero at the start, so EM cannot explain it; "
                f"give an init whose tables have no zeros there"
            )
        self.history.append(objective)

    def run(self, tol: float, max_iter: int, accelerate: bool) -> Iterator[int]:
        """Yield the steps so far, until the objective changes by no more than `tol` or `max_iter` is reached."""
        accelerator = _Accelerator(self.problem.expectation.layout) if accelerate else None
        for step in range(max_iter):
            plain = True
            proposed = accelerator.propose(self.parameters, self.following) if accelerator else None
            if proposed is not None:
                plain = not self._move(proposed)
                if plain and accelerator:
                    accelerator.forget()
            if plain and not self._move(self.following):
                # No gain is left but rounding.
                self.converged = True
                return
            yield step + 1
            if _has_converged(self.history[-2], self.history[-1], tol):
                if plain:
                    self.converged = True
                    return
                # A poor extrapolation is no sign of the summit: ask a plain step.
                assert accelerator is not None
                accelerator.forget()

    def _move(self, parameters: Floats) -> bool:
        """Take the parameters if they raise the objective; return whether they did."""
        following, objective, _ = self.problem.evaluate(parameters)
        if not objective > self.history[-1]:
            return False
        self.parameters, self.following = parameters, following
        self.history.append(objective)
        return True


class _Accelerator:
    """Anderson's method on the square roots of the parameters.

    There the distance of two distributions is Hellinger's, which does not favour large parameters.
    """

    def __init__(self, layout: TableLayout) -> None:
        self.layout = layout
        self.points: list[Floats] = []
        self.residuals: list[Floats] = []

    def forget(self) -> None:
        """Start again from the next step."""
        self.points.clear()
        self.residuals.clear()

    def propose(self, parameters: Floats, following: Floats) -> Floats | None:
        """Return an extrapolation from the step to `following` and earlier ones, or None when there are none."""
        target = np.sqrt(following)
        point = np.sqrt(parameters)
        self.points.append(point)
        self.residuals.append(target - point)
        if len(self.points) == 1:
            return None
        if len(self.points) > MEMORY + 1:
            del self.points[0], self.residuals[0]
        moves, changes = np.diff(self.points, axis=0), np.diff(self.residuals, axis=0)
        products = changes @ changes.T
        size = float(np.trace(products))
        if size == 0.0:
            return None
        products[np.diag_indices_from(products)] += 1e-10 * size
        weights = np.linalg.solve(products, changes @ self.residuals[-1])
        # A parameter stays positive where EM leaves it so, and zero where EM does.
        roots = np.maximum(target - weights @ (moves + changes), 0.1 * target)
        squares = roots**2
        return self.layout.normalised(squares, following)


class OnlineEMJunctionTree(Face):
    """Tables learned by stepwise online EM (Liang and Klein, 2009).

    Expected counts a row are kept as a running average, in which mini-batch k = 0, 1, … has the weight
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
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
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
        learner, random = self._learner(X)
        codes, weights = self._encoded(learner, X, sample_weight)
        history: list[float] = []
        converged = False
        try:
            with _progress(self.verbose, "online EM", self.passes) as report:
                while len(history) < self.passes and not converged:
                    order = random.permutation(len(codes))
                    history.append(learner.learn(codes[order], weights[order], order))
                    report(len(history), history[-1])
                    converged = len(history) > 1 and _has_converged(history[-2], history[-1], self.tol)
        except KeyboardInterrupt:
            if not learner.batches:
                raise
            _warn_interrupted(f"pass {len(history) + 1} of {self.passes}")
        self._publish(learner, history, converged)
        return self

    def partial_fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the estimator after learning from more rows, in their order and once.

        Parameters are as in `fit`.
        """
        first = not hasattr(self, "_online")
        learner = self._learner(X)[0] if first else self._online
        codes, weights = self._encoded(learner, X, sample_weight)
        history = [] if first else self.history_.tolist()
        history.append(learner.learn(codes, weights, np.arange(len(codes))))
        self._publish(learner, history, False)
        return self

    def _learner(self, X: ArrayLike | Any) -> tuple[_Stepwise, np.random.Generator]:
        if not (isinstance(self.stepsize, Real) and 0.5 < self.stepsize <= 1):
            raise ParameterError(f"stepsize is more than 0.5 and at most 1, not {self.stepsize!r}")
        _check_whole("batch_size", self.batch_size)
        _check_whole("passes", self.passes)
        _check_whole("n_jobs", self.n_jobs)
        _check_at_least("tol", self.tol, 0.0)
        _check_at_least("pseudo_counts", self.pseudo_counts, 0.0)
        graph = resolve_structure(self.structure, X)
        random = _generator(self.random_state)
        start = _starts(graph, self.init, random, 1)[0]
        settings = (float(self.stepsize), self.batch_size, float(self.pseudo_counts), self.n_jobs)
        return _Stepwise(TableLayout.of(graph), start, *settings), random

    @staticmethod
    def _encoded(
        learner: _Stepwise, X: ArrayLike | Any, sample_weight: ArrayLike | None
    ) -> tuple[NDArray[Any], Floats]:
        rows = Rows.of(X, Columns.of(learner.layout.graph))
        return rows.encode(0, rows.count), _weights(sample_weight, rows.count)

    def _publish(self, learner: _Stepwise, history: list[float], converged: bool) -> None:
        self._online = learner
        self.network_ = learner.layout.network(learner.parameters)
        self.model_ = self.network_.model
        self.history_ = np.array(history)
        self.n_iter_ = learner.batches
        self.converged_ = converged


class _Stepwise:
    """The running average of expected counts a row, and the tables that follow from it."""

    def __init__(
        self,
        layout: TableLayout,
        start: LatentNetwork,
        stepsize: float,
        batch_size: int,
        pseudo_counts: float,
        threads: int,
    ) -> None:
        self.layout = layout
        self.stepsize = stepsize
        self.batch_size = batch_size
        self.pseudo_counts = pseudo_counts
        self.threads = threads
        self.parameters = layout.vector(start)
        self.batches = 0
        self.rows = 0
        # What the start itself expects of a row: no state is ruled out because the first rows lack it.
        nothing = np.array([[layout.graph.states[name] for name in layout.graph.observed]])
        everything_missing = Expectation(layout, layout.graph.observed, batch_size)
        self.average = everything_missing(self.parameters, everything_missing.coded(nothing, np.ones(1)))[0]
        self.expectation = Expectation(layout, (), batch_size)

    def learn(self, codes: NDArray[Any], weights: Floats, numbers: NDArray[np.int64]) -> float:
        """Return the log-likelihood of rows, each before its mini-batch was learned from.

        The user knows the rows by these numbers.
        """
        missing = _missing(codes, self.layout.graph)
        if not missing <= self.expectation.missing:
            self.expectation = Expectation(self.layout, missing | self.expectation.missing, self.batch_size)
        total = 0.0
        coded = self.expectation.coded(codes, weights)
        for first in range(0, len(codes), self.batch_size):
            rows = self.expectation.part(coded, first, first + self.batch_size)
            counts, log_likelihood, impossible = self.expectation(self.parameters, rows, self.threads)
            if impossible >= 0:
                raise DataError(
                    f"row {numbers[first + impossible]} has probability zero under the tables so far; "
                    f"give pseudo_counts, or an init whose tables have no zeros there"
                )
            total += log_likelihood
            size = len(rows.weights)
            if not self.batches:
                self.average *= rows.weights.mean()
            step = (self.batches + 2) ** -self.stepsize
            self.average = (1 - step) * self.average + step * counts / size
            self.batches += 1
            self.rows += size
            prior = self.pseudo_counts / self.rows * self.layout.learned
            self.parameters = self.layout.normalised(self.average + prior, self.parameters)
        return total


def _starts(
    graph: LatentGraph,
    init: LatentNetwork | None,
    random_state: int | np.random.Generator | np.random.RandomState | None,
    restarts: int,
) -> list[LatentNetwork]:
    if init is None:
        return [LatentNetwork.random(graph, seed=seed) for seed in _generator(random_state).spawn(restarts)]
    if not isinstance(init, LatentNetwork):
        raise NetworkError(f"init is a LatentNetwork, not {type(init).__name__}")
    if init.graph != graph:
        raise NetworkError("init belongs to another graph than the structure; build it on the same one")
    return [init]


def _generator(random_state: int | np.random.Generator | np.random.RandomState | None) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def _check_whole(argument: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ParameterError(f"{argument} is a whole number of at least 1, not {value!r}")


def _check_at_least(argument: str, value: object, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) < math.inf:
        raise ParameterError(f"{argument} is a finite number of at least {least:g}, not {value!r}")


def _weights(sample_weight: ArrayLike | None, count: int) -> Floats:
    weights = checked_weights(sample_weight, count)
    if weights is None:
        return np.ones(count)
    if not weights.any():
        raise DataError("there are no rows, or all rows have weight 0; there is nothing to learn from")
    return weights.astype(np.float64)


def _merged(
    codes: NDArray[Any], states: Sequence[int], weights: Floats
) -> tuple[NDArray[Any], Floats, NDArray[np.int64]]:
    """Return the rows that differ, the total weight of each, and where each was first; no row has weight zero."""
    used = np.flatnonzero(weights)
    codes, weights = codes[used], weights[used]
    key, kinds = np.zeros(len(codes), np.int64), 1
    for column, count in enumerate(states):
        if kinds > 2**62 // (count + 1):
            kept, key = np.unique(key, return_inverse=True)
            if len(kept) == len(codes):
                return codes, weights, used
            kinds = len(kept)
        key = key * (count + 1) + codes[:, column]
        kinds *= count + 1
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weights, len(first)).astype(np.float64, copy=False)
    return np.asfortranarray(codes[first]), total, used[first]


def _missing(codes: NDArray[Any], graph: LatentGraph) -> frozenset[str]:
    """Return the names of the columns with missing cells."""
    found = (codes == np.array([graph.states[name] for name in graph.observed])).any(axis=0)
    return frozenset(name for name, some in zip(graph.observed, found, strict=True) if some)


def _has_converged(before: float, after: float, tol: float) -> bool:
    # With pseudo-counts, a start with zeros has the objective -inf.
    return math.isfinite(before) and abs(after - before) <= tol * (abs(after) + abs(before)) / 2


def _warn_interrupted(where: str) -> None:
    warnings.warn(f"the fit was interrupted in {where}; the best so far is kept", RuntimeWarning, stacklevel=3)


@contextmanager
def _progress(verbose: int, title: str, total: int) -> Iterator[Report]:
    """Yield a function of the steps done and the objective that shows them, where anybody can see it."""
    if verbose > 0 and sys.stderr.isatty():
        try:
            from rich.console import Console
            from rich.progress import Progress
        except ImportError:
            pass
        else:
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task(title, total=total)
                yield lambda done, objective: bar.update(
                    task, completed=done, description=f"{title} {objective:.6g}"
                )
            return
    yield lambda done, objective: None
