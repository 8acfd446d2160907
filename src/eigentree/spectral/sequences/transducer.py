"""`Transducer`: operators of pairs of symbols, and the distribution of outputs given inputs that is made of them.

A transducer reads an input at each step, writes an output, and moves on, all by probabilities that depend on its
hidden state. If the inputs of the training sequences are known from earlier pairs as well as anything can (they may
depend on those, but not on the hidden state beside), the pairs are a process whose operators are, for independent
inputs, A_(x,y) = P(x) B_(x,y), with the operators B_(x,y) of P(output | input). Balle, Quattoni and Carreras (2011)
divide by the probabilities of the inputs. Here they cancel: by the chain rule

    P(y_1 … y_L | x_1 … x_L) = prod_t  q(x_t, y_t | pairs before) / sum_y q(x_t, y | pairs before)

with the normalised q of `SpectralSequenceModel`, which is positive, so that P is normalised for every input. Inputs
that depend on each other raise the rank: of a Markov chain of m inputs up to m times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.counting.window_counts import batches_of_steps
from eigentree.data.sequences.inputs import InputSequences
from eigentree.planning.window_plan import ChannelBlocks
from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns

__all__ = ["Transducer", "output_columns", "paired"]

MOST_NUMBERS = 2**22
"""Numbers of a table of all pairs for some steps, which is made for as many steps at a time."""


@dataclass(frozen=True, eq=False)
class Transducer(SpectralSequenceModel):
    """A distribution over outputs given inputs; its sequences are such with inputs, one symbol at each step.

    Attributes
    ----------
    fit, shrinkage, floor, marginals, scales
        Of the pairs, as those of `SpectralSequenceModel`.
    input_columns : Columns
    """

    input_columns: Columns = None  # type: ignore[assignment]

    @property
    def _outputs(self) -> ChannelBlocks:
        """The block of the outputs alone."""
        states = self.fit.plan.blocks.states[1:]
        return ChannelBlocks(states, (len(states),))

    def _codes(self, sequences: Sequences, steps: slice = slice(None)) -> Codes:
        """Return the codes of pairs."""
        assert isinstance(sequences, InputSequences)
        return paired(sequences.which[steps], sequences.codes[steps])

    def _log_prob_of(self, sequences: Sequences, first: int, last: int) -> Floats:
        """Return the log probability of the outputs of some of the sequences, given their inputs."""
        patterns, starts = self._patterns(sequences, first, last)
        scores = self.step_scores(patterns, starts, np.ones(last - first, np.bool_))
        owner = np.repeat(np.arange(last - first), np.diff(starts))
        return np.asarray(np.bincount(owner, scores, last - first), np.float64)

    @our_arithmetic
    def step_scores(self, codes: Codes, starts: Integers, begins: Booleans) -> Floats:
        """Return the log probability of the outputs of each step given its input and the pairs before it."""
        messages = self.scored(codes, starts, begins, messages=True).messages
        fits = self._outputs.matches[0]
        inputs, outputs = np.divmod(codes[:, 0].astype(np.int64), len(fits))
        found = np.empty(len(codes))
        for part, table in self._tables(messages, inputs):
            found[part] = (table * fits[outputs[part]]).sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.minimum(np.log(found), 0.0)

    def _tables(self, messages: Floats, inputs: Integers) -> Iterator[tuple[slice, Floats]]:
        """Yield the distributions of outputs at some steps, given their inputs and the messages before them."""
        shape = (self.fit.plan.blocks.states[0], self._outputs.symbols[0])
        own = self.marginals[0].reshape(shape)
        # Where nothing is known of an input, outputs are as they are at others.
        own = np.where(own.sum(axis=1, keepdims=True) > 0, own, own.sum(axis=0))
        size = max(1, MOST_NUMBERS // (shape[0] * shape[1]))
        for begin in range(0, len(messages), size):
            part = slice(begin, begin + size)
            joint = self._distributions(messages[part], 0).reshape(-1, *shape)
            table = joint[np.arange(len(joint)), inputs[part]]
            table = np.where(table.sum(axis=1, keepdims=True) > 0, table, own[inputs[part]])
            yield part, table / table.sum(axis=1, keepdims=True)

    def _channels(self, messages: Floats, inputs: Integers) -> list[Floats]:
        """Return the distribution of each output channel at steps, given their inputs and the messages before."""
        found = [table for _, table in self._tables(messages, inputs)]
        outputs = self._outputs
        joint = np.concatenate(found) if found else np.empty((0, outputs.symbols[0]))
        return outputs.channel_tables(0, joint)

    @our_arithmetic
    def ahead(self, sequences: Sequences, steps: int = 1) -> list[Floats]:
        """Return the distribution of each output some steps after the last of each sequence, given all inputs."""
        assert isinstance(sequences, InputSequences)
        lengths = sequences.lengths + steps
        starts = np.concatenate([[0], np.cumsum(lengths)])
        last = starts[1:] - 1
        codes = np.empty((int(starts[-1]), len(self.fit.plan.blocks.states)), np.int64)
        codes[:] = self.fit.plan.blocks.states
        known = np.arange(len(codes)) < np.repeat(starts[:-1] + sequences.lengths, lengths)
        codes[known] = self._codes(sequences)
        codes[~known, 0] = sequences.ahead[:, :steps].ravel()
        parts: list[list[Floats]] = []
        for first, end in batches_of_steps(starts):
            own = slice(int(starts[first]), int(starts[end]))
            patterns = self.fit.plan.blocks.encoded(codes[own])
            messages = self.scored(patterns, starts[first : end + 1] - starts[first], messages=True).messages
            wanted = last[first:end]
            parts.append(self._channels(messages[wanted - own.start], codes[wanted, 0]))
        return [np.concatenate(tables) for tables in zip(*parts, strict=True)]

    @our_arithmetic
    def filtered(self, sequences: Sequences) -> list[Floats]:
        """Return the distribution of each output at each step, given its input and the pairs before it."""
        assert isinstance(sequences, InputSequences)
        parts = []
        for first, last, patterns, own in self._parts(sequences):
            messages = self.scored(patterns, own, messages=True).messages
            steps = slice(int(sequences.starts[first]), int(sequences.starts[last]))
            parts.append(self._channels(messages, sequences.which[steps]))
        return [np.concatenate(tables) for tables in zip(*parts, strict=True)]

    @our_arithmetic
    def drawn(self, sequences: Sequences, random: np.random.Generator) -> Codes:  # type: ignore[override]
        """Return the outputs of new sequences with these inputs, sampled step after step."""
        assert isinstance(sequences, InputSequences)
        outputs = np.empty_like(sequences.codes)
        for first, last in batches_of_steps(sequences.starts):
            steps = slice(int(sequences.starts[first]), int(sequences.starts[last]))
            missing = np.broadcast_to(np.array(self.fit.plan.blocks.states[1:]), outputs[steps].shape)
            codes = paired(sequences.which[steps], missing)
            own = sequences.starts[first : last + 1] - steps.start
            outputs[steps] = self._drawn(codes, own, random)[:, 1:]
        return outputs

    def filled(
        self, sequences: Sequences, method: Literal["mode", "median", "sample"], random: np.random.Generator
    ) -> tuple[Codes | Floats, int]:
        """Return the codes of all outputs, missing ones filled, as `SpectralSequenceModel` does those of pairs."""
        made, lost = super().filled(sequences, method, random)
        return made[:, 1:], lost


def paired(inputs: Integers, codes: Codes) -> Codes:
    """Return the codes of pairs, inputs first."""
    return np.asfortranarray(np.column_stack([inputs, codes]).astype(np.int64))


def output_columns(columns: Columns) -> Columns:
    """Return the columns of outputs, given those of pairs."""
    return replace(columns, names=columns.names[1:], states=columns.states[1:], meanings=columns.meanings[1:])
