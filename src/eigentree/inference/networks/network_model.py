"""The model of a network: exact answers, and rows drawn from the root down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from eigentree.core.trees.categorical_sampling import choose
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import DataError
from eigentree.inference.model import Model, check_count
from eigentree.validation import Seed, generator, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.graphs.junction_tree import JunctionTree, TreeNode

__all__ = ["NetworkModel"]


@dataclass(frozen=True, eq=False)
class NetworkModel(Model):
    """The model of a graph whose tables are known.

    Attributes
    ----------
    tree : JunctionTree
    conditional_of : callable
        P(R_i | S_i) of a node of the tree, axes (separator…, remainder…).
    """

    tree: JunctionTree
    conditional_of: Callable[[TreeNode], Floats]

    undefined: ClassVar[str] = "follow cells that the model calls impossible"
    replaced: ClassVar[str] = (
        "have probability zero under the learned tables, and the score -inf; fit with pseudo_counts above 0, or on "
        "rows that show such cells together"
    )

    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes, and how many are impossible: they have -inf."""
        log_prob, _ = super().score(codes)
        return log_prob, int(np.isneginf(log_prob).sum())

    @our_arithmetic
    def draw(
        self,
        n: int,
        seed: Seed = None,
        given: Mapping[str, int] | None = None,
    ) -> tuple[Integers, int]:
        """Return rows drawn from the network, given the values of some observed variables if any.

        Raises
        ------
        DataError
            When what is given has probability zero.
        """
        if given is not None:
            drawn, undefined = super().draw(n, seed, given)
            if undefined:
                raise DataError(f"the evidence {dict(given)} has probability zero under this model")
            return drawn, 0
        # Without evidence no message need be passed: each node is drawn given its separator alone.
        check_count(n, len(self.columns.names))
        random = generator(seed)
        rows = np.empty((n, len(self.columns.names)), np.int64)
        step = rows_at_a_time(len(self.tree.nodes))
        for start in range(0, n, step):
            self._draw_into(rows[start : start + step], random)
        return rows, 0

    @cached_property
    def _cumulative(self) -> list[tuple[TreeNode, Floats]]:
        """Each node with a remainder, and the cumulative distribution of that for each state of its separator."""
        conditionals = ((node, self.conditional_of(node)) for node in self.tree.nodes if node.remainder)
        return [
            (node, table.reshape(math.prod(table.shape[: len(node.separator)]), -1).cumsum(axis=1))
            for node, table in conditionals
        ]

    def _draw_into(self, rows: Integers, random: np.random.Generator) -> None:
        """Draw each node's remainder given its separator, for all rows at once, and keep what is observed."""
        states = self.graph.states
        drawn: dict[str, Integers] = {}
        for node, cumulative in self._cumulative:
            given = np.zeros(len(rows), np.int64)
            for name in node.separator:
                given = given * states[name] + drawn[name]
            chosen = np.empty(len(rows), np.int64)
            choose(cumulative, given, random.random(len(rows)), chosen)
            drawn.update(
                zip(node.remainder, np.unravel_index(chosen, self.tree.states_of(node.remainder)), strict=True)
            )
        for column, name in enumerate(self.graph.observed):
            rows[:, column] = drawn[name]
