r"""Which cells around a step are looked at together, so that one step of a sequence can be learned.

A sequence of several channels is read symbol by symbol: the blocks of channels of a step one after the other, then
the next step. Before each block of a step there is a *bond*, across which the past speaks of the future. In a
homogeneous chain it is the same at every step, so there are as many bonds as blocks. A hidden Markov model of order
m with k states is a chain of :math:`k^m` composite states, which bound the rank of every bond where channels are
independent given the state. Where they are not, a bond within a step also carries what the blocks before it say of
those after it. Below, a *cell* is the symbol of one block at one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from eigentree.errors import ParameterError, in_short
from eigentree.graphs.memo import Derived
from eigentree.planning.channel_blocks import MOST_JOINT, Blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats

__all__ = ["Cell", "ChannelRule", "Group", "WindowBond", "WindowPlan"]

MOST_RANK = 256
"""Largest rank of a bond: operators of one symbol have its square as their size."""

INSIDE, OUTSIDE = 2, 6
"""How many steps' groups a bond looks at on either side, at least; more of them steady its noise."""

MOST_GROUPS = 8
"""Most groups on one side of a bond beyond those that its rank asks for."""

MOST_TABLE = 2**22
"""Cells of all tables together, above which groups that the rank does not ask for are left out."""

MOST_TOGETHER = 4
"""Most cells of one group."""

NEAREST = 10
"""Among how many cells next to a bond groups of several are sought."""

EARLIEST = 12
"""How many steps before the bond the random instance starts: before any group that a rank asks for."""

NO_RANK = 1e-9
"""Singular values below this part of the largest are none."""

ChannelRule: TypeAlias = Literal["independent", "dependent"]
"""Whether the channels of a step are independent given the hidden state."""


class Cell(NamedTuple):
    """A cell of a window.

    Attributes
    ----------
    lag : int
        How many steps after the one that the window is about.
    channel : int
        Its block of channels.
    """

    lag: int
    channel: int

    def later(self, steps: int) -> Cell:
        """Return the cell some steps later."""
        return Cell(self.lag + steps, self.channel)


Group: TypeAlias = tuple[Cell, ...]
"""Cells that are looked at together."""


@dataclass(frozen=True)
class WindowBond:
    """What is looked at on either side of the bond before one channel of a step.

    Attributes
    ----------
    rank : int
    inside : tuple of Group
        Of cells from the bond on, whose features are stacked.
    outside : tuple of Group
        Of cells before the bond.
    """

    rank: int
    inside: tuple[Group, ...]
    outside: tuple[Group, ...]


@dataclass(frozen=True, eq=False)
class WindowPlan(Derived):
    """The bonds of one step, and all cells that are counted together for them.

    Attributes
    ----------
    blocks : Blocks
        Which channels are taken together.
    leaf_ranks : tuple of int
        How many features of each block speak of the other cells.
    bonds : tuple of WindowBond
        That before each block.
    """

    blocks: Blocks
    leaf_ranks: tuple[int, ...]
    bonds: tuple[WindowBond, ...]

    @classmethod
    def of(
        cls,
        states: Sequence[int],
        hidden_states: int,
        order: int,
        channels: ChannelRule = "independent",
        max_rank: int | None = None,
        most_joint: int = MOST_JOINT,
    ) -> WindowPlan:
        """Return the plan of a hidden Markov model; it depends on sizes alone, never on data.

        Channels are taken together while they have at most `most_joint` joint states.

        Raises
        ------
        ParameterError
            When the operators would be too large.

        Examples
        --------
        >>> plan = WindowPlan.of([4], hidden_states=2, order=2)
        >>> plan.bonds[0].rank, plan.bonds[0].inside[0]
        (4, (Cell(lag=0, channel=0), Cell(lag=1, channel=0)))
        """
        composite = hidden_states**order
        blocks = Blocks.of(states, hidden_states, channels == "dependent", most_joint)
        states = blocks.symbols
        if len(states) == 1:
            # Channels of one block may depend on each other: the block as a whole sees no more than the state.
            channels = "independent"
        sizes = _instance_sizes(states, hidden_states, channels)
        within = [math.prod(sizes[:c]) if channels == "dependent" else 1 for c in range(len(states))]
        widest = composite * max(within)
        if composite > MOST_RANK or widest > MOST_RANK * 4:
            raise ParameterError(
                f"a chain of order {order} with {hidden_states} hidden states and {len(states)} {channels} "
                f"channels has {in_short(widest)} composite states (the limit is {MOST_RANK}, and "
                f"{4 * MOST_RANK} within a step); lower hidden_states or order, or take channels='independent'"
            )
        chain = _RandomChain(sizes, hidden_states, order, channels)
        most = max_rank or MOST_RANK
        bonds, needed = [], []
        for channel in range(len(states)):
            rank = min(chain.rank(channel), most)
            after, before = _chosen(chain, channel, 1, rank), _chosen(chain, channel, -1, rank)
            bonds.append(WindowBond(min(rank, after.rank, before.rank), after.groups, before.groups))
            needed.append((after.needed, before.needed))
        seen = [min(count, hidden_states) if channels == "independent" else count for count in states]
        return cls(blocks, tuple(max(1, rank) for rank in seen), _affordable(bonds, needed, states))

    @property
    def states(self) -> tuple[int, ...]:
        """How many symbols each block has."""
        return self.blocks.symbols

    def following(self, channel: int) -> tuple[Group, ...]:
        """Return the inside groups of the bond after a channel of a step."""
        return _following(self.bonds, channel)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells that are looked at, in their order."""
        return tuple(sorted({cell for group in self.groups for cell in group}))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups that are counted: a cell, what is seen after it and what is seen before it."""
        return tuple(dict.fromkeys(group for c in range(len(self.bonds)) for group in _tables(self.bonds, c)))

    @cached_property
    def first_cells(self) -> tuple[Cell, ...]:
        """The cells of first windows, in their order."""
        return tuple(sorted({cell for group in self.bonds[0].inside for cell in group}))

    @property
    def reach(self) -> int:
        """How many steps after its own a window goes; only steps that have so many after them are counted."""
        return max(cell.lag for cell in self.cells)

    @property
    def history(self) -> int:
        """How many steps before its own a window looks at, at most."""
        return max(0, -min(cell.lag for cell in self.cells))

    def neighbours(self, channel: int) -> tuple[Cell, ...]:
        """Return the single cells that are counted together with a channel's own, nearest first."""
        own = Cell(0, channel)
        found = {cell for group in self.groups if own in group for cell in group if cell != own}
        width = len(self.states)
        return tuple(sorted(found, key=lambda cell: (abs(cell.lag * width + cell.channel - channel), cell)))


