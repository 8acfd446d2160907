"""EM through Dask: rows stay in their partitions, and every step is the one in memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import cluster_of_processes
from em_problems import coded
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.counting.structure_and_schema import resolved
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing
from eigentree.em.out_of_core.dask_workers import ClusterRows
from eigentree.em.out_of_core.parted_rows import PartedObjective, sampled_numbers
from eigentree.em.tree_objective import TreeObjective
from eigentree.estimators.fits.memory_sample import parted_rows

GRAPH = et.zoo.hmm(6, 1, 3, 4)
PLAIN = {"accelerate": False, "max_iter": 6, "tol": 0.0, "stopping": "paper", "pseudo_counts": 0.5}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster_of_processes() as found:
        yield found


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    found = et.LatentNetwork.random(GRAPH, seed=0).sample(3_000, seed=1)
    found[np.random.default_rng(2).random(found.shape) < 0.03] = -1
    return found


def frame(rows: np.ndarray, weights: np.ndarray | None = None) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(GRAPH.observed))
    return table if weights is None else table.assign(weight=weights)


def in_parts(table: pd.DataFrame, sizes: list[int]) -> Any:
    """A Dask DataFrame whose partitions have some sizes, the last one what is left."""
    bounds = np.cumsum([0, *sizes, len(table) - sum(sizes)])
    parts = [dask.delayed(table[start:stop]) for start, stop in pairwise(bounds)]
    return dd.from_delayed(parts, meta=table[:0], verify_meta=False)


def far_problem(table: Any, weight: str | None = None) -> PartedObjective:
    graph, _, found = resolved(GRAPH, table, ReadOptions(sample_weight=weight))
    far = parted_rows(found)
    assert isinstance(far, ClusterRows)
    return far.objective(graph, far.with_missing(), 0.5)


def near_problem(rows: np.ndarray, weights: np.ndarray | None = None) -> TreeObjective:
    codes = np.asfortranarray(coded(GRAPH, rows).astype(np.uint8))
    states = [GRAPH.states[name] for name in GRAPH.observed]
    distinct = DistinctRows.of(codes, states, np.ones(len(rows)) if weights is None else weights)
    return TreeObjective.of(GRAPH, distinct, columns_with_missing(codes, GRAPH), 0.5, 1)


def same_steps(far: PartedObjective, near: TreeObjective, steps: int = 3) -> None:
    assert_allclose(far.weight, near.weight, rtol=1e-14)
    parameters = near.layout.vector(et.LatentNetwork.random(GRAPH, seed=5))
    for _ in range(steps):
        one, other = near.evaluated(parameters), far.evaluated(parameters)
        assert_allclose(other.objective, one.objective, rtol=1e-12)
        assert_allclose(other.update, one.update, rtol=1e-12)
        assert_allclose(other.totals, one.totals, rtol=1e-12)
        parameters = one.update


@pytest.mark.parametrize("sizes", [[], [1, 0, 999], [100] * 17])
def test_partitions_of_any_sizes_step_as_rows_in_memory(rows: np.ndarray, sizes: list[int]) -> None:
    same_steps(far_problem(in_parts(frame(rows), sizes)), near_problem(rows))


def test_a_column_weighs_the_rows(rows: np.ndarray) -> None:
    weights = np.random.default_rng(3).choice([0.0, 0.5, 3.25], len(rows))
    same_steps(far_problem(in_parts(frame(rows, weights), [500]), "weight"), near_problem(rows, weights))


def test_rows_are_taken_by_number_from_their_partitions(rows: np.ndarray) -> None:
    _, _, found = resolved(GRAPH, in_parts(frame(rows), [100, 0, 1_500]))
    far = parted_rows(found)
    numbers = sampled_numbers(len(rows), 321, np.random.default_rng(0))
    codes, weights = far.taken(numbers)
    assert (codes == coded(GRAPH, rows)[numbers]).all()
    assert (weights == 1).all()
    assert far.objective(GRAPH, far.with_missing(), 0.5, numbers).weight == 321


def test_an_impossible_row_of_a_partition_is_named_by_its_number() -> None:
    tables = {key: np.array(table) for key, table in et.LatentNetwork.random(GRAPH, seed=0).tables.items()}
    tables["x2"] = np.array([[0.5, 0.5, 0.0, 0.0]] * 3)
    network = et.LatentNetwork(GRAPH, tables)
    rows = network.sample(500, seed=1)
    rows[411, 2] = 3
    _, _, found = resolved(GRAPH, in_parts(frame(rows), [100, 200]), ReadOptions())
    far = parted_rows(found)
    assert isinstance(far, ClusterRows)
    for some in (None, np.array([7, 150, 310, 411, 450])):
        problem = far.objective(GRAPH, far.with_missing(), 0.5, some)
        assert problem.evaluated(problem.layout.vector(network)).impossible == 411


def test_a_multistart_on_a_sample_is_finished_in_all_partitions(
    rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    little_memory(monkeypatch)
    settings = {"n_init": 1, "random_state": 0, "pseudo_counts": 0.1, "tol": 1e-3}
    table = in_parts(frame(rows), [700, 800])
    raced = et.EMJunctionTree(GRAPH, **settings, finish_rows=None).fit(table)
    assert raced.finish_rows_ == len(rows)
    assert raced.start_.rungs[-1].rows <= 400
    assert (np.diff(raced.history_) > 0).all()
    # A sample is the same, and so is its fit, wherever the rows lie.
    near, far = (et.EMJunctionTree(GRAPH, **settings, finish_rows=300).fit(each) for each in (rows, table))
    assert near.history_.tolist() == far.history_.tolist()


def little_memory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("eigentree.estimators.fits.memory_sample.MEMORY_ROWS", 400)
    patch.setattr("eigentree.estimators.fits.memory_sample.ROWS_PER_PARAMETER", 1)
    patch.setattr(ClusterRows, "few", lambda self: None)


def test_processes_fit_as_memory_does(client: Any, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    table = in_parts(frame(rows), [700, 800])
    start = et.LatentNetwork.random(GRAPH, seed=5)
    near = et.EMJunctionTree(GRAPH, init=start, **PLAIN).fit(rows)
    # Few rows that differ come here, and are learned from as if they always were.
    few = et.EMJunctionTree(GRAPH, init=start, **PLAIN).fit(table)
    assert few.history_.tolist() == near.history_.tolist()
    little_memory(monkeypatch)
    far = et.EMJunctionTree(GRAPH, init=start, **PLAIN, finish_rows=None).fit(table)
    assert far.finish_rows_ == len(rows)
    assert_allclose(far.history_, near.history_, rtol=1e-12)


def test_a_worker_that_is_killed_between_steps_changes_no_bit(client: Any, rows: np.ndarray) -> None:
    problem = far_problem(in_parts(frame(rows), [300] * 6))
    parameters = problem.layout.vector(et.LatentNetwork.random(GRAPH, seed=5))
    before = problem.evaluated(parameters)
    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    after = problem.evaluated(parameters)
    assert (after.update == before.update).all()
    assert after.objective == before.objective
