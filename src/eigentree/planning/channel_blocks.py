"""Channels that are taken together: the cells of a step as one symbol for each block of channels.

A channel with fewer states than the hidden chain sees too little of it alone, and channels that depend on each
other given the state would need operators of their own within a step. Where their joint states are few, they are
one symbol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers

__all__ = ["MOST_JOINT", "ChannelBlocks"]

MOST_JOINT = 36
"""Most joint states of channels that are taken together."""


@dataclass(frozen=True)
class ChannelBlocks:
    """Which channels are taken together.

    A *pattern* of a block is what its cells hold, missing ones included: a number whose digits are the codes of
    the cells. A *symbol* is a pattern without missing cells, and such are numbered by themselves.

    Attributes
    ----------
    states : tuple of int
        Of each channel.
    sizes : tuple of int
        How many channels each block has, in their order.
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
