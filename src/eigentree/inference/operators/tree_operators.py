"""Trees of operators (sections 4.2 and 5), and the messages that queries pass through them.

An operator is the tensor of one node: the paper's P(C_i) of Eq. 10 for the exact model, and its observable
form of Eq. 22-24 for the spectral one. Message passing does not care which: entries may be negative, bonds are just
sizes. Only non-zero entries are kept, so the duplicated modes of Eq. 10 cost no memory.

Rows go through `eigentree.core.trees.message_passing`, compiled, a block of rows at a time, in doubles with one
exponent per row and message; those whose probability this one exponent may have changed once more with an exponent
for each number. The rows of EM go through `eigentree.core.trees.estep`, which knows no negative numbers and counts
as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.inference.operators.operator_layout import NodeOperator, folded, laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.core.trees.message_passing import OperatorTree

__all__ = ["NodeOperator", "TreeOperators"]


@dataclass(frozen=True, eq=False)
class TreeOperators:
    """A tree of operators: all that inference about the observed columns needs.

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
        return self.folded.flat.log_prob(codes)

    def tables(self, codes: Codes, columns: Sequence[int]) -> list[Floats]:
        """Return, for each wanted column, P(column = v, the row's other cells) up to a factor per row.

        Each table has the shape (rows, states of the column). The cell of the column itself is not read.
        """
        offset = np.full(len(self.states), -1, np.int64)
        ends = np.cumsum([0, *(self.states[column] for column in columns)])
        offset[list(columns)] = ends[:-1]
        found = self.folded.flat.tables(codes, offset, int(ends[-1]))
        return np.split(found, ends[1:-1], axis=1)

    def draw(self, codes: Codes, random: np.random.Generator) -> int:
        """Fill the missing cells of the codes in place, those of each row sampled together given its known cells.

        Returned is how many cells had no state of positive probability, and were sampled from their marginal.
        """
        uniform = random.random(codes.shape)
        self.folded.flat.draw(codes, uniform)
        left = codes == np.asarray(self.states)
        for column in np.flatnonzero(left.any(axis=0)).tolist():
            marginal = np.maximum(self.joint((column,)), 0.0)
            weights = marginal if marginal.sum() > 0.0 else np.ones(self.states[column])
            where = np.flatnonzero(left[:, column])
            codes[where, column] = choose(weights.cumsum()[None], np.zeros_like(where), uniform[where, column])
        return int(left.sum())

    def joint(self, columns: Sequence[int]) -> Floats:
        """Return the table of some columns with all others marginalised out; axes in the given order."""
        shape = [self.states[column] for column in columns]
        table = np.empty(math.prod(shape))
        step = rows_at_a_time(len(self.states))
        for start in range(0, len(table), step):
            part = np.arange(start, min(start + step, len(table)))
            codes = np.repeat(np.array([self.states], np.min_scalar_type(max(self.states))), len(part), axis=0)
            for column, cells in zip(columns, np.unravel_index(part, shape) if shape else (), strict=True):
                codes[:, column] = cells
            log_size, sign = self.log_prob(codes)
            table[part] = sign * np.exp(log_size)
        return table.reshape(shape)

    @cached_property
    def folded(self) -> TreeOperators:
        """The same model with children multiplied into their parents wherever that saves work."""
        return TreeOperators(folded(self.nodes), self.states)

    @cached_property
    def flat(self) -> OperatorTree:
        """The layout of this tree for the compiled passes."""
        return laid_out(self.nodes, self.states)
