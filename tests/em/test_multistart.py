"""Initialisers, the multi-start, and validation rows: laws."""

from __future__ import annotations

import csv
import pickle
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from em_problems import coded, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from shared_files import shared_file

import eigentree as et
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.init.classes import Classes, carried, seeded
from eigentree.em.init.trees import KINDS, TreeInit
from eigentree.em.multistart import ETA, ROWS_PER_PARAMETER, STARTS, Candidate, Multistart, multistart
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_fit import TreeFit

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
    starts = TreeInit(graph, kept, kept, columns_with_missing(kept.codes, graph))
    for kind in ("mixture", "copy", "random"):
        start = ParameterLayout.of(graph).network(starts.candidate(kind, np.random.default_rng(seed)).make())
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
        classes = seeded(graph, distinct(graph, rows), 3, np.random.default_rng(seed))
        modes = {tuple(int(classes.columns[f"x{k}"][c].argmax()) for k in range(6)) for c in range(3)}
        assert modes == {tuple(row) for row in rows[[0, 900, 960]].tolist()}


def hmm_rows(count: int, seed: int = 1) -> tuple[et.LatentGraph, np.ndarray]:
    graph = et.zoo.hmm(8, 1, 2, 3)
    return graph, et.LatentNetwork.random(graph, concentration=0.5, seed=0).sample(count, seed=seed)


def test_a_multistart_repeats_and_threads_and_the_scale_of_weights_do_not_change_it() -> None:
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


def test_a_multistart_is_at_least_as_good_as_one_random_start() -> None:
    graph = et.zoo.hmm(12, 1, 2, 4)
    rows = et.LatentNetwork.random(graph, seed=2).sample(13_000, seed=3)
    many = et.EMJunctionTree(graph, pseudo_counts=0.0, tol=1e-5, random_state=0).fit(rows)
    one = et.EMJunctionTree(graph, 1, init="random", pseudo_counts=0.0, tol=1e-5, random_state=0).fit(rows)
    assert many.history_[-1] > one.history_[-1] - 1e-4 * len(rows)
    # On growing samples, at last on all rows that differ.
    rungs = many.start_.rungs
    assert len(rungs) > 1
    assert [rung.rows for rung in rungs] == sorted({rung.rows for rung in rungs})
    for rung in rungs:
        objectives = [objective for _, objective in rung.objectives]
        assert objectives == sorted(objectives, reverse=True)
    assert f"{many.start_.name} start" in repr(many.start_)


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
        et.EMJunctionTree(graph, validation_fraction=0.9).fit(rows[:1])
    with pytest.raises(et.ParameterError, match="validation_fraction is less than 1"):
        et.EMJunctionTree(graph, validation_fraction=1.0).fit(rows)


def test_an_interrupted_multistart_keeps_its_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, rows = hmm_rows(14_000)
    original = Expectation.__call__
    calls = 0

    def interrupted(self: Expectation, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 70:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        model = et.EMJunctionTree(graph, pseudo_counts=0.0, random_state=0).fit(rows)
    assert not model.converged_
    assert model.score(rows) > et.LatentNetwork.random(graph, seed=5).log_prob(rows).mean()


def test_impossible_rows_are_reported_and_pseudo_counts_leave_none() -> None:
    graph = et.zoo.mixture(3, 2, 3)
    seen = [[0, 0, 0], [1, 1, 1], [0, 0, 1]]
    model = et.EMJunctionTree(graph, pseudo_counts=0.0, random_state=0).fit(seen)
    with pytest.warns(RuntimeWarning, match="1 of 2 rows have probability zero .* pseudo_counts"):
        assert model.score_samples([[0, 0, 0], [2, 2, 2]])[1] == -np.inf
    assert np.isfinite(et.EMJunctionTree(graph, random_state=0).fit(seen).score_samples([[2, 2, 2]])).all()


@pytest.mark.parametrize("structure", [et.LatentGraph({"x": 3}), et.LatentGraph({"x": 3, "y": 2}, [("x", "y")])])
def test_without_hidden_variables_one_start_suffices(structure: et.LatentGraph) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (30, len(structure.observed)))
    model = et.EMJunctionTree(structure, pseudo_counts=0.0, random_state=0).fit(rows)
    assert model.converged_
    assert len(model.objectives_) == 1
    assert_allclose(model.joint(["x"]), np.bincount(rows[:, 0], minlength=3) / 30, atol=1e-9)
    for init in ("mixture", "copy"):
        other = et.EMJunctionTree(structure, init=init, pseudo_counts=0.0, random_state=0).fit(rows)
        assert_allclose(other.history_[-1], model.history_[-1])


