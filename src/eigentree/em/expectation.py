"""Expected counts: how often each cell of each table of a network was used, given rows with hidden variables.

This is the E-step of EM. Hidden variables are joined into cliques as usual, but observed variables are not: a
table with an observed variable becomes a leaf that reads the row's code, so separators stay as small as the hidden
part of the graph. Only an observed variable that is sometimes missing *and* stands in several tables has to be
summed out like a hidden one.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.engine.tables import flat_index, homes, table_axes
from eigentree.exact.network import LatentNetwork
from eigentree.kernels import expected as expected_kernels
from eigentree.structures.graph import LatentGraph
from eigentree.structures.junction_tree import JunctionTree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Key = tuple[str, ...]

CACHE_BYTES = 1024 * 1024
"""What the messages of one block of rows may take; loops over fewer rows cost more than a miss of the cache."""

MOST_CHILDREN = 8
"""Messages are scaled once a node, so a product of too many of them could underflow."""

UNSCALED = 8
"""How many inner nodes multiply their messages before these are brought back into range."""

JOINED_CODES = 256
JOINED_VALUES = 1024
"""Largest leaf that is made by joining smaller ones: codes fit a byte, the table a quarter of the first cache."""


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
    """A node of the tree: a clique with tables, or a leaf that reads columns.

    Attributes
    ----------
    parts : four tuples of str
        The names of a clique: those that both its parent and its children see, only its parent, only its children,
        and neither.
    joined : tuple of str
        What the children of a clique see.
    in_place : bool
        Whether the products of the children's messages take the place of the first child's message.
    """

    names: tuple[str, ...]
    separator: tuple[str, ...]
    tables: list[Key] = field(default_factory=list)
    columns: tuple[str, ...] = ()
    children: list[int] = field(default_factory=list)
    parts: tuple[tuple[str, ...], ...] = ((), (), (), ())
    joined: tuple[str, ...] = ()
    in_place: bool = False

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
        self._nodes = _tree(layout, self.missing, self._sizes, rows)
        self._leaves = [node for node in self._nodes if node.is_leaf]
        self._lay_out_values()
        self._plan, self._lines = self._flat_plan(UNSCALED)

    @cached_property
    def _careful(self) -> tuple[expected_kernels.BlockTree, int]:
        """The plan for rows that are too unlikely for the usual one: every node brings its message into range."""
        return self._flat_plan(1)

    def _lay_out_values(self) -> None:
        """Lay out cells and values, cliques first and then leaves, and say what each is made of.

        A cell is a product of parameters. A value is a sum of cells: over the states of a missing cell, or over a
        variable that is nowhere but in this clique.
        """
        parts: list[Integers] = []
        values: list[Integers] = []
        cells: list[Integers] = []
        transposed: list[Integers] = []
        line_counts: list[int] = []
        line_widths: list[int] = []
        depth = max(1, *(len(node.tables) for node in self._nodes))
        states = self.layout.graph.states
        self._value_start = np.zeros(len(self._nodes), np.int64)
        first_value = first_cell = 0
        for i in sorted(range(len(self._nodes)), key=lambda i: self._nodes[i].is_leaf):
            node = self._nodes[i]
            bond = math.prod(states[name] for name in node.separator)
            if node.is_leaf:
                index, value, cell = self._leaf_cells(node, depth)
                count = math.prod(self._sizes[name] for name in node.columns)
                line_counts.append(count)
                line_widths.append(bond)
                transposed.append(np.arange(count * bond) + first_value)
                count *= bond
            else:
                shape = tuple(states[name] for name in node.names)
                index = self._parameters_of(node, node.names, shape, depth)
                cell = np.arange(index.shape[1])
                blocks, rows, columns = (math.prod(states[name] for name in part) for part in node.parts[:3])
                count = blocks * rows * columns
                value = cell // (len(cell) // count)
                order = np.arange(count).reshape(blocks, rows, columns).transpose(0, 2, 1)
                transposed.append(order.ravel() + first_value)
            parts.append(index)
            values.append(value + first_value)
            cells.append(cell + first_cell)
            self._value_start[i] = first_value
            first_value += count
            first_cell += index.shape[1]
        self._parameters = np.ascontiguousarray(np.concatenate(parts, axis=1))
        self._value_of, self._cell_of = np.concatenate(values), np.concatenate(cells)
        self._value_count, self._cell_count = first_value, first_cell
        self._transposed = np.concatenate(transposed)
        self._line_counts = np.array(line_counts, np.int64)
        self._line_widths = np.repeat(np.array(line_widths, np.int64), self._line_counts)
        self._line_starts = np.cumsum(self._line_widths) - self._line_widths
        self._leaf_values = slice(first_value - int(self._line_widths.sum()), None)
        # Without sums, cells and values are the same.
        self._summed = len(self._value_of) > first_cell or first_cell != first_value

    def _leaf_cells(self, node: _Node, depth: int) -> tuple[Integers, Integers, Integers]:
        """Return the parameters of each cell of a leaf, and pairs of a value and a cell that it sums."""
        states = self.layout.graph.states
        known = tuple(states[name] for name in node.columns)
        bond = tuple(states[name] for name in node.names)
        if not node.tables:
            # The leaf only says which state was seen; none, where the cell is missing.
            one, zero = self.layout.size, self.layout.size + 1
            code, state = np.indices((known[0] + 1, known[0]))
            index = np.full((depth, code.size), one)
            index[0] = np.where((code == state) | (code == known[0]), one, zero).ravel()
            return index, np.arange(code.size), np.arange(code.size)
        index = self._parameters_of(node, node.columns + node.names, known + bond, depth)
        value, cell = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for name, count in zip(node.columns, known, strict=True):
            code, state = np.arange(count), np.arange(count)
            if name in self.missing:
                code, state = np.append(code, np.full(count, count)), np.append(state, state)
            value = (value[:, None] * self._sizes[name] + code).ravel()
            cell = (cell[:, None] * count + state).ravel()
        within = np.arange(math.prod(bond))
        return (
            index,
            (value[:, None] * len(within) + within).ravel(),
            (cell[:, None] * len(within) + within).ravel(),
        )

    def _parameters_of(self, node: _Node, names: tuple[str, ...], shape: tuple[int, ...], depth: int) -> Integers:
        """Return which parameter of each of the node's tables each cell over `names` multiplies."""
        index = np.full((depth, math.prod(shape)), self.layout.size, np.int64)
        for k, key in enumerate(node.tables):
            index[k] = flat_index(shape, names, self.layout.axes[key]) + self.layout.starts[key]
        return index

    def _flat_plan(self, unscaled: int) -> tuple[expected_kernels.BlockTree, int]:
        """Return the plan, and how many lines its messages take."""
        nodes, states = self._nodes, self.layout.graph.states

        def size(names: Iterable[str]) -> int:
            return math.prod(states[name] for name in names)

        bond = [size(node.separator) for node in nodes]
        terms = [1 if node.is_leaf else size(node.joined) for node in nodes]
        message = _starts(bond)
        end = int(message[-1])
        product = np.zeros(len(nodes), np.int64)
        for i, node in enumerate(nodes):
            if node.in_place:
                product[i] = message[node.children[0]]
            elif node.children:
                product[i] = end
                end += terms[i]
        outside, end = _reused_places(nodes, bond, end)
        factor = np.full(len(nodes), -1, np.int64)
        for i in _scaling_nodes(nodes, unscaled):
            factor[i] = end
            end += 1
        ones, down, share, spare, end = np.cumsum([end, 1, max(terms), max(bond), 1]).tolist()
        product[[not node.is_leaf and not node.children for node in nodes]] = ones
        picks: dict[tuple[tuple[str, ...], tuple[str, ...]], Integers] = {}
        pick_start: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        for node in nodes:
            for child in node.children:
                key = (node.joined, nodes[child].separator)
                pick_start.append(key)
                if key not in picks:
                    index = flat_index(tuple(states[name] for name in node.joined), *key)
                    picks[key] = np.concatenate([index, np.argsort(index, kind="stable")])
        starts = dict(zip(picks, _starts([len(part) for part in picks.values()]).tolist(), strict=False))
        rows: list[Integers] = []
        columns: list[Integers] = []
        for node in nodes:
            shared, up, below, _ = node.parts
            for names, target, lists in (
                (shared + up, node.separator, rows),
                (shared + below, node.joined, columns),
            ):
                shape = tuple(states[name] for name in names)
                lists.append(np.zeros(0, np.int64) if node.is_leaf else flat_index(shape, names, target))
        code_row = np.full(len(nodes), -1, np.int64)
        code_row[[node.is_leaf for node in nodes]] = np.arange(len(self._leaves))
        plan = expected_kernels.BlockTree(
            bond=np.array(bond, np.int64),
            message=message[:-1],
            outside=outside,
            product=product,
            terms=np.array(terms, np.int64),
            factor=factor,
            ones=np.array([ones]),
            down=np.array([down]),
            share=np.array([share]),
            spare=np.array([spare]),
            code_row=code_row,
            value_start=self._value_start,
            child_start=_starts([len(node.children) for node in nodes]),
            child=np.array([child for node in nodes for child in node.children], np.int64),
            pick_start=np.array([starts[key] for key in pick_start], np.int64),
            pick=np.concatenate([*picks.values(), np.zeros(0, np.int64)]),
            blocks=np.array([size(node.parts[0]) for node in nodes], np.int64),
            rows=np.array([size(node.parts[1]) for node in nodes], np.int64),
            columns=np.array([size(node.parts[2]) for node in nodes], np.int64),
            row_start=_starts([len(part) for part in rows])[:-1],
            row=np.concatenate(rows),
            column_start=_starts([len(part) for part in columns])[:-1],
            column=np.concatenate(columns),
        )
        return plan, end

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

    def part(self, rows: CodedRows, start: int, stop: int) -> CodedRows:
        """Return some consecutive rows."""
        codes = np.ascontiguousarray(rows.codes[:, start:stop])
        weights = rows.weights[start:stop]
        first_lines = np.cumsum(self._line_counts) - self._line_counts
        lines = codes + first_lines[:, None]
        return CodedRows(
            codes,
            weights,
            _totals(lines.ravel(), np.broadcast_to(weights, lines.shape).ravel(), int(self._line_counts.sum())),
        )

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
        cells = np.append(parameters, (1.0, 0.0))[self._parameters].prod(axis=0)
        values = _totals(self._value_of, cells[self._cell_of], self._value_count) if self._summed else cells
        # The peak of each line of a leaf becomes about 1; its logarithm is accounted for by counting lines.
        leaves = self._leaf_values
        exponents = np.frexp(np.maximum.reduceat(values[leaves], self._line_starts))[1]
        scaled = values.copy()
        scaled[leaves] = np.ldexp(values[leaves], -np.repeat(exponents, self._line_widths))
        sums, log_likelihood, impossible = self._pass(self._plan, self._lines, scaled, rows, threads)
        if impossible >= 0:
            sums, log_likelihood, impossible = self._pass(*self._careful, scaled, rows, threads)
        sums[: leaves.start] *= values[: leaves.start]
        if self._summed:
            total = values[self._value_of]
            share = np.divide(cells[self._cell_of], total, out=np.zeros_like(total), where=total > 0)
            sums = _totals(self._cell_of, sums[self._value_of] * share, self._cell_count)
        counts = _totals(
            self._parameters.ravel(),
            np.broadcast_to(sums, self._parameters.shape).ravel(),
            self.layout.size + 2,
        )
        log_likelihood += math.log(2.0) * float(rows.line_weights @ exponents)
        return counts[: self.layout.size], log_likelihood if impossible < 0 else -math.inf, impossible

    def _pass(
        self, plan: expected_kernels.BlockTree, lines: int, values: Floats, rows: CodedRows, threads: int
    ) -> tuple[Floats, float, int]:
        """Return what the compiled loop adds up over all rows."""
        count = len(rows.weights)
        # An odd number of cache lines, so that the lines of messages do not all fall into the same few places.
        block = int(np.clip(CACHE_BYTES // (8 * lines), 80, 1024)) // 16 * 16 - 8
        transposed = values[self._transposed]
        threads = min(threads, -(-count // block))
        bounds = np.linspace(0, count, threads + 1).astype(int).tolist()

        def run(part: int) -> tuple[Floats, float, int]:
            sums = np.zeros((expected_kernels.COPIES, len(values)))
            start, stop = bounds[part], bounds[part + 1]
            buffer = np.empty((lines, min(block, stop - start)))
            total, impossible = expected_kernels.expected(
                plan, values, transposed, rows.codes, rows.weights, start, stop, buffer, sums
            )
            return sums.sum(axis=0), total, impossible

        if threads == 1:
            return run(0)
        with ThreadPoolExecutor(threads) as pool:
            done = list(pool.map(run, range(threads)))
        counts = np.sum([part[0] for part in done], axis=0)
        return counts, sum(part[1] for part in done), max(part[2] for part in done)


def _totals(index: Integers, weights: Floats, size: int) -> Floats:
    return np.bincount(index, weights, size).astype(np.float64, copy=False)


def _starts(counts: Sequence[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _reused_places(nodes: Sequence[_Node], bond: Sequence[int], start: int) -> tuple[Integers, int]:
    """Return the lines of the message down to each inner node, and the end of them all.

    Lines are free again once the node has sent its message on.
    """
    places = np.full(len(nodes), start, np.int64)
    free: list[tuple[int, int]] = []
    end = start + bond[0]
    for i, node in enumerate(nodes):
        if node.is_leaf:
            continue
        for child in node.children:
            if nodes[child].is_leaf:
                continue
            fitting = min((gap for gap in free if gap[1] >= bond[child]), default=(end, bond[child]))
            places[child] = fitting[0]
            if fitting[0] == end:
                end += bond[child]
            else:
                free.remove(fitting)
                if fitting[1] > bond[child]:
                    free.append((fitting[0] + bond[child], fitting[1] - bond[child]))
        free.append((int(places[i]), bond[i]))
    return places, end


def _scaling_nodes(nodes: Sequence[_Node], unscaled: int) -> list[int]:
    """Return the nodes that have to bring their message back into range, the root among them."""
    found = []
    pending = [0] * len(nodes)
    for i in reversed(range(len(nodes))):
        if nodes[i].is_leaf:
            continue
        pending[i] = 1 + sum(pending[child] for child in nodes[i].children)
        if pending[i] >= unscaled or i == 0:
            pending[i] = 0
            found.append(i)
    return found


def _learnable(graph: LatentGraph, axes: Mapping[Key, tuple[str, ...]]) -> list[Key]:
    """Return the tables that the probability of a row depends on: of observed variables and their ancestors."""
    if not graph.directed:
        return list(axes)
    useful = set(graph.observed)
    stack = list(useful)
    while stack:
        found = set(graph.parents(stack.pop())) - useful
        useful |= found
        stack += found
    return [(name,) for name in graph.names if name in useful]


def _tree(layout: TableLayout, missing: frozenset[str], sizes: Mapping[str, int], rows: int) -> list[_Node]:
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
    leaves: dict[int, list[_Node]] = {}
    for key in tables:
        place = home.get(key, 0)
        columns = tuple(name for name in layout.axes[key] if name not in summed)
        if not columns:
            nodes[place].tables.append(key)
            continue
        bond = tuple(name for name in nodes[place].names if name in families[key])
        leaves.setdefault(place, []).append(_Node(bond, bond, [key], columns))
    for i, parent in enumerate(parents):
        if parent >= 0:
            nodes[parent].children.append(i)
    for place, parts in leaves.items():
        for leaf in _joined(parts, sizes, graph.states, rows):
            nodes[place].children.append(len(nodes))
            nodes.append(leaf)
    for name, place in zip(shared, homes(cliques, [(name,) for name in shared]), strict=True):
        nodes[place].children.append(len(nodes))
        nodes.append(_Node((name,), (name,), [], (name,)))
    _limit_children(nodes)
    for node in nodes:
        _shape(node, nodes)
    return _preorder(nodes)


def _cliques(graph: LatentGraph, families: Iterable[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return a junction tree over what is summed out: its cliques, and the parent of each but the first."""
    states: dict[str, int] = {}
    edges: dict[tuple[str, str], None] = {}
    for family in families:
        states |= {name: graph.states[name] for name in family}
        edges |= {(min(pair), max(pair)): None for pair in combinations(family, 2)}
    if not states:
        return [()], [-1]
    tree = JunctionTree.build(LatentGraph(states, edges, directed=False))
    return _fewer_cliques(tree, states)


def _fewer_cliques(tree: JunctionTree, states: Mapping[str, int]) -> tuple[list[tuple[str, ...]], list[int]]:
    """Return the cliques of a tree with children put into their parents where that adds no work."""
    cliques = list(tree.cliques)
    # Independent parts join at an empty separator.
    parents = [parent if parent >= 0 or i == 0 else 0 for i, parent in enumerate(tree.clique_parents)]

    def size(names: Iterable[str]) -> int:
        return math.prod(states[name] for name in names)

    into = list(range(len(cliques)))
    for i in reversed(range(1, len(cliques))):
        union = tuple(dict.fromkeys(cliques[parents[i]] + cliques[i]))
        if size(union) <= size(cliques[parents[i]]) + size(cliques[i]):
            cliques[parents[i]] = union
            into[i] = parents[i]
    kept = [i for i, target in enumerate(into) if target == i]
    for i in range(len(cliques)):
        into[i] = into[into[i]]
    number = {i: new for new, i in enumerate(kept)}
    return [cliques[i] for i in kept], [number[into[parents[i]]] if i else -1 for i in kept]


def _joined(parts: list[_Node], sizes: Mapping[str, int], states: Mapping[str, int], rows: int) -> list[_Node]:
    """Return the leaves of a clique, joined into one look-up where that adds no work and the table is small."""

    def size(names: Iterable[str]) -> int:
        return math.prod(states[name] for name in names)

    joined: list[_Node] = []
    for part in sorted(parts, key=lambda part: part.names):
        if joined:
            last = joined[-1]
            bond = tuple(dict.fromkeys(last.names + part.names))
            columns = tuple(dict.fromkeys(last.columns + part.columns))
            codes = math.prod(sizes[name] for name in columns)
            small = codes <= JOINED_CODES and codes * size(bond) <= min(JOINED_VALUES, rows // 4)
            if small and size(bond) <= size(last.names) + size(part.names):
                joined[-1] = _Node(bond, bond, last.tables + part.tables, columns)
                continue
        joined.append(part)
    return joined


def _limit_children(nodes: list[_Node]) -> None:
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


def _shape(node: _Node, nodes: Sequence[_Node]) -> None:
    """Order the children and the names of a clique in the way that its messages are joined."""
    if node.is_leaf:
        return
    below = {name for child in node.children for name in nodes[child].separator}
    node.joined = tuple(name for name in node.names if name in below)
    # Inner children first, and among them one that sees all that is joined.
    node.children.sort(key=lambda child: (nodes[child].is_leaf, len(nodes[child].separator) < len(below)))
    if node.children:
        first = nodes[node.children[0]]
        others_are_leaves = all(nodes[child].is_leaf for child in node.children[1:])
        node.in_place = others_are_leaves and len(first.separator) == len(below)
        if node.in_place:
            node.joined = first.separator
    above, seen = set(node.separator), set(node.joined)
    node.parts = (
        tuple(name for name in node.joined if name in above),
        tuple(name for name in node.separator if name not in seen),
        tuple(name for name in node.joined if name not in above),
        tuple(name for name in node.names if name not in above and name not in seen),
    )
    node.names = tuple(name for part in node.parts for name in part)


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
