r"""Which cells around a step are counted together, so that one step of a sequence can be learned.

A sequence of several channels is read symbol by symbol: the blocks of channels of a step one after the other, then
the next step. Before each block of a step there is a *bond* between past and future. In a homogeneous chain it is
the same at every step, so there are as many bonds as blocks. A hidden Markov model of order m with k states is a
chain of :math:`k^m` composite states, which bound the rank of every bond where channels are independent given the
state. Where they are not, a bond within a step also carries how the blocks after it depend on those before it.
Below, a *cell* is the symbol of one block at one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from eigentree.errors import ParameterError, in_short
from eigentree.graphs.graph import Derived

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["MOST_JOINT", "Cell", "ChannelBlocks", "ChannelRule", "Group", "WindowBond", "WindowPlan"]

MOST_RANK = 256
"""Largest rank of a bond: operators of one symbol have its square as their size."""

INSIDE, OUTSIDE = 2, 6
"""How many steps' groups a bond has on either side, at least; more of them reduce its noise."""

MOST_GROUPS = 8
"""Most groups on one side of a bond beyond those that its rank needs."""

MOST_TABLE = 2**22
"""Cells of all tables together, above which groups that the rank does not need are left out."""

MOST_SYMBOLS = 2**13
"""Most symbols of a channel: `PAIR_TABLES` tables of all its pairs of symbols are 4 GiB then."""

PAIR_TABLES = 8
"""So many tables of the pairs of a channel's symbols are in memory at once while its features are learned."""

MOST_TOGETHER = 4
"""Most cells of one group."""

NEAREST = 10
"""Among how many cells next to a bond groups of several are sought."""

EARLIEST = 12
"""How many steps before the bond the random instance starts: before any group that a rank needs."""

NO_RANK = 1e-9
"""Singular values below this part of the largest are none."""

MOST_JOINT = 36
"""Most joint states of channels that are taken together."""

MOST_PAIRS = 2**12
"""Most pairs of inputs and outputs: tables of features of a pair have as many rows and columns."""

ChannelRule: TypeAlias = Literal["independent", "dependent"]
"""Whether the channels of a step are independent given the hidden state."""


@dataclass(frozen=True)
class ChannelBlocks:
    """Which channels are taken together.

    A *pattern* of a block is what its cells hold, missing ones included: a number whose digits are the codes of
    the cells. A *symbol* is a pattern without missing cells, and such are numbered by themselves. `states` are
    those of each channel, `sizes` how many channels each block has, in their order.
    """

    states: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(
        cls, states: Sequence[int], hidden_states: int, dependent: bool, most_joint: int = MOST_JOINT
    ) -> ChannelBlocks:
        """Return the blocks of some channels, of at most so many joint states each if of several.

        Examples
        --------
        >>> ChannelBlocks.of([2, 2, 3, 6], hidden_states=3, dependent=False).sizes
        (2, 1, 1)
        >>> ChannelBlocks.of([2, 2, 3, 6], hidden_states=3, dependent=True).sizes
        (3, 1)
        """
        blocks: list[list[int]] = []
        for count in states:
            last = blocks[-1] if blocks else []
            joint = math.prod(last)
            if last and joint * count <= most_joint and (dependent or min(joint, count) < hidden_states):
                last.append(count)
            else:
                blocks.append([count])
        return cls(tuple(states), tuple(map(len, blocks)))

    @cached_property
    def channels(self) -> tuple[tuple[int, ...], ...]:
        """The channels of each block."""
        ends = np.cumsum((0, *self.sizes)).tolist()
        return tuple(tuple(range(a, b)) for a, b in pairwise(ends))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The states of the channels of each block."""
        return tuple(tuple(self.states[channel] for channel in block) for block in self.channels)

    @property
    def symbols(self) -> tuple[int, ...]:
        """How many symbols each block has."""
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def patterns(self) -> tuple[int, ...]:
        """How many patterns each block has; the last of them has no known cell."""
        return tuple(math.prod(count + 1 for count in shape) for shape in self.shapes)

    @property
    def single(self) -> bool:
        """Whether each channel is a block of its own, so that patterns are codes."""
        return max(self.sizes) == 1

    @property
    def pattern_type(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned type that holds every pattern, and one code more."""
        return np.min_scalar_type(max(self.patterns))

    def encoded(self, codes: Codes) -> Codes:
        """Return the patterns of steps, shape (steps, blocks), column-major; the codes where these are patterns."""
        if self.single:
            return np.asfortranarray(codes)
        made = np.zeros((len(codes), len(self.sizes)), self.pattern_type, order="F")
        for b, block in enumerate(self.channels):
            line = made[:, b]
            for channel in block:
                line *= self.pattern_type.type(self.states[channel] + 1)
                line += codes[:, channel].astype(self.pattern_type, copy=False)
        return made

    def decoded(self, patterns: Codes, dtype: np.dtype[np.unsignedinteger]) -> Codes:
        """Return the codes of steps, shape (steps, channels), column-major."""
        if self.single:
            return patterns
        made = np.empty((len(patterns), len(self.states)), dtype, order="F")
        for b, (block, shape) in enumerate(zip(self.channels, self.shapes, strict=True)):
            digits = np.unravel_index(patterns[:, b].astype(np.int64), [count + 1 for count in shape])
            for channel, line in zip(block, digits, strict=True):
                made[:, channel] = line
        return made

    @cached_property
    def symbol_of(self) -> tuple[Integers, ...]:
        """The symbol of each pattern of each block; one more than the last where a cell is missing."""
        return tuple(np.where(fits.sum(axis=1) == 1, fits.argmax(axis=1), fits.shape[1]) for fits in self.matches)

    @cached_property
    def matches(self) -> tuple[Booleans, ...]:
        """Which symbols of each block each pattern can be, shape (patterns, symbols)."""
        found = []
        for shape in self.shapes:
            fits = np.ones((1, 1), bool)
            for count in shape:
                # A known cell is one state, a missing one is any.
                own = np.vstack([np.eye(count, dtype=bool), np.ones((1, count), bool)])
                fits = np.kron(fits, own).astype(bool)
            found.append(fits)
        return tuple(found)

    def pattern(self, block: int, symbols: NDArray[np.int64]) -> Integers:
        """Return the patterns of some symbols of a block."""
        shape = self.shapes[block]
        digits = np.unravel_index(symbols, shape)
        return np.asarray(np.ravel_multi_index(digits, [count + 1 for count in shape]))

    def channel_tables(self, block: int, tables: Floats) -> list[Floats]:
        """Return the distribution of each channel of a block, given those of its symbols, shape (…, symbols)."""
        shape = self.shapes[block]
        joint = tables.reshape(*tables.shape[:-1], *shape)
        axes = range(tables.ndim - 1, joint.ndim)
        return [joint.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]