def test_a_spectral_start_that_cannot_be_says_why() -> None:
    graph = et.LatentGraph({"h": 3, "x": 2}, [("h", "x")], ["h"])
    why = "there can be no spectral start: .*; init='multistart' tries other starts beside it, and fewer hidden"
    with pytest.raises(et.RankError, match=why):
        et.EMJunctionTree(graph, init="spectral").fit([[0], [1], [1]])
    model = et.EMJunctionTree(graph, random_state=0).fit(np.random.default_rng(0).integers(0, 2, (2_000, 1)))
    assert "spectral" not in {name for rung in model.start_.rungs for name, _ in rung.objectives}


def tree_fit(network: et.LatentNetwork, count: int) -> TreeFit:
    rows = distinct(network.graph, network.sample(count, seed=1))
    return TreeFit(network.graph, rows, frozenset(), 0.0, Stopping("gain", 1e-6), 500)


def searched(fit: TreeFit, pool: Iterator[Candidate], moments: Candidate | None = None) -> tuple[Multistart, int]:
    """The end of a search, and how many candidates of the pool were used."""
    used = []

    def counted() -> Iterator[Candidate]:
        for candidate in pool:
            used.append(candidate)
            yield candidate

    samples = [sample for _, sample in fit.samples(np.random.default_rng(0))]
    *_, end = multistart(samples, counted(), fit.stopping, fit.max_iter, moments=moments)
    return end, len(used)


def random_pool(fit: TreeFit) -> Iterator[Candidate]:
    starts = TreeInit(fit.graph, fit.rows, fit.rows, fit.gaps)
    seeds = iter(np.random.default_rng(0).spawn(1_000))
    return (starts.candidate("random", seed) for seed in seeds)


def test_samples_grow_and_are_drawn_from_enough_rows_for_each_parameter() -> None:
    """At any scale of weights; rows of great weight are sampled repeatedly, so fewer that differ are enough."""
    graph = et.zoo.hmm(16, 1, 2, 2)
    codes = np.random.default_rng(0).integers(0, 2, (40_000, 16))
    parameters = et.LatentNetwork.random(graph, seed=0).n_parameters
    for heavy in (1.0, 2.0):
        weights = np.arange(1, 40_001, dtype=float) ** (1.0 - heavy)
        sizes = []
        for scale in (1.0, 1e3):
            rows = DistinctRows(codes, scale * weights * 40_000 / weights.sum(), np.arange(40_000))
            fit = TreeFit(graph, rows, frozenset(), 0.0, Stopping("gain", 1e-5), 10)
            samples = fit.samples(np.random.default_rng(1))
            sizes.append([len(own.weights) for own, _ in samples])
            assert samples[-1][0] is rows
            for (small, sample), (large, _) in pairwise(samples):
                assert len(large.weights) >= (0.9 if heavy == 1.0 else 0.7) * ETA * len(small.weights)
                # The chance error is that of the rows that were drawn, weighed as they are.
                drawn = parameters / 2.0 / sample.chance * sample.objective.weight
                assert drawn > 0.9 * ROWS_PER_PARAMETER * parameters
        assert len(sizes[0]) > 1
        assert sizes[0][0] == sizes[1][0]


