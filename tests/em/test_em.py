"""EM: laws of its iterations and of the estimator."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from brute_force import all_rows
from em_problems import brute_step, is_learned, problems, table_axes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from random_graphs import latent_graphs
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import eigentree as et
from eigentree.em.estep.expectation import Expectation

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum

PAPER = {"init": "random", "stopping": "paper", "accelerate": False, "pseudo_counts": 0.0}
"""EM as the paper has it."""

PLAIN = {"tol": 0, "accelerate": False, "pseudo_counts": 0.0}
"""Steps of EM and nothing else."""

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def expected_prior(
    graph: et.LatentGraph, key: str | tuple[str, ...], rows: np.ndarray, weights: np.ndarray, pseudo_counts: float
) -> np.ndarray:
    """Return the pseudo-counts of one distribution of a table, its variables last."""
    names = (key,) if isinstance(key, str) else key
    even, beyond = min(pseudo_counts, 0.25), max(pseudo_counts - 0.25, 0.0)
    prior = np.empty([graph.states[name] for name in names])
    for cell in np.ndindex(prior.shape):
        share = 1.0
        for name, state in zip(names, cell, strict=True):
            if name in graph.hidden:
                share /= graph.states[name]
                continue
            column = rows[:, graph.column(name)]
            known = float(weights[column >= 0].sum())
            share *= float(weights[column == state].sum()) / known if known else 1.0 / graph.states[name]
        prior[cell] = even + beyond * prior.size * share
    return prior


@SLOW
@given(problems(), st.booleans(), st.sampled_from([0.0, 0.2, 1.5]))
def test_the_objective_never_falls_and_is_that_of_the_network(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], accelerate: bool, pseudo_counts: float
) -> None:
    network, rows, weights = problem
    model = et.EMJunctionTree(
        network.graph,
        n_init=1,
        tol=0,
        max_iter=25,
        pseudo_counts=pseudo_counts,
        accelerate=accelerate,
        init="random",
        random_state=3,
    ).fit(rows, sample_weight=weights)
    assert np.all(np.diff(model.history_) >= 0)
    objective = weights @ model.score_samples(rows)
    if pseudo_counts:
        priors = [
            (expected_prior(network.graph, key, rows, weights, pseudo_counts), table)
            for key, table in model.network_.tables.items()
            if is_learned(network.graph, key)
        ]
        objective += sum(float((prior * np.log(table)).sum()) for prior, table in priors)
    assert_allclose(model.history_[-1], objective, rtol=1e-9, atol=1e-9)


@SLOW
@given(problems())
def test_steps_agree_with_em_by_enumeration(problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray]) -> None:
    network, rows, weights = problem
    by_hand = network
    for _ in range(3):
        by_hand = brute_step(by_hand, rows, weights)
    model = et.EMJunctionTree(network.graph, init=network, max_iter=3, **PLAIN).fit(rows, sample_weight=weights)
    # A step that gains nothing but rounding is not taken, and then ends the run.
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
    # One step at a time: pyagrum may end its run early, or go back, where the likelihood hardly moves.
    for steps in (1, 2):
        net = theirs.to_pyagrum()
        learner = pyagrum.BNLearner(str(file), net, ["?"])
        learner.useNoPrior()
        learner.useEM(1e-12, 0.0)
        learner.EMsetMaxIter(1)
        theirs = et.LatentNetwork.from_pyagrum(learner.learnParameters(net), hidden=graph.hidden)
        ours = et.EMJunctionTree(graph, init=start, max_iter=steps, **PLAIN).fit(rows).network_
        for name in graph.names:
            assert_allclose(ours.tables[name], theirs.tables[name], atol=1e-9)


@SLOW
@given(latent_graphs(most_variables=5, most_states=3, most_cells=200), st.integers(0, 2**20))
def test_without_hidden_variables_one_step_gives_relative_frequencies(graph: et.LatentGraph, seed: int) -> None:
    graph = et.LatentGraph(graph.states, graph.edges, (), graph.directed)
    rows = et.LatentNetwork.random(graph, seed=seed).sample(40, seed=seed)
    model = et.EMJunctionTree(graph, max_iter=1, pseudo_counts=0.0, random_state=seed).fit(rows)
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
    model = et.EMJunctionTree(graph, init=truth, pseudo_counts=0.0).fit(truth.sample(50_000, seed=0))
    assert model.converged_
    test = truth.sample(2000, seed=1)
    # Twice the gain in log-likelihood is about as large as the number of parameters, whatever the rows.
    assert 0 < model.history_[-1] - model.history_[0] < 60
    assert abs(model.score(test) - truth.log_prob(test).mean()) < 2e-3


def test_it_finds_a_model_as_good_as_the_truth() -> None:
    graph = et.zoo.mixture(6, 2, 3)
    truth = et.LatentNetwork.random(graph, concentration=0.5, seed=1)
    rows = truth.sample(2000, seed=2)
    model = et.EMJunctionTree(zoo_template := et.zoo.Mixture(2), init="random", pseudo_counts=0, random_state=0)
    model.fit(rows)
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
    model = et.EMJunctionTree(network.graph, init=network, max_iter=4, **PLAIN)
    one = clone(model).fit(rows[again], sample_weight=weights[again])
    two = clone(model).fit(rows[again][order], sample_weight=weights[again][order])
    three = clone(model).fit(rows, sample_weight=np.bincount(again, weights[again], len(rows)))
    for other in (two, three):
        assert_allclose(other.history_[-1], one.history_[-1], rtol=1e-10, atol=1e-10)
        if other.n_iter_ == one.n_iter_:
            for key, table in one.network_.tables.items():
                assert_allclose(other.network_.tables[key], table, atol=1e-8)


def test_threads_change_no_bit() -> None:
    graph = et.zoo.hmm(8, 1, 2, 3)
    rows = all_rows(graph)
    model = et.EMJunctionTree(graph, n_init=1, max_iter=3, init="random", random_state=0, **PLAIN)
    one, three = (clone(model).set_params(n_jobs=jobs).fit(rows) for jobs in (1, 3))
    assert np.array_equal(three.history_, one.history_)
    for name, table in one.network_.tables.items():
        assert np.array_equal(three.network_.tables[name], table)


def test_acceleration_climbs_at_least_as_high_in_fewer_steps() -> None:
    graph = et.zoo.hmm(10, 2, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=0).sample(2000, seed=1)
    start = et.LatentNetwork.random(graph, seed=7)
    plain = et.EMJunctionTree(graph, init=start, tol=1e-7, stopping="paper", accelerate=False).fit(rows)
    fast = et.EMJunctionTree(graph, init=start, tol=1e-7, stopping="paper").fit(rows)
    assert np.all(np.diff(fast.history_) >= 0)
    reached = int(np.searchsorted(fast.history_, plain.history_[-1]))
    assert reached < plain.n_iter_ / 2


def test_the_stopping_rule_is_that_of_the_paper() -> None:
    graph = et.zoo.hmm(6, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(500, seed=1)
    model = et.EMJunctionTree(graph, n_init=1, tol=1e-5, random_state=0, **PAPER).fit(rows)
    f = np.abs(model.history_)
    change = np.abs(np.diff(model.history_)) / ((f[1:] + f[:-1]) / 2)
    assert model.converged_
    assert change[-1] <= 1e-5
    assert np.all(change[:-1] > 1e-5)
    stopped = et.EMJunctionTree(graph, n_init=1, tol=1e-5, max_iter=3, random_state=0, **PAPER).fit(rows)
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
        et.EMJunctionTree(graph, init=start, pseudo_counts=0.0).fit(rows).joint(["x"]),
        np.bincount(rows[:, 0]) / 100,
        atol=1e-3,
    )


def test_a_few_pseudo_counts_shrink_towards_uniform() -> None:
    graph = et.LatentGraph({"x": 3})
    model = et.EMJunctionTree(graph, pseudo_counts=0.25).fit([[0], [0], [1]])
    assert_allclose(model.network_.tables["x"], [2.25 / 3.75, 1.25 / 3.75, 0.25 / 3.75])


def test_more_pseudo_counts_shrink_towards_the_column() -> None:
    graph = et.LatentGraph({"y": 2, "x": 3}, [("y", "x")])
    rows = [[0, 0], [0, 0], [0, 0], [1, 1]]
    tables = et.EMJunctionTree(graph, pseudo_counts=2.25).fit(rows).network_.tables
    even, column = np.full(3, 0.25), 2.0 * 3 * np.array([3, 1, 0]) / 4
    assert_allclose(tables["x"], (np.array([[3, 0, 0], [0, 1, 0]]) + even + column) / [[3 + 6.75], [1 + 6.75]])
    assert_allclose(tables["y"], np.array([3 + 0.25 + 3, 1 + 0.25 + 1]) / 8.5)


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
        et.EMJunctionTree(graph, init=init, pseudo_counts=0.0).fit([[0, 0], [0, 0], [0, 1]])
    model = et.EMJunctionTree(graph, init=init, pseudo_counts=0.0)
    model.fit([[0, 0], [0, 0], [0, 1]], sample_weight=[1, 1, 0])
    assert model.history_[-1] == 0.0


def test_rows_that_contradict_themselves_are_climbed_from_all_the_same() -> None:
    # Each row needs odds of 1e-90 twelve times, which no double holds; the hidden state never changes.
    graph = et.zoo.hmm(24, 1, 2, 2)
    odds = [[1.0 - 1e-90, 1e-90], [1e-90, 1.0 - 1e-90]]
    tables = {f"h{t}": np.eye(2) for t in range(1, 24)} | {"h0": [0.5, 0.5]} | {f"x{t}": odds for t in range(24)}
    init = et.LatentNetwork(graph, tables)
    rows = np.array([[t % 2 for t in range(24)], [1 - t % 2 for t in range(24)]])
    model = et.EMJunctionTree(graph, init=init, max_iter=1, **PLAIN).fit(rows)
    assert_allclose(model.history_[0], init.log_prob(rows).sum(), rtol=1e-12)
    assert_allclose(model.history_[1], 2 * 24 * np.log(0.5), rtol=1e-12)


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


@pytest.mark.parametrize("after", [1, 4, 12])
def test_an_interrupted_fit_keeps_the_best_so_far(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(200, seed=1)
    whole = et.EMJunctionTree(graph, n_init=3, max_iter=8, init="random", random_state=0, **PLAIN)
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


def test_an_interrupt_before_anything_is_known_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = et.zoo.mixture(3, 2, 3)

    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        et.EMJunctionTree(graph).fit([[0, 1, 2]])


GRAPH = et.zoo.mixture(2, 2, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (et.EMJunctionTree(GRAPH, n_init=0), "n_init is a whole number of at least 1, not 0"),
        (et.EMJunctionTree(GRAPH, max_iter=2.5), "max_iter is a whole number"),
        (et.EMJunctionTree(GRAPH, n_jobs=True), "n_jobs is a whole number"),
        (et.EMJunctionTree(GRAPH, tol=-1), "tol is a finite number of at least 0, not -1"),
        (et.EMJunctionTree(GRAPH, tol=float("nan")), "tol is a finite number"),
        (et.EMJunctionTree(GRAPH, pseudo_counts="some"), "pseudo_counts is"),
        (et.EMJunctionTree(GRAPH, n_init=True), "n_init is a whole number"),
        (et.EMJunctionTree(GRAPH, tol=np.bool_(True)), "tol is a finite number"),
        (et.EMJunctionTree(GRAPH, pseudo_counts=np.inf), "pseudo_counts is"),
    ],
)
def test_arguments_out_of_range_are_named(model: et.EMJunctionTree, message: str) -> None:
    with pytest.raises(et.ParameterError, match=message):
        model.fit([[0, 1]])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"needs one number .*shape \(2,\), not 1 of them"),
        ([1.0, -1.0], "holds negative"),
        ([1.0, np.nan], "holds negative, infinite or missing"),
        ([0.0, 0.0], "the weight of all rows is zero"),
        ([[1.0], [1.0, 2.0]], "needs one number"),
    ],
)
def test_bad_weights_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        et.EMJunctionTree(GRAPH).fit([[0, 1], [1, 1]], sample_weight=weights)


def test_an_init_must_fit_the_structure() -> None:
    with pytest.raises(et.NetworkError, match="init belongs to another graph"):
        et.EMJunctionTree(GRAPH, init=et.LatentNetwork.random(et.zoo.mixture(3), seed=0)).fit([[0, 1]])
    # The same columns, below other hidden states.
    with pytest.raises(et.NetworkError, match="init belongs to another graph than the structure"):
        et.EMJunctionTree(GRAPH, init=et.LatentNetwork.random(et.zoo.mixture(2, 3, 2), seed=0)).fit([[0, 1]])
    with pytest.raises(et.ParameterError, match=r"init is 'multistart', 'spectral', .*, not {}"):
        et.EMJunctionTree(GRAPH, init={}).fit([[0, 1]])
    with pytest.raises(et.DataError, match="row 1, column 'x1' holds 2"):
        et.EMJunctionTree(GRAPH).fit([[0, 1], [0, 2]])


def test_an_init_must_have_its_tables_on_the_graphs_own_tree() -> None:
    edges = [("a", "b"), ("b", "c"), ("a", "x"), ("b", "y"), ("c", "z")]
    graph = et.LatentGraph(dict.fromkeys("abcxyz", 2), edges, ["a", "b", "c"], directed=False)
    init = et.LatentNetwork.random(graph, seed=0, tree=et.JunctionTree.build(graph, root="z"))
    with pytest.raises(et.NetworkError, match="another junction tree"):
        et.EMJunctionTree(graph, init=init).fit([[0, 1, 1], [1, 1, 0]])


def test_a_hidden_variable_may_have_thousands_of_states() -> None:
    """Cliques of marginalised variables were once built as if hidden variables were columns, which have a limit."""
    graph = et.LatentGraph(
        {"h0": 5_000, "h1": 2, "x0": 2, "x1": 2}, [("h0", "h1"), ("h0", "x0"), ("h1", "x1")], ["h0", "h1"]
    )
    rows = np.random.default_rng(0).integers(0, 2, (20, 2))
    model = et.EMJunctionTree(graph, init="random", n_init=1, max_iter=2, random_state=0).fit(rows)
    assert_allclose(np.exp(model.score_samples(list(np.ndindex(2, 2)))).sum(), 1.0)
