"""Other ways to score rows of a 2nd-order hidden Markov model, and to fit it by EM.

Each takes such a network, its hidden variables h0, h1, … and its columns x0, x1, …. To score, it returns a function
from rows to their log probabilities; to run EM from that network on given rows, an `EMRun`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigentree import LatentNetwork

if TYPE_CHECKING:
    from types import ModuleType

Scorer = Callable[[NDArray[Any]], NDArray[np.float64]]
EMRun = Callable[[int], Callable[[], float]]
"""Takes so many EM iterations, set-up included; what it returns has the log-likelihood that they reached."""
Tables = list[NDArray[np.float64]]

SCALE_EVERY = 16
"""Steps between two scalings: probabilities down to 1e-18 a step do not underflow in between."""


def tables_by_step(truth: LatentNetwork) -> tuple[Tables, Tables]:
    """Return the tables of the hidden variables and those of the columns, one per step."""
    steps = len(truth.graph.observed)
    return [truth.tables[f"h{t}"] for t in range(steps)], [truth.tables[f"x{t}"] for t in range(steps)]


def numpy_plain(truth: LatentNetwork) -> Scorer:
    """Return the forward recursion as one writes it down first: rows first, one einsum a step, fancy indexing.

    The state is the pair (h_t-1, h_t), with a full table of moves from pair to pair.
    """
    hidden, seen = tables_by_step(truth)
    states = len(hidden[0])
    moves = [pair_moves(table) for table in hidden[2:]]
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


def pair_moves(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(h_t-1, h_t | h_t-2, h_t-1) as a square matrix over pairs, from P(h_t | h_t-2, h_t-1)."""
    states = len(table)
    move = np.zeros((states, states, states, states))
    for j in range(states):
        move[:, j, j, :] = table[:, j, :]
    return move.reshape(states**2, states**2)


def numpy_matmul(truth: LatentNetwork) -> Scorer:
    """Return the forward recursion over the pair state, axes (h_t-1, h_t, row), as one batched product a step.

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
            alpha = np.matmul(hidden[t].transpose(1, 2, 0), alpha.transpose(1, 0, 2))
            alpha *= seen[t].take(columns[t], axis=1)
            if t % SCALE_EVERY == 0:
                scale = alpha.sum(axis=(0, 1))
                alpha /= scale
                log_scale += np.log(scale)
        return log_scale + np.log(alpha.sum(axis=(0, 1)))

    return score


def pyagrum_lazy(truth: LatentNetwork) -> Scorer:
    """Return pyagrum's evidence probability by lazy propagation, row after row."""
    pyagrum = _pyagrum()
    graph = truth.graph
    engine = pyagrum.LazyPropagation(_pyagrum_network(truth))
    # One target spares it the posteriors of all others.
    engine.setTargets({"h0"})
    engine.setEvidence(dict.fromkeys(graph.observed, 0))

    def probability(row: list[int]) -> float:
        for name, code in zip(graph.observed, row, strict=True):
            engine.chgEvidence(name, code)
        return engine.evidenceProbability()

    return _one_by_one(probability)


def pyagrum_em(start: LatentNetwork, X: NDArray[Any]) -> EMRun:
    """Return pyagrum's EM, to which hidden variables are columns with every cell missing."""
    import pandas

    pyagrum = _pyagrum()
    graph = start.graph
    net = _pyagrum_network(start)
    hidden = np.full(len(X), "?")
    cells = {name: hidden if name in graph.hidden else X[:, graph.column(name)].astype(str) for name in graph.names}
    frame = pandas.DataFrame(cells)

    def em_run(iterations: int) -> Callable[[], float]:
        learner = pyagrum.BNLearner(frame, net, ["?"])
        learner.setNumberOfThreads(1)
        learner.useNoPrior()
        # It needs a criterion to stop, and none that stops it early; no noise is added to the start.
        learner.useEM(1e-12, 0.0)
        learner.EMsetMaxIter(iterations)
        with warnings.catch_warnings():
            # It may take its last iterations back, but only after their work is done.
            warnings.filterwarnings("ignore", message=".*likelihood divergence", category=UserWarning)
            learned = learner.learnParameters(net)
        if learner.EMnbrIterations() != iterations:
            raise AssertionError(f"pyagrum took {learner.EMnbrIterations()} iterations, not {iterations}")
        return lambda: float(LatentNetwork.from_pyagrum(learned, graph.hidden).log_prob(X).sum())

    return em_run


def _pyagrum() -> ModuleType:
    """Return the package, set to one thread."""
    import pyagrum

    pyagrum.setNumberOfThreads(1)
    return pyagrum


