"""Planning never runs away: what it may take is bounded, refused early, and a cap on the rank helps."""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import threadpoolctl
from growth import steps_of
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from plans import check_nesting, edges, numeric_rank
from random_graphs import latent_graphs

import eigentree as et
from eigentree.errors import RankError
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.planning import generic_ranks as ranks
from eigentree.planning import node_products as work
from eigentree.planning.generic_ranks import Spans, most_dimensions
from eigentree.planning.node_products import OverworkError, Work
from eigentree.planning.view_plan import ViewPlan, best_plan
from eigentree.planning.view_search import (
    CANDIDATE_CELLS,
    CandidateViews,
    EdgeViews,
    PlanOptions,
    candidates,
    plan_edges,
)

graphs = latent_graphs(most_variables=8)


def lattice(side: int, directed: bool) -> et.LatentGraph:
    """A square grid of binary variables, a third of them observed."""
    grid = nx.grid_2d_graph(side, side)
    names = {place: f"v{place[0]}_{place[1]}" for place in grid.nodes}
    hidden = [name for k, name in enumerate(names.values()) if k % 3]
    pairs = [(names[a], names[b]) for a, b in grid.edges]
    return et.LatentGraph(dict.fromkeys(names.values(), 2), pairs, hidden, directed)


class Spent:
    """What a piece of planning takes: steps of the interpreter, steps of decompositions, bytes at the peak."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decompositions = 0
        plain = ranks.dgeqp3

        def counted(vectors: np.ndarray) -> object:
            self.decompositions += vectors.size * min(vectors.shape)
            return plain(vectors)

        monkeypatch.setattr(ranks, "dgeqp3", counted)

    def on(self, run: Callable[[], object]) -> tuple[int, int, int]:
        tracemalloc.start()
        try:
            steps = steps_of(run)
            return steps, self.decompositions, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


HARSH = {
    "5th-order HMM": lambda: et.zoo.hmm(40, 5, 2, 2),
    "5th-order HMM, 3 states": lambda: et.zoo.hmm(40, 5, 3, 2),
    "10th-order HMM": lambda: et.zoo.hmm(40, 10, 2, 2),
    "3rd-order HMM, 8 states": lambda: et.zoo.hmm(40, 3, 8, 8),
    "8th-order HMM, 3 states": lambda: et.zoo.hmm(40, 8, 3, 4),
    "factorial HMM, 6 levels": lambda: et.zoo.factorial_hmm(20, 6, 3, 4),
    "factorial HMM, 4 levels": lambda: et.zoo.factorial_hmm(20, 4, 3, 4),
    "long durations": lambda: et.zoo.semi_hidden_markov(30, 5, 500, 2),
    "lattice": lambda: lattice(10, directed=False),
    "directed lattice": lambda: lattice(10, directed=True),
    "smaller lattice": lambda: lattice(8, directed=False),
    "large lattice": lambda: lattice(40, directed=False),
    "many components": lambda: et.zoo.mixture(200, 100, 4),
    "most components": lambda: et.zoo.mixture(30, 10_000, 2),
    "large columns": lambda: et.LatentGraph(
        {f"x{i}": 1000 for i in range(10)}, [(f"x{i}", f"x{i + 1}") for i in range(9)]
    ),
}


@pytest.mark.parametrize("build", HARSH.values(), ids=HARSH.keys())
def test_planning_ends_or_is_refused_with_bounded_work(build, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build()
    ViewPlan.build(et.zoo.hmm(3))  # what is imported on first use

    refusals: list[str] = []

    def plan() -> None:
        try:
            ViewPlan.build(graph)
        except (et.RankError, et.TreewidthError) as refused:
            refusals.append(str(refused))

    steps, decompositions, memory = Spent(monkeypatch).on(plan)
    for refusal in refusals:
        assert re.search(r"(separator|clique of \d+ variables).*\{.*\}.*(set max_rank|remove edges)", refusal)
    assert steps < 3_000_000
    assert decompositions < (work.MOST + work.MOST_PER_NODE * 400) / work.STEP_OF_QR
    assert memory < 8 * 3 * work.MOST_AT_ONCE


def test_a_hmm_of_order_5_takes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was once left to the threads of BLAS, which waited for each other 14 s long."""
    graph = et.zoo.hmm(40, order=5)
    steps, decompositions, memory = Spent(monkeypatch).on(lambda: ViewPlan.build(graph))
    assert max(node.rank for node in ViewPlan.build(graph).nodes) == 32
    assert steps < 300_000
    assert decompositions < 2e8
    assert memory < 5e7


