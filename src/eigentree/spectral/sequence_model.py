"""The model that windows leave: one distribution over sequences of every length, step after step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.checks import our_arithmetic
from eigentree.engine.walking import floor_of
from eigentree.kernels.stepping import smooth, walk_sequences
from eigentree.kernels.walking import CLIPPED

if TYPE_CHECKING:
    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.engine.walking import Floor
    from eigentree.kernels.stepping import StepOperators
    from eigentree.spectral.windows import WindowFit

__all__ = ["SequenceModel", "StepsWalked"]


class StepsWalked(NamedTuple):
    """What a walk finds about sequences.

    Attributes
    ----------
    log_prob : (sequences,)
    clipped : (sequences,)
        How much of the channels' own distributions was put in place of what was negative, summed over cells.
    refused : (sequences,)
        Cells whose own probability was not positive.
    each : (steps,)
        The log probability of each step given those before it; empty unless asked for.
    messages : (steps, rank)
        The message before each step; empty unless asked for.
    last : (sequences, rank)
        The message behind the last step of each sequence; empty unless asked for.
    """

    log_prob: Floats
    clipped: Floats
    refused: Floats
    each: Floats
    messages: Floats
    last: Floats


@dataclass(frozen=True, eq=False)
class SequenceModel:
    """Operators of one step, and the distribution that is made of them cell by cell.

    The rule is that of `eigentree.engine.walking`, the cells of a sequence one after the other: what is negative is
    left out and made up for by the channel's own distribution, and a cell that may come from that says less about
    those after it. So all sequences of a length add up to 1, and so do those with the same cells missing.

    Attributes
    ----------
    fit : WindowFit
    shrinkage : float
    floor : float
        The share of its channel's own distribution that each cell has at least.
    marginals : tuple of array, shape (symbols,)
        The distribution of each block of channels over all steps.
    """

    fit: WindowFit
    shrinkage: float
    floor: float
    marginals: tuple[Floats, ...]

    @cached_property
    def operators(self) -> StepOperators:
        """The operators of a step."""
        return self.fit.operators(self.shrinkage)

    @cached_property
    def _floor(self) -> Floor:
        return floor_of(self.floor, self.marginals)

    @property
    def rank(self) -> int:
        """The size of a message between two steps."""
        return int(self.operators.ranks[0])

    def walked(
        self,
        codes: Codes,
        starts: Integers,
        begins: Booleans | None = None,
        each: bool = False,
        messages: bool = False,
        last: bool = False,
    ) -> StepsWalked:
        """Return what a walk finds about sequences that lie end to end.

        Parameters
        ----------
        codes : array, shape (steps, blocks)
            Patterns of the blocks of channels.
        starts : array, shape (sequences + 1,)
        begins : array of bool, shape (sequences,), optional
            Where nothing is known of the steps before a sequence's first; by default all begin with it.
        each, messages, last : bool
            Whether the probability of each step, the message before each, and that behind the last are wanted.
        """
        nothing = np.empty((codes.shape[1], 0))
        return self._walk(codes.T, starts, begins, nothing, nothing.astype(codes.dtype), each, messages, last)

    @our_arithmetic
    def draw(self, codes: Codes, starts: Integers, random: np.random.Generator) -> Codes:
        """Return patterns whose missing cells are filled, each drawn given the cells before it alone."""
        drawn = np.empty_like(codes.T)
        self._walk(codes.T, starts, None, random.random(drawn.shape), drawn)
        return drawn.T

    @our_arithmetic
    def _walk(
        self,
        lines: Codes,
        starts: Integers,
        begins: Booleans | None,
        uniform: Floats,
        drawn: Codes,
        each: bool = False,
        messages: bool = False,
        last: bool = False,
    ) -> StepsWalked:
        count, steps = len(starts) - 1, lines.shape[1]
        found = np.zeros((3, count))
        told = np.empty(steps if each else 0)
        before = np.empty((steps if messages else 0, self.rank))
        behind = np.empty((count if last else 0, self.rank))
        known = np.ones(count, bool) if begins is None else begins
        space = self._space()
        walk_sequences(
            self.operators, self._floor, lines, starts, known, uniform, drawn, space, found, told, before, behind
        )
        log_prob, clipped, refused = found
        return StepsWalked(log_prob, clipped, refused, told, before, behind)

    def ahead(self, messages: Floats, steps: int) -> list[Floats]:
        """Return the distribution of each channel some steps after messages, those between not being known.

        Parameters
        ----------
        messages : array, shape (messages, rank)
        steps : int
            At least 1, which is the step right behind a message.

        Returns
        -------
        list of array, shape (messages, states)
            For each channel, the others of the same step not being known.
        """
        blocks = self.fit.plan.blocks
        for _ in range(steps - 1):
            for block in range(len(blocks.sizes)):
                messages = self._passed(messages, block)
        found = []
        for block in range(len(blocks.sizes)):
            found += blocks.channel_tables(block, self._distributions(messages, block))
            messages = self._passed(messages, block)
        return found

    def _passed(self, messages: Floats, channel: int) -> Floats:
        """Return messages behind a missing cell."""
        operators = self.operators
        before, after = operators.ranks[channel : channel + 2].tolist()
        first = int(operators.first_value[channel]) + int(operators.states[channel]) * before * after
        passed = messages @ operators.values[first : first + before * after].reshape(before, after)
        following = (channel + 1) % len(operators.states)
        passed = np.clip(passed, operators.low[following, :after], operators.high[following, :after])
        passed[:, 0] = 1.0
        return np.asarray(passed)

    def _distributions(self, messages: Floats, channel: int) -> Floats:
        """Return the distribution of a channel's next cell given each message."""
        operators, marginal = self.operators, self.marginals[channel]
        rank, first = int(operators.ranks[channel]), int(operators.first_head[channel])
        table = messages @ operators.heads[first : first + rank * len(marginal)].reshape(rank, len(marginal))
        positive = np.maximum(table, 0.0)
        kept = positive.sum(axis=1, keepdims=True)
        clipped = CLIPPED * (kept - table.sum(axis=1, keepdims=True))
        usable = (kept > 0) & np.isfinite(kept)
        own = np.divide(positive + clipped * marginal, kept + clipped, out=np.zeros_like(table), where=usable)
        return np.asarray(np.where(usable, (1 - self.floor) * own + self.floor * marginal, marginal))

    @our_arithmetic
    def smoothed(self, codes: Codes, wanted: Integers) -> Floats:
        """Return the distribution of the symbols of wanted blocks of one sequence, given all that is known of it.

        What the cells on either side say is multiplied together through the operators; what is negative is left out
        as in a walk.

        Parameters
        ----------
        codes : array, shape (steps, blocks)
            Patterns of one sequence.
        wanted : array, shape (steps, blocks)
            -1, or which line of the answer the distribution of a block is; lines are numbered from 0 without a gap.

        Returns
        -------
        array, shape (wanted, most symbols)
            Zeros where a symbol does not fit what is known of its block.
        """
        found = np.zeros((int(wanted.max(initial=-1)) + 1, max(map(len, self.marginals))))
        cells = codes.size
        space = self._space()
        smooth(
            self.operators,
            self._floor,
            codes.T,
            wanted.T,
            space,
            np.empty((cells + 1, space.shape[1])),
            np.empty((cells, 4)),
            found,
        )
        return found

    def _space(self) -> Floats:
        return np.empty((3, max(int(self.operators.ranks.max()), int(self.operators.states.max()))))
