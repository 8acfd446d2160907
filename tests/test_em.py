"""EM: laws of expected counts, of climbing, and of the estimators' face."""

from __future__ import annotations

import io
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
from brute_force import factors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from pyagrum_models import as_pyagrum
from random_graphs import latent_graphs
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import eigentree as et
from eigentree.data import resolving as structure
from eigentree.em.expectation import Expectation, TableLayout
from eigentree.models import em

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GRAPHS = latent_graphs(most_variables=6, most_states=3, most_cells=600)


@st.composite
def problems(draw: st.DrawFn) -> tuple[et.LatentNetwork, np.ndarray, np.ndarray]:
    """A random network, rows with missing cells in some columns, and weights."""
    network = et.LatentNetwork.random(draw(GRAPHS), seed=draw(st.integers(0, 2**20)))
    random = np.random.default_rng(draw(st.integers(0, 2**20)))
    rows = network.sample(draw(st.integers(1, 60)), seed=random)
    gaps = draw(st.sampled_from([0.0, 0.3]))
    holed = random.random(rows.shape[1]) < draw(st.sampled_from([0.5, 1.0]))
    rows[(random.random(rows.shape) < gaps) & holed] = -1
    weights = random.choice([1.0, 0.5, 3.25], len(rows)) if draw(st.booleans()) else np.ones(len(rows))
    return network, rows, weights


def full_table(network: et.LatentNetwork) -> np.ndarray:
    """P(all variables), one axis a name, by enumeration."""
    graph = network.graph
    letter = {name: k for k, name in enumerate(graph.names)}
    operands: list[object] = []
    for axes, table in factors(network):
        operands += [table, [letter[name] for name in axes]]
    return np.einsum(*operands, [letter[name] for name in graph.names])


def table_axes(network: et.LatentNetwork) -> dict[object, tuple[str, ...]]:
    graph = network.graph
    if graph.directed:
        return {name: (*graph.parents(name), name) for name in graph.names}
    return {node.remainder: node.clique for node in et.JunctionTree.build(graph).nodes if node.remainder}


def brute_counts(
    network: et.LatentNetwork, rows: np.ndarray, weights: np.ndarray
) -> tuple[dict[object, np.ndarray], float]:
    """Expected counts of every table and the log-likelihood, by enumeration of all variables."""
    graph = network.graph
    joint = full_table(network)
    total = np.zeros_like(joint)
    log_likelihood = 0.0
    for row, weight in zip(rows, weights, strict=True):
        picks: list[slice] = [slice(None)] * joint.ndim
        for name, cell in zip(graph.observed, row, strict=True):
            if cell >= 0:
                picks[graph.names.index(name)] = slice(cell, cell + 1)
        part = joint[tuple(picks)]
        total[tuple(picks)] += weight * part / part.sum()
        log_likelihood += weight * np.log(part.sum())
    letter = {name: k for k, name in enumerate(graph.names)}
    counts = {
        key: np.einsum(total, range(total.ndim), [letter[name] for name in axes])
        for key, axes in table_axes(network).items()
    }
    return counts, log_likelihood


def brute_step(network: et.LatentNetwork, rows: np.ndarray, weights: np.ndarray) -> et.LatentNetwork:
    """One EM step by enumeration."""
    tables = {}
    for key, counts in brute_counts(network, rows, weights)[0].items():
        width = 1 if isinstance(key, str) else len(key)
        sums = counts.sum(axis=tuple(range(counts.ndim - width, counts.ndim)), keepdims=True)
        tables[key] = np.where(sums > 0, counts / np.where(sums > 0, sums, 1), network.tables[key])
    return et.LatentNetwork(network.graph, tables)


def has_observed_descendant(graph: et.LatentGraph, name: str) -> bool:
    useful = set(graph.observed)
    for _ in graph.names:
        useful |= {parent for child in useful for parent in graph.parents(child)}
    return name in useful


def is_learned(graph: et.LatentGraph, key: object) -> bool:
    return not isinstance(key, str) or has_observed_descendant(graph, key)