def test_what_is_hopeless_is_refused_at_once() -> None:
    """On paper, before any table is made."""
    for graph in (et.zoo.hmm(40, 10), lattice(10, directed=True), lattice(10, directed=False)):
        with pytest.raises(
            et.RankError, match="would take too long; set max_rank, for example to 16, or let fewer"
        ):
            ViewPlan.build(graph)
        with pytest.raises(OverworkError):
            most_dimensions(JunctionTree.of(graph))


def test_the_refusal_names_the_separator() -> None:
    with pytest.raises(
        et.RankError,
        match=r"separator \{h\d+(, h\d+){9}\} has 1,024 joint states, .*too long; set max_rank, for example to 16, "
        r"or let fewer hidden states meet there, by a lower order, by fewer edges or by fewer states",
    ):
        et.SpectralJunctionTree(et.zoo.hmm(40, 10)).fit(np.zeros((5, 40), int))
    with pytest.raises(et.RankError, match=r"separator \{h\} has 10,000 joint states, .*; lower max_rank=99, or"):
        ViewPlan.build(et.zoo.mixture(30, 10_000, 2), max_rank=99)


@pytest.mark.parametrize(
    "graph",
    [et.zoo.hmm(24, 10, 2, 2), lattice(10, directed=True), et.zoo.semi_hidden_markov(30, 2, 500, 2)],
    ids=["10th-order HMM", "lattice", "long durations"],
)
def test_a_cap_makes_what_is_refused_possible(graph: et.LatentGraph) -> None:
    with pytest.raises(et.RankError, match="set max_rank"):
        ViewPlan.build(graph)
    plan = ViewPlan.build(graph, max_rank=8)
    assert max(node.rank for node in plan.nodes) == 8
    check_nesting(plan)
    unknown = [node for node in plan.nodes if "at least" in node.bound]
    assert unknown
    for node in unknown:
        assert node.bound == f"capped: the generic rank is at least {node.generic_rank}"
        assert node.rank == 8 < node.generic_rank <= node.states


def test_a_capped_plan_of_a_high_order_chain_can_be_fitted() -> None:
    graph = et.zoo.hmm(20, 10, 2, 2)
    rows = et.LatentNetwork.random(et.zoo.hmm(20, 1, 2, 2), seed=0).sample(5_000, seed=1)
    model = et.SpectralJunctionTree(graph, max_rank=4, shrinkage=1.0).fit(rows)
    assert model.joint(["x0", "x19"]).sum() == pytest.approx(1.0)
    independent = et.SpectralJunctionTree(graph, max_rank=1, shrinkage=np.inf).fit(rows)
    assert model.score(rows) > independent.score(rows)


@settings(max_examples=100, deadline=None)
@given(graphs, st.integers(1, 12))
def test_a_random_part_of_the_spans_gives_ranks_up_to_its_size(graph: et.LatentGraph, most: int) -> None:
    tree = JunctionTree.of(graph)
    exact = Spans.sampled(tree, 1, Work(100))
    part = Spans.sampled(tree, 1, Work(100), most)
    assert part.ranks == [min(rank, most) for rank in exact.ranks]
    for whole, some in zip(exact.inside + exact.outside, part.inside + part.outside, strict=True):
        assert len(some) == min(len(whole), most)
        np.testing.assert_allclose(some @ some.T, np.eye(len(some)), atol=1e-9)
        # The part lies within the whole.
        if len(whole) <= most:
            np.testing.assert_allclose(some @ whole.T @ whole, some, atol=1e-6)


COMMON_EFFECTS = et.LatentGraph(
    dict.fromkeys(["v0", "v1", "v2", "v3"], 2), [("v0", "v2"), ("v0", "v3"), ("v1", "v2"), ("v1", "v3")]
)
"""Two independent causes: one of them says nothing about the other."""


