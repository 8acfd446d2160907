"""Other ways to the log probability of rows of a 2nd-order hidden Markov model.

Each function takes such a network, its hidden variables h0, h1, … and its columns x0, x1, …, and returns a function
from rows to their log probabilities.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from eigentree import LatentNetwork

Scorer = Callable[[NDArray[Any]], NDArray[np.float64]]
Tables = list[NDArray[np.float64]]

SCALE_EVERY = 16
"""Steps between two scalings: probabilities down to 1e-18 a step do not underflow in between."""


def tables_by_step(truth: LatentNetwork) -> tuple[Tables, Tables]:
    """Return the tables of the hidden variables and those of the columns, one a step."""
    steps = len(truth.graph.observed)
    return [truth.tables[f"h{t}"] for t in range(steps)], [truth.tables[f"x{t}"] for t in range(steps)]


def numpy_plain(truth: LatentNetwork) -> Scorer:
    """Return the forward recursion as one writes it down first: rows first, one einsum a step, fancy indexing.

    The state is the pair (h_t-1, h_t), with a full table of moves from pair to pair.
    """
    hidden, seen = tables_by_step(truth)
    states = len(hidden[0])
    moves = [_pair_moves(table) for table in hidden[2:]]
    # emits[t][x] holds P(x | h_t) of every pair.
    emits = [np.tile(table.T, (1, states)) for table in seen]
    first = np.repeat(seen[0].T, states, axis=1)
    start = (hidden[0][:, None] * hidden[1]).ravel()

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        alpha = start * first[X[:, 0]] * emits[1][X[:, 1]]
        log_scale = np.zeros(len(X))
        for t in range(2, len(hidden)):
            alpha = np.einsum("rp,pq->rq", alpha, moves[t - 2]) * emits[t][X[:, t]]
            if t % SCALE_EVERY == 0:
                scale = alpha.sum(axis=1)
                alpha /= scale[:, None]
                log_scale += np.log(scale)
        return log_scale + np.log(alpha.sum(axis=1))

    return score


def _pair_moves(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(h_t-1, h_t | h_t-2, h_t-1) as a square matrix over pairs, from P(h_t | h_t-2, h_t-1)."""
    states = len(table)
    move = np.zeros((states, states, states, states))
    for j in range(states):
        move[:, j, j, :] = table[:, j, :]
    return move.reshape(states**2, states**2)


