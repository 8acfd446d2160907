"""Stepwise online EM: laws of its running average, and of the estimator."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from brute_force import all_rows
from em_problems import is_learned
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import eigentree as et
from eigentree.em.estep.expectation import Expectation
from eigentree.em.parameters import ParameterLayout
from eigentree.em.stepwise import Learner
from eigentree.estimators import online_em


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


def test_passes_that_end_before_convergence_are_warned_of() -> None:
    model = et.OnlineEMJunctionTree(et.zoo.mixture(3, 2, 3), passes=2, tol=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="EM ended at passes=2 before it converged; raise passes"):
        model.fit(np.random.default_rng(0).integers(0, 3, (50, 3)))
    assert not model.converged_
    # More rows later are no end.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(np.random.default_rng(1).integers(0, 3, (50, 3)))


def test_one_whole_batch_with_stepsize_one_averages_start_and_data() -> None:
    graph = et.LatentGraph({"x": 2})
    init = et.LatentNetwork(graph, {"x": [0.5, 0.5]})
    model = et.OnlineEMJunctionTree(graph, stepsize=1.0, batch_size=4, passes=1, init=init).fit([[0]] * 4)
    # The first mini-batch has the weight (0 + 2) ** -1.
    assert_allclose(model.network_.tables["x"], [0.75, 0.25])
    model.partial_fit([[0]] * 4)
    assert_allclose(model.network_.tables["x"], [0.75 + 0.25 / 3, 0.25 * 2 / 3])


@pytest.mark.parametrize("pseudo_counts", [0.0, 3.0])
@pytest.mark.parametrize("stepsize", [0.6, 1.0])
def test_tables_follow_the_running_average_of_counts_per_row(stepsize: float, pseudo_counts: float) -> None:
    graph = et.LatentGraph({"x": 3})
    random = np.random.default_rng(0)
    cells, weights = random.integers(0, 3, 10), random.random(10) + 0.5
    start = np.array([0.5, 0.25, 0.25])
    model = et.OnlineEMJunctionTree(
        graph, stepsize, 4, init=et.LatentNetwork(graph, {"x": start}), pseudo_counts=pseudo_counts
    )
    # Two calls with mini-batches of 4 and 2, and of 4 rows.
    batches = [slice(0, 4), slice(4, 6), slice(6, 10)]
    model.partial_fit(cells[:6, None], sample_weight=weights[:6]).partial_fit(
        cells[6:, None], sample_weight=weights[6:]
    )
    # The start counts as a row of the usual weight of the first mini-batch.
    average = start * weights[batches[0]].mean()
    for k, rows in enumerate(batches):
        share = (k + 2) ** -stepsize
        seen = np.bincount(cells[rows], weights[rows], 3) / len(cells[rows])
        average = (1 - share) * average + share * seen
    tables = average + pseudo_counts / 10
    assert_allclose(model.network_.tables["x"], tables / tables.sum(), rtol=1e-12)
    assert model.n_iter_ == 3


@pytest.mark.parametrize("pseudo_counts", [0.0, 0.5])
def test_the_unit_of_weights_does_not_matter(pseudo_counts: float) -> None:
    graph = et.zoo.hmm(4, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(120, seed=1)
    weights = np.random.default_rng(0).random(120)
    model = et.OnlineEMJunctionTree(graph, batch_size=40, passes=2, tol=0, random_state=0)
    one = clone(model).set_params(pseudo_counts=pseudo_counts).fit(rows, sample_weight=weights)
    ten = clone(model).set_params(pseudo_counts=10 * pseudo_counts).fit(rows, sample_weight=10 * weights)
    assert_allclose(ten.history_, 10 * one.history_, rtol=1e-10)
    for name, table in one.network_.tables.items():
        assert_allclose(ten.network_.tables[name], table, rtol=1e-10)


def test_pseudo_counts_lift_what_no_row_has_and_nothing_that_rows_say_nothing_about() -> None:
    graph = et.LatentGraph({"h": 2, "x": 3, "below": 3}, [("h", "x"), ("h", "below")], ["h", "below"])
    start = et.LatentNetwork.random(graph, seed=0)
    rows = np.random.default_rng(0).integers(0, 2, (200, 1))
    model = et.OnlineEMJunctionTree(graph, batch_size=20, init=start, random_state=0)
    without = clone(model).fit(rows).network_.tables
    lifted = clone(model).set_params(pseudo_counts=50.0).fit(rows).network_.tables
    assert np.all(lifted["x"][:, 2] > 2 * without["x"][:, 2])
    for tables in (without, lifted):
        assert not is_learned(graph, "below")
        assert np.array_equal(tables["below"], start.tables["below"])


def test_each_fit_has_an_order_of_its_own_and_weights_stay_with_their_rows() -> None:
    graph = et.zoo.hmm(4, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(120, seed=1)
    weights = np.random.default_rng(0).random(120) * 5
    start = et.LatentNetwork.random(graph, seed=2)
    model = et.OnlineEMJunctionTree(graph, batch_size=30, passes=1, init=start)
    # The start is given, so all that is left to chance is the order of rows.
    histories = [
        clone(model).set_params(random_state=seed).fit(rows, sample_weight=weights).history_[0]
        for seed in (0, 1, 0)
    ]
    assert histories[0] == histories[2] != histories[1]
    # In one mini-batch the order is no matter.
    whole = clone(model).set_params(batch_size=120, random_state=0).fit(rows, sample_weight=weights)
    in_order = clone(model).set_params(batch_size=120).partial_fit(rows, sample_weight=weights)
    assert_allclose(whole.history_, in_order.history_, rtol=1e-12)
    for name, table in in_order.network_.tables.items():
        assert_allclose(whole.network_.tables[name], table, rtol=1e-9)


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


@pytest.mark.parametrize("sizes", [[300], [7, 143, 1, 149], [64] * 5])
def test_a_stream_teaches_what_its_rows_in_memory_do(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """However it is cut into batches, and into stretches that memory holds; weights are a column."""
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    table = pd.DataFrame(rows, columns=list(graph.observed))
    table.iloc[3, 1] = -1
    weights = np.random.default_rng(0).random(300)
    cuts = np.cumsum([0, *sizes])
    weighed = table.assign(weight=weights)
    batches = [weighed[a:b] for a, b in pairwise(cuts)]
    # The start is given: random numbers are those of the order of rows.
    model = et.OnlineEMJunctionTree(graph, batch_size=50, passes=3, init=et.LatentNetwork.random(graph, seed=2))
    for stretch, same in ((2**24, True), (5 * 100, False)):
        monkeypatch.setattr(online_em, "STRETCH_CELLS", stretch)
        for again in (iter(batches), lambda: iter(batches)):
            found = clone(model).partial_fit(again, sample_weight="weight")
            expected = clone(model).partial_fit(table, sample_weight=weights)
            assert found.n_iter_ == expected.n_iter_ == 6
            assert_allclose(found.history_, expected.history_, rtol=1e-12)
            for name, table_of_name in expected.network_.tables.items():
                assert_allclose(found.network_.tables[name], table_of_name, atol=1e-12)
        one = clone(model).set_params(random_state=0).fit(iter(batches), sample_weight="weight")
        other = clone(model).set_params(random_state=0).fit(table, sample_weight=weights)
        assert one.n_iter_ == other.n_iter_ == 18
        assert np.allclose(one.history_, other.history_, rtol=1e-12) == same
    more = found.partial_fit(iter(batches[:1]), sample_weight="weight")
    assert len(more.history_) == 2


def test_streams_without_rows_that_count_teach_nothing() -> None:
    graph = et.zoo.hmm(3, 1, 2, 2)
    model = et.OnlineEMJunctionTree(graph)
    table = pd.DataFrame(np.zeros((4, 3), int), columns=list(graph.observed)).assign(weight=0.0)
    with pytest.raises(et.DataError, match="the weight of all rows is zero"):
        model.partial_fit(lambda: iter([table]), sample_weight="weight")
    with pytest.raises(et.DataError, match="no rows"):
        model.fit(iter([table[:0]]))
    assert not hasattr(model, "network_")


def test_partial_fit_meets_missing_cells_later() -> None:
    graph = et.zoo.dynamic_bayes_net(
        3, {"h": 2, "x": 3}, within=[("h", "x")], between=[("h", "h"), ("x", "x")], hidden=["h"]
    )
    rows = et.LatentNetwork.random(graph, seed=0).sample(300, seed=1)
    rows[100:, 1] = -1
    rows[200:250, 2] = -1
    # Whether cells will be missing is known from the start, or found out on the way.
    model = et.OnlineEMJunctionTree(graph, batch_size=50, random_state=0)
    whole, parts = clone(model).partial_fit(rows), clone(model)
    for first in (0, 100, 200, 250):
        parts.partial_fit(rows[first : {0: 100, 100: 200, 200: 250, 250: 300}[first]])
    assert_allclose(parts.history_.sum(), whole.history_[0], rtol=1e-12)
    for name, table in whole.network_.tables.items():
        assert_allclose(parts.network_.tables[name], table, rtol=1e-10)


HALF_KNOWN = et.zoo.mixture(2, 2, 3)
TABLES = {"h": [0.5, 0.5], "x0": [[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]], "x1": [[0.5, 0.2, 0.3], [0.1, 0.5, 0.4]]}
INIT = et.LatentNetwork(HALF_KNOWN, TABLES)
GOOD = np.array([[0, 0], [1, 2], [1, 1], [0, 2], [1, 0], [0, 1]])
IMPOSSIBLE = np.vstack([GOOD, [[2, 0]]])


def assert_same(one: et.OnlineEMJunctionTree, two: et.OnlineEMJunctionTree) -> None:
    assert np.array_equal(one.history_, two.history_)
    assert one.n_iter_ == two.n_iter_
    for name, table in one.network_.tables.items():
        assert np.array_equal(two.network_.tables[name], table)


@pytest.mark.parametrize("bad", ["impossible", "no code", "interrupted"])
def test_a_partial_fit_that_fails_has_never_been(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = et.OnlineEMJunctionTree(HALF_KNOWN, batch_size=2, init=INIT)
    spared = clone(model).partial_fit(GOOD)
    model.partial_fit(GOOD)
    before = dict(vars(model))
    if bad == "impossible":
        # Three mini-batches could be learned from before the row.
        with pytest.raises(et.DataError, match="row 6 has probability zero under the tables"):
            model.partial_fit(IMPOSSIBLE)
    elif bad == "no code":
        with pytest.raises(et.DataError, match="row 1, column 'x1' holds 3"):
            model.partial_fit([[0, 0], [1, 3]])
    else:
        original, calls = Expectation.__call__, []

        def interrupted(self: Expectation, *arguments: object) -> object:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            return original(self, *arguments)

        monkeypatch.setattr(Expectation, "__call__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(np.where(GOOD == 0, -1, GOOD))
        monkeypatch.undo()
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert_same(model, spared)
    assert_same(model.partial_fit(GOOD[:5]), spared.partial_fit(GOOD[:5]))


def test_data_that_are_refused_leave_a_generator_as_it_was() -> None:
    for learn in ("fit", "partial_fit"):
        one, two = (et.OnlineEMJunctionTree(HALF_KNOWN, random_state=np.random.default_rng(3)) for _ in range(2))
        with pytest.raises(et.DataError):
            getattr(one, learn)([[0, 9]])
        assert_same(getattr(one, learn)(GOOD), getattr(two, learn)(GOOD))


def test_a_first_partial_fit_that_fails_leaves_nothing() -> None:
    model = et.OnlineEMJunctionTree(HALF_KNOWN, batch_size=2, init=INIT)
    before = dict(vars(model))
    with pytest.raises(et.DataError, match="row 6"):
        model.partial_fit(IMPOSSIBLE)
    assert vars(model) == before
    assert_same(model.partial_fit(GOOD), clone(model).partial_fit(GOOD))


def test_a_fit_names_the_row_whatever_its_order() -> None:
    with pytest.raises(et.DataError, match="row 6 has probability zero under the tables"):
        et.OnlineEMJunctionTree(HALF_KNOWN, init=INIT, batch_size=2, random_state=0).fit(IMPOSSIBLE)


def test_an_update_makes_a_new_state() -> None:
    start = ParameterLayout.of(HALF_KNOWN).vector(INIT)
    learner = replace(Learner.of(HALF_KNOWN, start, 0.7), batch_size=2, pseudo_counts=0.1)
    parameters, average = learner.parameters.copy(), learner.average.copy()
    first = list(learner.updates(GOOD, np.ones(6), np.arange(6)))
    second = list(learner.updates(GOOD, np.ones(6), np.arange(6)))
    assert [state.batches for state, _ in first] == [1, 2, 3]
    assert learner.batches == learner.rows == 0
    assert np.array_equal(learner.parameters, parameters)
    assert np.array_equal(learner.average, average)
    for one, two in zip(first, second, strict=True):
        assert one[1] == two[1]
        assert np.array_equal(one[0].parameters, two[0].parameters)


def test_a_model_goes_on_after_a_pickle() -> None:
    model = et.OnlineEMJunctionTree(HALF_KNOWN, batch_size=2, init=INIT).partial_fit(GOOD)
    again = pickle.loads(pickle.dumps(model))
    assert_same(again, model)
    assert_same(again.partial_fit(GOOD), model.partial_fit(GOOD))


def test_threads_change_no_bit() -> None:
    graph = et.zoo.hmm(8, 1, 2, 3)
    rows = all_rows(graph)
    model = et.OnlineEMJunctionTree(graph, batch_size=len(rows), passes=1, random_state=0)
    one, three = (clone(model).set_params(n_jobs=jobs).fit(rows) for jobs in (1, 3))
    assert np.array_equal(three.history_, one.history_)


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


def test_an_interrupt_before_anything_is_known_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = Expectation.__call__, []

    def interrupted(self: Expectation, *arguments: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Expectation, "__call__", interrupted)
    model = et.OnlineEMJunctionTree(HALF_KNOWN, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(GOOD)
    assert not hasattr(model, "network_")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (et.OnlineEMJunctionTree(HALF_KNOWN, stepsize=0.5), "stepsize is more than 0.5 and at most 1, not 0.5"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, stepsize=1.1), "stepsize is more than 0.5"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, stepsize=True), "stepsize is a finite number"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, stepsize="1"), "stepsize is a finite number"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, batch_size=0), "batch_size is a whole number"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, passes=0), "passes is a whole number"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, n_jobs=1.0), "n_jobs is a whole number"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, tol=-1), "tol is a finite number of at least 0, not -1"),
        (et.OnlineEMJunctionTree(HALF_KNOWN, pseudo_counts=np.nan), "pseudo_counts is a finite number"),
    ],
)
def test_arguments_out_of_range_are_named(model: et.OnlineEMJunctionTree, message: str) -> None:
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(et.ParameterError, match=message):
            learn([[0, 1]])