class Cell(NamedTuple):
    """A cell of a window: how many steps after the window's own, and of which block of channels."""

    lag: int
    channel: int

    def later(self, steps: int) -> Cell:
        """Return the cell some steps later."""
        return Cell(self.lag + steps, self.channel)


Group: TypeAlias = tuple[Cell, ...]
"""Cells that are counted together."""


@dataclass(frozen=True)
class WindowBond:
    """The rank of the bond before one channel of a step, and the groups of cells before it and from it on."""

    rank: int
    inside: tuple[Group, ...]
    outside: tuple[Group, ...]


@dataclass(frozen=True, eq=False)
class WindowPlan(Derived):
    """The bonds of one step, one before each block of channels, and all cells that are counted together for them.

    `leaf_ranks` are how many features of each block are informative about the other cells. `hats` are how many hat
    functions are counted of each block that is a channel of numbers, whose symbols are levels; 0 for other blocks.
    With `pairs`, a symbol is an input with its outputs (`of_pairs`).
    """

    blocks: ChannelBlocks
    leaf_ranks: tuple[int, ...]
    bonds: tuple[WindowBond, ...]
    hats: tuple[int, ...]
    pairs: bool = False

    @classmethod
    def of(
        cls,
        states: Sequence[int],
        hidden_states: int,
        order: int,
        channels: ChannelRule = "independent",
        max_rank: int | None = None,
        most_joint: int = MOST_JOINT,
        hats: Mapping[int, int] | None = None,
    ) -> WindowPlan:
        """Return the plan of a hidden Markov model; it depends on sizes alone, never on data.

        Channels are taken together while they have at most `most_joint` joint states. `hats` are the numbers of hat
        functions of channels of numbers, by their places; the states of such a channel are its levels.

        Raises
        ------
        ParameterError
            When the operators would be too large, or the chain is none of those that numbers can have.

        Examples
        --------
        >>> plan = WindowPlan.of([4], hidden_states=2, order=2)
        >>> plan.bonds[0].rank, plan.bonds[0].inside[0]
        (4, (Cell(lag=0, channel=0), Cell(lag=1, channel=0)))
        """
        composite = hidden_states**order
        blocks = ChannelBlocks.of(states, hidden_states, channels == "dependent", most_joint)
        counted = tuple(hats.get(block[0], 0) if hats else 0 for block in blocks.channels)
        states = tuple(own or symbols for own, symbols in zip(counted, blocks.symbols, strict=True))
        if (most := max(states)) > MOST_SYMBOLS:
            needed, allowed = (8 * PAIR_TABLES * count**2 / 2**30 for count in (most, MOST_SYMBOLS))
            raise ParameterError(
                f"a channel has {most:,} symbols, whose pairs would take {needed:.3g} GiB (the limit is "
                f"{MOST_SYMBOLS:,} symbols, {allowed:.3g} GiB); join rare ones, or fit EMHMM, which counts no pairs"
            )
        if hidden_states > max(counted) > 0:
            raise ParameterError(
                f"channels of numbers are learned with at most {max(counted)} hidden states, as many as hat "
                f"functions, not {hidden_states}; EMHMM has more"
            )
        if any(counted) and (order > 1 or (channels == "dependent" and len(states) > 1)):
            raise ParameterError(
                "channels of numbers are learned with order=1 and channels='independent', whose tables of hat "
                "functions stay small; EMHMM has other orders, and 'full' emissions of channels that depend on "
                "each other"
            )
        if len(states) == 1:
            # Channels of one block may depend on each other: the block as a whole sees no more than the state.
            channels = "independent"
        # In a random instance, no channel has more states than can make a difference.
        dependent = channels == "dependent"
        sizes = list(states) if dependent else [min(count, max(hidden_states, 2)) for count in states]
        within = [math.prod(sizes[:c]) if dependent else 1 for c in range(len(states))]
        widest = composite * max(within)
        if composite > MOST_RANK or widest > MOST_RANK * 4:
            raise ParameterError(
                f"a chain of order {order} with {hidden_states} hidden states and {len(states)} {channels} "
                f"channels has {in_short(widest)} composite states (the limit is {MOST_RANK}, and "
                f"{4 * MOST_RANK} within a step); lower hidden_states or order, or take channels='independent'"
            )
        chain = _RandomChain(sizes, hidden_states, order, dependent)
        bonds, fewer = [], []
        for channel in range(len(states)):
            rank = min(chain.rank(channel), max_rank or MOST_RANK)
            inside, outside = (_chosen(chain, channel, direction, rank) for direction in (1, -1))
            bonds.append(WindowBond(min(rank, inside[2], outside[2]), inside[0], outside[0]))
            fewer.append(WindowBond(bonds[-1].rank, inside[0][: inside[1]], outside[0][: outside[1]]))
        tables = {group for c in range(len(bonds)) for group in _tables(tuple(bonds), c)}
        size = sum(math.prod(states[cell.channel] for cell in group) for group in tables)
        seen = states if dependent else [min(count, hidden_states) for count in states]
        leaf_ranks = tuple(max(1, rank) for rank in seen)
        return cls(blocks, leaf_ranks, tuple(bonds if size <= MOST_TABLE else fewer), counted)

    @classmethod
    def of_pairs(
        cls, states: Sequence[int], hidden_states: int, order: int, max_rank: int | None = None
    ) -> WindowPlan:
        """Return the plan of a transducer: all channels are one block, of which the first are the inputs.

        A pair may say more than its hidden state does, since moves depend on it, so no features of it are left out.

        Raises
        ------
        ParameterError
            When there are too many pairs.
        """
        if (pairs := math.prod(states)) > MOST_PAIRS:
            raise ParameterError(
                f"inputs and outputs have {pairs:,} pairs of symbols (the limit is {MOST_PAIRS:,}); join rare ones"
            )
        plan = cls.of([pairs], hidden_states, order, "independent", max_rank)
        return replace(plan, blocks=ChannelBlocks(tuple(states), (len(states),)), leaf_ranks=(pairs,), pairs=True)

    @property
    def states(self) -> tuple[int, ...]:
        """What each block is counted as: its symbols, or hats."""
        return tuple(hats or symbols for hats, symbols in zip(self.hats, self.blocks.symbols, strict=True))

    def following(self, channel: int) -> tuple[Group, ...]:
        """Return the inside groups of the bond after a channel of a step."""
        return _following(self.bonds, channel)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells that are counted, in their order."""
        return tuple(sorted({cell for group in self.groups for cell in group}))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All groups that are counted: a cell, a view after it and a view before it."""
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
        """How many steps before its own a window goes, at most."""
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


