"""Initialisers, the multi-start, stopping, and validation rows: laws."""

from __future__ import annotations

import csv
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from eigentree.em.course import Course, part_of
from eigentree.em.entrants import KINDS, Office
from eigentree.em.field import Field
from eigentree.em.rounds import Round
from eigentree.em.starts import Classes, Start, carried, seeded
from em_problems import coded, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from shared_files import shared_file

import eigentree as et
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_gaps
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping, remaining_gain
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective

SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def distinct(graph: et.LatentGraph, rows: np.ndarray, weights: np.ndarray | None = None) -> DistinctRows:
    weights = np.ones(len(rows)) if weights is None else weights
    return DistinctRows.of(coded(graph, rows), [graph.states[name] for name in graph.observed], weights)


@SOME
@given(problems(), st.integers(0, 2**20))
def test_every_start_is_a_network_under_which_every_row_is_possible(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], seed: int
) -> None:
    network, rows, weights = problem
    graph, kept = network.graph, distinct(network.graph, rows, weights)
    office = Office(graph, kept, columns_with_gaps(kept.codes, graph))
    kinds = ["mixture", "copy", "random"]
    for entrant in office.of_kinds(kinds, np.random.default_rng(seed)):
        start = ParameterLayout.of(graph).network(entrant.make(kept).parameters)
        assert np.isfinite(start.log_prob(rows)).all()


@SOME
@given(problems(), st.sampled_from(["multistart", *KINDS]), st.sampled_from([0.0, 0.1]))
def test_any_start_leads_to_a_fit_whatever_the_graph_the_gaps_and_the_weights(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], init: str, pseudo_counts: float
) -> None:
    network, rows, weights = problem
    model = et.EMJunctionTree(network.graph, 2, init=init, max_iter=30, pseudo_counts=pseudo_counts, random_state=0)
    try:
        model.fit(rows, sample_weight=weights)
    except et.RankError:
        # In some graphs no table follows from the moments of the columns.
        assert init == "spectral"
        return
    assert np.all(np.diff(model.history_) >= 0)
    if not pseudo_counts:
        assert_allclose(weights @ model.score_samples(rows), model.history_[-1], rtol=1e-8, atol=1e-8)
    assert model.start_.name in KINDS
    assert repr(pickle.loads(pickle.dumps(model.start_))) == repr(model.start_)


def test_carried_classes_without_noise_are_the_mixture_itself() -> None:
    graph = et.zoo.mixture(4, 3, 2)
    truth = et.LatentNetwork.random(graph, seed=0)
    classes = Classes(truth.tables["h"], {name: truth.tables[name] for name in graph.observed})
    layout = ParameterLayout.of(graph)
    rows = truth.sample(50, seed=1)
    again = layout.network(carried(layout, classes, 0.0))
    # Only the uniform share that rules nothing out is between them.
    assert_allclose(np.exp(again.log_prob(rows)), np.exp(truth.log_prob(rows)), atol=2e-3)


def test_a_copy_of_classes_has_the_columns_of_the_classes_on_any_graph() -> None:
    mixture = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0)
    classes = Classes(mixture.tables["h"], {f"x{k}": mixture.tables[f"x{k}"] for k in range(4)})
    undirected = et.LatentGraph(
        {"a": 2, "b": 2, "x0": 3, "x1": 3, "x2": 3, "x3": 3},
        [("a", "b"), ("a", "x0"), ("a", "x1"), ("b", "x2"), ("b", "x3"), ("x2", "x3")],
        ["a", "b"],
        directed=False,
    )
    for graph in (et.zoo.hmm(4, 2, 2, 3), undirected):
        layout = ParameterLayout.of(graph)
        network = layout.network(carried(layout, classes, 0.3))
        for name in graph.observed:
            assert_allclose(network.joint([name]), mixture.joint([name]), atol=2e-3)


