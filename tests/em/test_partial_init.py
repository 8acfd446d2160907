"""Starts from tables that are partly known."""

from __future__ import annotations

import numpy as np
import pytest
from em_problems import problems
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.init.trees import completed
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.errors import DataError
from eigentree.graphs import zoo
from eigentree.inference.networks.network import LatentNetwork


def problem_of(network: LatentNetwork, rows: np.ndarray, weights: np.ndarray | None = None) -> TreeObjective:
    graph = network.graph
    codes = Rows.of(rows, Columns.of(graph)).encode()
    distinct = DistinctRows.of(codes, Columns.of(graph).states, np.ones(len(rows)) if weights is None else weights)
    return TreeObjective.of(graph, distinct, columns_with_missing(distinct.codes, graph), 0.0)


@settings(max_examples=25, deadline=None)
@given(problems(), st.integers(0, 2**20), st.floats(0.0, 1.0))
def test_known_tables_stand_still_and_the_others_never_get_worse(problem, seed, part) -> None:
    network, rows, weights = problem
    made = problem_of(network, rows, weights)
    layout = made.layout
    truth = layout.vector(network)
    random = np.random.default_rng(seed)
    known = {}
    for key, start in layout.starts.items():
        if random.random() < part:
            size = int(np.prod(layout.shapes[key]))
            known[key] = truth[start : start + size].reshape(layout.shapes[key])
    short = completed(made, known, np.random.default_rng(seed), starts=2, steps=0)
    long = completed(made, known, np.random.default_rng(seed), starts=2, steps=5)
    expected = layout.mixed(truth, 1e-3)
    for key in known:
        place = slice(layout.starts[key], layout.starts[key] + known[key].size)
        np.testing.assert_allclose(long[place], expected[place], atol=1e-15)
    assert made.evaluated(long).objective >= made.evaluated(short).objective - 1e-9


def test_emissions_alone_lead_to_the_other_tables() -> None:
    truth = LatentNetwork.random(zoo.hmm(12, 1, 3, 5), concentration=0.3, seed=3)
    made = problem_of(truth, truth.sample(3_000, seed=4))
    known = {(name,): truth.tables[name] for name in truth.graph.observed}
    found = completed(made, known, np.random.default_rng(0))
    reached = made.evaluated(found).objective - made.evaluated(made.layout.vector(truth)).objective
    even = made.evaluated(completed(made, known, np.random.default_rng(0), steps=0)).objective
    assert reached > 0.05 * (even - made.evaluated(made.layout.vector(truth)).objective)


def test_a_table_of_another_shape_is_refused() -> None:
    truth = LatentNetwork.random(zoo.mixture(3, 2, 2), seed=0)
    made = problem_of(truth, truth.sample(10, seed=0))
    with pytest.raises(DataError, match=r"no table of \('x0',\) with the shape \(3, 2\)"):
        completed(made, {("x0",): np.full((3, 2), 0.5)}, np.random.default_rng(0))
    assert ParameterLayout.of(truth.graph) is made.layout