def _following(bonds: tuple[WindowBond, ...], channel: int) -> tuple[Group, ...]:
    if channel + 1 < len(bonds):
        return bonds[channel + 1].inside
    return tuple(tuple(cell.later(1) for cell in group) for group in bonds[0].inside)


def _tables(bonds: tuple[WindowBond, ...], channel: int) -> Iterator[Group]:
    """Yield the groups that the operator of one channel needs counted, and those of its bond's own pair moments."""
    own = Cell(0, channel)
    for before in bonds[channel].outside:
        for after in _following(bonds, channel):
            yield (own, *after, *before)
        for after in bonds[channel].inside:
            yield (*after, *before)


def _affordable(
    bonds: Sequence[WindowBond], needed: Sequence[tuple[int, int]], states: Sequence[int]
) -> tuple[WindowBond, ...]:
    """Return the bonds, with none but the needed groups where all tables together would be too large."""
    if _size(tuple(bonds), states) <= MOST_TABLE:
        return tuple(bonds)
    return tuple(
        WindowBond(bond.rank, bond.inside[:inside], bond.outside[:outside])
        for bond, (inside, outside) in zip(bonds, needed, strict=True)
    )


def _size(bonds: tuple[WindowBond, ...], states: Sequence[int]) -> int:
    groups = {group for c in range(len(bonds)) for group in _tables(bonds, c)}
    return sum(math.prod(states[cell.channel] for cell in group) for group in groups)


def _instance_sizes(states: Sequence[int], hidden_states: int, channels: ChannelRule) -> list[int]:
    """Return how many states channels have in a random instance: no more than can make a difference."""
    if channels == "dependent":
        return list(states)
    return [min(count, max(hidden_states, 2)) for count in states]


class _Chosen(NamedTuple):
    """Groups on one side of a bond, of which the first few are needed to reach a rank, and that rank."""

    groups: tuple[Group, ...]
    needed: int
    rank: int


def _chosen(chain: _RandomChain, channel: int, direction: int, rank: int) -> _Chosen:
    """Return groups of the smallest size whose stacked features reach a rank, or else come closest to it.

    Some more like them, further away, follow: they say the same once again.
    """
    width = len(chain.sizes)
    chosen: list[Group] = []
    reached = 0
    for size in range(1, MOST_TOGETHER + 1):
        # Further cells would reach some ranks too, but only just: what they see has faded.
        near = list(chain.cells(channel, direction, max(chain.order * width, size)))[:NEAREST]
        known = np.zeros((chain.steps[channel].shape[0], 0))
        found, seen = [], 0
        # In the order of the furthest cell, then of the others.
        for places in sorted(combinations(range(len(near)), size), key=lambda places: places[::-1]):
            group = tuple(sorted(near[place] for place in places))
            more = np.concatenate([known, chain.sees(channel, direction, group)], axis=1)
            if _rank(more) > seen:
                found.append(group)
                known, seen = more, _rank(more)
            if seen >= rank:
                break
        if seen > reached:
            chosen, reached = found, seen
        if reached >= rank:
            break
    needed = len(chosen)
    single = all(len(group) == 1 for group in chosen)
    if single:
        chosen += [(cell,) for cell in near if (cell,) not in chosen]
    # Cells that stand for several steps together have seen enough of what follows.
    steps = OUTSIDE if direction < 0 else INSIDE if single else 1
    further = [tuple(cell.later(direction * s) for cell in group) for s in range(1, steps) for group in chosen]
    # What the rank asks for stays, however much it is.
    most = max(len(chosen), min(MOST_GROUPS, steps * width))
    return _Chosen(tuple(dict.fromkeys(chosen + further))[:most], needed, reached)