def test_seeds_are_rows_and_far_apart() -> None:
    graph = et.zoo.mixture(6, 3, 2)
    rows = np.repeat([[0, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], [900, 60, 40], axis=0)
    for seed in range(5):
        classes = seeded(graph, distinct(graph, rows), 3, 1.0, np.random.default_rng(seed))
        modes = {tuple(int(classes.columns[f"x{k}"][c].argmax()) for k in range(6)) for c in range(3)}
        assert modes == {tuple(row) for row in rows[[0, 900, 960]].tolist()}


@given(st.integers(0, 2**20), st.floats(1e-3, 1e3))
@settings(max_examples=20, deadline=None)
def test_a_part_of_the_rows_has_their_proportions_at_any_scale(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(1, 50, 400) * scale
    rows = DistinctRows(np.arange(400).reshape(-1, 1), weights, np.arange(400))
    part = part_of(rows, 100, random)
    assert 80 <= len(part.rows.weights) <= 120
    assert_allclose(part.rows.weights.sum(), weights.sum() / 4)
    expected = part.draws * weights / weights.sum()
    counts = np.zeros(400)
    counts[part.rows.first] = part.rows.weights / part.rows.weights.sum() * part.draws
    assert np.abs(counts - expected).max() < 1.01


@pytest.mark.parametrize("heavy", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("states", [2, 5])
def test_the_first_part_is_drawn_from_enough_rows_for_each_parameter(heavy: float, states: int) -> None:
    """Rows of great weight are sampled repeatedly, so fewer that differ are enough, at any scale of weights."""
    graph = et.zoo.hmm(16, 1, states, 2)
    random = np.random.default_rng(0)
    codes = random.integers(0, 2, (10_000, 16))
    weights = np.arange(1, 10_001, dtype=float) ** (1.0 - heavy)
    sizes = []
    for scale in (1.0, 1e-3):
        rows = DistinctRows(codes, scale * weights, np.arange(10_000))
        course = Course(graph, rows, frozenset(), 0.0, Stopping("gain", 1e-5), 10)
        first, *others = course.parts(np.random.default_rng(1))
        sizes.append(len(first.rows.weights))
        assert course.has_one_part == bool(others)
        if others:
            assert first.draws >= 8 * ParameterLayout.of(graph).learned_count
    assert sizes[0] == sizes[1]
    # With equal weights, the larger graph needs so many rows that a part would hardly be cheaper than all.
    assert (sizes[0] < 10_000) == (heavy > 1.0 or states == 2)


def hmm_rows(count: int, seed: int = 1) -> tuple[et.LatentGraph, np.ndarray]:
    graph = et.zoo.hmm(8, 1, 2, 3)
    return graph, et.LatentNetwork.random(graph, concentration=0.5, seed=0).sample(count, seed=seed)


def test_a_race_repeats_and_threads_and_the_scale_of_weights_do_not_change_it() -> None:
    graph, rows = hmm_rows(1_000)
    model = et.EMJunctionTree(graph, max_iter=40, pseudo_counts=0.0, random_state=3)
    one = model.fit(rows)
    history, start = one.history_, one.start_
    again = model.fit(rows)
    assert np.array_equal(again.history_, history)
    threaded = model.set_params(n_jobs=3).fit(rows)
    assert threaded.start_.name == start.name
    assert_allclose(threaded.history_, history, rtol=1e-9)
    scaled = model.set_params(n_jobs=1).fit(rows, sample_weight=np.full(len(rows), 0.25))
    assert_allclose(scaled.history_[-1], history[-1] / 4, rtol=1e-3)


def test_the_race_is_at_least_as_good_as_one_random_start() -> None:
    graph = et.zoo.hmm(12, 1, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=2).sample(13_000, seed=3)
    race = et.EMJunctionTree(graph, pseudo_counts=0.0, tol=1e-5, random_state=0).fit(rows)
    one = et.EMJunctionTree(graph, 1, init="random", pseudo_counts=0.0, tol=1e-5, random_state=0).fit(rows)
    assert race.history_[-1] > one.history_[-1] - 1e-4 * len(rows)
    # On a part first, then on all rows.
    assert len({heat.rows for heat in race.start_.heats}) == 2
    for heat in race.start_.heats:
        heights = [height for _, height in heat.standings]
        assert heights == sorted(heights, reverse=True)
    assert f"{race.start_.name} start" in repr(race.start_)


def test_where_two_starts_agree_no_more_enter_and_a_kind_that_is_asked_for_enters_at_once() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(10, 2, 4), seed=0)
    rows = truth.sample(6_000, seed=1)
    race = et.EMJunctionTree(truth.graph, pseudo_counts=0.0, random_state=0).fit(rows)
    assert race.start_.heats[0].rows > 2_000
    assert max(len(heat.standings) for heat in race.start_.heats) == 2
    asked = et.EMJunctionTree(truth.graph, 5, init="mixture", pseudo_counts=0.0, random_state=0).fit(rows)
    assert len(asked.start_.heats[0].standings) == 5
    assert_allclose(race.history_[-1], asked.history_[-1], rtol=1e-6)


def entered(monkeypatch: pytest.MonkeyPatch, structure: object, rows: np.ndarray) -> tuple[int, et.EMJunctionTree]:
    """How many starts a fit without pseudo-counts makes, and the fit."""
    made = []
    original = Field.enter

    def enter(self: Field, start: Start, heats: Sequence[Round], waiting: int) -> None:
        made.append(start.name)
        original(self, start, heats, waiting)

    monkeypatch.setattr(Field, "enter", enter)
    model = et.EMJunctionTree(structure, pseudo_counts=0.0, random_state=0).fit(rows)
    return len(made), model


@pytest.mark.parametrize("structure", [et.zoo.Mixture(2), et.zoo.HMM(order=1, hidden_states=2)])
def test_few_rows_are_raced_on_by_a_dozen_starts_where_all_agree(
    monkeypatch: pytest.MonkeyPatch, structure: object
) -> None:
    # Two classes far apart have but one top, whatever hidden variables are made of them.
    rows = np.repeat([[0] * 6, [1] * 6], 30, axis=0)
    rows[np.random.default_rng(0).random(rows.shape) < 0.05] ^= 1
    made, model = entered(monkeypatch, structure, rows)
    assert made == 12
    assert len(model.start_.heats[0].standings) == 4


def test_few_rows_are_raced_on_by_more_starts_where_they_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    # Classes of noise: there are as many tops as ways to begin, and the last of 34 starts may find the highest.
    noise = np.random.default_rng(0).integers(0, 2, (150, 8))
    made, model = entered(monkeypatch, et.zoo.Mixture(4), noise)
    assert made >= 33
    few = et.EMJunctionTree(et.zoo.Mixture(4), 6, init="mixture", pseudo_counts=0.0, random_state=0).fit(noise)
    assert model.history_[-1] > few.history_[-1]


def test_the_usual_tolerance_is_a_share_of_chance_error_only_where_many_rows_differ() -> None:
    for count, weight, tol in ((1_000, 1.0, 4e-6), (40_000, 1.0, 0.005 * 300 / 80_000), (40_000, 1e3, 4e-6)):
        rows = DistinctRows(np.zeros((count, 1)), np.full(count, weight), np.arange(count))
        assert_allclose(Stopping.usual("gain", rows, 300).tol, tol)
        assert Stopping.usual("paper", rows, 300).tol == 1e-4


def test_what_is_called_converged_has_hardly_anything_left_to_gain() -> None:
    """But for a saddle here and there, which no rule distinguishes from a local optimum."""
    left, tol = [], 1e-5
    for seed in range(10):
        graph = [et.zoo.mixture(5, 3, 3), et.zoo.hmm(5, 1, 2, 3)][seed % 2]
        rows = et.LatentNetwork.random(graph, seed=seed).sample(300, seed=seed)
        problem = TreeObjective.of(graph, distinct(graph, rows), (), 0.1, 1)
        start = problem.layout.vector(et.LatentNetwork.random(graph, seed=seed + 50))
        *_, end = em_run(problem, start, Stopping("gain", tol), 3000, True)
        assert end.converged
        *_, summit = em_run(problem, end.here.parameters, Stopping("gain", 1e-12), 1000, True)
        left.append((summit.history[-1] - end.history[-1]) / problem.weight)
    assert np.mean(np.array(left) <= 2 * tol) >= 0.8


def test_the_remaining_gain_of_a_geometric_climb_is_found() -> None:
    for rate in (0.97, 0.99):
        history = [-(rate**k) for k in range(60)]
        assert_allclose(remaining_gain(history), rate**59, rtol=1e-6)
    assert remaining_gain([0.0, 1.0]) == np.inf
    assert remaining_gain([-np.inf, *range(10)]) == np.inf


def test_validation_rows_stop_a_climb_and_choose_its_tables() -> None:
    graph = et.zoo.mixture(8, 6, 3)
    truth = et.LatentNetwork.random(et.zoo.mixture(8, 2, 3), seed=0)
    rows, others = truth.sample(120, seed=1), truth.sample(500, seed=2)
    model = et.EMJunctionTree(graph, 1, init="random", pseudo_counts=0.0, tol=0, random_state=0)
    model.fit(rows, validation=others)
    best = int(model.validation_history_.argmax())
    assert len(model.validation_history_) == len(model.history_)
    assert best < model.n_iter_
    assert_allclose(model.network_.log_prob(others).mean(), model.validation_history_[best], rtol=1e-9)
    assert model.converged_
    share = et.EMJunctionTree(graph, validation_fraction=0.25, random_state=0).fit(rows)
    assert len(share.validation_history_) == len(share.history_)
    twin = et.EMJunctionTree(graph, validation_fraction=0.25, random_state=0).fit(rows)
    assert np.array_equal(share.history_, twin.history_)
    with pytest.raises(et.ParameterError, match="validation_fraction must be 0"):
        share.fit(rows, validation=others)
    with pytest.raises(et.DataError, match="leaves none to learn from"):
        et.EMJunctionTree(graph, validation_fraction=0.9).fit(rows[:2])
    with pytest.raises(et.ParameterError, match="validation_fraction is less than 1"):
        et.EMJunctionTree(graph, validation_fraction=1.0).fit(rows)


def test_an_interrupted_race_keeps_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, rows = hmm_rows(14_000)
    original = Expectation.__call__
    calls = 0

    def interrupted(self: Expectation, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 300:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        model = et.EMJunctionTree(graph, pseudo_counts=0.0, random_state=0).fit(rows)
    assert not model.converged_
    assert model.score(rows) > et.LatentNetwork.random(graph, seed=5).log_prob(rows).mean()


def test_impossible_rows_are_told_and_pseudo_counts_leave_none() -> None:
    graph = et.zoo.mixture(3, 2, 3)
    seen = [[0, 0, 0], [1, 1, 1], [0, 0, 1]]
    model = et.EMJunctionTree(graph, pseudo_counts=0.0, random_state=0).fit(seen)
    with pytest.warns(RuntimeWarning, match="1 of 2 rows have probability zero .* pseudo_counts"):
        assert model.score_samples([[0, 0, 0], [2, 2, 2]])[1] == -np.inf
    assert np.isfinite(et.EMJunctionTree(graph, random_state=0).fit(seen).score_samples([[2, 2, 2]])).all()


@pytest.mark.parametrize("structure", [et.LatentGraph({"x": 3}), et.LatentGraph({"x": 3, "y": 2}, [("x", "y")])])
def test_without_hidden_variables_there_is_nothing_to_race(structure: et.LatentGraph) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (30, len(structure.observed)))
    model = et.EMJunctionTree(structure, pseudo_counts=0.0, random_state=0).fit(rows)
    assert model.converged_
    assert_allclose(model.joint(["x"]), np.bincount(rows[:, 0], minlength=3) / 30, atol=1e-9)
    for init in ("mixture", "copy"):
        other = et.EMJunctionTree(structure, init=init, pseudo_counts=0.0, random_state=0).fit(rows)
        assert_allclose(other.history_[-1], model.history_[-1])


def test_a_spectral_start_that_cannot_be_says_why() -> None:
    graph = et.LatentGraph({"h": 3, "x": 2}, [("h", "x")], ["h"])
    with pytest.raises(et.RankError, match="there can be no spectral start"):
        et.EMJunctionTree(graph, init="spectral").fit([[0], [1], [1]])
    # Nothing but noise: no three classes can be distinguished, whatever is missing.
    noise = np.random.default_rng(0).integers(-1, 2, (200, 6))
    why = r"tell no table of this graph, since \{h\} .*; init='multistart' tries other starts beside it, and fewer hidden"
    with pytest.raises(et.RankError, match=why):
        et.EMJunctionTree(et.zoo.Mixture(3), init="spectral", random_state=0).fit(noise)
    model = et.EMJunctionTree(graph, random_state=0).fit([[0], [1], [1]])
    assert [name for name, _ in model.start_.absent] == ["spectral"]
    assert "no spectral start" in repr(model.start_)


def answers(name: str) -> np.ndarray:
    """Rows of a latent-class data set beside the repository, labels as codes in their order."""
    with shared_file(f"{name}.csv").open() as file:
        columns = list(zip(*list(csv.reader(file))[1:], strict=True))
    levels = [sorted(set(column) - {"", "NA"}) for column in columns]
    cells = [
        [known.index(cell) if cell in known else -1 for cell in column]
        for column, known in zip(columns, levels, strict=True)
    ]
    return np.array(cells).T


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "classes", "best"),
    [
        ("carcinoma", 3, -293.705),
        ("carcinoma", 4, -289.286),
        ("cheating", 2, -440.027),
        ("gss82", 3, -2754.545),
        ("election", 3, -21311.54),
    ],
)
def test_the_best_known_latent_classes_are_found(name: str, classes: int, best: float) -> None:
    rows = answers(name)
    for seed in range(3):
        model = et.EMJunctionTree(et.zoo.Mixture(classes), pseudo_counts=0, random_state=seed).fit(rows)
        assert model.history_[-1] > best - 0.01