@given(st.integers(0, 2**20), st.floats(1e-3, 1e3))
@settings(max_examples=20, deadline=None)
def test_a_sample_of_the_rows_has_their_proportions_at_any_scale(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(1, 50, 400) * scale
    rows = DistinctRows(np.arange(400).reshape(-1, 1), weights, np.arange(400))
    sample, draws = rows.sampled(100, random)
    assert 80 <= len(sample.weights) <= 120
    assert_allclose(sample.weights.sum(), weights.sum() / 4)
    expected = draws * weights / weights.sum()
    counts = np.zeros(400)
    counts[sample.first] = sample.weights / sample.weights.sum() * draws
    assert np.abs(counts - expected).max() < 1.01


def test_once_candidates_meet_at_one_optimum_no_more_are_made() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(10, 2, 4), seed=0)
    fit = tree_fit(truth, 6_000)
    end, used = searched(fit, random_pool(fit))
    assert used < STARTS / 2
    best = et.EMJunctionTree(truth.graph, init=truth, pseudo_counts=0.0).fit(truth.sample(6_000, seed=1))
    assert_allclose(end.best[1].objective, best.history_[-1], rtol=1e-6)


def test_where_candidates_disagree_all_of_them_are_tried() -> None:
    """Classes of noise: there are as many local optima as ways to begin."""
    noise = np.random.default_rng(0).integers(0, 2, (150, 8))
    model = et.EMJunctionTree(et.zoo.Mixture(4), pseudo_counts=0.0, random_state=0).fit(noise)
    assert len(model.start_.rungs[0].objectives) == STARTS
    few = et.EMJunctionTree(et.zoo.Mixture(4), 4, init="mixture", pseudo_counts=0.0, random_state=0).fit(noise)
    assert model.history_[-1] > few.history_[-1] - 1e-6


def test_candidates_that_converged_at_different_optima_have_not_met() -> None:
    graph = et.zoo.mixture(10, 2, 2)
    rows = distinct(graph, np.random.default_rng(0).integers(0, 2, (3_000, 10)))
    fit = TreeFit(graph, rows, frozenset(), 0.0, Stopping("gain", 1e-6), 500)
    assert len(fit.samples(np.random.default_rng(0))) > 1, "so that the first few converge before others are made"
    _, used = searched(fit, random_pool(fit))
    assert used == STARTS


def test_moments_that_the_likelihood_confirms_need_no_other_start() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(16, 2, 2, 4), seed=3)
    rows = network.sample(36_000, seed=4)
    model = et.EMJunctionTree(network.graph, random_state=0).fit(rows)
    assert model.start_.name == "spectral"
    assert all(len(rung.objectives) == 1 for rung in model.start_.rungs)
    assert model.converged_
    best = et.EMJunctionTree(network.graph, init=network, pseudo_counts=model.pseudo_counts_).fit(rows)
    # Both have stopped short of the same optimum, by a share of the sampling error.
    assert best.history_[-1] - model.history_[-1] < 0.2 * network.n_parameters / 2.0


def test_moments_that_are_far_from_the_optimum_are_one_candidate_among_others() -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(8, 3, 3), 0.3, seed=0)
    fit = tree_fit(truth, 8_000)
    uniform = fit.whole.layout.uniform
    end, used = searched(fit, random_pool(fit), Candidate("uniform", lambda: uniform))
    assert used > 1
    assert end.best[0] == "random"
    assert "uniform" in {name for name, _ in end.rungs[0].objectives}


def test_an_initialiser_without_a_start_is_reported_and_if_there_is_no_other_raised() -> None:
    def none() -> np.ndarray:
        raise et.RankError("nothing is known")

    fit = tree_fit(et.LatentNetwork.random(et.zoo.mixture(5, 2, 3), seed=0), 2_000)
    end, _ = searched(fit, random_pool(fit), Candidate("moments", none))
    assert end.absent == {"moments": "nothing is known"}
    with pytest.raises(et.RankError, match="there can be no moments start: nothing is known"):
        searched(fit, iter(()), Candidate("moments", none))


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
