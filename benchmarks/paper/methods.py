"""The methods that are compared: how each is fitted, and what is timed.

What is timed is one call of `Method.fit`, from rows to a model that can score rows. Not timed: importing,
and what depends on the graph alone and is kept on it: the plan of views, and mostly EM's set-up too (a
few milliseconds). Just before, `warm_up` sees to that: it fits a few rows in the same process.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from benchmarks.paper.baselines import IndependentColumns, MarkovChain
from eigentree.errors import ParameterError
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.online_em import OnlineEMJunctionTree
from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork

    Floats = NDArray[np.float64]
    Codes = NDArray[Any]

__all__ = [
    "METHODS",
    "MOST_PASSES",
    "PUBLISHED",
    "STEPSIZES",
    "WARM_UP_ROWS",
    "Method",
    "Model",
    "Problem",
    "Training",
    "facts",
    "scored",
    "timed",
    "train",
    "warm_up",
]

Fitted = TypeVar("Fitted")

STEPSIZES = (0.6, 0.7, 0.8, 0.9, 1.0)
"""Step sizes of online EM: the five that the paper tries."""

MOST_PASSES = 1000
"""Cap on the passes of online EM, equal to EM's cap on iterations; both are meant to stop by their tolerance."""

PUBLISHED: dict[str, Any] = {"views": 1, "scaling": None, "shrinkage": 0.0, "floor": 0.03}
"""Algorithm 1 as published, with the floor that suits it best: without one it calls many rows impossible."""

PROTOCOL: dict[str, Any] = {
    "init": "random",
    "n_init": 5,
    "stopping": "paper",
    "tol": 1e-4,
    "accelerate": False,
    "pseudo_counts": 0.0,
}
"""EM as the paper runs it (section 9)."""

WARM_UP_ROWS = 300


class Model(Protocol):
    """What every method leaves behind."""

    def score_samples(self, X: Any) -> Floats:
        """Return the log probability of each row."""
        ...


@dataclass(frozen=True)
class Problem:
    """What a method learns from.

    Attributes
    ----------
    graph : LatentGraph
    rows : array of int, shape (rows, columns)
    seed : int
        For methods that start at random.
    truth : LatentNetwork, optional
        The model that the rows are samples of, for the method that starts from it.
    most_iterations : int, optional
        Cap on iterations for a warm-up.
    """

    graph: LatentGraph
    rows: Codes
    seed: int
    truth: LatentNetwork | None = None
    most_iterations: int | None = None


@dataclass(frozen=True)
class Method:
    """A way to learn a model from rows.

    Attributes
    ----------
    name : str
        As in commands and files.
    title : str
        As in tables and figures.
    fit : callable
        From a `Problem` to a model.
    """

    name: str
    title: str
    fit: Callable[[Problem], Model]


@dataclass(frozen=True)
class Training(Generic[Fitted]):
    """A model with what its training took.

    Attributes
    ----------
    model : Model, or a classifier
    seconds : float
        By the clock on the wall.
    cpu_seconds : float
        Of this process, which others on the machine do not lengthen much.
    """

    model: Fitted
    seconds: float
    cpu_seconds: float


def _ours(problem: Problem) -> Model:
    return SpectralJunctionTree(problem.graph).fit(problem.rows)


def _published(problem: Problem) -> Model:
    return SpectralJunctionTree(problem.graph, **PUBLISHED).fit(problem.rows)


def _multistart(problem: Problem) -> Model:
    return _em(problem)


def _paper_em(problem: Problem) -> Model:
    return _em(problem, **PROTOCOL)


def _accelerated(problem: Problem) -> Model:
    return _em(problem, init="random", n_init=1, pseudo_counts=0.0)


def _smoothed_em(problem: Problem) -> Model:
    return _em(problem, **PROTOCOL | {"pseudo_counts": 0.5})


def _floor(problem: Problem) -> Model:
    if problem.truth is None:
        raise ParameterError("the converged MLE is reached by EM from the truth, which real data do not have")
    return _em(problem, init=problem.truth, tol=1e-9, pseudo_counts=0.0)


