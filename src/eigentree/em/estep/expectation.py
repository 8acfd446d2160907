"""Expected counts: how often each cell of each table of a network was used, given rows with hidden variables.

This is the E-step of EM. An `Expectation` is made for a graph, for the columns that may have missing cells, and
for about so many rows. It turns parameters into the values of its nodes (`values`), passes rows through them
(`core.trees.estep`), and turns what was summed up into counts.

It has a tree and a pass of its own because it needs less than queries do, and passes the same rows again and again:
probabilities have no sign, observed variables need not be joined into cliques, and a sum over all rows is wanted,
not a result per row. `core.trees.estep` says what that gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.em.estep.clique_values import ValueLayout, totals
from eigentree.em.estep.cliques import UNSCALED, Leaf, Skeleton
from eigentree.em.estep.row_passes import UNSCALED_SINGLE, Passage, SectionedRows, SectionedTree, Sums
from eigentree.em.estep.row_sharing import Sectioning, TreeSection
from eigentree.em.optimize.objective import ExpectedCounts
from eigentree.inference.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from eigentree.arrays import Codes, Floats
    from eigentree.em.estep.clique_values import Values
    from eigentree.em.estep.cliques import Node
    from eigentree.em.parameters import ParameterLayout
    from eigentree.graphs.graph import LatentGraph

__all__ = ["CodedRows", "Expectation"]

LEAST_WORK = 500_000
"""Rows times values of cliques from which on sections are worth their making; less is passed in a millisecond."""


class CodedRows(NamedTuple):
    """Rows as the leaves of an `Expectation` read them: codes have the shape (leaves, rows).

    `line_weights` are the total weights of the rows that read each line of each leaf; `sectioned` are the rows of
    each section, if they are to be passed again and again, and sections save work.
    """

    codes: Codes
    weights: Floats
    line_weights: Floats
    sectioned: SectionedRows | None = None


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected counts of all tables of a graph, with everything prepared that does not depend on parameters."""

    skeleton: Skeleton
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, graph: LatentGraph, missing: Iterable[str] = (), rows: int = 1_000_000) -> Expectation:
        """Return the expectation for a graph, which remembers it, and the columns that may have missing cells.

        About so many `rows` will be counted at a time; leaves are only joined where that pays.
        """
        skeleton = Skeleton.of(graph, frozenset(missing))
        # Many numbers of rows lead to the same few ways of joining leaves.
        return graph.derived(_expectation, skeleton.missing, skeleton.joined(rows))

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.skeleton.layout

    @cached_property
    def _values(self) -> ValueLayout:
        return ValueLayout.of(self.skeleton, self.nodes)

    @cached_property
    def _tree(self) -> SectionedTree:
        """The tree in one section."""
        whole = TreeSection(self.nodes, tuple(range(len(self.nodes))))
        sectioning = Sectioning(self.nodes, tuple(self._values.line_counts.tolist()), (whole,))
        return SectionedTree(sectioning, self._values.starts.tolist(), self.layout.graph.states)

    def leaf_codes(self, codes: Codes) -> Codes:
        """Return rows of codes, shape (rows, columns), as one line of codes for each leaf."""
        graph = self.layout.graph
        joint = np.empty((len(self._leaves), len(codes)), self.code_type)
        for leaf, line in zip(self._leaves, joint, strict=True):
            line[:] = codes[:, graph.column(leaf.columns[0])]
            for name in leaf.columns[1:]:
                line *= self.code_type.type(self.skeleton.codes(name))
                line += codes[:, graph.column(name)].astype(self.code_type)
        return joint

    def line_weights(self, joint: Codes, weights: Floats) -> Floats:
        """Return the total weight of the rows that read each line of each leaf, given what leaves read."""
        counts = self._values.line_counts.tolist()
        return np.concatenate(
            [np.bincount(line, weights, count) for line, count in zip(joint, counts, strict=True)]
        )

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The type of what leaves read."""
        # Two bytes for nearly all data: they cost no time beside one.
        largest = int(self._values.line_counts.max()) - 1
        return np.result_type(np.uint16, np.min_scalar_type(largest))

    @property
    def line_count(self) -> int:
        """How many lines all leaves have together."""
        return len(self._values.line_widths)

    @cached_property
    def _leaves(self) -> list[Leaf]:
        return [node for node in self.nodes if isinstance(node, Leaf)]

    def coded(self, codes: Codes, weights: Floats, often: bool = False) -> CodedRows:
        """Return rows of codes, shape (rows, columns), as the leaves read them.

        `often` says whether they will be passed again and again.
        """
        joint, weights = self.leaf_codes(codes), np.ascontiguousarray(weights, np.float64)
        rows = CodedRows(joint, weights, self.line_weights(joint, weights))
        if not often or not self._is_worth_sections(len(weights)):
            return rows
        found = self._sectioned(rows, (0, len(weights)))
        return rows._replace(sectioned=found[0] if found else None)

    def batches_of(self, rows: CodedRows, bounds: Sequence[int], often: bool = False) -> list[CodedRows]:
        """Return consecutive rows in batches, given the bounds of these; `often` as for `coded`."""
        batches = [self.part(rows, start, stop) for start, stop in pairwise(bounds)]
        if not often or not self._is_worth_sections(len(rows.weights)):
            return batches
        found = self._sectioned(rows, bounds)
        if not found:
            return batches
        return [batch._replace(sectioned=own) for batch, own in zip(batches, found, strict=True)]

    def _is_worth_sections(self, rows: int) -> bool:
        return rows * self._values.first_leaf >= LEAST_WORK

    def _sectioned(self, rows: CodedRows, bounds: Sequence[int]) -> tuple[SectionedRows, ...]:
        states = self.layout.graph.states
        return SectionedRows.parts(self.nodes, self._values, states, rows.codes, rows.weights, bounds)

    def part(self, rows: CodedRows, start: int, stop: int) -> CodedRows:
        """Return some consecutive rows."""
        codes = np.ascontiguousarray(rows.codes[:, start:stop])
        weights = rows.weights[start:stop]
        lines = codes + self._values.line_starts[:, None]
        repeated = np.broadcast_to(weights, lines.shape)
        return CodedRows(codes, weights, totals(lines.ravel(), repeated.ravel(), self.line_count))

    def __call__(
        self, parameters: Floats, rows: CodedRows, threads: int = 1, single: bool = False
    ) -> ExpectedCounts:
        """Return the expected count of each parameter and the log-likelihood of the rows.

        No bit depends on the number of threads. With `single`, messages may be of single precision, where nodes
        have many states and no row is too unlikely for that; counts are then right to about six digits.
        """
        filled = self._values.filled(parameters)
        found = self._found(filled.scaled, rows, threads, True, single)
        return self._expected(filled, found, rows.line_weights)

    def log_likelihood(self, parameters: Floats, rows: CodedRows, threads: int = 1, single: bool = False) -> float:
        """Return the log-likelihood of the rows, bit-identical to that of a call, in half the time."""
        filled = self._values.filled(parameters)
        return _whole(self._found(filled.scaled, rows, threads, False, single), filled, rows.line_weights)

    def over(
        self,
        parameters: Floats,
        read: Callable[[int], tuple[Codes, Floats, int]],
        stretches: int,
        line_weights: Floats,
        threads: int = 1,
    ) -> ExpectedCounts:
        """Return the expected counts of all rows, which are read one stretch after another and never all at once.

        Threads share the stretches. Their counts are added in their order, so that no bit depends on threads.
        `read` gives the codes and weights of a stretch by its number, and the number of its first row;
        `line_weights` are those of all rows.
        """
        filled = self._values.filled(parameters)

        def run(number: int) -> Sums:
            codes, weights, first = read(number)
            found = self._found(filled.scaled, CodedRows(codes, weights, line_weights), 1, counted=True)
            return found if found.impossible < 0 else found._replace(impossible=first + found.impossible)

        sums, log_likelihood, impossible = np.zeros(len(filled.scaled)), 0.0, -1
        for found in in_order(run, stretches, threads):
            sums += found.sums
            log_likelihood += found.log_likelihood
            impossible = found.impossible if impossible < 0 else impossible
        return self._expected(filled, Sums(sums, log_likelihood, impossible), line_weights)

    def _found(self, values: Floats, rows: CodedRows, threads: int, counted: bool, single: bool = False) -> Sums:
        """Return what all rows add up to, in the least precision that does."""
        tree = rows.sectioned.tree if rows.sectioned else self._tree
        if single and tree.layout(UNSCALED_SINGLE).many:
            passage = self._passage(UNSCALED_SINGLE, rows)
            found = passage.passed(values.astype(np.float32), counted, threads)
            if found.impossible < 0 and np.isfinite(found.sums).all():
                return found
        found = self._passage(UNSCALED, rows).passed(values, counted, threads)
        if found.impossible < 0:
            return found
        # Rows that are too unlikely for that: every clique brings its message into range.
        return self._passage(1, rows._replace(sectioned=None)).passed(values, counted, threads)

    def _expected(self, filled: Values, found: Sums, line_weights: Floats) -> ExpectedCounts:
        log_likelihood = _whole(found, filled, line_weights)
        return ExpectedCounts(self._values.counted(filled, found.sums), log_likelihood, found.impossible)

    def _passage(self, unscaled: int, rows: CodedRows) -> Passage:
        if rows.sectioned:
            return rows.sectioned.passage(unscaled)
        return Passage.whole(self._tree.layout(unscaled), rows.codes, rows.weights)


def _whole(found: Sums, filled: Values, line_weights: Floats) -> float:
    """Return a log-likelihood with what was taken out of the lines of leaves."""
    # Its logarithm is accounted for by counting lines.
    taken = math.log(2.0) * float(line_weights @ filled.exponents)
    return found.log_likelihood + taken if found.impossible < 0 else -math.inf


def _expectation(graph: LatentGraph, missing: frozenset[str], leaves: tuple[tuple[Leaf, ...], ...]) -> Expectation:
    skeleton = Skeleton.of(graph, missing)
    return Expectation(skeleton, skeleton.nodes(leaves))
