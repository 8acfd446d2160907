"""The template whose graph is learned from rows, by statistics of pairs of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias, get_args

from eigentree.errors import GraphError
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.structure_learning import chow_liu, hidden_chow_liu, joined_tree, mixture_of_trees
from eigentree.graphs.templates import Template
from eigentree.validation import one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats

__all__ = ["HiddenChowLiu", "Method", "PairStatistics", "open_template"]

Method: TypeAlias = Literal["chow-liu", "neighbour-joining"]
"""How a tree of hidden variables is learned."""

AUTO: Final = "auto"
"""A size that held-out rows choose; as a structure, a tree all of whose sizes they do."""


class PairStatistics(Protocol):
    """Statistics of pairs of columns; `PairCounts` has them."""

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
        """The distances of all pairs, and the shortest that is significant."""


@dataclass(frozen=True)
class HiddenChowLiu(Template):
    """A tree of hidden variables above the columns, learned from rows; see `learn_structure`.

    An estimator learns it in `fit`; `partial_fit` learns it from the first rows.

    Parameters
    ----------
    hidden_states : int or "auto"
        Of each hidden variable; "auto" is chosen on held-out rows by `EMJunctionTree` and `SpectralJunctionTree`.
    method : {"chow-liu", "neighbour-joining"}
    trees : int or "auto"
        How many trees are mixed, with the same edges and tables of their own; "auto" is chosen on held-out rows by
        `EMJunctionTree`, which averages the best.
    most_states : int
        Most hidden states that are tried; in a mixture of trees, as many as cost no more than these in one.

    Examples
    --------
    >>> import eigentree as et
    >>> truth = et.LatentNetwork.random(et.zoo.hmm(6, hidden_states=2, observed_states=3), seed=0)
    >>> rows = truth.sample(500, seed=1)
    >>> model = et.EMJunctionTree(HiddenChowLiu(hidden_states=2), random_state=0).fit(rows)
    >>> len(model.graph_.observed)
    6
    """

    hidden_states: int | Literal["auto"] = 8
    method: Method = "chow-liu"
    trees: int | Literal["auto"] = 1
    most_states: int = 32

    def __post_init__(self) -> None:
        one_of("method", self.method, get_args(Method))
        sizes = {name: getattr(self, name) for name in ("hidden_states", "trees", "most_states")}
        self._check_sizes(*(name for name, size in sizes.items() if name == "most_states" or not _is_auto(size)))

    def numbers_of_states(self) -> list[int]:
        """Return the numbers of hidden states to try: the given one, or two and ever twice as many."""
        if not isinstance(self.hidden_states, str):
            return [self.hidden_states]
        return [2**power for power in range(1, self.most_states.bit_length())] or [1]

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        raise GraphError(
            f"{self!r} is learned from rows, and there are only numbers of states; fit on rows, or give the graph "
            f"that learn_structure makes of them"
        )

    def learned(self, pairs: PairStatistics) -> LatentGraph:
        """Return the graph over columns with these statistics (`PairCounts`)."""
        if isinstance(self.hidden_states, str) or isinstance(self.trees, str):
            raise GraphError(
                f"{self!r} has a size that held-out rows choose, in EMJunctionTree and SpectralJunctionTree; "
                f"elsewhere give numbers, such as HiddenChowLiu(hidden_states=8)"
            )
        return mixture_of_trees(self.tree(pairs, self.hidden_states), self.trees)

    def tree(self, pairs: PairStatistics, hidden_states: int) -> LatentGraph:
        """Return one tree above columns with these statistics."""
        if self.method == "chow-liu":
            return hidden_chow_liu(pairs.names, pairs.states, pairs.information, hidden_states)
        distances, shortest = pairs.tree_distances
        return joined_tree(pairs.names, pairs.states, distances, hidden_states, shortest)

    def candidate(self, pairs: PairStatistics, hidden_states: int) -> LatentGraph:
        """Return one tree of those that held-out rows choose from.

        Without hidden states it is the Chow-Liu tree of the columns themselves. Where both sizes are open, hidden
        variables of one state are left out: mixed, such columns are those of latent classes.
        """
        if hidden_states == 0:
            return chow_liu(pairs.names, pairs.states, pairs.information)
        if hidden_states == 1 and self.hidden_states == self.trees == AUTO:
            return LatentGraph(zip(pairs.names, pairs.states, strict=True), [])
        return self.tree(pairs, hidden_states)


def open_template(structure: object) -> HiddenChowLiu | None:
    """Return the template whose sizes held-out rows choose: that of "auto", or the given one, or None."""
    if _is_auto(structure):
        return HiddenChowLiu(AUTO, trees=AUTO)
    is_open = isinstance(structure, HiddenChowLiu) and AUTO in (structure.hidden_states, structure.trees)
    return structure if isinstance(structure, HiddenChowLiu) and is_open else None


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == AUTO