def _chosen(chain: _RandomChain, channel: int, direction: int, rank: int) -> tuple[tuple[Group, ...], int, int]:
    """Return groups of the smallest size whose stacked features reach a rank, or else come closest to it.

    Some more like them, further away, follow, which repeat what they show. The groups, how many of them the rank
    needs, and the rank reached.
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
    # What the rank needs stays, however much it is.
    most = max(len(chosen), min(MOST_GROUPS, steps * width))
    return tuple(dict.fromkeys(chosen + further))[:most], needed, reached


class _RandomChain:
    """A random hidden Markov model of the same sizes: what groups of cells see of it, they nearly always do.

    `sizes` are the states of each channel, and `steps` the operators of each channel of a step, shape (states
    before, channel's states, states after), the last with the transition to the next step.
    """

    def __init__(self, sizes: list[int], hidden_states: int, order: int, dependent: bool) -> None:
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

    def rank(self, channel: int) -> int:
        """Return the largest rank that the bond before a channel can have."""
        after = self.steps[0].shape[0] * math.prod(self.sizes[channel:])
        return int(min(self.steps[channel].shape[0], after))

    def cells(self, channel: int, direction: int, wanted: int) -> Iterator[Cell]:
        """Yield the cells after (1) or before (-1) the bond before a channel, the nearest first."""
        for k in range(wanted):
            yield self._moved(Cell(0, channel), k if direction > 0 else -1 - k)

    def sees(self, channel: int, direction: int, group: Group) -> Floats:
        """Return the distributions of a group and of the states at the bond, shape (states, configurations)."""
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