class _RandomChain:
    """A random hidden Markov model of the same sizes: what groups of cells see of it, they nearly always do.

    Attributes
    ----------
    sizes : list of int
        States of each channel.
    steps : list of array, shape (states before, channel's states, states after)
        The operator of each channel of a step, the last with the transition to the next step.
    start : array, shape (states before a step,)
    """

    def __init__(self, sizes: list[int], hidden_states: int, order: int, channels: ChannelRule) -> None:
        random = np.random.default_rng(0)
        self.sizes = sizes
        self.order = order
        composite = hidden_states**order
        moving = random.dirichlet(np.ones(hidden_states), composite)
        # Of the states of `order` steps the first is the oldest; it emits, and leaves for the newest to come.
        transition = np.zeros((composite, composite))
        for state in range(composite):
            kept = state % (composite // hidden_states) * hidden_states
            transition[state, kept : kept + hidden_states] = moving[state]
        emitting = np.arange(composite) // (composite // hidden_states)
        self.steps: list[Floats] = []
        seen = 1
        for channel, size in enumerate(sizes):
            dependent = channels == "dependent"
            shape = (hidden_states, seen) if dependent else (hidden_states, 1)
            emission = random.dirichlet(np.ones(size), shape)[emitting]
            emission = np.broadcast_to(emission, (composite, seen, size))
            operator = np.einsum("ab,acx->acxb", np.eye(composite), emission)
            last = channel == len(sizes) - 1
            if dependent and not last:
                spread = np.einsum("acxb,cd,xy->acxbdy", operator, np.eye(seen), np.eye(size))
                self.steps.append(spread.reshape(composite * seen, size, composite * seen * size))
                seen *= size
            elif dependent:
                self.steps.append((operator @ transition).reshape(composite * seen, size, composite))
            else:
                inner = operator[:, 0]
                self.steps.append(inner @ transition if last else inner)
        self.start = random.dirichlet(np.ones(composite))
        self.emitted = hidden_states

    def rank(self, channel: int) -> int:
        """Return the largest rank that the bond before a channel can have."""
        after = self.steps[0].shape[0] * math.prod(self.sizes[channel:])
        return int(min(self.steps[channel].shape[0], after))

    def cells(self, channel: int, direction: int, wanted: int) -> Iterator[Cell]:
        """Yield the cells after (1) or before (-1) the bond before a channel, the nearest first."""
        for k in range(wanted):
            yield self._moved(Cell(0, channel), k if direction > 0 else -1 - k)

    def sees(self, channel: int, direction: int, group: Group) -> Floats:
        """Return what a group tells of the states at the bond, shape (states, configurations of the group)."""
        return self._future(channel, group) if direction > 0 else self._past(channel, group)

    def _moved(self, cell: Cell, cells: int) -> Cell:
        """Return the cell some cells later."""
        return Cell(*divmod(cell.lag * len(self.sizes) + cell.channel + cells, len(self.sizes)))

    def _future(self, channel: int, group: Group) -> Floats:
        """Return P(cells of a group | state at the bond), shape (states, configurations)."""
        last = group[-1]
        cell = last
        value = np.ones((self.steps[(last.channel + 1) % len(self.sizes)].shape[0], 1))
        while True:
            step = self.steps[cell.channel]
            if cell in group:
                value = np.einsum("axb,bn->axn", step, value).reshape(len(step), -1)
            else:
                value = step.sum(axis=1) @ value
            if cell == Cell(0, channel):
                return np.asarray(value)
            cell = self._moved(cell, -1)

    def _past(self, channel: int, group: Group) -> Floats:
        """Return P(state at the bond, cells of a group), shape (states, configurations)."""
        # From one start for all groups, as they are stacked.
        cell = Cell(-EARLIEST, 0)
        value = self.start[None, :]
        while cell < Cell(0, channel):
            step = self.steps[cell.channel]
            if cell in group:
                value = np.einsum("na,axb->nxb", value, step).reshape(-1, step.shape[2])
            else:
                value = value @ step.sum(axis=1)
            cell = self._moved(cell, 1)
        return value.T


def _rank(matrix: Floats) -> int:
    sizes = np.linalg.svd(matrix, compute_uv=False)
    return int((sizes > NO_RANK * sizes[0]).sum())