def _em(problem: Problem, **settings: Any) -> Model:
    most = problem.most_iterations or 1000
    model = EMJunctionTree(problem.graph, max_iter=most, random_state=problem.seed, **settings)
    return model.fit(problem.rows)


def _online(problem: Problem) -> Model:
    """Return the model with the highest training log-likelihood of one run of online EM for each step size."""
    most = problem.most_iterations or MOST_PASSES
    models = [
        OnlineEMJunctionTree(problem.graph, stepsize, passes=most, tol=1e-4, random_state=problem.seed + k).fit(
            problem.rows
        )
        for k, stepsize in enumerate(STEPSIZES)
    ]
    return max(models, key=lambda model: model.score(problem.rows))


def _independent(problem: Problem) -> Model:
    return IndependentColumns(_states(problem.graph), problem.rows)


def _markov(problem: Problem) -> Model:
    return MarkovChain(_states(problem.graph), problem.rows, order=2)


def _states(graph: LatentGraph) -> list[int]:
    return [graph.states[name] for name in graph.observed]


METHODS = {
    method.name: method
    for method in (
        Method("ours", "spectral", _ours),
        Method("multistart", "EM, multi-start", _multistart),
        Method("published", "published Alg. 1", _published),
        Method("em", "EM, paper's protocol", _paper_em),
        Method("accelerated", "EM, random, accelerated", _accelerated),
        Method("online", "online EM, 5 step sizes", _online),
        Method("smoothed", "EM, add-1/2", _smoothed_em),
        Method("independent", "independent columns", _independent),
        Method("markov", "Markov chain", _markov),
        Method("floor", "converged MLE", _floor),
    )
}
"""All methods by name, in the order of tables and legends."""


def train(method: Method, problem: Problem) -> Training[Model]:
    """Return the model that a method learns, and what that took."""
    return timed(lambda: method.fit(problem))


def timed(fit: Callable[[], Fitted]) -> Training[Fitted]:
    """Return what a fit returns, and what it took."""
    with warnings.catch_warnings():
        # At low N the data cannot support the ranks, and fits say so; here that is the subject, not a surprise.
        warnings.simplefilter("ignore", RuntimeWarning)
        wall, cpu = time.perf_counter(), time.process_time()
        model = fit()
        return Training(model, time.perf_counter() - wall, time.process_time() - cpu)


def warm_up(method: Method, problem: Problem, rows: int = WARM_UP_ROWS) -> None:
    """Fit and score a few rows, which leaves everything imported and the structure planned.

    A graph keeps its own plan, so this goes before each training that is timed.
    """
    few = problem.rows[:rows]
    small = Problem(problem.graph, few, problem.seed, problem.truth, most_iterations=2)
    scored(train(method, small).model, few)


def scored(model: Model, rows: Codes) -> Floats:
    """Return the log probability of each row, -inf where a model calls one impossible."""
    with warnings.catch_warnings():
        # Impossible rows are counted in the results.
        warnings.simplefilter("ignore", RuntimeWarning)
        return model.score_samples(rows)


def facts(model: Model) -> dict[str, float | int | bool | str]:
    """Return what a model knows of its own training: iterations, shrinkage."""
    if isinstance(model, SpectralJunctionTree):
        # As text, for infinity is no number of JSON's.
        return {
            "shrinkage": f"{model.shrinkage_:g}",
            "floor": model.floor_,
            "clipped": model.report_.clipping.share,
        }
    if isinstance(model, EMJunctionTree):
        return {
            "iterations": int(model.n_iter_),
            "converged": bool(model.converged_),
            "start": model.start_.name,
            "pseudo_counts": model.pseudo_counts_,
        }
    if isinstance(model, OnlineEMJunctionTree):
        return {
            "iterations": len(model.history_),
            "converged": bool(model.converged_),
            "stepsize": float(model.stepsize),
        }
    return {}