@settings(max_examples=60, deadline=None)
@given(graphs, st.integers(0, 99), st.integers(1, 3))
@example(COMMON_EFFECTS, 0, 2)
def test_a_plan_from_parts_of_spans_has_the_capped_ranks(graph: et.LatentGraph, seed: int, most: int) -> None:
    """As where finding the whole ranks would take too long."""
    full = ViewPlan.build(graph, max_rank=most)
    plan = best_plan(JunctionTree.of(graph), PlanOptions.checked(6, most, "raise"), 2 * most)
    assert [node.rank for node in plan.nodes] == [node.rank for node in full.nodes]
    check_nesting(plan)
    network = et.LatentNetwork.random(graph, seed=seed)
    for node, inside in edges(plan):
        assert node.generic_rank == min(2 * most, full.nodes[plan.nodes.index(node)].generic_rank)
        states = math.prod(graph.states[name] for name in node.inside)
        for group in node.outside:
            assert inside.isdisjoint(group)
            rank = numeric_rank(network.joint([*node.inside, *group]).reshape(states, -1))
            assume(rank is not None)
            assert rank >= node.rank


@settings(max_examples=100, deadline=None)
@given(graphs)
def test_no_span_has_more_dimensions_than_are_allowed(graph: et.LatentGraph) -> None:
    tree = JunctionTree.of(graph)
    allowed = most_dimensions(tree)
    spans = Spans.sampled(tree, 1, Work(100))
    for most, span in zip([*allowed[0], *allowed[1]], spans.inside + spans.outside, strict=True):
        assert len(span) <= most <= span.shape[1]


def test_all_decompositions_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = JunctionTree.of(et.zoo.hmm(30, 3, 3, 3))
    noting: list[Work] = []

    def sample(tree: JunctionTree, seed: int, done: Work, most: int | None) -> Spans:
        noting.append(done)
        return Spans.sampled(tree, seed, done, most)

    _, decompositions, _ = Spent(monkeypatch).on(
        lambda: best_plan(tree, PlanOptions.checked(6, 7, "raise"), sample=sample)
    )
    assert decompositions > 1e6
    noted = Work(len(tree.nodes)).left - noting[0].left
    # But for what spans of the two sides say of each other, which are no larger than the spans.
    assert noted > 0.9 * work.STEP_OF_QR * decompositions


STRUCTURES = {
    "chain": lambda count: et.zoo.hmm(count, 2, 2, 4),
    "hub": lambda count: et.zoo.mixture(count, 3, 3),
    "tree": lambda count: et.zoo.LatentTree(3, 3).build([3] * count),
}


@pytest.mark.parametrize("build", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_work_grows_in_proportion_to_the_columns(build) -> None:
    """Steps of the interpreter, not seconds: growth is a property of the algorithm, the clock is not."""

    def steps(count: int) -> int:
        graph = build(count)
        return steps_of(lambda: ViewPlan.build(graph))

    steps(7)  # what is imported or compiled on first use
    short, long = steps(60), steps(120)
    assert short > 1_000, "nothing was traced"
    assert long <= 2.3 * short


def test_what_no_edge_needs_any_more_is_not_kept_in_memory() -> None:
    """Tables of pairs of views at every branching once filled memory, however few of their variables mattered."""
    graph = et.zoo.mixture(300, 20, 4)
    tracemalloc.start()
    try:
        ViewPlan.build(graph)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    inner = 298
    assert peak < 1.5 * inner * CANDIDATE_CELLS * 20 * 8, "more than one small table per node"


@st.composite
def seen_through_edges(draw: st.DrawFn) -> list[tuple[CandidateViews, tuple[str, ...], tuple[str, ...], int]]:
    """What is seen through some edges, each with its view, its whole view and its step; only shapes matter."""
    found = []
    names = (f"v{i}" for i in itertools.count())
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=7))
        distances = sorted(draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes))))
        listed = draw(st.permutations([next(names) for _ in sizes]))
        groups = st.lists(st.sampled_from(listed), unique=True, max_size=4)
        table = np.broadcast_to(1.0, (*sizes, 1))
        views = CandidateViews(tuple(listed), tuple(distances), table)
        found.append((views, tuple(draw(groups)), tuple(draw(groups)), draw(st.integers(0, 2))))
    return found


