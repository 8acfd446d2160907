"""Hidden Markov models with known tables, worked out by brute force: the truth about sequences."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.tables.columns import Columns


@dataclass(frozen=True)
class Chain:
    """A homogeneous chain of composite states, whose oldest part emits; its start is not stationary.

    Attributes
    ----------
    start : array, shape (composite states,)
    transition : array, shape (composite states, composite states)
    emission : array, shape (composite states, joint states of all channels)
    states : tuple of int
        Of each channel.
    """

    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    states: tuple[int, ...]

    @classmethod
    def random(cls, hidden, order, states, seed, dependent=False, concentration=1.0, sticky=0.0):
        random = np.random.default_rng(seed)
        composite = hidden**order
        moving = random.dirichlet(np.full(hidden, concentration), composite)
        transition = np.zeros((composite, composite))
        for state in range(composite):
            kept = state % (composite // hidden) * hidden
            transition[state, kept : kept + hidden] = moving[state]
        transition = (1 - sticky) * transition + sticky * np.eye(composite)
        joint = math.prod(states)
        if dependent:
            emission = random.dirichlet(np.full(joint, concentration), hidden)
        else:
            emission = np.ones((hidden, 1))
            for count in states:
                own = random.dirichlet(np.full(count, concentration), hidden)
                emission = np.einsum("ha,hb->hab", emission, own).reshape(hidden, -1)
        emitting = np.arange(composite) // (composite // hidden)
        return cls(random.dirichlet(np.ones(composite)), transition, emission[emitting], tuple(states))

    def joint_codes(self, steps):
        """Return the joint state of all channels at each step, shape (…)."""
        return np.ravel_multi_index(tuple(np.moveaxis(np.asarray(steps, int), -1, 0)), self.states)

    def log_prob(self, steps):
        """Return the log probability of one sequence, shape (steps, channels)."""
        message, found = self.start, 0.0
        for symbol in self.joint_codes(steps):
            message = message * self.emission[:, symbol]
            total = message.sum()
            found += math.log(total)
            message = message / total @ self.transition
        return found

    def probability(self, known):
        """Return the probability of one sequence whose steps are sets of joint states, as masks."""
        message = self.start
        for mask in known:
            message = (message * (self.emission @ mask)) @ self.transition
        return float(message.sum())

    def next_step(self, steps, ahead=1):
        """Return the distribution of the joint state some steps after a sequence."""
        message = self.start
        for symbol in self.joint_codes(steps):
            message = message * self.emission[:, symbol]
            message = message / message.sum() @ self.transition
        for _ in range(ahead - 1):
            message = message @ self.transition
        return (message @ self.emission).reshape(self.states)

    def every(self, length):
        """Return all sequences of a length, shape (sequences, length, channels), and their probabilities."""
        joint = math.prod(self.states)
        symbols = np.array(list(itertools.product(range(joint), repeat=length)))
        message = np.broadcast_to(self.start, (len(symbols), len(self.start)))
        for t in range(length):
            message = message * self.emission[:, symbols[:, t]].T
            message = message @ self.transition if t < length - 1 else message
        return np.stack(np.unravel_index(symbols, self.states), axis=-1), message.sum(axis=1)

    def sample(self, count, length, seed):
        """Return sampled sequences, shape (count, length, channels)."""
        random = np.random.default_rng(seed)
        hidden = random.choice(len(self.start), count, p=self.start)
        found = np.empty((count, length, len(self.states)), int)
        moves, symbols = self.transition.cumsum(axis=1), self.emission.cumsum(axis=1)
        for t in range(length):
            drawn = np.minimum((random.random((count, 1)) > symbols[hidden]).sum(axis=1), symbols.shape[1] - 1)
            found[:, t] = np.stack(np.unravel_index(drawn, self.states), axis=-1)
            hidden = np.minimum((random.random((count, 1)) > moves[hidden]).sum(axis=1), len(self.start) - 1)
        return found

    def columns(self):
        """Return the channels as plain codes."""
        return Columns(tuple(f"x{channel}" for channel in range(len(self.states))), self.states)

    def sequences(self, parts):
        """Return sequences of codes, each of shape (steps, channels) and -1 where a cell is missing."""
        columns = self.columns()
        steps = np.concatenate([np.asarray(part).reshape(-1, len(self.states)) for part in parts])
        codes = np.where(steps < 0, np.array(self.states), steps).astype(columns.code_type)
        starts = np.cumsum([0, *(len(part) for part in parts)])
        return Sequences(columns, np.asfortranarray(codes), starts)
