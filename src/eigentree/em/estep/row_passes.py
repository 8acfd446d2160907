"""Rows through the compiled pass for expected counts.

A `Passage` is rows and the tree that they pass; `SectionedRows` are rows in sections of a tree, which save work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.trees.estep import expected
from eigentree.em.estep.block_layout import BlockLayout, ReadFrom
from eigentree.em.estep.cliques import Clique
from eigentree.em.estep.row_sharing import Sectioning

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.em.estep.clique_values import ValueLayout
    from eigentree.em.estep.cliques import Node
    from eigentree.em.estep.row_sharing import SectionRows

__all__ = ["UNSCALED_SINGLE", "Passage", "SectionedRows", "SectionedTree", "Sums"]

UNSCALED_SINGLE = 3
"""In single precision fewer cliques multiply their messages before these are brought back into range."""


class Sums(NamedTuple):
    """What the compiled pass adds up over rows, and a row of probability zero and positive weight, or -1."""

    sums: Floats
    log_likelihood: float
    impossible: int


class Passage(NamedTuple):
    """Rows that pass a tree, with the codes and the weights of all sections one after the other."""

    layout: BlockLayout
    sections: Integers
    codes: Codes
    weights: Floats

    @classmethod
    def of(cls, layout: BlockLayout, rows: Sequence[SectionRows], codes: Codes, weights: Floats) -> Passage:
        """Return the passage of the rows of each section, given all their codes and weights."""
        starts = _starts([own.codes.size for own in rows])
        sections = [
            section._replace(codes=start, rows=len(own.weights))
            for section, own, start in zip(layout.sections, rows, starts, strict=True)
        ]
        return cls(layout, np.array(sections, np.int64), codes, weights)

    @classmethod
    def whole(cls, layout: BlockLayout, codes: Codes, weights: Floats) -> Passage:
        """Return the passage of rows through a tree of one section."""
        (section,) = layout.sections
        sections = np.array([section._replace(rows=len(weights))], np.int64)
        return cls(layout, sections, codes.reshape(-1), weights)

    def passed(self, values: NDArray[Any], counted: bool, threads: int) -> Sums:
        """Return what the rows add up to, if that is `counted`, and their log-likelihood.

        Messages have the precision of the values.
        """
        sums = np.empty(len(values) if counted else 0)
        return Sums(
            sums, *expected(self.layout.tree, self.sections, values, self.codes, self.weights, sums, threads)
        )


@dataclass(frozen=True, eq=False)
class SectionedTree:
    """A tree in sections, laid out for rows of which some will be passed through it again and again.

    `starts` is where the values of each node of the whole tree start.
    """

    sectioning: Sectioning
    starts: Sequence[int]
    states: Mapping[str, int]

    def layout(self, unscaled: int) -> BlockLayout:
        """Return the layout in which so many cliques multiply messages before these are brought into range."""
        if unscaled not in self._layouts:
            sections = self.sectioning.sections
            sources = [list(map(self._source, section.numbers, section.nodes)) for section in sections]
            nodes = [section.nodes for section in sections]
            self._layouts[unscaled] = BlockLayout.of(nodes, self.states, sources, unscaled)
        return self._layouts[unscaled]

    @cached_property
    def _layouts(self) -> dict[int, BlockLayout]:
        return {}

    @cached_property
    def _roots(self) -> dict[int, int]:
        """The section of each root of a section but the first, by its number in the whole tree."""
        return {section.numbers[0]: s for s, section in enumerate(self.sectioning.sections) if s > 0}

    def _source(self, number: int, node: Node) -> ReadFrom:
        section = -1 if isinstance(node, Clique) else self._roots.get(number, -1)
        return ReadFrom(0 if section >= 0 else self.starts[number], section)


@dataclass(frozen=True, eq=False)
class SectionedRows:
    """Rows in sections of a tree; the codes of each section are a part of one array, as are the weights."""

    tree: SectionedTree
    rows: tuple[SectionRows, ...]
    codes: Codes
    weights: Floats

    @classmethod
    def of(cls, tree: SectionedTree, rows: Sequence[SectionRows]) -> SectionedRows:
        """Return the rows of each section as rows of one tree."""
        codes = np.concatenate([own.codes.reshape(-1) for own in rows])
        starts = _starts([own.codes.size for own in rows])
        kept = tuple(
            own._replace(codes=codes[start : start + own.codes.size].reshape(own.codes.shape))
            for own, start in zip(rows, starts, strict=True)
        )
        return cls(tree, kept, codes, np.concatenate([own.weights for own in rows]))

    @classmethod
    def parts(
        cls,
        nodes: tuple[Node, ...],
        values: ValueLayout,
        states: Mapping[str, int],
        codes: Codes,
        weights: Floats,
        bounds: Sequence[int],
    ) -> tuple[SectionedRows, ...]:
        """Return consecutive rows in parts, all in the sections that save work for the first one; none if none do.

        `bounds` are where each part starts, and where the last one ends.
        """
        line_counts = tuple(values.line_counts.tolist())
        sectioning = Sectioning.of(nodes, line_counts, states, codes[:, bounds[0] : bounds[1]])
        if sectioning is None:
            return ()
        rows = [sectioning.rows(codes[:, start:stop], weights[start:stop]) for start, stop in pairwise(bounds)]
        tree = SectionedTree(sectioning, values.starts.tolist(), dict(states))
        return tuple(cls.of(tree, each) for each in rows)

    def passage(self, unscaled: int) -> Passage:
        """Return the passage through the layout with so many cliques unscaled."""
        if unscaled not in self._passages:
            layout = self.tree.layout(unscaled)
            self._passages[unscaled] = Passage.of(layout, self.rows, self.codes, self.weights)
        return self._passages[unscaled]

    @cached_property
    def _passages(self) -> dict[int, Passage]:
        return {}


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where each of some consecutive pieces starts."""
    return [*accumulate(sizes, initial=0)][:-1]