@SLOW
@given(problems(), st.sampled_from([1, 1_000_000]))
def test_expected_counts_agree_with_enumeration(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], many: int
) -> None:
    network, rows, weights = problem
    graph = network.graph
    layout = TableLayout.of(graph)
    states = np.array([graph.states[name] for name in graph.observed])
    codes = np.where(rows < 0, states, rows)
    missing = [name for name, some in zip(graph.observed, (rows < 0).any(axis=0), strict=True) if some]
    expectation = Expectation(layout, missing, many)
    counts, log_likelihood, impossible = expectation(layout.vector(network), expectation.coded(codes, weights))
    expected, expected_log_likelihood = brute_counts(network, rows, weights)
    assert impossible == -1
    assert_allclose(log_likelihood, expected_log_likelihood, rtol=1e-10, atol=1e-10)
    for key, start in layout.starts.items():
        name = key[0] if graph.directed else key
        part = counts[start : start + expected[name].size].reshape(expected[name].shape)
        assert_allclose(part, expected[name] if is_learned(graph, name) else 0.0, atol=1e-10)


@SLOW
@given(problems(), st.booleans(), st.sampled_from([0.0, 0.4]))
def test_the_objective_never_falls_and_is_that_of_the_network(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], accelerate: bool, pseudo_counts: float
) -> None:
    network, rows, weights = problem
    model = et.EMJunctionTree(
        network.graph,
        restarts=1,
        tol=0,
        max_iter=25,
        pseudo_counts=pseudo_counts,
        accelerate=accelerate,
        random_state=3,
    ).fit(rows, sample_weight=weights)
    assert np.all(np.diff(model.history_) >= 0)
    objective = weights @ model.score_samples(rows)
    if pseudo_counts:
        tables = [t for key, t in model.network_.tables.items() if is_learned(network.graph, key)]
        objective += pseudo_counts * sum(np.log(table).sum() for table in tables)
    assert_allclose(model.history_[-1], objective, rtol=1e-9, atol=1e-9)


@SLOW
@given(problems())
def test_steps_agree_with_em_by_enumeration(problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray]) -> None:
    network, rows, weights = problem
    by_hand = network
    for _ in range(3):
        by_hand = brute_step(by_hand, rows, weights)
    model = et.EMJunctionTree(network.graph, init=network, tol=0, max_iter=3).fit(rows, sample_weight=weights)
    # A step that gains nothing but rounding is not taken, and then ends the climb.
    if model.n_iter_ == 3:
        for key, table in model.network_.tables.items():
            if is_learned(network.graph, key):
                assert_allclose(table, by_hand.tables[key], atol=1e-8)
    assert_allclose(weights @ model.score_samples(rows), weights @ by_hand.log_prob(rows), rtol=1e-10, atol=1e-10)


AUTOREGRESSIVE = et.zoo.dynamic_bayes_net(
    3, {"h": 2, "x": 3}, within=[("h", "x")], between=[("h", "h"), ("x", "x")], hidden=["h"]
)


@pytest.mark.parametrize(
    "graph",
    [et.zoo.mixture(4, 2, 3), et.zoo.hmm(5, 2, 2, 3), et.zoo.factorial_hmm(3, 2, 2, 4), AUTOREGRESSIVE],
    ids=["mixture", "2nd-order HMM", "factorial HMM", "autoregressive"],
)
def test_steps_agree_with_pyagrum(graph: et.LatentGraph, tmp_path: Path) -> None:
    rows = et.LatentNetwork.random(graph, concentration=0.5, seed=4).sample(300, seed=1)
    rows[np.random.default_rng(2).random(rows.shape) < 0.1] = -1
    start = et.LatentNetwork.random(graph, seed=8)
    cells = {name: ["?" if cell < 0 else str(cell) for cell in rows[:, j]] for j, name in enumerate(graph.observed)}
    cells |= {name: ["?"] * len(rows) for name in graph.hidden}
    lines = [graph.names, *zip(*(cells[name] for name in graph.names), strict=True)]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(",".join(line) for line in lines) + "\n")
    theirs = start
    # One step at a time: pyagrum may end its climb early, or go back, where the likelihood hardly moves.
    for steps in (1, 2, 3):
        net = as_pyagrum(theirs)
        learner = pyagrum.BNLearner(str(file), net, ["?"])
        learner.useNoPrior()
        learner.useEM(1e-12, 0.0)
        learner.EMsetMaxIter(1)
        theirs = et.LatentNetwork.from_pyagrum(learner.learnParameters(net), hidden=graph.hidden)
        ours = et.EMJunctionTree(graph, init=start, tol=0, max_iter=steps).fit(rows).network_
        for name in graph.names:
            assert_allclose(ours.tables[name], theirs.tables[name], atol=1e-9)


