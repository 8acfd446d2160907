"""Constraints on tables: what is fixed stays, what is equal is equal, and EM ends at the constrained maximum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone

import eigentree as et
from eigentree.em.constraints import Constraints
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import ParameterError

NAN = float("nan")
GRAPH = et.zoo.mixture(columns=4, hidden_states=2, observed_states=[3, 3, 3, 2])
TRUTH = et.LatentNetwork.random(GRAPH, seed=4)
ROWS = TRUTH.sample(400, seed=1)
ROWS[::9, 1] = -1
FIXED = {"x0": [[0.7, NAN, NAN], [NAN, NAN, 0.4]], "x3": {0: [0.2, NAN]}}
EQUAL = [("x1", "x2"), (("x3", 1),)]
PLAIN: dict[str, Any] = {"pseudo_counts": 0, "tol": 1e-9, "random_state": 0}


def objective(fixed: Any = FIXED, equal: Any = EQUAL, graph: et.LatentGraph = GRAPH) -> TreeObjective:
    rows = DistinctRows.of(np.where(ROWS < 0, 3, ROWS), (3, 3, 3, 2), np.ones(len(ROWS)))
    layout = Constraints(fixed, equal).layout(graph, et.LatentNetwork.random(graph, seed=0).columns)
    return TreeObjective.of(graph, rows, columns_with_missing(rows.codes, graph), 0.0, constrained=layout)


def softmax(numbers: np.ndarray) -> np.ndarray:
    return np.exp(numbers - np.logaddexp.reduce(numbers))


def tables_of(free: np.ndarray) -> dict[str, np.ndarray]:
    """The tables that satisfy the constraints, from numbers that may be anything."""
    left, right = softmax(free[1:3]) * 0.3, softmax(free[3:5]) * 0.6
    same = np.stack([softmax(free[5:8]), softmax(free[8:11])])
    share = 1 / (1 + np.exp(-free[11]))
    return {
        "h": softmax(np.array([free[0], 0.0])),
        "x0": np.array([[0.7, *left], [*right, 0.4]]),
        "x1": same,
        "x2": same,
        "x3": np.array([[0.2, 0.8], [share, 1 - share]]),
    }


def test_em_ends_at_the_maximum_that_a_general_optimiser_finds() -> None:
    model = et.EMJunctionTree(GRAPH, fixed=FIXED, equal=EQUAL, n_init=20, **PLAIN).fit(ROWS)

    plain = objective(None, None)

    def loss(free: np.ndarray) -> float:
        tables = tables_of(free)
        return -plain.log_likelihood(np.concatenate([tables[key[0]].ravel() for key in plain.layout.axes]))

    random = np.random.default_rng(0)
    best = min(minimize(loss, random.normal(size=12), method="BFGS").fun for _ in range(4))
    assert float(model.score_samples(ROWS).sum()) == pytest.approx(-best, abs=1e-3)
    assert model.n_parameters_ == 8, "12 numbers, of which each of four groups has one too many"


def test_an_m_step_is_the_maximum_of_the_expected_log_likelihood() -> None:
    found = objective()
    start = found.layout.projected(found.layout.vector(TRUTH))
    here = found.evaluated(start)
    counts = found.counted(start).counts

    def loss(free: np.ndarray) -> float:
        tables = tables_of(free)
        log = np.log(np.concatenate([tables[key[0]].ravel() for key in found.layout.axes]))
        return -float(counts @ log)

    best = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-8})
    assert -float(counts @ np.log(here.update)) == pytest.approx(best.fun, abs=1e-5)


@pytest.mark.parametrize("accelerate", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_fixed_entries_stay_equal_ones_are_equal_and_the_objective_rises(seed: int, accelerate: bool) -> None:
    how = {"init": "random", "random_state": seed, "accelerate": accelerate, "max_iter": 60}
    model = et.EMJunctionTree(GRAPH, fixed=FIXED, equal=EQUAL, **(PLAIN | how)).fit(ROWS)
    tables = model.network_.tables
    assert_allclose(tables["x0"][[0, 1], [0, 2]], [0.7, 0.4], rtol=1e-12)
    assert_allclose(tables["x3"][0], [0.2, 0.8], rtol=1e-12)
    assert_array_equal(tables["x1"], tables["x2"])
    assert (np.diff(model.history_) >= -1e-9).all()
    assert all(np.allclose(table.sum(axis=-1), 1.0) for table in tables.values())


def test_a_table_whose_distributions_are_equal_is_one_without_an_edge() -> None:
    tied = et.EMJunctionTree(GRAPH, equal=[("x0",)], **PLAIN).fit(ROWS)
    alone = et.LatentGraph(GRAPH.states, [edge for edge in GRAPH.edges if edge[1] != "x0"], ["h"])
    free = et.EMJunctionTree(alone, **PLAIN).fit(ROWS)
    assert tied.score(ROWS) == pytest.approx(free.score(ROWS), abs=1e-6)
    assert tied.n_parameters_ == free.n_parameters_
    assert tied.n_constraints_ == 2


def test_numbers_of_hidden_states_and_labels_of_columns_change_nothing() -> None:
    model = et.EMJunctionTree(GRAPH, fixed=FIXED, equal=EQUAL, **PLAIN).fit(ROWS)
    flipped = {"x0": FIXED["x0"][::-1], "x3": {0: [NAN, 0.2]}}  # type: ignore[index]
    other = et.EMJunctionTree(GRAPH, fixed=flipped, equal=[("x2", "x1"), (("x3", 0),)], **PLAIN).fit(ROWS)
    assert other.score(ROWS) == pytest.approx(model.score(ROWS), abs=1e-6)
    assert_allclose(other.network_.tables["x1"][::-1], model.network_.tables["x1"], atol=1e-3)
    words = [[None if cell < 0 else "abc"[cell] for cell in row] for row in ROWS.tolist()]
    named = {"x0": FIXED["x0"], "x3": {"a": [0.2, NAN]}}
    spoken = et.EMJunctionTree(et.zoo.Mixture(2), fixed=named, equal=EQUAL, **PLAIN).fit(words)
    assert spoken.score(words) == pytest.approx(model.score(ROWS), abs=1e-6)


def test_starts_are_matched_to_fixed_entries_whatever_the_numbers_of_their_states() -> None:
    layout = objective().layout
    start = layout.vector(et.LatentNetwork(GRAPH, tables_of(np.zeros(12) + np.arange(12) / 10)))
    flipped = layout.vector(layout.network(start).relabelled({"h": [1, 0]}))
    assert_allclose(layout.projected(flipped), start, atol=1e-12)
    assert_allclose(layout.projected(start), start, atol=1e-12)


def test_gradients_are_those_of_free_parameters() -> None:
    found = objective(None, [("x1", "x2")])
    start = found.layout.projected(found.layout.vector(TRUTH))
    value, gradient = found.value_and_gradient(start)
    tables = found.layout.starts
    move = np.zeros(found.layout.size)
    for key in (("x1",), ("x2",)):
        move[tables[key]], move[tables[key] + 1] = 1e-6, -1e-6
    up, down = found.log_likelihood(start + move), found.log_likelihood(start - move)
    assert (up - down) / 2.0 == pytest.approx(float(gradient @ move), rel=1e-4)
    assert value == pytest.approx(found.log_likelihood(start))


def test_latent_class_models_take_them_and_they_are_cloned_saved_and_refitted(tmp_path: Path) -> None:
    fixed = {"x0": np.array(FIXED["x0"])}
    model = et.LatentClassModel(2, fixed=fixed, equal=EQUAL[:1], random_state=0).fit(ROWS)
    twin = clone(model)
    assert twin.get_params()["equal"] == EQUAL[:1]
    assert_array_equal(twin.fixed["x0"], fixed["x0"])
    assert twin.fit(ROWS).score(ROWS) == model.score(ROWS)
    assert model.as_tree().fit(ROWS).n_constraints_ == model.n_constraints_ == 6
    model.save(tmp_path / "m.eigentree")
    again = et.load(tmp_path / "m.eigentree")
    assert (again.n_parameters_, again.equal) == (model.n_parameters_, EQUAL[:1])
    assert_array_equal(again.fixed["x0"], fixed["x0"])
    assert again.bic(ROWS) == model.bic(ROWS)
    assert model.set_params(fixed=None, equal=None).fit(ROWS).n_constraints_ == 0


def test_items_that_are_parallel_in_a_model_with_numbers() -> None:
    import pandas as pd

    random = np.random.default_rng(0)
    classes = random.integers(0, 2, 300)
    cells = {name: np.where(random.random(300) < 0.2 + 0.6 * classes, "yes", "no") for name in ("a", "b")}
    table = pd.DataFrame(cells | {"z": random.normal(size=300) + 2 * classes})
    model = et.LatentClassModel(2, equal=[("a", "b")], random_state=0).fit(table)
    assert_array_equal(model.network_.tables["a"], model.network_.tables["b"])
    assert model.n_constraints_ == 2
    with pytest.raises(ParameterError, match="equal names 'z', which is a column of numbers"):
        et.LatentClassModel(2, equal=[("z",)]).fit(table)


@pytest.mark.parametrize(
    ("fixed", "equal", "message"),
    [
        ([1], None, r"fixed .*mapping"),
        ({"x9": {0: 1.0}}, None, "fixed names 'x9', which has no table"),
        ({"x0": [0.5, NAN, NAN]}, None, r"fixed\['x0'\] has the shape \(3,\), but the table has \(2, 3\)"),
        ({"x0": [[0.9, 0.2, NAN], [NAN] * 3]}, None, "distribution of 'x0' at h=0, x0=.* sum to 1.1"),
        ({"x0": [[0.5, 0.2, 0.2], [NAN] * 3]}, None, "sum to 0.9"),
        ({"x0": [[1.5, NAN, NAN], [NAN] * 3]}, None, "probabilities from 0 to 1"),
        ({"x0": {7: 0.5}}, None, r"fixed\['x0'\] names the state 7 of 'x0'"),
        ({"x0": {0: [0.1, 0.2, 0.3]}}, None, r"is a number, or an array of the shape \(2,\)"),
        ({"x0": "half"}, None, "array of probabilities"),
        (None, ["x0"], "equal is a list of ties"),
        (None, [("x0", "x3")], "2 distributions of 3 states, the second 2 of 2"),
        (None, [("x0", ("x1", {"h": 0}))], "the first is 2 distributions of 3 states, the second 1 of 3"),
        (None, [(("x0", 4), ("x0", 1))], "names the state 4 of 'h'"),
        (None, [(("x0", {"x1": 0}), ("x0", 1))], "'x1' is no parent of 'x0'"),
        ({"x1": {0: 0.1}, "x2": {0: 0.2}}, [("x1", "x2")], "but another to an entry that equal makes the same"),
    ],
)
def test_what_makes_no_sense_is_named(fixed: Any, equal: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        et.EMJunctionTree(GRAPH, fixed=fixed, equal=equal).fit(ROWS)


def test_learned_structures_have_no_tables_to_name() -> None:
    with pytest.raises(ParameterError, match="fixed and equal have no tables to name"):
        et.EMJunctionTree(equal=[("x0",)]).fit(ROWS)


def test_standard_errors_know_what_is_fixed_and_equal() -> None:
    model = et.LatentClassModel(2, fixed={"x3": {0: [0.2, NAN]}}, equal=[("x1", "x2")], random_state=0).fit(ROWS)
    errors = model.standard_errors_
    assert np.isnan(np.asarray(errors["x3"])[0]).all()
    assert_allclose(np.asarray(errors["x1"]), np.asarray(errors["x2"]), rtol=1e-6)
    tied = et.LatentClassModel(2, equal=[("x0",)], random_state=0).fit(ROWS)
    alone = et.LatentGraph(GRAPH.states, [edge for edge in GRAPH.edges if edge[1] != "x0"], ["h"])
    free = et.EMJunctionTree(alone, pseudo_counts=1e-6, tol=1e-8, random_state=0).fit(ROWS)
    assert_allclose(np.asarray(tied.standard_errors_["x0"])[0], np.asarray(free.standard_errors_["x0"]), rtol=1e-3)
