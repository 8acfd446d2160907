"""The values of a tree of cliques and leaves: made of the parameters of all tables, and counted back to them.

A cell is a product of parameters. A value is a sum of cells: over the states of a missing cell, or over a variable
that is nowhere but in this clique. Both are maps of indices, kept as flat arrays, so that an iteration of EM runs
no loop over nodes in Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from eigentree.em.estep.cliques import Clique, Leaf, joint_size
from eigentree.inference.tensors.named_tables import flat_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from eigentree.arrays import Floats, Integers
    from eigentree.em.estep.cliques import Names, Node, Skeleton
    from eigentree.em.parameters import ParameterLayout

__all__ = ["ValueLayout", "Values", "totals"]

NodePart: TypeAlias = "tuple[Integers, Integers, Integers, int]"
"""What one node contributes to the parameters, values and cells of a `ValueLayout`, and how many values it has."""

LOWEST_EXPONENT = np.finfo(np.float64).minexp
"""The inverse of a smaller power of two overflows; what is left of it is left in the line."""


class Values(NamedTuple):
    """The values that some parameters give.

    Those of leaves are in `values` only where some value is a sum of cells: else they are not needed. In `scaled`
    they are brought into range: the peak of each line of a leaf is about 1, and `exponents` are the powers of two
    that this took out of the lines.
    """

    cells: Floats
    values: Floats
    scaled: Floats
    exponents: Integers


@dataclass(frozen=True, eq=False)
class ValueLayout:
    """Which parameters each value of each node is made of; the values of cliques stand before those of leaves.

    Each cell multiplies a column of `parameters`, shape (tables, cells); beyond the last parameter stand a 1 and a
    0. Each pair of `value` and `cell` says that the value sums the cell. There are `size` values;
    `starts` is where those of each node start. Each leaf has one line for each of its codes: there are
    `line_counts` of them, of `line_widths` values.
    """

    layout: ParameterLayout
    parameters: Integers
    value: Integers
    cell: Integers
    size: int
    starts: Integers
    line_counts: Integers
    line_widths: Integers

    @classmethod
    def of(cls, skeleton: Skeleton, nodes: Sequence[Node]) -> ValueLayout:
        """Return the layout of a tree."""
        order = sorted(range(len(nodes)), key=lambda i: isinstance(nodes[i], Leaf))
        depth = max(1, *(len(node.tables) for node in nodes))
        # Each node counts its own cells and values from 0.
        parts = [_part(skeleton, nodes[i], depth) for i in order]
        parameters, value, cell, sizes = (list(each) for each in zip(*parts, strict=True))
        values, cells = _starts(sizes), _starts(index.shape[1] for index in parameters)
        leaves = [node for node in nodes if isinstance(node, Leaf)]
        counts = np.array([_codes(skeleton, leaf) for leaf in leaves], np.int64)
        states = skeleton.layout.graph.states
        widths = [joint_size(leaf.separator, states) for leaf in leaves]
        starts = np.zeros(len(nodes), np.int64)
        starts[order] = values[:-1]
        return cls(
            layout=skeleton.layout,
            parameters=np.ascontiguousarray(np.concatenate(parameters, axis=1)),
            value=_shifted(value, values),
            cell=_shifted(cell, cells),
            size=int(values[-1]),
            starts=starts,
            line_counts=counts,
            line_widths=np.repeat(np.array(widths, np.int64), counts),
        )

    def filled(self, parameters: Floats) -> Values:
        """Return the values that some parameters give."""
        extended = np.append(parameters, (1.0, 0.0))
        cells = extended.take(self.parameters[0])
        for places, index in self._factors:
            cells[places] *= extended.take(index)
        # Without sums, only cells of cliques are needed again, and these are not scaled.
        values = totals(self.value, cells[self.cell], self.size) if self._summed else cells
        scaled = values.copy() if self._summed else values
        leaves = scaled[self.first_leaf :]
        exponents = np.maximum(np.frexp(np.maximum.reduceat(leaves, self._line_starts))[1], LOWEST_EXPONENT)
        leaves *= np.repeat(np.ldexp(1.0, -exponents), self.line_widths)
        return Values(cells, values, scaled, exponents)

    def counted(self, filled: Values, sums: Floats) -> Floats:
        """Return the expected count of each parameter.

        Given are, for a leaf, the expected counts of its values; for a clique, what becomes so when multiplied by
        its values.
        """
        sums = sums.copy()
        sums[: self.first_leaf] *= filled.values[: self.first_leaf]
        if self._summed:
            total = filled.values[self.value]
            share = np.divide(filled.cells[self.cell], total, out=np.zeros_like(total), where=total > 0)
            sums = totals(self.cell, sums[self.value] * share, len(filled.cells))
        only, others, cells, places = self._uses
        counts = sums.take(only)
        counts[others] = totals(places, sums.take(cells), len(others))
        return counts

    @cached_property
    def _factors(self) -> list[tuple[Integers, Integers]]:
        """The cells that multiply a second parameter and that one, those with a third and that, and so on."""
        further = [(np.flatnonzero(index != self.layout.size), index) for index in self.parameters[1:]]
        return [(places, index[places]) for places, index in further if len(places)]

    @cached_property
    def _uses(self) -> tuple[Integers, Integers, Integers, Integers]:
        """The cell of each parameter that has one; other parameters; all cells of these, and whose each is."""
        table, cell = np.nonzero(self.parameters < self.layout.size)
        parameter = self.parameters[table, cell]
        often = np.bincount(parameter, minlength=self.layout.size) != 1
        cells = np.zeros(self.layout.size, np.int64)
        cells[parameter] = cell
        several, again = often[parameter], np.flatnonzero(often)
        return cells, again, cell[several], np.searchsorted(again, parameter[several])

    @cached_property
    def line_starts(self) -> Integers:
        """Where the lines of each leaf start, counted in lines."""
        return np.cumsum(self.line_counts) - self.line_counts

    @cached_property
    def _line_starts(self) -> Integers:
        """Where each line starts, counted in values of leaves."""
        return np.cumsum(self.line_widths) - self.line_widths

    @cached_property
    def first_leaf(self) -> int:
        """Where the values of leaves start."""
        return self.size - int(self.line_widths.sum())

    @cached_property
    def _summed(self) -> bool:
        """Whether any value is a sum; without sums, cells and values are the same."""
        cells = self.parameters.shape[1]
        return bool(len(self.value) > cells or cells != self.size)


def totals(index: Integers, weights: Floats, size: int) -> Floats:
    """Return the sum of the weights at each index."""
    return np.bincount(index, weights, size).astype(np.float64, copy=False)


def _part(skeleton: Skeleton, node: Node, depth: int) -> NodePart:
    if isinstance(node, Clique):
        return _clique_part(skeleton.layout, node, depth)
    if not node.tables:
        return _mark_part(skeleton.layout, node, depth)
    return _leaf_part(skeleton, node, depth)


def _clique_part(layout: ParameterLayout, node: Clique, depth: int) -> NodePart:
    states = layout.graph.states
    parameters = _parameters(layout, node, node.names, depth)
    cell = np.arange(parameters.shape[1])
    count = joint_size(node.both + node.above + node.below, states)
    return parameters, cell // (len(cell) // count), cell, count


def _mark_part(layout: ParameterLayout, node: Leaf, depth: int) -> NodePart:
    """Return the part of a leaf that only says which state was seen; none, where the cell is missing."""
    one, zero = layout.size, layout.size + 1
    states = layout.graph.states[node.columns[0]]
    code, state = np.indices((states + 1, states))
    parameters = np.full((depth, code.size), one)
    parameters[0] = np.where((code == state) | (code == states), one, zero).ravel()
    every = np.arange(code.size)
    return parameters, every, every, len(every)


def _leaf_part(skeleton: Skeleton, node: Leaf, depth: int) -> NodePart:
    states = skeleton.layout.graph.states
    parameters = _parameters(skeleton.layout, node, node.columns + node.separator, depth)
    value, cell = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for name in node.columns:
        count = states[name]
        code, state = np.arange(count), np.arange(count)
        if name in skeleton.missing:
            code, state = np.append(code, np.full(count, count)), np.append(state, state)
        value = (value[:, None] * skeleton.codes(name) + code).ravel()
        cell = (cell[:, None] * count + state).ravel()
    bond = joint_size(node.separator, states)
    within = np.arange(bond)
    value, cell = ((index[:, None] * bond + within).ravel() for index in (value, cell))
    return parameters, value, cell, _codes(skeleton, node) * bond


def _parameters(layout: ParameterLayout, node: Node, names: Names, depth: int) -> Integers:
    """Return which parameter of each of the node's tables each cell over `names` multiplies."""
    shape = tuple(layout.graph.states[name] for name in names)
    index = np.full((depth, math.prod(shape)), layout.size, np.int64)
    for k, key in enumerate(node.tables):
        index[k] = flat_index(shape, names, layout.axes[key]) + layout.starts[key]
    return index


def _codes(skeleton: Skeleton, leaf: Leaf) -> int:
    return math.prod(map(skeleton.codes, leaf.columns))


def _starts(counts: Iterable[int]) -> Integers:
    """Return where each of some consecutive parts starts, and where the last one ends."""
    return np.cumsum([0, *counts])


def _shifted(parts: Sequence[Integers], starts: Integers) -> Integers:
    """Return indices that each count from 0 as one list that counts through."""
    return np.concatenate([part + start for part, start in zip(parts, starts.tolist(), strict=False)])