@SLOW
@given(latent_graphs(most_variables=5, most_states=3, most_cells=200), st.integers(0, 2**20))
def test_without_hidden_variables_one_step_gives_relative_frequencies(graph: et.LatentGraph, seed: int) -> None:
    graph = et.LatentGraph(graph.states, graph.edges, (), graph.directed)
    rows = et.LatentNetwork.random(graph, seed=seed).sample(40, seed=seed)
    model = et.EMJunctionTree(graph, restarts=1, max_iter=1, random_state=seed).fit(rows)
    for key, axes in table_axes(model.network_).items():
        counts = np.zeros([graph.states[name] for name in axes])
        np.add.at(counts, tuple(rows[:, [graph.column(name) for name in axes]].T), 1.0)
        width = 1 if isinstance(key, str) else len(key)
        given_counts = counts.sum(axis=tuple(range(counts.ndim - width, counts.ndim)), keepdims=True)
        seen = np.broadcast_to(given_counts > 0, counts.shape)
        assert_allclose((model.network_.tables[key] * given_counts)[seen], counts[seen], atol=1e-12)


def test_from_the_truth_em_stays_near_it() -> None:
    graph = et.zoo.hmm(6, 1, 2, 4)
    truth = et.LatentNetwork.random(graph, concentration=0.3, seed=3)
    model = et.EMJunctionTree(graph, init=truth, tol=1e-8).fit(truth.sample(50_000, seed=0))
    assert model.converged_
    test = truth.sample(2000, seed=1)
    # Twice the gain in log-likelihood is about as large as the number of parameters, whatever the rows.
    assert 0 < model.history_[-1] - model.history_[0] < 60
    assert abs(model.score(test) - truth.log_prob(test).mean()) < 2e-3


def test_it_finds_a_model_as_good_as_the_truth() -> None:
    graph = et.zoo.mixture(6, 2, 3)
    truth = et.LatentNetwork.random(graph, concentration=0.5, seed=1)
    rows = truth.sample(2000, seed=2)
    model = et.EMJunctionTree(zoo_template := et.zoo.Mixture(2), tol=1e-7, random_state=0).fit(rows)
    assert model.structure is zoo_template
    assert model.history_[-1] > truth.log_prob(rows).sum()
    assert model.history_[-1] == model.objectives_.max()
    assert len(model.objectives_) == 5


@SLOW
@given(problems(), st.integers(0, 2**20))
def test_equal_rows_may_be_merged_and_rows_reordered(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], seed: int
) -> None:
    network, rows, weights = problem
    random = np.random.default_rng(seed)
    again = random.integers(0, len(rows), 2 * len(rows))
    order = random.permutation(len(again))
    settings = {"init": network, "tol": 0, "max_iter": 4}
    model = et.EMJunctionTree(network.graph, **settings)
    one = clone(model).fit(rows[again], sample_weight=weights[again])
    two = clone(model).fit(rows[again][order], sample_weight=weights[again][order])
    three = clone(model).fit(rows, sample_weight=np.bincount(again, weights[again], len(rows)))
    for other in (two, three):
        assert_allclose(other.history_[-1], one.history_[-1], rtol=1e-10, atol=1e-10)
        if other.n_iter_ == one.n_iter_:
            for key, table in one.network_.tables.items():
                assert_allclose(other.network_.tables[key], table, atol=1e-8)


def test_more_columns_than_one_number_can_tell_apart_are_merged_exactly() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (300, 100))
    rows[100:200] = rows[:100]
    rows[200:, :99] = rows[:100, :99]
    codes, weights, first = em._merged(rows.astype(np.uint8), [2] * 100, np.ones(300))
    kinds = {tuple(row) for row in rows.tolist()}
    assert len(codes) == len(kinds)
    assert weights.sum() == 300
    assert np.array_equal(rows[first], codes)
    for code, weight in zip(codes, weights, strict=True):
        assert weight == (rows == code).all(axis=1).sum()


