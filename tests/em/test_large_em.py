"""EM out of core: every split gives the same iterations, and small data the same fit."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from em_problems import coded, problems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from eigentree.data.streams.encoded_stream import Encoded
from eigentree.data.tables.columns import Columns
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.unique_rows import DistinctRows, columns_with_missing, margins
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.em.optimize.run import em_run
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.out_of_core import on_disk
from eigentree.em.out_of_core.on_disk import DiskRows
from eigentree.em.out_of_core.parted_rows import PartedObjective, sampled_numbers
from eigentree.em.parameters import ParameterLayout
from eigentree.em.tree_objective import TreeObjective
from eigentree.inference.threads import in_order

SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True, eq=False)
class Split(Encoded):
    """Rows in chunks that end at some places."""

    columns: Columns
    codes: np.ndarray
    weights: np.ndarray | None
    cuts: list[int]

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        for start, stop in pairwise(ends(len(self.codes), self.cuts)):
            own = None if self.weights is None else self.weights[start:stop]
            yield self.codes[start:stop], np.empty((stop - start, 0)), own


def ends(count: int, cuts: list[int]) -> list[int]:
    return sorted({0, count, *(cut % (count + 1) for cut in cuts)})


def split(graph: et.LatentGraph, rows: np.ndarray, cuts: list[int], weights: np.ndarray | None = None) -> DiskRows:
    """Rows in which -1 is a missing cell, read in such chunks and kept on disk."""
    codes = np.asfortranarray(coded(graph, rows).astype(np.uint8))
    return DiskRows(Split(Columns.of(graph), codes, weights, cuts))


def both(
    network: et.LatentNetwork,
    rows: np.ndarray,
    cuts: list[int],
    pseudo_counts: float,
    threads: int = 1,
    weights: np.ndarray | None = None,
) -> tuple[TreeObjective, PartedObjective]:
    """The problem of rows in memory, and of the same rows on disk."""
    graph = network.graph
    codes = np.asfortranarray(coded(graph, rows).astype(np.uint8))
    missing = columns_with_missing(codes, graph)
    states = [graph.states[name] for name in graph.observed]
    known = np.ones(len(codes)) if weights is None else weights
    near = TreeObjective.of(graph, DistinctRows.of(codes, states, known), missing, pseudo_counts, 1)
    far = split(graph, rows, cuts, weights)
    assert far.count == len(rows)
    assert far.with_missing() == missing
    assert_allclose(far.weight, near.weight, rtol=1e-14)
    return near, far.objective(graph, missing, pseudo_counts, threads=threads)


@SLOW
@given(
    problems(),
    st.lists(st.integers(0, 60), max_size=5),
    st.sampled_from([0.0, 1.5]),
    st.integers(1, 20),
    st.booleans(),
)
def test_every_split_on_disk_steps_as_rows_in_memory(
    problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray],
    cuts: list[int],
    pseudo_counts: float,
    stretch: int,
    weighted: bool,
) -> None:
    network, rows, weights = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_disk, "STRETCH", stretch)
        near, far = both(network, rows, cuts, pseudo_counts, weights=weights if weighted else None)
        assert_allclose(far.weight, near.weight, rtol=1e-14)
        assert_allclose(far.prior, near.prior, rtol=1e-13)
        parameters = near.layout.vector(network)
        for _ in range(3):
            one, other = near.evaluated(parameters), far.evaluated(parameters)
            assert_allclose(other.objective, one.objective, rtol=1e-12, atol=1e-13 * len(rows))
            assert_allclose(other.update, one.update, rtol=1e-12, atol=1e-300)
            assert_allclose(other.totals, one.totals, rtol=1e-12, atol=1e-300)
            parameters = one.update


@SLOW
@given(problems(), st.lists(st.integers(0, 60), min_size=1, max_size=5))
def test_what_parts_say_adds_up(problem: tuple[et.LatentNetwork, np.ndarray, np.ndarray], cuts: list[int]) -> None:
    network, rows, weights = problem
    graph = network.graph
    codes = coded(graph, rows)
    expectation = Expectation.of(graph, columns_with_missing(codes, graph), len(codes))
    parameters = ParameterLayout.of(graph).vector(network)
    whole = expectation(parameters, expectation.coded(codes, weights))
    first, *others = [
        expectation(parameters, expectation.coded(codes[start:stop], weights[start:stop]))
        for start, stop in pairwise(ends(len(codes), cuts))
    ]
    total = first
    for part in others:
        total = total + part
    assert_allclose(total.counts, whole.counts, rtol=1e-12, atol=1e-13)
    assert_allclose(total.log_likelihood, whole.log_likelihood, rtol=1e-12, atol=1e-12)
    assert total.impossible == -1


def hmm_rows(count: int, seed: int = 0) -> tuple[et.LatentNetwork, np.ndarray]:
    network = et.LatentNetwork.random(et.zoo.hmm(8, 1, 3, 4), seed=seed)
    rows = network.sample(count, seed=seed + 1)
    rows[np.random.default_rng(seed).random(rows.shape) < 0.02] = -1
    return network, rows


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "STRETCH", 700)
    network, rows = hmm_rows(5_000)
    found = []
    for threads, cuts in ((1, [3_000]), (2, []), (3, [17, 2_500])):
        _, far = both(network, rows, cuts, 0.1, threads)
        found.append(far.evaluated(far.layout.vector(network)))
    for other in found[1:]:
        assert (other.update == found[0].update).all()
        assert other.objective == found[0].objective


def test_a_climb_on_disk_is_the_climb_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain steps stay together; accelerated ones end at the same objective."""
    monkeypatch.setattr(on_disk, "STRETCH", 512)
    network, rows = hmm_rows(4_000)
    near, far = both(network, rows, [1_000], 0.1)
    start = near.layout.vector(et.LatentNetwork.random(network.graph, seed=5))
    *_, one = em_run(near, start, Stopping("paper", 0.0), 15, accelerate=False)
    *_, other = em_run(far, start, Stopping("paper", 0.0), 15, accelerate=False)
    assert len(one.history) == 16
    assert_allclose(other.history, one.history, rtol=1e-12)
    *_, one = em_run(near, start, Stopping("gain", 1e-7), 500, accelerate=True)
    *_, other = em_run(far, start, Stopping("gain", 1e-7), 500, accelerate=True)
    assert_allclose(other.history[-1], one.history[-1], rtol=1e-6)


