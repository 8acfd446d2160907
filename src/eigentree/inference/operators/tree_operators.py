"""Trees of operators (sections 4.2 and 5).

An operator is the tensor of one node: the paper's P(C_i) of Eq. 10 for the exact model, and its observable
form of Eq. 22-24 for the spectral one. The engine does not care which: entries may be negative, bonds are just
sizes. Only non-zero entries are kept, so the duplicated modes of Eq. 10 cost no memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from eigentree.inference.operators import folding
from eigentree.inference.operators import operator_layout as layout
from eigentree.inference.operators import tree_passes as passes
from eigentree.inference.operators.narrow_layout import Narrow
from eigentree.inference.operators.node_operator import NodeOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.core.trees.flat_tree import FlatTree
    from eigentree.inference.operators.tree_passes import Scaled

__all__ = ["NodeOperator", "TreeOperators"]


@dataclass(frozen=True, eq=False)
class TreeOperators:
    """A tree of operators: all that is needed to answer questions about the observed columns.

    Attributes
    ----------
    nodes : tuple of NodeOperator
        In preorder; the first is the root.
    states : tuple of int
        Number of states of every column.

    Examples
    --------
    A mixture of two coins, tossed twice:

    >>> import numpy as np
    >>> leaf = np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> mixture = TreeOperators(
    ...     nodes=(
    ...         NodeOperator.from_dense(np.diag([0.5, 0.5])[:, :, None], children=(1, 2)),
    ...         NodeOperator.from_dense(leaf, columns=(0,)),
    ...         NodeOperator.from_dense(leaf, columns=(1,)),
    ...     ),
    ...     states=(2, 2),
    ... )
    >>> mixture.joint((0, 1)).round(3).tolist()
    [[0.425, 0.125], [0.125, 0.325]]
    """

    nodes: tuple[NodeOperator, ...]
    states: tuple[int, ...]

    def log_prob(self, codes: Codes) -> tuple[Floats, NDArray[np.int8]]:
        """Return the log absolute probability of each row of codes, and its sign (Eq. 13).

        A row of probability zero has log -inf and sign 0.
        """
        return passes.upward_pass(self.folded.flat, codes, self.folded.narrow)

    def tables(self, codes: Codes, columns: Sequence[int]) -> list[Floats]:
        """Return, for each wanted column, P(column = v, the row's other cells) up to a factor per row.

        Each table has the shape (rows, states of the column). The cell of the column itself is not looked at.
        """
        return passes.tables(self, codes, columns)

    def draw(self, codes: Codes, random: np.random.Generator) -> int:
        """Fill the missing cells of the codes in place, each row drawn given its known cells.

        Returns
        -------
        int
            How many cells had no state of positive probability, and were drawn from their column alone.
        """
        return passes.draw(self, codes, random)

    def joint(self, columns: Sequence[int]) -> Floats:
        """Return the table of some columns with all others summed out; axes in the given order.

        Only the part of the tree that joins these columns is visited.
        """
        return passes.joint(self.folded, columns)

    @cached_property
    def folded(self) -> TreeOperators:
        """The same model with children multiplied into their parents wherever that saves work."""
        return TreeOperators(folding.folded(self.nodes), self.states)

    @cached_property
    def flat(self) -> FlatTree:
        """The flat layout of this tree for the compiled pass up."""
        return layout.flat_tree(self.nodes, self.states)

    @cached_property
    def narrow(self) -> Narrow | None:
        """The layout of this tree for the compiled pass up row by row, where its bonds are narrow enough."""
        return Narrow.of(self.nodes, self.flat)

    @cached_property
    def kept(self) -> FlatTree:
        """The flat layout for compiled passes up and down, in which every message is kept."""
        return layout.all_kept(self.flat)

    @cached_property
    def tour(self) -> Integers:
        """The way round the tree that draws take; see `operator_layout.round_tour`."""
        return layout.round_tour(self.nodes)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The parent of each node, -1 for the root."""
        parents = [-1] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            for child in node.children:
                parents[child] = i
        return tuple(parents)

    @cached_property
    def owner(self) -> dict[int, int]:
        """The node that holds each column."""
        return {column: i for i, node in enumerate(self.nodes) for column in node.columns}

    @cached_property
    def summed_out(self) -> tuple[list[Scaled], list[Scaled]]:
        """The messages up from and down to each node when every cell is missing."""
        return passes.summed_out(self.nodes)
