"""Pictures: where variables stand, what is drawn of a graph, and on which axes."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

import eigentree as et
from benchmarks.planted import random_tree
from eigentree.em.sizes import Size, SizeSearch, SizeTrial
from eigentree.estimators.dependencies import edge_strengths
from eigentree.graphs.structure_learning import mixture_of_trees
from eigentree.viz.diagrams import Layout, graph_diagram, laid_out, laid_out_diagram

GAP = 20.0


@st.composite
def graphs(draw: st.DrawFn, most: int = 40) -> tuple[dict[str, float], list[tuple[str, str]], bool]:
    """Widths of boxes, edges, and whether these make a tree."""
    count = draw(st.integers(1, most))
    names = [f"v{k}" for k in range(count)]
    widths = {name: draw(st.sampled_from([5.0, 30.0, 90.0, 300.0])) for name in names}
    edges = [(names[draw(st.integers(0, k - 1))], names[k]) for k in range(1, count)]
    tree = draw(st.booleans())
    if not tree:
        pairs = [pair for pair in combinations(names, 2) if pair not in edges]
        more = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8)) if pairs else []
        edges = [*edges[: draw(st.integers(0, count))], *more]
    return widths, list(dict.fromkeys(edges)), tree


def parts(names: Any, edges: Any) -> int:
    """How many parts a graph has."""
    of = {name: name for name in names}

    def top(name: str) -> str:
        return name if of[name] == name else top(of[name])

    for one, other in edges:
        of[top(one)] = top(other)
    return len({top(name) for name in of})


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_no_box_touches_another(drawn: Any) -> None:
    widths, edges, _ = drawn
    layout = laid_out(edges, widths, GAP)
    assert set(layout.boxes) == set(widths)
    for name, box in layout.boxes.items():
        assert box.right - box.left == pytest.approx(widths[name])
        assert 0 <= box.row <= layout.rows - 1 + 1e-9
    for (_, one), (_, other) in combinations(layout.boxes.items(), 2):
        beside = one.right < other.left or other.right < one.left
        assert beside or abs(one.row - other.row) > 1 - 1e-9


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_branches_span_the_graph_and_pass_no_other_box(drawn: Any) -> None:
    widths, edges, tree = drawn
    layout = laid_out(edges, widths, GAP)
    branches = {frozenset(branch) for branch in layout.branches}
    assert branches <= {frozenset(edge) for edge in edges}
    assert len(layout.branches) == len(branches) == len(widths) - parts(widths, edges)
    assert parts(widths, layout.branches) == parts(widths, edges)
    if tree:
        assert branches == {frozenset(edge) for edge in edges}
    for inner, outer in layout.branches:
        for x, row in course(layout, inner, outer):
            for name, box in layout.boxes.items():
                if name not in (inner, outer):
                    assert not (box.left < x < box.right and abs(row - box.row) < 0.5), (inner, outer, name)


@pytest.mark.parametrize("graph", [et.zoo.hmm(4, 1), et.zoo.hmm(5, 2), et.zoo.factorial_hmm(3, 2)])
def test_chains_are_drawn_step_by_step(graph: et.LatentGraph) -> None:
    layout = laid_out_diagram(graph_diagram(graph, {}, chain=True), len)
    middles = {name: (box.left + box.right) / 2 for name, box in layout.boxes.items()}
    assert set(middles) == set(graph.names)
    for name in graph.observed:
        for parent in graph.parents(name):
            # Each column stands below the hidden variables that it depends on.
            assert middles[name] == pytest.approx(middles[parent])
            assert layout.boxes[name].row > layout.boxes[parent].row
    for name in graph.hidden:
        assert all(middles[parent] < middles[name] for parent in graph.parents(name))
    for (_, one), (_, other) in combinations(layout.boxes.items(), 2):
        assert one.right < other.left or other.right < one.left or abs(one.row - other.row) > 1
    assert all(layout.boxes[one].row == layout.boxes[other].row for one, other in layout.branches)


def course(layout: Layout, inner: str, outer: str) -> list[tuple[float, float]]:
    """Points of a branch: along the row of the inner box, then through the gap before the outer one."""
    one, other = layout.boxes[inner], layout.boxes[outer]
    right = other.left > one.right
    assert right or other.right < one.left
    begin, end = (one.right, other.left) if right else (one.left, other.right)
    first = end - GAP if right else end + GAP
    assert (first >= begin - 1e-9) if right else (first <= begin + 1e-9)
    steps = np.linspace(0, 1, 30)
    across = 3 * steps**2 - 2 * steps**3
    points = [(begin + (first - begin) * step, one.row) for step in steps]
    return points + [
        (first + (end - first) * step, one.row + (other.row - one.row) * done)
        for step, done in zip(steps, across, strict=True)
    ]


def drawn_names(ax: Any) -> dict[str, Any]:
    return {text.get_gid(): text for text in ax.texts}


def drawn_edges(ax: Any) -> dict[str, Any]:
    return {patch.get_gid(): patch for patch in ax.patches}


@pytest.mark.parametrize(
    "graph",
    [et.zoo.hmm(5, 2), et.zoo.factorial_hmm(3, 2), et.zoo.mixture(9, 2), random_tree(12, 2, 2, seed=0)],
    ids=["hmm of order 2", "factorial", "mixture", "tree"],
)
def test_what_is_drawn_is_the_graph(graph: et.LatentGraph) -> None:
    network = et.LatentNetwork.random(graph, seed=0)
    for model in (graph, network):
        ax = et.plot.graph(model)
        assert set(drawn_names(ax)) == set(graph.names)
        assert sorted(drawn_edges(ax)) == sorted(f"edge {one} {other}" for one, other in graph.edges)
        styles = {
            name: (text.get_bbox_patch().get_facecolor(), type(text.get_bbox_patch().get_boxstyle()))
            for name, text in drawn_names(ax).items()
        }
        for one, other in combinations(graph.names, 2):
            alike = (one in graph.hidden) == (other in graph.hidden)
            same = [mine == theirs for mine, theirs in zip(styles[one], styles[other], strict=True)]
            assert same == [alike, alike]
        boxes = {
            name: type(text.get_bbox_patch().get_boxstyle()).__name__ for name, text in drawn_names(ax).items()
        }
        assert {boxes[name] for name in graph.hidden} == {"Round"}
        assert {boxes[name] for name in graph.observed} == {"Square"}
    strengths = edge_strengths(network)
    widths = {edge: drawn_edges(ax)[f"edge {edge[0]} {edge[1]}"].get_linewidth() for edge in graph.edges}
    assert len(set(widths.values())) > 1
    slope, _ = np.polyfit(list(strengths.values()), list(widths.values()), 1)
    assert slope > 0
    told = [list(of.values()) for of in (strengths, widths)]
    assert np.corrcoef(told)[0, 1] == pytest.approx(1)


def test_arrows_are_drawn_where_directions_matter() -> None:
    def heads(graph: et.LatentGraph) -> set[str]:
        return {type(patch.get_arrowstyle()).__name__ for patch in et.plot.graph(graph).patches}

    assert heads(random_tree(8, 2, 2, seed=0)) == {"Curve"}
    assert heads(et.LatentGraph({"a": 2, "b": 2, "c": 2}, [("a", "b"), ("c", "b")])) == {"CurveFilledB"}
    assert heads(et.LatentGraph({"a": 2, "b": 2, "c": 2}, [("a", "b"), ("c", "b")], directed=False)) == {"Curve"}


def test_the_variable_of_a_mixture_of_trees_is_left_out_and_named() -> None:
    tree = random_tree(8, 2, 2, seed=0)
    network = et.LatentNetwork.random(mixture_of_trees(tree, 5), seed=0)
    ax = et.plot.graph(network)
    assert set(drawn_names(ax)) == set(tree.names)
    assert sorted(drawn_edges(ax)) == sorted(f"edge {one} {other}" for one, other in tree.edges)
    assert "mixture of 5 such trees ('tree'" in ax.get_title()


@pytest.mark.parametrize("columns", [4, 23, 60, 150])
def test_names_do_not_overlap(columns: int) -> None:
    tree = random_tree(columns, 2, 2, seed=columns)
    longer = {name: f"{name}-{'and-more' * (k % 3)}" for k, name in enumerate(tree.names)}
    graph = et.LatentGraph(
        {longer[name]: 2 for name in tree.names},
        [(longer[one], longer[other]) for one, other in tree.edges],
        [longer[name] for name in tree.hidden],
    )
    own = et.plot.graph(graph)
    size = own.texts[0].get_fontsize()
    assert size == pytest.approx(8, rel=0.01) or (columns > 60 and 5 < size < 8)
    given_ax = Figure(figsize=(10, 8)).subplots()
    for ax in (own, et.plot.graph(graph, given_ax)):
        renderer = FigureCanvasAgg(ax.figure).get_renderer()
        ax.figure.draw(renderer)
        extents = [text.get_bbox_patch().get_window_extent(renderer) for text in ax.texts]
        for one, other in combinations(extents, 2):
            assert not one.overlaps(other)
        inside = ax.get_window_extent().padded(10)  # pixels, by which a screen makes letters wider
        assert all(inside.contains(*corner) for each in extents for corner in each.corners())


def test_axes_come_back_and_names_become_smaller_where_room_is_short() -> None:
    graph = random_tree(40, 2, 2, seed=0)
    figure = Figure(figsize=(4, 3), layout="constrained")
    ax, other = figure.subplots(1, 2)
    assert et.plot.graph(graph, ax) is ax
    assert et.plot.graph(graph, ax=other) is other
    assert 0 < ax.texts[0].get_fontsize() < 8
    figure.draw(FigureCanvasAgg(figure).get_renderer())
    part = Figure(layout="constrained").subfigures(1, 2)[1].subplots()
    assert et.plot.graph(graph, part) is part


def test_names_are_shown_as_they_are_but_for_their_length() -> None:
    names = ["$x_1$", "two\nlines", "long" * 30, " "]
    graph = et.LatentGraph({**dict.fromkeys(names, 2), "h": 2}, [("h", name) for name in names], ["h"])
    ax = et.plot.graph(graph)
    shown = {gid: text.get_text() for gid, text in drawn_names(ax).items()}
    assert shown["$x_1$"] == "$x_1$"
    assert not drawn_names(ax)["$x_1$"].get_parse_math()
    assert shown["two\nlines"] == "two lines"
    assert len(shown["long" * 30]) == 40
    assert shown[" "] == "' '"


def test_fitted_estimators_are_drawn_and_others_told_so() -> None:
    graph = et.zoo.mixture(4, 2, 2)
    rows = et.LatentNetwork.random(graph, seed=0).sample(100, seed=0)
    em = et.EMJunctionTree(graph, init="random", n_init=1, max_iter=2, random_state=0)
    with pytest.raises(NotFittedError):
        et.plot.graph(em)
    widths = [
        {patch.get_linewidth() for patch in et.plot.graph(model.fit(rows)).patches}
        for model in (em, et.SpectralJunctionTree(graph))
    ]
    assert len(widths[0]) > 1
    assert len(widths[1]) == 1  # without tables, nothing is known of hidden variables
    with pytest.raises(et.ParameterError, match="has a graph to draw, not 'graph'"):
        et.plot.graph("graph")  # type: ignore[arg-type]
    with pytest.raises(et.ParameterError, match="ax is one of matplotlib's Axes, not 3"):
        et.plot.graph(graph, ax=3)


def test_matplotlib_is_loaded_when_something_is_drawn_and_pyplot_never() -> None:
    script = (
        "import sys, eigentree as et; graph = et.zoo.mixture(3); et.plot; a = 'matplotlib' in sys.modules;"
        "et.plot.graph(graph); print(a, 'matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]


def test_without_matplotlib_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.textpath", None)
    with pytest.raises(et.EigentreeError, match=r"pip install 'eigentree\[plots\]'"):
        et.plot.graph(et.zoo.mixture(3))


def test_a_search_is_drawn_with_all_its_trials() -> None:
    tried = [(2, 1, -9.0), (2, 1, -9.5), (4, 1, -8.0), (4, 4, -7.5), (8, 4, -7.6)]
    trials = tuple(SizeTrial(Size(states, trees), "random", 5, 10, -7.0, nats) for states, trees, nats in tried)
    search = SizeSearch(trials, Size(4, 4), (0.6, 0.4), -7.4, 100.0, 20.0)
    ax = Figure().subplots()
    assert search.plot(ax) is ax
    points = {tuple(point) for line in ax.lines for point in line.get_xydata().tolist()}
    assert points == {(states, nats) for states, _, nats in tried} | {(4, -7.4)}
    best = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert best["one tree"] == [[2, -9.0], [4, -8.0]]
    assert best["mixture of 4 trees"] == [[4, -7.5], [8, -7.6]]
    assert search.plot().figure is not ax.figure