def test_an_impossible_row_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "STRETCH", 10)
    graph = et.zoo.mixture(columns=3, hidden_states=2, observed_states=3)
    tables = {name: np.array([[0.5, 0.5, 0.0]] * 2) for name in graph.observed} | {graph.hidden[0]: [0.5, 0.5]}
    network = et.LatentNetwork(graph, tables)
    rows = network.sample(45, seed=0)
    rows[33, 1] = 2
    _, far = both(network, rows, [12], 0.0)
    found = far.evaluated(far.layout.vector(network))
    assert found.impossible == 33
    assert found.objective == -np.inf
    # A sample names its rows as the user does.
    spooled = split(graph, rows, [])
    numbers = np.arange(1, 45, 2)
    sample = spooled.objective(graph, frozenset(), 0.0, numbers)
    assert sample.evaluated(sample.layout.vector(network)).impossible == 33


@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 2**32))
def test_a_sample_is_of_different_rows_in_their_order_from_everywhere(rows: int, size: int, seed: int) -> None:
    numbers = sampled_numbers(rows, size, np.random.default_rng(seed))
    assert len(numbers) == min(rows, size)
    assert (np.diff(numbers) > 0).all()
    assert numbers[0] >= 0
    assert numbers[-1] < rows
    if size < rows:
        assert (np.diff(numbers, append=numbers[0] + rows) < 2 * np.ceil(rows / size)).all()