def test_long_chains_and_unlikely_rows_neither_underflow_nor_lose_counts() -> None:
    graph = et.zoo.hmm(400, 1, 2, 3)
    tables = dict(et.LatentNetwork.random(graph, seed=0).tables)
    for name in graph.observed:
        # Code 2 is next to impossible in every state, at odds that differ between states.
        tables[name] = np.array([[0.5, 0.5 - 1e-60, 1e-60], [0.9, 0.1 - 1e-70, 1e-70]])
    network = et.LatentNetwork(graph, tables)
    rows = np.full((3, 400), 2)
    rows[1] = 0
    layout = TableLayout.of(graph)
    expectation = Expectation(layout)
    counts, log_likelihood, impossible = expectation(layout.vector(network), expectation.coded(rows, np.ones(3)))
    assert impossible == -1
    assert_allclose(log_likelihood, network.log_prob(rows).sum(), rtol=1e-12)
    for (name,), start in layout.starts.items():
        assert_allclose(counts[start : start + network.tables[name].size].sum(), 3.0, rtol=1e-9)


def test_threads_change_nothing() -> None:
    graph = et.zoo.hmm(6, 2, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(3000, seed=1)
    one = et.EMJunctionTree(graph, restarts=1, max_iter=3, random_state=0).fit(rows)
    two = et.EMJunctionTree(graph, restarts=1, max_iter=3, random_state=0, n_jobs=2).fit(rows)
    assert_allclose(one.history_, two.history_, rtol=1e-12)


def test_a_mixture_of_many_columns_passes_through_gathering_nodes() -> None:
    graph = et.zoo.mixture(60, 3, 7)
    network = et.LatentNetwork.random(graph, seed=0)
    rows = network.sample(50, seed=1)
    layout = TableLayout.of(graph)
    for missing in ((), graph.observed):
        expectation = Expectation(layout, missing)
        counts, log_likelihood, _ = expectation(layout.vector(network), expectation.coded(rows, np.ones(50)))
        assert_allclose(log_likelihood, network.log_prob(rows).sum(), rtol=1e-12)
        start = layout.starts[("x59",)]
        frequency = np.bincount(rows[:, 59], minlength=7)
        assert_allclose(counts[start : start + 21].reshape(3, 7).sum(axis=0), frequency, atol=1e-10)


def test_acceleration_climbs_at_least_as_high_in_fewer_steps() -> None:
    graph = et.zoo.hmm(10, 2, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(2000, seed=1)
    start = et.LatentNetwork.random(graph, seed=7)
    plain = et.EMJunctionTree(graph, init=start, tol=1e-7).fit(rows)
    fast = et.EMJunctionTree(graph, init=start, tol=1e-7, accelerate=True).fit(rows)
    assert np.all(np.diff(fast.history_) >= 0)
    reached = int(np.searchsorted(fast.history_, plain.history_[-1]))
    assert reached < plain.n_iter_ / 2


def test_the_stopping_rule_is_that_of_the_paper() -> None:
    graph = et.zoo.hmm(6, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(500, seed=1)
    model = et.EMJunctionTree(graph, restarts=1, tol=1e-5, random_state=0).fit(rows)
    f = np.abs(model.history_)
    change = np.abs(np.diff(model.history_)) / ((f[1:] + f[:-1]) / 2)
    assert model.converged_
    assert change[-1] <= 1e-5
    assert np.all(change[:-1] > 1e-5)
    stopped = et.EMJunctionTree(graph, restarts=1, tol=1e-5, max_iter=3, random_state=0).fit(rows)
    assert not stopped.converged_
    assert stopped.n_iter_ == 3
    assert_allclose(stopped.history_, model.history_[:4], rtol=1e-12)


def test_tables_that_rows_say_nothing_about_keep_their_start() -> None:
    graph = et.LatentGraph(
        {"a": 2, "h": 2, "x": 3, "below": 3}, [("a", "h"), ("h", "x"), ("h", "below")], ["a", "h", "below"]
    )
    start = et.LatentNetwork.random(graph, seed=0)
    rows = et.LatentNetwork.random(graph, seed=1).sample(100, seed=2)
    for pseudo_counts in (0.0, 1.0):
        model = et.EMJunctionTree(graph, init=start, pseudo_counts=pseudo_counts).fit(rows)
        assert np.array_equal(model.network_.tables["below"], start.tables["below"])
        # The hidden ancestors of an observed variable do matter.
        assert not np.array_equal(model.network_.tables["a"], start.tables["a"])
    assert_allclose(
        et.EMJunctionTree(graph, init=start, tol=1e-9).fit(rows).joint(["x"]),
        np.bincount(rows[:, 0]) / 100,
        atol=1e-3,
    )


def test_pseudo_counts_shrink_towards_uniform() -> None:
    graph = et.LatentGraph({"x": 3})
    model = et.EMJunctionTree(graph, pseudo_counts=2.0).fit([[0], [0], [1]])
    assert_allclose(model.network_.tables["x"], [4 / 9, 3 / 9, 2 / 9])


def test_pseudo_counts_lift_a_start_with_zeros() -> None:
    graph = et.zoo.mixture(2, 2, 2)
    init = et.LatentNetwork(
        graph, {"h": [0.5, 0.5], "x0": [[1.0, 0.0], [0.5, 0.5]], "x1": [[1.0, 0.0], [0.2, 0.8]]}
    )
    rows = [[0, 0], [0, 1], [1, 1], [1, 0], [1, 1]]
    model = et.EMJunctionTree(graph, init=init, pseudo_counts=0.1, tol=1e-6).fit(rows)
    assert model.history_[0] == -np.inf
    assert np.all(np.diff(model.history_[1:]) >= 0)
    assert model.n_iter_ > 2
    assert all(table.min() > 0 for table in model.network_.tables.values())


def test_a_start_that_is_impossible_to_climb_from_names_the_row() -> None:
    graph = et.zoo.mixture(2, 2, 2)
    certain = np.array([[1.0, 0.0], [1.0, 0.0]])
    init = et.LatentNetwork(graph, {"h": [0.5, 0.5], "x0": certain, "x1": certain})
    with pytest.raises(et.DataError, match="row 2 has probability zero at the start"):
        et.EMJunctionTree(graph, init=init).fit([[0, 0], [0, 0], [0, 1]])
    model = et.EMJunctionTree(graph, init=init).fit([[0, 0], [0, 0], [0, 1]], sample_weight=[1, 1, 0])
    assert model.history_[-1] == 0.0
    with pytest.raises(et.DataError, match="row 2 has probability zero under the tables"):
        et.OnlineEMJunctionTree(graph, init=init).fit([[0, 0], [0, 0], [0, 1]])


@pytest.mark.parametrize("kind", [et.EMJunctionTree, et.OnlineEMJunctionTree])
def test_the_face_is_that_of_the_network(kind: type) -> None:
    graph = et.zoo.hmm(4, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    model = kind(graph, tol=1e-3, random_state=0)
    for question in (
        lambda: model.score(rows),
        lambda: model.sample(3),
        lambda: model.joint(["x0"]),
        lambda: model.predict_proba(rows, "x0"),
        lambda: model.impute(rows),
    ):
        with pytest.raises(NotFittedError):
            question()
    assert model.fit(rows) is model
    assert model.graph_ == graph
    assert model.n_features_in_ == 4
    network = model.network_
    holed = rows.copy()
    holed[::3, 1] = -1
    assert np.array_equal(model.score_samples(holed), network.log_prob(holed))
    assert model.score(rows) == pytest.approx(network.log_prob(rows).mean())
    assert np.array_equal(model.predict_proba(rows, "x2"), network.predict_proba(rows, "x2"))
    assert np.array_equal(model.impute(holed), network.impute(holed))
    assert np.array_equal(model.sample(20, seed=3), network.sample(20, seed=3))
    assert np.array_equal(model.joint(["x0", "x3"]), network.joint(["x0", "x3"]))


@pytest.mark.parametrize("kind", [et.EMJunctionTree, et.OnlineEMJunctionTree])
def test_parameters_survive_a_clone_and_fits_repeat(kind: type) -> None:
    graph = et.zoo.mixture(3, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(100, seed=1)
    model = kind(graph, tol=1e-3, pseudo_counts=0.5, random_state=4)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert_allclose(model.fit(rows).history_, twin.fit(rows).history_)
    assert not np.array_equal(model.history_, clone(model).set_params(random_state=5).fit(rows).history_)
    legacy = [kind(graph, random_state=np.random.RandomState(1)).fit(rows).history_ for _ in range(2)]
    assert np.array_equal(*legacy)


def test_a_template_builds_its_graph_from_the_columns() -> None:
    import pandas as pd

    rows = np.array([[0, 2, 1], [1, 0, -1], [0, 1, 3]])
    graph = structure.resolve_structure(et.zoo.HMM(order=2), rows)
    assert [graph.states[name] for name in graph.observed] == [2, 3, 4]
    frame = pd.DataFrame(rows, columns=["red", "green", "blue"])
    assert structure.resolve_structure(et.zoo.Mixture(2), frame).observed == ("red", "green", "blue")
    assert structure.resolve_structure(graph, rows) is graph
    with pytest.raises(et.DataError, match="column 'x1' has no known cell"):
        structure.resolve_structure(et.zoo.Mixture(2), [[0, -1], [1, -1]])
    with pytest.raises(et.DataError, match="shape"):
        structure.resolve_structure(et.zoo.Mixture(2), [0, 1])
    with pytest.raises(et.GraphError, match="a LatentGraph or a template such as"):
        structure.resolve_structure("hmm", rows)


@pytest.mark.parametrize("after", [1, 4, 12])
def test_an_interrupted_fit_keeps_the_best_so_far(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    whole = et.EMJunctionTree(graph, restarts=3, max_iter=8, tol=0, random_state=0)
    calls = 0
    original = Expectation.__call__

    def interrupted(self: Expectation, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls > after:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        model = clone(whole).fit(rows)
    monkeypatch.undo()
    assert_allclose(model.score(rows) * 200, model.history_[-1], rtol=1e-10)
    assert model.history_[-1] == model.objectives_.max()
    assert len(model.objectives_) == 1 + (after - 1) // 9


@pytest.mark.parametrize("kind", [et.EMJunctionTree, et.OnlineEMJunctionTree])
def test_an_interrupt_before_anything_is_known_passes_through(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.mixture(3, 2, 3)

    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kind(graph).fit([[0, 1, 2]])


def test_an_interrupted_online_fit_keeps_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    calls = 0
    original = Expectation.__call__

    def interrupted(self: Expectation, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 8:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted in pass 2 of 10"):
        model = et.OnlineEMJunctionTree(graph, batch_size=40, random_state=0).fit(rows)
    assert model.n_iter_ == 7
    assert np.isfinite(model.score(rows))


def test_online_em_comes_close_to_batch_em() -> None:
    graph = et.zoo.hmm(8, 1, 2, 4)
    rows = et.LatentNetwork.random(graph, concentration=0.5, seed=3).sample(4000, seed=1)
    start = et.LatentNetwork.random(graph, seed=4)
    batch = et.EMJunctionTree(graph, init=start, tol=1e-6).fit(rows)
    gain = batch.score(rows) - start.log_prob(rows).mean()
    online = et.OnlineEMJunctionTree(graph, stepsize=0.6, batch_size=100, tol=0, init=start, random_state=0)
    gaps = [
        batch.score(rows) - clone(online).set_params(passes=passes).fit(rows).score(rows) for passes in (1, 5, 25)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.01 * gain


def test_online_em_stops_by_its_tolerance() -> None:
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=3).sample(500, seed=1)
    model = et.OnlineEMJunctionTree(graph, batch_size=100, passes=50, tol=1e-3, random_state=0).fit(rows)
    assert model.converged_
    assert len(model.history_) < 50
    assert model.n_iter_ == 5 * len(model.history_)
    assert abs(model.history_[-1] - model.history_[-2]) <= 1e-3 * abs(model.history_[-2:]).mean()


def test_one_whole_batch_with_stepsize_one_averages_start_and_data() -> None:
    graph = et.LatentGraph({"x": 2})
    init = et.LatentNetwork(graph, {"x": [0.5, 0.5]})
    model = et.OnlineEMJunctionTree(graph, stepsize=1.0, batch_size=4, passes=1, init=init).fit([[0]] * 4)
    # The first mini-batch has the weight (0 + 2) ** -1.
    assert_allclose(model.network_.tables["x"], [0.75, 0.25])
    model.partial_fit([[0]] * 4)
    assert_allclose(model.network_.tables["x"], [0.75 + 0.25 / 3, 0.25 * 2 / 3])


def test_partial_fit_in_pieces_is_one_fit_in_pieces() -> None:
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    weights = np.random.default_rng(0).random(300)
    parts = et.OnlineEMJunctionTree(graph, batch_size=50, random_state=0)
    whole = et.OnlineEMJunctionTree(graph, batch_size=50, random_state=0).partial_fit(rows, sample_weight=weights)
    parts.partial_fit(rows[:150], sample_weight=weights[:150]).partial_fit(rows[150:], sample_weight=weights[150:])
    assert parts.n_iter_ == whole.n_iter_ == 6
    assert_allclose(parts.history_.sum(), whole.history_.sum(), rtol=1e-12)
    for name, table in whole.network_.tables.items():
        assert_allclose(parts.network_.tables[name], table, atol=1e-12)


def test_partial_fit_meets_missing_cells_later() -> None:
    graph = AUTOREGRESSIVE
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    model = et.OnlineEMJunctionTree(graph, batch_size=50, random_state=0).partial_fit(rows[:100])
    rows[100:, 1] = -1
    model.partial_fit(rows[100:])
    assert np.isfinite(model.score(rows))


def test_progress_shows_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, str]] = []

    class Bar:
        def __init__(self, **_: object) -> None: ...
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None: ...
        def add_task(self, title: str, total: int) -> int:
            return 0

        def update(self, task: int, completed: int, description: str) -> None:
            shown.append((completed, description))

    monkeypatch.setitem(sys.modules, "rich", types.ModuleType("rich"))
    console, progress = types.ModuleType("rich.console"), types.ModuleType("rich.progress")
    console.Console = lambda **_: None  # type: ignore[attr-defined]
    progress.Progress = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rich.console", console)
    monkeypatch.setitem(sys.modules, "rich.progress", progress)
    graph = et.zoo.mixture(3, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(50, seed=1)
    model = et.EMJunctionTree(graph, restarts=2, max_iter=5, tol=0, verbose=1, random_state=0)
    model.fit(rows)
    assert not shown
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)
    model.fit(rows)
    done = [step for step, _ in shown]
    assert done == sorted(done)
    assert done[-1] == 10
    et.EMJunctionTree(graph, restarts=1, max_iter=2).fit(rows)
    assert done == [step for step, _ in shown]
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    model.fit(rows)
    assert done == [step for step, _ in shown]


GRAPH = et.zoo.mixture(2, 2, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (et.EMJunctionTree(GRAPH, restarts=0), "restarts is a whole number of at least 1, not 0"),
        (et.EMJunctionTree(GRAPH, max_iter=2.5), "max_iter is a whole number"),
        (et.EMJunctionTree(GRAPH, n_jobs=True), "n_jobs is a whole number"),
        (et.EMJunctionTree(GRAPH, tol=-1), "tol is a finite number of at least 0, not -1"),
        (et.EMJunctionTree(GRAPH, tol=float("nan")), "tol is a finite number"),
        (et.EMJunctionTree(GRAPH, pseudo_counts="some"), "pseudo_counts is a finite number"),
        (et.OnlineEMJunctionTree(GRAPH, stepsize=0.5), "stepsize is more than 0.5 and at most 1, not 0.5"),
        (et.OnlineEMJunctionTree(GRAPH, stepsize=1.1), "stepsize is more than 0.5"),
        (et.OnlineEMJunctionTree(GRAPH, batch_size=0), "batch_size is a whole number"),
        (et.OnlineEMJunctionTree(GRAPH, passes=0), "passes is a whole number"),
    ],
)
def test_arguments_out_of_range_are_named(model: et.EMJunctionTree, message: str) -> None:
    with pytest.raises(et.ParameterError, match=message):
        model.fit([[0, 1]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"needs one number per row, shape \(2,\), not \(1,\)"),
        ([1.0, -1.0], "holds negative"),
        ([1.0, np.nan], "holds negative, infinite or missing"),
        ([0.0, 0.0], "all rows have weight 0"),
        ([[1.0], [1.0, 2.0]], "needs one number per row"),
    ],
)
def test_bad_weights_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        et.EMJunctionTree(GRAPH).fit([[0, 1], [1, 1]], sample_weight=weights)


def test_an_init_must_fit_the_structure() -> None:
    with pytest.raises(et.NetworkError, match="init belongs to another graph"):
        et.EMJunctionTree(GRAPH, init=et.LatentNetwork.random(et.zoo.mixture(3), seed=0)).fit([[0, 1]])
    with pytest.raises(et.NetworkError, match="init is a LatentNetwork, not dict"):
        et.EMJunctionTree(GRAPH, init={}).fit([[0, 1]])
    with pytest.raises(et.DataError, match="row 1, column 'x1' holds 2"):
        et.EMJunctionTree(GRAPH).fit([[0, 1], [0, 2]])
