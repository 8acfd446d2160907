"""Ready-made latent graphs, all directed: the structures of the paper's section 9.1 and their relatives.

A function such as `hmm` takes sizes and returns a graph. A template such as `HMM` leaves the columns open
and builds the graph once they are known. `observed_states` is one number for all columns, or one a column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import ceil
from numbers import Integral

from eigentree.errors import GraphError, did_you_mean
from eigentree.structures.graph import LatentGraph


class Template(ABC):
    """A structure that is known up to its columns."""

    def build(self, states: Sequence[int], names: Sequence[str] | None = None) -> LatentGraph:
        """Return the graph over columns with these numbers of states.

        The columns are named x0, x1, … unless `names` are given. Where a hidden variable would have the
        name of a column, the names of all hidden variables get the prefix ``hidden_``.
        """
        if not isinstance(states, Iterable):
            raise GraphError(f"states must be a sequence of whole numbers, not {states!r}")
        counts = [_whole(f"states[{place}]", count) for place, count in enumerate(states)]
        if not counts:
            raise GraphError("states must give the number of states of at least one column, and is empty")
        if names is None:
            names = [f"x{column}" for column in range(len(counts))]
        if isinstance(names, str) or len(names) != len(counts) or len(set(names)) != len(names):
            raise GraphError(f"names must be {len(counts)} different names, one a column, not {names!r}")
        return self._over(dict(zip(names, counts, strict=True)))

    @abstractmethod
    def _over(self, columns: Mapping[str, int]) -> LatentGraph: ...


@dataclass(frozen=True)
class HMM(Template):
    """A hidden Markov model of any order, one step a column; see `hmm`."""

    order: int = 1
    hidden_states: int = 2

    def __post_init__(self) -> None:
        _whole("order", self.order)
        _whole("hidden_states", self.hidden_states)

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        hidden = _apart([f"h{t}" for t in range(len(columns))], columns)
        states: dict[str, int] = {}
        edges: list[tuple[str, str]] = []
        for t, (column, count) in enumerate(columns.items()):
            states |= {hidden[t]: self.hidden_states, column: count}
            edges += [(earlier, hidden[t]) for earlier in hidden[max(0, t - self.order) : t]]
            edges.append((hidden[t], column))
        return LatentGraph(states, edges, hidden)


@dataclass(frozen=True)
class FactorialHMM(Template):
    """A factorial hidden Markov model, one step a column; see `factorial_hmm`."""

    levels: int = 2
    hidden_states: int | Sequence[int] = 2

    def __post_init__(self) -> None:
        counts = _each("hidden_states", self.hidden_states, _whole("levels", self.levels), "level")
        # A list would make the template unhashable.
        object.__setattr__(self, "hidden_states", counts)

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        counts = _each("hidden_states", self.hidden_states, self.levels, "level")
        hidden = {f"h{level}": count for level, count in enumerate(counts)}
        return _chain(columns, hidden, [(level, "x") for level in hidden], [(level, level) for level in hidden])


@dataclass(frozen=True)
class Mixture(Template):
    """A mixture of products, one hidden variable above all columns; see `mixture`."""

    components: int = 2

    def __post_init__(self) -> None:
        _whole("components", self.components)

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        (hidden,) = _apart(["h"], columns)
        edges = [(hidden, column) for column in columns]
        return LatentGraph({hidden: self.components, **columns}, edges, [hidden])


@dataclass(frozen=True)
class SemiHiddenMarkov(Template):
    """A hidden Markov model with explicit durations, one step a column; see `semi_hidden_markov`."""

    hidden_states: int = 2
    max_duration: int = 3

    def __post_init__(self) -> None:
        _whole("hidden_states", self.hidden_states)
        _whole("max_duration", self.max_duration)

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        hidden = {"s": self.hidden_states, "d": self.max_duration}
        return _chain(columns, hidden, [("s", "d"), ("s", "x")], [("s", "s"), ("d", "s"), ("d", "d")])


@dataclass(frozen=True)
class BalancedTree(Template):
    """A latent tree whose leaves are the columns, all equally far from the root.

    Level by level, neighbours are put under one hidden variable, at most `branching` at a time and in
    groups as equal as can be, until one root is left.

    Examples
    --------
    >>> BalancedTree(branching=3).build([2] * 5).edges[2:]
    (('h1', 'x0'), ('h1', 'x1'), ('h1', 'x2'), ('h2', 'x3'), ('h2', 'x4'))
    """

    hidden_states: int = 2
    branching: int = 2

    def __post_init__(self) -> None:
        _whole("hidden_states", self.hidden_states)
        _whole("branching", self.branching, least=2)

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        widths = [len(columns)]
        while len(widths) == 1 or widths[0] > 1:
            widths.insert(0, ceil(widths[0] / self.branching))
        hidden = _apart([f"h{node}" for node in range(sum(widths[:-1]))], columns)
        supply = iter([*hidden, *columns])
        levels = [list(islice(supply, width)) for width in widths]
        edges = [
            (parents[place * len(parents) // len(children)], child)
            for parents, children in pairwise(levels)
            for place, child in enumerate(children)
        ]
        return LatentGraph({**dict.fromkeys(hidden, self.hidden_states), **columns}, edges, hidden)


def hmm(
    length: int, order: int = 1, hidden_states: int = 2, observed_states: int | Sequence[int] = 2
) -> LatentGraph:
    """Return a hidden Markov model: h0, h1, … each with its `order` predecessors as parents, and xt below ht.

    Examples
    --------
    >>> hmm(length=4, order=2, observed_states=4).parents("h3")
    ('h1', 'h2')
    """
    return HMM(order, hidden_states).build(_observed(observed_states, _whole("length", length)))


def factorial_hmm(
    length: int,
    levels: int = 2,
    hidden_states: int | Sequence[int] = 2,
    observed_states: int | Sequence[int] = 2,
) -> LatentGraph:
    """Return a factorial hidden Markov model: parallel chains h0_t, h1_t, …, all of them parents of xt.

    `hidden_states` is one number for all levels, or one a level.
    """
    return FactorialHMM(levels, hidden_states).build(_observed(observed_states, _whole("length", length)))


def mixture(columns: int, components: int = 2, observed_states: int | Sequence[int] = 2) -> LatentGraph:
    """Return a latent class model (naive Bayes with a hidden class): h above x0, x1, …."""
    return Mixture(components).build(_observed(observed_states, _whole("columns", columns)))


def semi_hidden_markov(
    length: int, hidden_states: int = 2, max_duration: int = 3, observed_states: int | Sequence[int] = 2
) -> LatentGraph:
    """Return a hidden semi-Markov model: states st, counters dt of the time left in them, and xt below st."""
    template = SemiHiddenMarkov(hidden_states, max_duration)
    return template.build(_observed(observed_states, _whole("length", length)))


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
        raise GraphError(f"give either depth or edges, not depth={depth!r} and edges={edges!r}")
    if edges is not None:
        return _tree_of_edges(_pairs("edges", edges), hidden_states, observed_states)
    template = BalancedTree(hidden_states, branching)
    return template.build(_observed(observed_states, branching ** _whole("depth", depth)))


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
    if isinstance(hidden, str):
        raise GraphError(f"hidden is a list of names; write hidden=[{hidden!r}]")
    concealed, inside, across = list(hidden), _pairs("within", within), _pairs("between", between)
    _check_known("hidden", concealed, states)
    _check_known("within", [name for edge in inside for name in edge], states)
    _check_known("between", [name for edge in across for name in edge], states)
    for name, count in states.items():
        if not isinstance(name, str) or not name:
            raise GraphError(f"states must have non-empty strings as names, not {name!r}")
        _whole(f"states[{name!r}]", count)
    slices = [{name: _at(name, t) for name in states} for t in range(_whole("length", length))]
    return LatentGraph(
        # Pairs and not a mapping, so that two variables that unroll to one name are found out.
        [(now[name], count) for now in slices for name, count in states.items()],
        _unrolled(slices, inside, across),
        [now[name] for now in slices for name in concealed],
    )


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
    return LatentGraph({**dict.fromkeys(hidden, _whole("hidden_states", hidden_states)), **columns}, edges, hidden)


def _tree_of_edges(
    edges: list[tuple[str, str]], hidden_states: int, observed_states: int | Sequence[int]
) -> LatentGraph:
    names = dict.fromkeys(name for edge in edges for name in edge)
    inner = {parent for parent, _ in edges}
    leaves = [name for name in names if name not in inner]
    if not leaves:
        raise GraphError(f"edges must form a tree with at least one leaf, not {edges!r}")
    counts = _observed(observed_states, len(leaves))
    states = dict.fromkeys(names, _whole("hidden_states", hidden_states))
    graph = LatentGraph(states | dict(zip(leaves, counts, strict=True)), edges, inner)
    for name in names:
        if len(graph.parents(name)) > 1:
            raise GraphError(f"edges must give every node one parent, but {name!r} has {graph.parents(name)!r}")
    roots = [name for name in names if not graph.parents(name)]
    if len(roots) > 1:
        raise GraphError(f"edges must form one tree, but {roots[0]!r} and {roots[1]!r} are both roots")
    return graph


def _chain(
    columns: Mapping[str, int],
    hidden: Mapping[str, int],
    within: list[tuple[str, str]],
    between: list[tuple[str, str]],
) -> LatentGraph:
    """Return the graph of a chain; a slice has the hidden variables and one column, the "x" of `within`."""
    names = _apart([_at(name, t) for t in range(len(columns)) for name in hidden], columns)
    supply = iter(names)
    slices: list[dict[str, str]] = []
    states: dict[str, int] = {}
    for column, observed in columns.items():
        now = {name: next(supply) for name in hidden}
        states |= {now[name]: count for name, count in hidden.items()} | {column: observed}
        slices.append(now | {"x": column})
    return LatentGraph(states, _unrolled(slices, within, between), names)


def _unrolled(
    slices: list[dict[str, str]], within: list[tuple[str, str]], between: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    edges: list[tuple[str, str]] = []
    for t, now in enumerate(slices):
        if t > 0:
            edges += [(slices[t - 1][source], now[target]) for source, target in between]
        edges += [(now[source], now[target]) for source, target in within]
    return edges


def _at(name: str, step: int) -> str:
    # "h1" at step 2 must not look like "h" at step 12.
    return f"{name}_{step}" if name[-1].isdigit() else f"{name}{step}"


def _apart(hidden: list[str], columns: Mapping[str, int]) -> list[str]:
    while any(name in columns for name in hidden):
        hidden = [f"hidden_{name}" for name in hidden]
    return hidden


def _observed(observed_states: object, columns: int) -> tuple[int, ...]:
    return _each("observed_states", observed_states, columns, "column")


def _each(argument: str, value: object, count: int, unit: str) -> tuple[int, ...]:
    """Return `count` whole numbers, from one number for all or from one for each."""
    if not isinstance(value, Iterable):
        return (_whole(argument, value),) * count
    numbers = tuple(_whole(f"{argument}[{place}]", number) for place, number in enumerate(value))
    if len(numbers) != count:
        raise GraphError(f"{argument} must be one number or {count}, one a {unit}, but {len(numbers)} are given")
    return numbers


def _whole(argument: str, value: object, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise GraphError(f"{argument} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def _pairs(argument: str, edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = list(edges)
    for edge in pairs:
        if isinstance(edge, str) or len(edge) != 2:
            raise GraphError(f"{argument} must hold pairs of names, not {edge!r}")
    return pairs


def _check_known(argument: str, names: Iterable[str], states: Mapping[str, int]) -> None:
    for name in names:
        if name not in states:
            raise GraphError(f"{argument} names {name!r}, which is not in states{did_you_mean(name, states)}")
