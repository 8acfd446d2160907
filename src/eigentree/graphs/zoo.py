"""Ready-made latent graphs, all directed (the paper's section 9.1 and more).

A function such as `hmm` takes sizes and returns a graph; a template such as `HMM` builds one from the columns of
the data. `hidden_states` is the main size of each; `observed_states` is one number for all columns, or one each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.errors import GraphError, did_you_mean, quoted
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.learned_templates import HiddenChowLiu
from eigentree.graphs.templates import (
    HMM,
    FactorialHMM,
    LatentTree,
    Mixture,
    MultiGroupMixture,
    SemiHiddenMarkov,
    Template,
    at_step,
    each_count,
    unrolled,
    whole_number,
)
from eigentree.messages import renamed, renamed_arguments
from eigentree.validation import MOST_VARIABLES, a_mapping, check_variables, different_names, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "HMM",
    "FactorialHMM",
    "HiddenChowLiu",
    "LatentTree",
    "Mixture",
    "MultiGroupMixture",
    "SemiHiddenMarkov",
    "Template",
    "dynamic_bayes_net",
    "factorial_hmm",
    "hmm",
    "latent_tree",
    "mixture",
    "paper_junction_tree",
    "semi_hidden_markov",
]


@renamed_arguments()
def hmm(
    length: int, order: int = 1, hidden_states: int = 2, observed_states: int | Sequence[int] = 2
) -> LatentGraph:
    """Return a hidden Markov model: h0, h1, … each with its `order` predecessors as parents, and xt below ht.

    Examples
    --------
    >>> hmm(length=4, order=2, observed_states=4).parents("h3")
    ('h1', 'h2')
    """
    return HMM(order, hidden_states).build(_observed(observed_states, whole_number("length", length)))


@renamed_arguments()
def factorial_hmm(
    length: int,
    levels: int = 2,
    hidden_states: int | Sequence[int] = 2,
    observed_states: int | Sequence[int] = 2,
) -> LatentGraph:
    """Return a factorial hidden Markov model: parallel chains h0_t, h1_t, …, all of them parents of xt.

    `hidden_states` is one number for all levels, or one per level.
    """
    return FactorialHMM(levels, hidden_states).build(_observed(observed_states, whole_number("length", length)))


@renamed_arguments(components="hidden_states")
def mixture(columns: int, hidden_states: int = 2, observed_states: int | Sequence[int] = 2) -> LatentGraph:
    """Return a latent class model (naive Bayes with a hidden class): h above x0, x1, …."""
    return Mixture(hidden_states).build(_observed(observed_states, whole_number("columns", columns)))


@renamed_arguments()
def semi_hidden_markov(
    length: int, hidden_states: int = 2, max_duration: int = 3, observed_states: int | Sequence[int] = 2
) -> LatentGraph:
    """Return a hidden semi-Markov model: states st, counters dt of the time left in them, and xt below st."""
    template = SemiHiddenMarkov(hidden_states, max_duration)
    return template.build(_observed(observed_states, whole_number("length", length)))


@renamed_arguments()
def latent_tree(
    depth: int | None = None,
    branching: int = 2,
    hidden_states: int = 2,
    observed_states: int | Sequence[int] = 2,
    *,
    edges: Iterable[tuple[str, str]] | None = None,
) -> LatentGraph:
    """Return a rooted tree whose leaves are observed and whose inner nodes are hidden.

    Parameters
    ----------
    depth, branching : int
        Number of edges from the root to every leaf, and of children of every inner node, of a complete
        tree: h0, h1, … breadth first, then the leaves x0, x1, …
    hidden_states : int
    observed_states : int or sequence of int
    edges : iterable of (str, str)
        Pairs ``(parent, child)`` of a tree of any shape, in place of `depth`; the columns are its leaves
        in the order in which they first occur.

    Examples
    --------
    >>> latent_tree(depth=2).parents("x3")
    ('h2',)
    >>> latent_tree(edges=[("life", "animal"), ("life", "fern"), ("animal", "cat")]).observed
    ('fern', 'cat')
    """
    if (depth is None) == (edges is None):
        raise GraphError(f"give either depth or edges, not depth={quoted(depth)} and edges={quoted(edges)}")
    if edges is not None:
        return _tree_of_edges(_pairs("edges", edges), hidden_states, observed_states)
    template = LatentTree(hidden_states, branching)
    # A deeper tree, even with two branches, has too many leaves; how many need not be worked out.
    levels = whole_number("depth", depth, most=MOST_VARIABLES.bit_length())
    return template.build(_observed(observed_states, branching**levels))


def dynamic_bayes_net(
    length: int,
    states: Mapping[str, int],
    within: Iterable[tuple[str, str]] = (),
    between: Iterable[tuple[str, str]] = (),
    hidden: Iterable[str] = (),
) -> LatentGraph:
    """Return a two-slice network unrolled over time, "a" at step 3 being "a3", and "a1" at step 3 "a1_3".

    Parameters
    ----------
    length : int
        Number of slices.
    states : mapping of str to int
        Number of states of every variable of a slice.
    within, between : iterable of (str, str)
        Edges inside every slice, and from every slice to the next.
    hidden : iterable of str
        Variables of a slice that are never observed.

    Examples
    --------
    >>> graph = dynamic_bayes_net(3, {"h": 2, "x": 4}, [("h", "x")], [("h", "h"), ("x", "x")], hidden=["h"])
    >>> graph.parents("x2")
    ('x1', 'h2')
    """
    concealed = different_names("hidden", hidden)
    inside, across = _pairs("within", within), _pairs("between", between)
    a_mapping("states", states, "{'h': 2, 'x': 4}")
    _check_known("hidden", concealed, states)
    _check_known("within", [name for edge in inside for name in edge], states)
    _check_known("between", [name for edge in across for name in edge], states)
    for name, count in states.items():
        if not isinstance(name, str) or not name:
            raise GraphError(f"states must have non-empty strings as names, not {quoted(name)}")
        whole_number(f"states[{quoted(name)}]", count)
    check_variables("this graph", whole_number("length", length) * max(1, len(states)))
    slices = [{name: at_step(name, t) for name in states} for t in range(length)]
    return LatentGraph(
        # Pairs and not a mapping, so that two variables that unroll to one name are found out.
        [(now[name], count) for now in slices for name, count in states.items()],
        unrolled(slices, inside, across),
        [now[name] for now in slices for name in concealed],
    )


@renamed_arguments()
def paper_junction_tree(hidden_states: int = 2, observed_states: int | Sequence[int] = 16) -> LatentGraph:
    """Return the synthetic structure of the paper's Figure 3(d), with 21 hidden and 8 observed variables.

    Seven boxes of hidden variables (top, left, right), all linked within a box, form a binary tree. The
    box below on the left hangs from {top, left}, the one on the right from {top, right}; so do the two
    observed variables below each of the last four boxes.

    Examples
    --------
    >>> graph = paper_junction_tree()
    >>> graph.parents("right2"), graph.parents("x7")
    (('top0', 'right0', 'top2', 'left2'), ('top6', 'right6'))
    """
    hidden: list[str] = []
    edges: list[tuple[str, str]] = []
    for box in range(7):
        top, left, right = inside = [f"top{box}", f"left{box}", f"right{box}"]
        hidden += inside
        if box > 0:
            above = (box - 1) // 2
            feeders = [f"top{above}", f"left{above}" if box % 2 == 1 else f"right{above}"]
            edges += [(feeder, name) for name in inside for feeder in feeders]
        edges += [(top, left), (top, right), (left, right)]
        if box >= 3:
            first, second = f"x{2 * box - 6}", f"x{2 * box - 5}"
            edges += [(top, first), (left, first), (top, second), (right, second)]
    columns = {f"x{place}": count for place, count in enumerate(_observed(observed_states, 8))}
    return LatentGraph(
        {**dict.fromkeys(hidden, whole_number("hidden_states", hidden_states)), **columns}, edges, hidden
    )


def __getattr__(name: str) -> type[Template]:
    if name == "BalancedTree":
        renamed("zoo.BalancedTree", "zoo.LatentTree")
        return LatentTree
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)


def _tree_of_edges(
    edges: list[tuple[str, str]], hidden_states: int, observed_states: int | Sequence[int]
) -> LatentGraph:
    names = dict.fromkeys(name for edge in edges for name in edge)
    inner = {parent for parent, _ in edges}
    leaves = [name for name in names if name not in inner]
    if not leaves:
        raise GraphError(f"edges must form a tree with at least one leaf, not {quoted(edges)}")
    counts = _observed(observed_states, len(leaves))
    states = dict.fromkeys(names, whole_number("hidden_states", hidden_states))
    graph = LatentGraph(states | dict(zip(leaves, counts, strict=True)), edges, inner)
    for name in names:
        if len(graph.parents(name)) > 1:
            raise GraphError(f"edges must give every node one parent, but {name!r} has {graph.parents(name)!r}")
    roots = [name for name in names if not graph.parents(name)]
    if len(roots) > 1:
        raise GraphError(f"edges must form one tree, but {roots[0]!r} and {roots[1]!r} are both roots")
    return graph


def _observed(observed_states: object, columns: int) -> tuple[int, ...]:
    return each_count("observed_states", observed_states, columns, "column")


def _pairs(argument: str, edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for edge in one_by_one(argument, edges, "pairs of names", GraphError):
        named = isinstance(edge, tuple | list) and len(edge) == 2 and all(isinstance(name, str) for name in edge)
        if not named:
            raise GraphError(f"{argument} must hold pairs of names, not {quoted(edge)}")
        pairs.append((edge[0], edge[1]))
    return pairs


def _check_known(argument: str, names: Iterable[str], states: Mapping[str, int]) -> None:
    for name in names:
        if name not in states:
            raise GraphError(f"{argument} names {quoted(name)}, which is not in states{did_you_mean(name, states)}")
