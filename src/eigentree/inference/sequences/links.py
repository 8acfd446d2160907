"""How the states of steps follow each other: under a Markov chain, and where that depends on inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from eigentree.core.sequences.forward_backward import expected_sequences, split_links
from eigentree.inference.sequences.sequence_passes import LinkCounts
from eigentree.inference.sequences.tree_steps import group_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.inference.sequences.number_steps import Part

__all__ = ["InputLinks", "Links", "MarkovLinks", "known_steps"]


class Links(Protocol):
    """How the states of a chain follow each other."""

    def expected(self, part: Part, lines: Floats) -> LinkCounts:
        """Return what is expected of sequences, given the likelihood of each step in each state."""


class MarkovLinks(NamedTuple):
    """The tables of a Markov chain, which are the same at all steps."""

    tables: Sequence[Floats]

    def expected(self, part: Part, lines: Floats) -> LinkCounts:
        """Return what is expected of sequences, given the likelihood of each step in each state."""
        own = np.zeros(len(part.numbers))
        used, states = expected_sequences(*known_steps(part), lines, self.tables, own)
        return LinkCounts(split_links(used, self.tables), states, own)


class InputLinks(NamedTuple):
    """Where a chain, or a tree, starts and moves on, for each input.

    Attributes
    ----------
    start : array, shape (inputs, states)
        P(first state | input); of one input, where it depends on none.
    moves : array, shape (inputs, states, states)
        P(state | state before, input); likewise.
    """

    start: Floats
    moves: Floats

    @classmethod
    def everywhere(cls, start: Floats, moves: Floats) -> InputLinks:
        """Return where a chain, or a tree, starts and moves on that depends on no input."""
        return cls(start[None], moves[None])

    def starts_of(self, which: Integers) -> Floats:
        """Return the distributions of first states at steps, given the input of each."""
        return self.start[which * (len(self.start) > 1)]

    def moves_of(self, which: Integers) -> Floats:
        """Return the transitions to steps, given the input of each; those that are the same at all steps once."""
        return self.moves[which] if len(self.moves) > 1 else self.moves

    def rows_of(self, which: Integers, before: Integers) -> Floats:
        """Return the distributions of states at steps, given the input of each and the state before it."""
        return self.moves[which * (len(self.moves) > 1), before]

    def back(self, messages: Floats, which: Integers) -> Floats:
        """Return the messages of steps to those before them."""
        if len(self.moves) == 1:
            return np.asarray(messages @ self.moves[0].T)
        return np.asarray((self.moves[which] @ messages[:, :, None])[:, :, 0])

    def on(self, messages: Floats, which: Integers) -> Floats:
        """Return the messages to steps of those before them."""
        if len(self.moves) == 1:
            return np.asarray(messages @ self.moves[0])
        return np.asarray((messages[:, None, :] @ self.moves[which])[:, 0, :])

    def expected(self, part: Part, lines: Floats) -> LinkCounts:
        """Return what is expected of sequences, given the likelihood of each step in each state."""
        which = part.shown.which
        if part.trees is not None:
            return part.trees.expected(self, which, lines, part.weights)
        # The transitions are those of a Markov chain, and P(first state | input) is part of what first steps show.
        first = part.starts[:-1]
        lines[first] *= self.starts_of(which[first])
        found = MarkovLinks([np.ones(self.start.shape[1]), self.moves[0]]).expected(part, lines)
        start = group_sums(found.states[first], which[first], len(self.start))
        return found._replace(links=[start, found.links[1][None]])

    @property
    def logarithms(self) -> InputLinks:
        """The logs of all probabilities."""
        with np.errstate(divide="ignore"):
            return InputLinks(np.log(self.start), np.log(self.moves))


def known_steps(part: Part) -> tuple[NDArray[Any], Integers, Integers, Floats]:
    """Return what loops over sequences read first of a part: each step is a symbol of its own."""
    symbols = np.arange(part.starts[-1], dtype=np.uint32)
    return symbols, part.starts, np.arange(len(part.numbers)), part.weights
