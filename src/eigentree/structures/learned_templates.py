"""Templates whose graphs follow from rows, by way of what columns tell of each other two by two."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

from eigentree.checks import one_of
from eigentree.errors import GraphError
from eigentree.structures.discovery import hidden_chow_liu, joined_tree
from eigentree.structures.templates import Template, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats
    from eigentree.structures.graph import LatentGraph

__all__ = ["HiddenChowLiu", "LearnedTemplate", "Method", "PairKnowledge"]

Method: TypeAlias = Literal["chow-liu", "neighbour-joining"]
"""How a tree of hidden variables is learned."""


class PairKnowledge(Protocol):
    """What is known of columns two by two, wherever it was counted; see `PairCounts`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def states(self) -> tuple[int, ...]:
        """How many states each column has."""

    @property
    def information(self) -> Floats:
        """The mutual information of all pairs."""

    @property
    def tree_distances(self) -> tuple[Floats, float]:
        """The distances of all pairs, and the shortest that is told from none."""


class LearnedTemplate(Template):
    """A structure that is known once rows are: numbers of states alone do not tell it."""

    @abstractmethod
    def learned(self, pairs: PairKnowledge) -> LatentGraph:
        """Return the graph over the columns of which something is known."""

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        raise GraphError(
            f"{self!r} is learned from rows, and there are only numbers of states; fit on rows, or give the graph "
            f"that learn_structure makes of them"
        )


@dataclass(frozen=True)
class HiddenChowLiu(LearnedTemplate):
    """A tree of hidden variables above the columns, learned from rows; see `learn_structure`.

    An estimator learns it when it is fitted. With `partial_fit` it is learned from the first rows, and kept.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.hmm(6, hidden_states=2, observed_states=3), seed=0)
    >>> rows = truth.sample(500, seed=1)
    >>> model = et.EMJunctionTree(HiddenChowLiu(hidden_states=2), random_state=0).fit(rows)
    >>> len(model.graph_.observed)
    6
    """

    hidden_states: int = 8
    method: Method = "chow-liu"

    def __post_init__(self) -> None:
        one_of("method", self.method, get_args(Method), GraphError)
        self._settle(hidden_states=whole_number("hidden_states", self.hidden_states))

    def learned(self, pairs: PairKnowledge) -> LatentGraph:
        """Return the tree of hidden variables above the columns of which something is known."""
        if self.method == "chow-liu":
            return hidden_chow_liu(pairs.names, pairs.states, pairs.information, self.hidden_states)
        distances, shortest = pairs.tree_distances
        return joined_tree(pairs.names, pairs.states, distances, self.hidden_states, shortest)