def numpy_einsum(truth: LatentNetwork) -> Scorer:
    """Return the forward recursion as one optimised einsum a step."""

    def advance(alpha: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.einsum("ijr,ijk->jkr", alpha, table, optimize=True)

    return _forward(truth, advance)


def numpy_matmul(truth: LatentNetwork) -> Scorer:
    """Return the forward recursion as one batched matrix product a step."""

    def advance(alpha: NDArray[np.float64], table: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.matmul(table.transpose(1, 2, 0), alpha.transpose(1, 0, 2))

    return _forward(truth, advance)


def _forward(
    truth: LatentNetwork, advance: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
) -> Scorer:
    """Return the forward recursion over the pair state (h_t-1, h_t), axes (h_t-1, h_t, row).

    Blocks of rows would bound its memory, but none of 1,024 to 32,768 rows is clearly faster than all at once.
    """
    hidden, seen = tables_by_step(truth)

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        columns = np.ascontiguousarray(X.T)
        # take is more than twice as fast as seen[t][:, columns[t]].
        first = hidden[0][:, None] * seen[0].take(columns[0], axis=1)
        alpha = first[:, None, :] * hidden[1][:, :, None] * seen[1].take(columns[1], axis=1)
        log_scale = np.zeros(len(X))
        for t in range(2, len(hidden)):
            alpha = advance(alpha, hidden[t])
            alpha *= seen[t].take(columns[t], axis=1)
            if t % SCALE_EVERY == 0:
                scale = alpha.sum(axis=(0, 1))
                alpha /= scale
                log_scale += np.log(scale)
        return log_scale + np.log(alpha.sum(axis=(0, 1)))

    return score


def pyagrum_lazy(truth: LatentNetwork) -> Scorer:
    """Return pyagrum's evidence probability by lazy propagation, row after row."""
    import pyagrum

    pyagrum.setNumberOfThreads(1)
    graph = truth.graph
    net = pyagrum.BayesNet()
    for name in graph.names:
        net.add(pyagrum.RangeVariable(name, name, 0, graph.states[name] - 1))
    for parent, child in graph.edges:
        net.addArc(parent, child)
    for name in graph.names:
        axes = (*graph.parents(name), name)
        # pyagrum lists the variables of a table from the fastest axis to the slowest.
        order = [axes.index(axis) for axis in reversed(net.cpt(name).names)]
        net.cpt(name).fillWith(truth.tables[name].transpose(order).ravel().tolist())
    engine = pyagrum.LazyPropagation(net)
    # One target spares it the posteriors of all others.
    engine.setTargets({"h0"})
    engine.setEvidence(dict.fromkeys(graph.observed, 0))

    def probability(row: list[int]) -> float:
        for name, code in zip(graph.observed, row, strict=True):
            engine.chgEvidence(name, code)
        return engine.evidenceProbability()

    return _one_by_one(probability)


def pgmpy_elimination(truth: LatentNetwork) -> Scorer:
    """Return pgmpy's variable elimination, row after row.

    Asked of the Markov network of the same factors, it does not normalise its answer, whose sum is then the
    probability of the evidence. Its default greedy contraction is faster than a given elimination order.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*StructureScore. is deprecated", category=FutureWarning)
        from pgmpy.factors.discrete import TabularCPD
        from pgmpy.inference import VariableElimination
        from pgmpy.models import DiscreteBayesianNetwork
    graph = truth.graph
    net = DiscreteBayesianNetwork(list(graph.edges))
    for name in graph.names:
        states, parents = graph.states[name], list(graph.parents(name))
        columns = truth.tables[name].reshape(-1, states).T
        net.add_cpds(TabularCPD(name, states, columns, parents, [graph.states[parent] for parent in parents]))
    engine = VariableElimination(net.to_markov_model())

    def probability(row: list[int]) -> float:
        evidence = dict(zip(graph.observed, row, strict=True))
        return float(engine.query(["h0"], evidence, show_progress=False).values.sum())

    return _one_by_one(probability)


def _one_by_one(probability: Callable[[list[int]], float]) -> Scorer:
    """Return a function that asks for one row after the other."""

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([math.log(probability(row.tolist())) for row in X])

    return score


def hmmlearn_each(truth: LatentNetwork) -> Scorer:
    """Return hmmlearn's score of one row after the other; the network must have the same tables at every step."""
    model = _hmmlearn_model(truth)

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([model.score(row[:, None]) for row in X])

    return score


def hmmlearn_total(truth: LatentNetwork) -> Scorer:
    """Return hmmlearn's score of all rows together, a single number; the network as for `hmmlearn_each`."""
    model = _hmmlearn_model(truth)

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([model.score(X.reshape(-1, 1), [X.shape[1]] * len(X))])

    return score


def _hmmlearn_model(truth: LatentNetwork) -> Any:
    """Return a first-order model of the pair state (h_t-1, h_t), in which h_-1 is 0."""
    from hmmlearn.hmm import CategoricalHMM

    hidden, seen = tables_by_step(truth)
    states = len(hidden[0])
    # "scaling" is the faster of its two implementations.
    model = CategoricalHMM(n_components=states**2, implementation="scaling")
    model.startprob_ = np.concatenate([hidden[0], np.zeros(states**2 - states)])
    model.transmat_ = _pair_moves(hidden[2])
    model.emissionprob_ = np.tile(seen[2], (states, 1))
    model.n_features = seen[2].shape[1]
    return model