@settings(max_examples=300, deadline=None)
@given(seen_through_edges(), st.booleans(), st.sampled_from([(1024, 8), (30, 8), (30, 4)]))
def test_what_is_thinned_out_would_be_no_candidate(seen, views_too: bool, limits: tuple[int, int]) -> None:
    sure = {name for _, view, whole, _ in seen for name in (*whole, *(view if views_too else ()))}
    thick = [(k, views, step) for k, (views, _, _, step) in enumerate(seen)]
    thin = [(k, views.thinned(view, whole, *limits), step) for k, (views, view, whole, step) in enumerate(seen)]
    assert candidates(thin, sure, *limits) == candidates(thick, sure, *limits)


def test_a_large_table_of_candidates_is_thinned() -> None:
    names = tuple(f"v{i}" for i in range(8))
    views = CandidateViews(names, tuple(range(8)), np.ones((4,) * 8 + (3,)))
    thin = views.thinned((), names[:3])
    assert thin.names == names[:5], "three that must stay and two more have 1024 cells"
    assert thin.table.base is None or thin.table.base.nbytes == thin.table.nbytes, "the large table is still there"


OPTIONS = PlanOptions.checked(6, None, "warn")


def test_planning_uses_one_thread_and_gives_the_others_back() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}

    seen: set[int] = set()

    def watching(*arguments: Any) -> tuple[list[EdgeViews], tuple[str, ...]]:
        seen.update(threads())
        return plan_edges(*arguments)

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        best_plan(JunctionTree.of(et.zoo.hmm(4)), OPTIONS, search=watching)
        assert threads() == before
    assert seen == {1}


class Searches:
    """A search for views that is short of some edges, as often as given; None stands for an error."""

    def __init__(self, shorts: list[int | None]) -> None:
        self.shorts = shorts
        self.made = 0

    def __call__(self, tree: JunctionTree, *others: object) -> tuple[list[EdgeViews], tuple[str, ...]]:
        count = self.shorts[self.made]
        self.made += 1
        if count is None:
            raise RankError(f"instance {self.made} has no view at all")
        messages = tuple(f"instance {self.made} is short" for _ in range(count))
        return [EdgeViews(1, (), ())] * len(tree.nodes), messages


@pytest.mark.parametrize(
    ("shorts", "made", "chosen"),
    [
        ([0], 1, None),
        ([2, 0], 2, None),
        ([3, 1, 2], 3, "instance 2 is short"),
        ([None, 0], 2, None),
        ([2, None, None], 3, "instance 1 is short"),
    ],
)
def test_views_are_sought_on_a_few_instances(shorts: list[int | None], made: int, chosen: str | None) -> None:
    """Rounding can hide a rank on one instance."""
    searches = Searches(shorts)
    plan = best_plan(JunctionTree.of(et.zoo.hmm(3)), OPTIONS, search=searches)
    assert set(plan.short) == (set() if chosen is None else {chosen})
    assert searches.made == made


def test_an_error_on_every_instance_is_the_last_one() -> None:
    with pytest.raises(et.RankError, match="instance 3 has no view"):
        best_plan(JunctionTree.of(et.zoo.hmm(3)), OPTIONS, search=Searches([None, None, None]))


def test_a_rank_below_what_is_allowed_is_confirmed_on_another_instance() -> None:
    sampled: list[int] = []

    def sample(tree: JunctionTree, seed: int, done: Work, most: int | None) -> Spans:
        sampled.append(seed)
        spans = Spans.sampled(tree, seed, done, most)
        return spans if seed > 1 else replace(spans, ranks=[1] * len(spans.ranks))

    plan = best_plan(JunctionTree.of(et.zoo.hmm(5, 1, 2, 3)), OPTIONS, sample=sample)
    assert sampled == [1, 2]
    assert max(node.generic_rank for node in plan.nodes) == 2, "the higher of the two"
