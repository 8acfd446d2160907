"""Expected counts: how often each cell of each table of a network was used, given rows with hidden variables.

This is the E-step of EM. Hidden variables are joined into cliques as usual, but observed variables are not: a table
with an observed variable becomes a leaf that reads the row's code, so separators stay as small as the hidden part of
the graph. Only an observed variable that is sometimes missing *and* stands in several tables has to be summed out
like a hidden one.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree import kernels
from eigentree.graph import LatentGraph
from eigentree.network import LatentNetwork, flat_index, homes, table_axes
from eigentree.tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Key = tuple[str, ...]

CACHE_BYTES = 320 * 1024
"""What the messages of one block of rows may take, so that they stay in the second-level cache."""

MOST_CHILDREN = 8
"""Messages are scaled once a node, so a product of too many of them could underflow."""

JOINED_CODES = 256
JOINED_VALUES = 1024
"""Largest leaf that is made by joining smaller ones: its codes fit a byte, its table a quarter of the first cache."""


@dataclass(frozen=True, eq=False)
class TableLayout:
    """All tables of the networks on one graph as one vector of parameters.

    Attributes
    ----------
    graph : LatentGraph
    axes : mapping
        The axes of each table, by the names that it distributes.
    """

    graph: LatentGraph
    axes: Mapping[Key, tuple[str, ...]]

    @classmethod
    def of(cls, graph: LatentGraph) -> TableLayout:
        """Return the layout for a graph."""
        return cls(graph, table_axes(graph))

    @cached_property
    def shapes(self) -> dict[Key, tuple[int, ...]]:
        """The shape of each table."""
        return {key: tuple(self.graph.states[name] for name in axes) for key, axes in self.axes.items()}

    @cached_property
    def starts(self) -> dict[Key, int]:
        """Where each table starts in the vector."""
        ends = np.cumsum([0, *(math.prod(shape) for shape in self.shapes.values())])
        return dict(zip(self.axes, ends[:-1].tolist(), strict=True))

    @cached_property
    def size(self) -> int:
        """The length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @cached_property
    def lengths(self) -> Integers:
        """How many parameters each distribution has; distributions follow each other in the vector."""
        lengths: list[int] = []
        for key, shape in self.shapes.items():
            length = math.prod(shape[len(shape) - len(key) :])
            lengths += [length] * (math.prod(shape) // length)
        return np.array(lengths, np.int64)

    @cached_property
    def _row_starts(self) -> Integers:
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def learned(self) -> NDArray[np.bool_]:
        """Which parameters rows can say anything about."""
        useful = set(_learnable(self.graph, self.axes))
        parts = [np.full(math.prod(self.shapes[key]), key in useful) for key in self.axes]
        return np.concatenate(parts)

    def vector(self, network: LatentNetwork) -> Floats:
        """Return the parameters of a network."""
        tables = {(key,) if isinstance(key, str) else key: table for key, table in network.tables.items()}
        return np.concatenate([tables[key].ravel() for key in self.axes])

    def network(self, parameters: Floats) -> LatentNetwork:
        """Return the network that has these parameters."""
        tables = {
            key: parameters[start : start + math.prod(self.shapes[key])].reshape(self.shapes[key])
            for key, start in self.starts.items()
        }
        return LatentNetwork(self.graph, tables)

    def row_sums(self, cells: Floats) -> Floats:
        """Return, for each parameter, the sum of the cells of its distribution."""
        return np.repeat(np.add.reduceat(cells, self._row_starts), self.lengths)

    def normalised(self, counts: Floats, fallback: Floats) -> Floats:
        """Return relative frequencies, and the fallback's distribution where there are no counts."""
        totals = self.row_sums(counts)
        frequencies: Floats = np.divide(counts, totals, out=fallback.copy(), where=totals > 0)
        return frequencies


class CodedRows(NamedTuple):
    """Rows as the leaves of an `Expectation` read them.

    Attributes
    ----------
    codes : (leaves, rows)
    weights : (rows,)
    line_weights : (lines,)
        Total weight of the rows that read each line of each leaf.
    """

    codes: NDArray[Any]
    weights: Floats
    line_weights: Floats


@dataclass
class _Node:
    """A node while the tree is built: a clique with tables, or a leaf that reads columns."""

    names: tuple[str, ...]
    separator: tuple[str, ...]
    tables: list[Key] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    children: list[int] = field(default_factory=list)

    @property
    def is_leaf(self) -> bool:
        return bool(self.columns)


class Expectation:
    """The expected counts of all tables of a graph, with everything prepared that does not depend on parameters.

    Parameters
    ----------
    layout : TableLayout
    missing : iterable of str
        Columns that may have missing cells.
    rows : int
        About how many rows will be counted at a time; leaves are only joined where that pays.

    Notes
    -----
    A value of the plan is a product of parameters, and for a missing cell a sum of such products. Both
    are maps of indices, kept as flat arrays, so that an iteration of EM runs no loop over nodes in Python.
    """

    def __init__(self, layout: TableLayout, missing: Iterable[str] = (), rows: int = 1_000_000) -> None:
        self.layout = layout
        self.missing = frozenset(missing)
        graph = layout.graph
        self._sizes = {name: graph.states[name] + (name in self.missing) for name in graph.observed}
        nodes = _tree(layout, self.missing, self._sizes, rows)
        self._leaves = [node for node in nodes if node.is_leaf]
        self._index_values(nodes)
        self._plan = self._flat_plan(nodes)
        bonds, terms = int(self._plan.bond.sum()), int(np.diff(self._plan.term_start).max())
        most = int(np.diff(self._plan.child_start).max())
        self._buffer_rows = 2 * bonds + len(nodes) + 2 * terms + most + 3
        self._block = int(np.clip(CACHE_BYTES // (8 * self._buffer_rows), 32, 512)) // 8 * 8

    def _index_values(self, nodes: Sequence[_Node]) -> None:
        """Lay out the values: cliques first, then leaves line by line, and say what each is made of."""
        graph, one, zero = self.layout.graph, self.layout.size, self.layout.size + 1
        depth = max(1, *(len(node.tables) for node in nodes))
        parts: list[Integers] = []
        sums: list[Integers] = []
        addends: list[Integers] = []
        lines: list[int] = []
        widths: list[int] = []
        self._value_start = np.zeros(len(nodes), np.int64)
        start = 0
        for i in sorted(range(len(nodes)), key=lambda i: nodes[i].is_leaf):
            node = nodes[i]
            names = node.columns + node.names
            shape = tuple(self._sizes.get(name, 0) for name in node.columns) + tuple(
                graph.states[name] for name in node.names
            )
            index = np.full((depth, math.prod(shape)), one, np.int64)
            for k, key in enumerate(node.tables):
                index[k] = self._parameter_index(key, names, shape)
            if node.columns and not node.tables:
                code, state = np.indices(shape)
                index[0] = np.where((code == state) | (code == shape[1]), one, zero).ravel()
            elif node.columns:
                total, part = _missing_sums(shape, [graph.states[name] for name in node.columns])
                index[:, total] = zero
                sums.append(total + start)
                addends.append(part + start)
            if node.columns:
                bond = math.prod(shape[len(node.columns) :])
                lines.append(index.shape[1] // bond)
                widths.append(bond)
            parts.append(index)
            self._value_start[i] = start
            start += index.shape[1]
        self._parameters = np.ascontiguousarray(np.concatenate(parts, axis=1))
        self._sums = np.concatenate([*sums, np.zeros(0, np.int64)])
        self._addends = np.concatenate([*addends, np.zeros(0, np.int64)])
        self._line_counts = np.array(lines, np.int64)
        self._line_widths = np.repeat(np.array(widths, np.int64), self._line_counts)
        self._first_line = start - int(self._line_widths.sum())
        self._line_starts = np.cumsum(self._line_widths) - self._line_widths

    def _parameter_index(self, key: Key, names: tuple[str, ...], shape: tuple[int, ...]) -> Integers:
        """Return the parameter of one table that each cell over `names` uses; any, where a cell is missing."""
        position = np.zeros((1,) * len(shape), np.int64)
        grid = np.indices(shape, sparse=True)
        for name in self.layout.axes[key]:
            states = self.layout.graph.states[name]
            position = position * states + np.minimum(grid[names.index(name)], states - 1)
        return np.broadcast_to(position, shape).ravel() + self.layout.starts[key]

    def _flat_plan(self, nodes: Sequence[_Node]) -> kernels.CountPlan:
        states = self.layout.graph.states
        bond = np.array([math.prod(states[name] for name in node.separator) for node in nodes], np.int64)
        terms, picks, entry_counts = [], [np.zeros(0, np.int64)], []
        parent_index, term_index = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for node in nodes:
            if node.is_leaf:
                terms.append(0)
                picks.append(np.zeros(0, np.int64))
                entry_counts.append(0)
                continue
            below = {name for child in node.children for name in nodes[child].separator}
            joined = tuple(name for name in node.names if name in below)
            shape = tuple(states[name] for name in joined)
            picked = [flat_index(shape, joined, nodes[child].separator) for child in node.children]
            picks.append(np.stack(picked, axis=1).ravel() if len(picked) > 1 else np.zeros(0, np.int64))
            terms.append(math.prod(shape))
            shape = tuple(states[name] for name in node.names)
            parent_index.append(flat_index(shape, node.names, node.separator))
            term_index.append(flat_index(shape, node.names, joined))
            entry_counts.append(math.prod(shape))
        code_row = np.full(len(nodes), -1, np.int64)
        code_row[[node.is_leaf for node in nodes]] = np.arange(len(self._leaves))
        return kernels.CountPlan(
            bond=bond,
            place=np.cumsum(bond) - bond,
            code_row=code_row,
            value_start=self._value_start,
            child_start=_starts([len(node.children) for node in nodes]),
            child=np.array([child for node in nodes for child in node.children], np.int64),
            term_start=_starts(terms),
            pick_start=_starts([len(part) for part in picks])[1:-1],
            pick=np.concatenate(picks),
            entry_start=_starts(entry_counts),
            entry_parent=np.concatenate(parent_index),
            entry_term=np.concatenate(term_index),
        )

    def coded(self, codes: NDArray[Any], weights: Floats) -> CodedRows:
        """Return rows of codes, shape (rows, columns), as the leaves read them."""
        largest = int(self._line_counts.max())
        kind = np.min_scalar_type(largest - 1)
        joint = np.empty((len(self._leaves), len(codes)), kind)
        line_weights = []
        for leaf, line, lines in zip(self._leaves, joint, self._line_counts, strict=True):
            line[:] = codes[:, self.layout.graph.column(leaf.columns[0])]
            for name in leaf.columns[1:]:
                line *= kind.type(self._sizes[name])
                line += codes[:, self.layout.graph.column(name)].astype(kind)
            line_weights.append(np.bincount(line, weights, int(lines)))
        return CodedRows(joint, np.ascontiguousarray(weights, np.float64), np.concatenate(line_weights))

    def __call__(self, parameters: Floats, rows: CodedRows, threads: int = 1) -> tuple[Floats, float, int]:
        """Return the expected count of each parameter and the log-likelihood of the rows.

        Parameters
        ----------
        parameters : array
            As `TableLayout.vector` lays them out.
        rows : CodedRows
        threads : int

        Returns
        -------
        counts : array
            Weighted; they add up to the rows' weight over each table that can be learned.
        log_likelihood : float
            Weighted; -inf if a row is impossible.
        impossible : int
            A row that is impossible, or -1.
        """
        products = np.append(parameters, (1.0, 0.0))[self._parameters].prod(axis=0)
        values = products
        if len(self._sums):
            values = products + np.bincount(self._sums, products[self._addends], len(products))
        # The peak of each line of a leaf becomes about 1; its logarithm is accounted for by counting lines.
        leaves = slice(self._first_line, None)
        exponents = np.frexp(np.maximum.reduceat(values[leaves], self._line_starts))[1]
        shifts = -np.repeat(exponents, self._line_widths)
        scaled = values.copy()
        scaled[leaves] = np.ldexp(values[leaves], shifts)
        slopes, log_likelihood, impossible = self._pass(scaled, rows, threads)
        slopes[leaves] = np.ldexp(slopes[leaves], shifts)
        if len(self._sums):
            slopes += np.bincount(self._addends, slopes[self._sums], len(slopes))
        counts = np.bincount(
            self._parameters.ravel(),
            np.broadcast_to(products * slopes, self._parameters.shape).ravel(),
            self.layout.size + 2,
        )
        if impossible >= 0:
            log_likelihood = -math.inf
        log_likelihood += math.log(2.0) * float(rows.line_weights @ exponents)
        return counts[: self.layout.size], log_likelihood, impossible

    def _pass(self, values: Floats, rows: CodedRows, threads: int) -> tuple[Floats, float, int]:
        """Return what the compiled loop adds up, over parts of the rows of equal size."""
        count = len(rows.weights)
        threads = min(threads, -(-count // self._block))
        bounds = np.linspace(0, count, threads + 1).astype(int).tolist()

        def run(part: int) -> tuple[Floats, float, int]:
            slopes = np.zeros_like(values)
            buffer = np.empty((self._buffer_rows, self._block))
            total, impossible = kernels.expected(
                self._plan,
                values,
                rows.codes,
                rows.weights,
                bounds[part],
                bounds[part + 1],
                self._block,
                buffer,
                slopes,
            )
            return slopes, total, impossible

        if threads == 1:
            return run(0)
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(run, range(threads)))
        return sum(part[0] for part in done), sum(part[1] for part in done), max(part[2] for part in done)


def _starts(counts: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _learnable(graph: LatentGraph, axes: Mapping[Key, tuple[str, ...]]) -> list[Key]:
    """Return the tables that the probability of a row depends on: all but those below the last observed variable."""
    if not graph.directed:
        return list(axes)
    useful = set(graph.observed)
    stack = list(useful)
    while stack:
        found = set(graph.parents(stack.pop())) - useful
        useful |= found
        stack += found
    return [(name,) for name in graph.names if name in useful]


def _missing_sums(shape: tuple[int, ...], states: Sequence[int]) -> tuple[Integers, Integers]:
    """Return, for each cell with missing codes, itself and each cell without any that it sums over, as pairs."""
    total, part = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for size, known in zip(shape, states, strict=False):
        outer = np.arange(known)
        inner = outer
        if size > known:
            outer, inner = np.append(outer, np.full(known, known)), np.append(outer, outer)
        total = (total[:, None] * size + outer).ravel()
        part = (part[:, None] * size + inner).ravel()
    differ = total != part
    bond = math.prod(shape[len(states) :])
    within = np.arange(bond)
    return (total[differ, None] * bond + within).ravel(), (part[differ, None] * bond + within).ravel()


def _tree(
    layout: TableLayout, missing: frozenset[str], sizes: Mapping[str, int], rows: int
) -> list[_Node]:
    """Return the nodes in preorder: cliques of what is summed out, and leaves that read columns."""
    graph = layout.graph
    tables = _learnable(graph, layout.axes)
    uses: dict[str, int] = {}
    for key in tables:
        for name in layout.axes[key]:
            uses[name] = uses.get(name, 0) + 1
    observed = set(graph.observed)
    shared = [name for name in graph.observed if name in missing and uses[name] > 1]
    summed = {name for name in uses if name not in observed} | set(shared)
    families = {key: tuple(name for name in layout.axes[key] if name in summed) for key in tables}
    cliques, parents = _cliques(graph, families.values())
    placed = homes(cliques, [family for family in families.values() if family])
    home = dict(zip((key for key in tables if families[key]), placed, strict=True))
    nodes = []
    for clique, parent in zip(cliques, parents, strict=True):
        above = set(cliques[parent]) if parent >= 0 else set()
        nodes.append(_Node(clique, tuple(name for name in clique if name in above)))
    leaves: dict[tuple[int, tuple[str, ...]], list[_Node]] = {}
    for key in tables:
        place = home.get(key, 0)
        columns = tuple(name for name in layout.axes[key] if name not in summed)
        if not columns:
            nodes[place].tables.append(key)
            continue
        bond = tuple(name for name in nodes[place].names if name in families[key])
        leaves.setdefault((place, bond), []).append(_Node(bond, bond, [key], columns))
    for i, parent in enumerate(parents):
        if parent >= 0:
            nodes[parent].children.append(i)
    for (place, _), parts in leaves.items():
        for leaf in _joined(parts, sizes, graph.states, rows):
            nodes[place].children.append(len(nodes))
            nodes.append(leaf)
    for name, place in zip(shared, homes(cliques, [(name,) for name in shared]), strict=True):
        nodes[place].children.append(len(nodes))
        nodes.append(_Node((name,), (name,), [], (name,)))
    _limit_children(nodes, graph)
    return _preorder(nodes)


def _cliques(
    graph: LatentGraph, families: Iterable[tuple[str, ...]]
) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return a junction tree over what is summed out: its cliques, and the parent of each but the first."""
    states: dict[str, int] = {}
    edges: dict[tuple[str, str], None] = {}
    for family in families:
        states |= {name: graph.states[name] for name in family}
        edges |= {(min(pair), max(pair)): None for pair in combinations(family, 2)}
    if not states:
        return [()], [-1]
    tree = JunctionTree.build(LatentGraph(states, edges, directed=False))
    # Independent parts join at an empty separator.
    return list(tree.cliques), [parent if parent >= 0 or i == 0 else 0 for i, parent in enumerate(tree.clique_parents)]


def _joined(parts: list[_Node], sizes: Mapping[str, int], states: Mapping[str, int], rows: int) -> list[_Node]:
    """Return leaves on one bond with neighbours joined into one look-up, while the table stays small."""
    joined: list[_Node] = []
    for part in parts:
        if joined:
            last = joined[-1]
            columns = tuple(dict.fromkeys(last.columns + part.columns))
            codes = math.prod(sizes[name] for name in columns)
            values = codes * math.prod(states[name] for name in part.names)
            if codes <= JOINED_CODES and values <= min(JOINED_VALUES, rows // 4):
                joined[-1] = _Node(last.names, last.names, last.tables + part.tables, columns)
                continue
        joined.append(part)
    return joined


def _limit_children(nodes: list[_Node], graph: LatentGraph) -> None:
    """Put nodes without tables between a clique and its children where these are many."""
    for i in range(len(nodes)):
        while len(nodes[i].children) > MOST_CHILDREN:
            grouped = []
            for first in range(0, len(nodes[i].children), MOST_CHILDREN):
                part = nodes[i].children[first : first + MOST_CHILDREN]
                below = {name for child in part for name in nodes[child].separator}
                names = tuple(name for name in nodes[i].names if name in below)
                grouped.append(len(nodes))
                nodes.append(_Node(names, names, [], (), part))
            nodes[i].children = grouped


def _preorder(nodes: list[_Node]) -> list[_Node]:
    order = []
    stack = [0]
    while stack:
        i = stack.pop()
        order.append(i)
        stack.extend(reversed(nodes[i].children))
    number = {i: new for new, i in enumerate(order)}
    for node in nodes:
        node.children = [number[child] for child in node.children]
    return [nodes[i] for i in order]