def _pyagrum_network(network: LatentNetwork) -> Any:
    """Return the network as pyagrum's."""
    pyagrum = _pyagrum()
    graph = network.graph
    net = pyagrum.BayesNet()
    for name in graph.names:
        net.add(pyagrum.RangeVariable(name, name, 0, graph.states[name] - 1))
    for parent, child in graph.edges:
        net.addArc(parent, child)
    for name in graph.names:
        axes = (*graph.parents(name), name)
        # pyagrum lists the variables of a table from the fastest axis to the slowest.
        order = [axes.index(axis) for axis in reversed(net.cpt(name).names)]
        net.cpt(name).fillWith(network.tables[name].transpose(order).ravel().tolist())
    return net


def pgmpy_elimination(truth: LatentNetwork) -> Scorer:
    """Return pgmpy's variable elimination, row after row.

    Asked of the Markov network of the same factors, it does not normalise its answer, whose sum is then the
    probability of the evidence. Its default greedy contraction is faster than a given elimination order.
    """
    graph = truth.graph
    engine = _pgmpy("inference").VariableElimination(_pgmpy_network(truth).to_markov_model())

    def probability(row: list[int]) -> float:
        evidence = dict(zip(graph.observed, row, strict=True))
        return float(engine.query(["h0"], evidence, show_progress=False).values.sum())

    return _one_by_one(probability)


def pgmpy_em(start: LatentNetwork, X: NDArray[Any]) -> EMRun:
    """Return pgmpy's EM, which runs through all joint states of the hidden variables for each row."""
    import pandas

    graph = start.graph
    net = _pgmpy_network(start)
    estimator = _pgmpy("parameter_estimator").DiscreteEM
    frame = pandas.DataFrame(X.astype(np.int64), columns=list(graph.observed))
    tables = {name: net.get_cpds(name) for name in graph.names}

    def em_run(iterations: int) -> Callable[[], float]:
        model = estimator(
            # Few rows may lack a state.
            state_names={name: list(range(states)) for name, states in graph.states.items()},
            latent_card={name: graph.states[name] for name in graph.hidden},
            max_iter=iterations,
            atol=0.0,
            init_cpds=tables,
            show_progress=False,
        )
        learned = net.copy()
        learned.add_cpds(*model.fit(net, frame).parameters_)
        return lambda: float(LatentNetwork.from_pgmpy(learned).log_prob(X).sum())

    return em_run


def _pgmpy(module: str) -> ModuleType:
    """Return a part of the package, loaded without its warnings about itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*StructureScore. is deprecated", category=FutureWarning)
        return import_module(f"pgmpy.{module}")


def _pgmpy_network(network: LatentNetwork) -> Any:
    """Return the network as pgmpy's."""
    table = _pgmpy("factors.discrete").TabularCPD
    graph = network.graph
    net = _pgmpy("models").DiscreteBayesianNetwork(list(graph.edges), latents=set(graph.hidden))
    for name in graph.names:
        states, parents = graph.states[name], list(graph.parents(name))
        columns = network.tables[name].reshape(-1, states).T
        net.add_cpds(table(name, states, columns, parents, [graph.states[parent] for parent in parents]))
    return net


def _one_by_one(probability: Callable[[list[int]], float]) -> Scorer:
    """Return a function that scores one row after the other."""

    def score(X: NDArray[Any]) -> NDArray[np.float64]:
        return np.array([math.log(probability(row.tolist())) for row in X])

    return score


def hmmlearn_em(start: LatentNetwork, X: NDArray[Any]) -> EMRun:
    """Return hmmlearn's EM over pairs of hidden states; the network must have the same tables at every step."""
    cells, lengths = X.reshape(-1, 1).astype(np.int64), [X.shape[1]] * len(X)

    def em_run(iterations: int) -> Callable[[], float]:
        model = _hmmlearn_model(start)
        model.set_params(n_iter=iterations, tol=-np.inf, init_params="")
        model.fit(cells, lengths)
        return lambda: float(model.score(cells, lengths))

    return em_run


def _hmmlearn_model(truth: LatentNetwork) -> Any:
    """Return a first-order model of the pair state (h_t-1, h_t), in which h_-1 is 0."""
    from hmmlearn.hmm import CategoricalHMM

    hidden, seen = tables_by_step(truth)
    states = len(hidden[0])
    # "scaling" is the faster of its two implementations.
    model = CategoricalHMM(n_components=states**2, implementation="scaling")
    model.startprob_ = np.concatenate([hidden[0], np.zeros(states**2 - states)])
    model.transmat_ = pair_moves(hidden[2])
    model.emissionprob_ = np.tile(seen[2], (states, 1))
    model.n_features = seen[2].shape[1]
    return model