def test_every_row_is_as_likely_in_a_sample() -> None:
    counts = np.zeros(10)
    for seed in range(4_000):
        counts[sampled_numbers(10, 4, np.random.default_rng(seed))] += 1
    assert_allclose(counts / 4_000, 0.4, atol=4 * np.sqrt(0.4 * 0.6 / 4_000))


def test_rows_that_differ_are_gathered_as_long_as_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentree.em.out_of_core.parted_rows.MEMORY_CELLS", 8 * 300)
    network, _ = hmm_rows(1)
    random = np.random.default_rng(0)
    kinds = network.sample(250, seed=3)
    rows = np.asfortranarray(kinds[random.integers(0, 250, 9_000)])
    states = [network.graph.states[name] for name in network.graph.observed]
    whole = DistinctRows.of(rows, states, np.ones(len(rows)))
    few = split(network.graph, rows, [10, 77, 4_000]).few()
    assert few is not None
    assert (few.codes == whole.codes).all()
    assert (few.weights == whole.weights).all()
    assert split(network.graph, network.sample(9_000, seed=4), [10, 77, 4_000]).few() is None


@given(st.integers(1, 80), st.integers(1, 20), st.integers(0, 2**32))
def test_rows_are_taken_by_number_whatever_the_chunks(count: int, size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = et.zoo.mixture(columns=3, hidden_states=2, observed_states=4)
    codes = random.integers(0, 5, (count, 3))
    weights = random.random(count) if seed % 2 else None
    spooled = split(graph, codes, random.integers(0, 80, 4).tolist(), weights)
    numbers = sampled_numbers(count, size, random)
    taken, weighing = spooled.taken(numbers)
    assert (taken == codes[numbers]).all()
    assert (weighing == (1.0 if weights is None else weights[numbers])).all()
    for name, found in margins(codes, weights, dict.fromkeys(graph.observed, 4)).items():
        assert_allclose(spooled.margins[name], found, rtol=1e-13)


def test_work_comes_in_order_and_stops_at_an_error() -> None:
    assert list(in_order(lambda k: k * k, 20, 3)) == [k * k for k in range(20)]

    def fails(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    seen = []
    with pytest.raises(ValueError, match="five"):
        seen.extend(in_order(fails, 1_000, 2))


def small_memory(patch: pytest.MonkeyPatch, memory_rows: int = 500, finish_rows: int = 2_000) -> None:
    """Let little fit into memory, so that a few thousand rows are many."""
    patch.setattr(DiskRows, "few", lambda self: None)
    patch.setattr("eigentree.estimators.fits.memory_sample.MEMORY_ROWS", memory_rows)
    patch.setattr("eigentree.estimators.fits.memory_sample.ROWS_PER_PARAMETER", 1)
    patch.setattr("eigentree.estimators.fits.memory_sample.FINISH_ROWS", finish_rows)
    patch.setattr("eigentree.estimators.fits.memory_sample.FINISH_ROWS_PER_PARAMETER", 1)
    patch.setattr(on_disk, "STRETCH", 700)


def parquet(folder: Path, rows: np.ndarray, graph: et.LatentGraph, sizes: list[int]) -> Path:
    """A folder of Parquet files; -1 is a missing cell."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    for number, (start, stop) in enumerate(pairwise(ends(len(rows), sizes))):
        cells = {
            name: pyarrow.array(rows[start:stop, place], mask=rows[start:stop, place] < 0)
            for place, name in enumerate(graph.observed)
        }
        files.write_table(pyarrow.table(cells), folder / f"part-{number}.parquet")
    return folder


def same_fit(one: et.EMJunctionTree, other: et.EMJunctionTree) -> None:
    assert one.history_.tolist() == other.history_.tolist()
    for key, table in one.network_.tables.items():
        assert (table == other.network_.tables[key]).all()
    assert one.finish_rows_ == other.finish_rows_


def test_rows_that_fit_into_memory_are_learned_as_if_they_were_there(tmp_path: Path) -> None:
    network, rows = hmm_rows(3_000)
    folder = parquet(tmp_path, rows, network.graph, [1_000, 1_001])
    settings = {"random_state": 3, "init": "random", "n_init": 1, "max_iter": 10, "pseudo_counts": 0.1}
    for more in ({}, {"validation_fraction": 0.2}, {"finish_rows": 700}, {"finish_rows": 10_000}):
        model = et.EMJunctionTree(network.graph, **settings, **more)
        other = et.EMJunctionTree(network.graph, **settings, **more).fit(rows)
        same_fit(model.fit(folder), other)
        assert model.finish_rows_ == min(3_000, more.get("finish_rows", 3_000))


def test_many_copies_of_few_rows_are_learned_as_if_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(columns=4, hidden_states=2, observed_states=2), seed=0)
    rows = truth.sample(4_000, seed=1)
    folder = parquet(tmp_path, rows, truth.graph, [1_500])
    monkeypatch.setattr("eigentree.em.out_of_core.parted_rows.MEMORY_CELLS", 4 * 16)
    model = et.EMJunctionTree(truth.graph, random_state=0, finish_rows=None)
    same_fit(model.fit(folder), et.EMJunctionTree(truth.graph, random_state=0).fit(rows))


def test_steps_on_a_stream_are_those_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = hmm_rows(3_000)
    folder = parquet(tmp_path, rows, network.graph, [1_000, 2_200])
    start = et.LatentNetwork.random(network.graph, seed=9)
    plain = {"accelerate": False, "max_iter": 12, "tol": 0.0, "stopping": "paper", "pseudo_counts": 0.5}
    settings = {"init": start, **plain}
    near = et.EMJunctionTree(network.graph, **settings, random_state=0).fit(rows)
    small_memory(monkeypatch)
    far = et.EMJunctionTree(network.graph, **settings, random_state=0, finish_rows=None).fit(folder)
    assert far.finish_rows_ == 3_000
    assert len(near.history_) == 13
    assert_allclose(far.history_, near.history_, rtol=1e-12)
    for key, table in near.network_.tables.items():
        assert_allclose(far.network_.tables[key], table, rtol=1e-9)
    # Validation rows of their own stop a run as they do in memory.
    others = network.sample(300, seed=77)
    near = et.EMJunctionTree(network.graph, **settings, random_state=0).set_params(finish_rows=None)
    far = et.EMJunctionTree(network.graph, **settings, random_state=0, finish_rows=None)
    far.fit(folder, validation=others)
    near.fit(rows, validation=others)
    assert_allclose(far.validation_history_, near.validation_history_, rtol=1e-11)


def test_a_multistart_on_a_sample_is_finished_on_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = hmm_rows(6_000)
    folder = parquet(tmp_path, rows, network.graph, [1_000, 2_200])
    settings = {"random_state": 0, "n_init": 1, "pseudo_counts": 0.1, "tol": 1e-5}
    near = et.EMJunctionTree(network.graph, **settings).fit(rows)
    small_memory(monkeypatch)
    far = et.EMJunctionTree(network.graph, **settings, finish_rows=None).fit(folder)
    assert far.finish_rows_ == 6_000
    assert far.converged_
    assert (np.diff(far.history_) >= 0).all()
    assert far.start_.rungs[-1].rows <= 500
    # The objective is that of all rows, as in memory, and no start is lost on the way.
    assert_allclose(far.history_[-1], near.history_[-1], rtol=2e-3)
    assert_allclose(far.score(rows), near.score(rows), atol=0.02)
    # Said where nobody asked for it, and not where somebody did.
    usual = et.EMJunctionTree(network.graph, **settings)
    with pytest.warns(UserWarning, match=r"sample of 2,000 of the 6,000 rows.*None takes all"):
        usual.fit(folder)
    assert usual.finish_rows_ == 2_000
    assert usual.history_[-1] / 2_000 == pytest.approx(near.history_[-1] / 6_000, rel=0.02)
    meant = et.EMJunctionTree(network.graph, **settings, finish_rows=2_000).fit(folder)
    same_fit(meant, usual)


def test_a_share_cannot_be_held_out_of_rows_that_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, rows = hmm_rows(3_000)
    folder = parquet(tmp_path, rows, network.graph, [])
    small_memory(monkeypatch)
    model = et.EMJunctionTree(network.graph, validation_fraction=0.1, finish_rows=None)
    with pytest.raises(et.errors.ParameterError, match="validation= rows of their own, or finish_rows up to 500"):
        model.fit(folder)
    assert not hasattr(model, "network_")


@pytest.mark.parametrize("finish_rows", [0, -1, 1.5, "all", True])
def test_finish_rows_is_checked(finish_rows: object) -> None:
    with pytest.raises(et.errors.ParameterError, match="finish_rows"):
        et.EMJunctionTree(et.zoo.Mixture(2), finish_rows=finish_rows).fit([[0, 1], [1, 0]])  # type: ignore[arg-type]


def test_sizes_are_tried_on_a_sample_and_the_tree_is_that_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = et.LatentNetwork.random(et.zoo.latent_tree(depth=2, hidden_states=2, observed_states=3), seed=2)
    rows = truth.sample(4_000, seed=1)
    folder = parquet(tmp_path, rows, truth.graph, [1_500])
    settings = {"random_state": 0, "n_init": 1}
    same_fit(et.EMJunctionTree("auto", **settings).fit(folder), et.EMJunctionTree("auto", **settings).fit(rows))
    monkeypatch.setattr(DiskRows, "few", lambda self: None)
    monkeypatch.setattr("eigentree.estimators.fits.memory_sample.MEMORY_ROWS", 600)
    model = et.EMJunctionTree("auto", **settings)
    with pytest.warns(UserWarning, match="sizes are tried on a sample of 600 of the 4,000 rows"):
        model.fit(folder)
    assert model.finish_rows_ == 600
    assert np.isfinite(model.score(rows))
    same_fit(et.EMJunctionTree("auto", **settings, finish_rows=600).fit(folder), model)
    with pytest.raises(et.errors.ParameterError, match="4,000 are too many"):
        et.EMJunctionTree("auto", **settings, finish_rows=None).fit(folder)


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = hmm_rows(2_000)
    spooled = split(network.graph, rows, [])

    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None: ...

    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: Full())
    with pytest.raises(et.errors.FileError, match=r"No space left on device.*TMPDIR"):
        spooled.objective(network.graph, spooled.with_missing(), 0.0)


def test_rows_that_are_none_or_weigh_nothing_are_told() -> None:
    network, rows = hmm_rows(50)
    table = pd.DataFrame(rows, columns=list(network.graph.observed))
    model = et.EMJunctionTree(network.graph, init="random", n_init=1, max_iter=1)
    with pytest.raises(et.DataError, match="no rows"):
        model.fit(iter([table[:0]]))
    with pytest.raises(et.DataError, match="weight of all rows is zero"):
        model.fit(iter([table.assign(weight=0.0)]), sample_weight="weight")


def test_an_interrupted_last_run_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = hmm_rows(2_000)
    table = pd.DataFrame(rows, columns=list(network.graph.observed))
    small_memory(monkeypatch)
    counted, calls = PartedObjective.counted, itertools.count()

    def interrupted(self: PartedObjective, parameters: np.ndarray) -> ExpectedCounts:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return counted(self, parameters)

    monkeypatch.setattr(PartedObjective, "counted", interrupted)
    settings = {"init": "mixture", "n_init": 1, "random_state": 0, "pseudo_counts": 0.1, "max_iter": 20}
    model = et.EMJunctionTree(network.graph, **settings, finish_rows=None)
    with pytest.warns(RuntimeWarning, match="interrupted in 2 iterations on all rows"):
        model.fit(iter([table]))
    assert model.finish_rows_ == 2_000
    assert not model.converged_
    assert len(model.history_) == 3
