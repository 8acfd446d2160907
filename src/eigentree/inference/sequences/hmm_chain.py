"""`Chain`: a hidden Markov model of any order with one set of tables for all steps, and exact inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.sequences.forward_backward import (
    decode_steps,
    filter_steps,
    sample_given_steps,
    sample_steps,
    smooth_steps,
)
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.cell_tables import CellQueries, CellTables
from eigentree.inference.sequences.number_steps import (
    Numbered,
    NumberPass,
    ShownSteps,
)
from eigentree.inference.sequences.sequence_passes import SequencePass, Symbols, product_chain, sums_of_sequences
from eigentree.validation import check_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.tables.columns import Columns

__all__ = ["Chain"]


@dataclass(frozen=True, eq=False)
class Chain(CellQueries):
    """A homogeneous hidden Markov model: tables of hidden states, and of each channel given the state.

    Attributes
    ----------
    columns : Columns
        One column per channel.
    links : tuple of array, shapes (states,), (states, states), …
        P(state of step 0), P(state of step 1 | that of step 0), …, up to one table for each order; the last, given
        as many earlier states as the order, is used at all further steps. Axes: earlier states first, the state
        last.
    emissions : tuple of array, shape (states, states of a channel)
        P(cell | state) of each channel; ones for a channel of numbers, which has one state.
    parallel : tuple of tuple of array
        The links of each chain, where states are those of several chains together that move on independently of
        each other, and `links` are products.
    numbers : mapping of tuple of int to Emission
        What the number channels show in each state, by the places of the channels of each group.
    """

    columns: Columns
    links: tuple[Floats, ...]
    emissions: tuple[Floats, ...]
    parallel: tuple[tuple[Floats, ...], ...] = ()
    numbers: Numbered = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        columns: Columns,
        chains: Sequence[Sequence[Floats]],
        emissions: Sequence[Floats],
        numbers: Numbered | None = None,
    ) -> Chain:
        """Return the chain of one or of a factorial HMM, given the links of each of its chains."""
        links = tuple(product_chain(tables) for tables in zip(*chains, strict=True))
        parallel = tuple(map(tuple, chains)) if len(chains) > 1 else ()
        return cls(columns, links, tuple(emissions), parallel, dict(numbers or {}))

    @property
    def chains(self) -> tuple[tuple[Floats, ...], ...]:
        """The links of each chain: of this one, or of those of a factorial HMM."""
        return self.parallel or (self.links,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each chain."""
        return tuple(len(links[0]) for links in self.chains)

    @property
    def states(self) -> int:
        """Number of hidden states."""
        return len(self.links[0])

    @property
    def order(self) -> int:
        """How many earlier states a state depends on."""
        return len(self.links) - 1

    def _read(
        self, sequences: Sequences
    ) -> tuple[tuple[NDArray[Any], Integers, Floats, tuple[Floats, ...]], Floats]:
        """Return what all loops over sequences read, and by how much the log of each step is more."""
        shown = ShownSteps.of(self.columns, sequences.codes, sequences.values, self.numbers)
        steps, lines, highest = shown.lines(self.emissions, list(self.numbers.values()))
        return (steps, sequences.starts, lines, self.links), highest

    def log_prob(self, sequences: Sequences, threads: int = 1) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out; -inf if it is impossible.

        With numbers it is a log density.
        """
        weights = np.ones(sequences.count)
        if self.numbers:
            codes, values, starts = sequences.codes, sequences.values, sequences.starts
            numbered = NumberPass(self.columns, codes, values, starts, weights, self.numbers, threads)
            return numbered.log_prob(self.links, self.emissions, list(self.numbers.values()))
        symbols = Symbols.of(sequences.codes, self.columns.states)
        every = SequencePass(symbols, sequences.starts, weights, threads)
        return every.log_prob(self.links, self.emissions)

    def filtered(self, sequences: Sequences) -> tuple[Floats, Floats]:
        """Return P(state | steps so far), shape (steps, states), and the message at the end of each sequence."""
        return filter_steps(*self._read(sequences)[0])

    def smoothed(self, sequences: Sequences) -> Floats:
        """Return P(state | all steps of its sequence), shape (steps, states); zeros where that is impossible."""
        return smooth_steps(*self._read(sequences)[0])

    def decoded(self, sequences: Sequences) -> tuple[Integers, Floats]:
        """Return the jointly most probable states of all steps, and their log probability with each sequence.

        States are -1 where a sequence is impossible.
        """
        known, highest = self._read(sequences)
        states, log_prob = decode_steps(*known)
        return states, log_prob + sums_of_sequences(highest, sequences.starts)

    def shares(self, length: int) -> Floats:
        """Return how often each state is expected, as a share of so many steps from the beginning of a sequence."""
        messages, total = np.ones((1, 1)), np.zeros(self.states)
        for step in range(length):
            messages = self._ahead(messages, step)
            total += messages.reshape(-1, self.states).sum(axis=0)
        return total / length

    def _ahead(self, messages: Floats, earlier: int) -> Floats:
        """Return messages after one more step, given how many steps were before them."""
        longer = messages[:, :, None] * self.links[min(earlier, self.order)].reshape(-1, self.states)
        # The oldest state of a full message is dropped.
        dropped = self.states if earlier >= self.order else 1
        return np.asarray(longer.reshape(len(messages), dropped, -1).sum(axis=1))

    def states_ahead(self, sequences: Sequences, steps: int) -> Floats:
        """Return P(state so many steps after the end | sequence), shape (sequences, states).

        Zeros for a sequence that is impossible.
        """
        _, ends = self.filtered(sequences)
        known = np.minimum(sequences.lengths, self.order)
        state = np.zeros((sequences.count, self.states))
        for earlier in np.unique(known).tolist():
            own = np.flatnonzero(known == earlier)
            size = self.states**earlier
            messages = ends[own, :size] if earlier else np.ones((len(own), 1))
            for step in range(steps):
                messages = self._ahead(messages, earlier + step)
            state[own] = messages.reshape(len(own), -1, self.states).sum(axis=1)
        return state

    def cells_at(self, sequences: Sequences, ahead: int = 0) -> CellTables:
        """Return the distributions of the cells of all steps, or so many steps after the end of each sequence."""
        return self._cells(sequences.count if ahead else sequences.steps)

    def _cells(self, steps: int) -> CellTables:
        tables = [table[None] for table in self.emissions]
        return CellTables(self.columns, tables, self.numbers, np.zeros(steps, np.int64))

    def drawn(self, starts: Integers, random: np.random.Generator) -> NDArray[Any]:
        """Return the cells of new sequences, shape (steps, channels): codes, or floats where some are numbers."""
        return self.shown(self.drawn_states(starts, random), random)

    def shown(self, states: Integers, random: np.random.Generator) -> NDArray[Any]:
        """Return cells sampled given the hidden state of each step, shape (steps, channels)."""
        return self._cells(len(states)).sampled(states, random)

    def drawn_states(self, starts: Integers, random: np.random.Generator) -> Integers:
        """Return the hidden states of new sequences, end to end."""
        return sample_steps(starts, self.links, random.random(int(starts[-1])))

    def sampled_states(self, sequences: Sequences, random: np.random.Generator) -> Integers:
        """Return the hidden states of all steps, sampled given the sequences; -1 where one is impossible."""
        return sample_given_steps(*self._read(sequences)[0], random.random(sequences.steps))

    def network(self, length: int) -> LatentNetwork:
        """Return the network of sequences of one length: a hidden h0, h1, … with the channels of its step below.

        The channel c of step t is called ``c_t``; a single channel that has no name of its own, xt. Of a factorial
        HMM, the hidden variables are h0_t, h1_t, …. With numbers it is a `MixedNetwork`.
        """
        check_variables("this network", length * (len(self.sizes) + len(self.emissions)))
        hidden = [_hidden_names(self.parallel, step) for step in range(length)]
        states = {name: size for now in hidden for name, size in zip(now, self.sizes, strict=True)}
        edges, tables, emissions = [], {}, {}
        for step, now in enumerate(hidden):
            for place, links in enumerate(self.chains):
                earlier = [before[place] for before in hidden[max(0, step - self.order) : step]]
                edges += [(name, now[place]) for name in earlier]
                tables[now[place]] = links[len(earlier)]
            names = _step_names(self.columns, step)
            for name, count, table in zip(names, self.columns.states, self.emissions, strict=True):
                states[name] = count
                edges += [(parent, name) for parent in now]
                tables[name] = table.reshape(*self.sizes, count)
            for group, emission in self.numbers.items():
                emissions[tuple(names[place] for place in group)] = emission
        graph = LatentGraph(
            states=states, edges=edges, hidden=[name for now in hidden for name in now], directed=True
        )
        if not emissions:
            return LatentNetwork(graph, tables)
        numbers = {name for group in emissions for name in group}
        known = {name: table for name, table in tables.items() if name not in numbers}
        from eigentree.inference.mixed.mixed_network import MixedNetwork

        return MixedNetwork(graph, known, emissions)

    def permuted(self, orders: Sequence[Integers]) -> Chain:
        """Return the same with states in another order: state i of a chain is now its state ``order[i]``."""
        chains = [
            [table[np.ix_(*[order] * table.ndim)] for table in links]
            for order, links in zip(orders, self.chains, strict=True)
        ]
        every = np.arange(self.states).reshape(self.sizes)[np.ix_(*orders)].ravel()
        numbers = {group: emission.permuted(every) for group, emission in self.numbers.items()}
        return Chain.of(self.columns, chains, [table[every] for table in self.emissions], numbers)


def _hidden_names(parallel: Sequence[object], step: int) -> list[str]:
    return [f"h{place}_{step}" for place in range(len(parallel))] or [f"h{step}"]


def _step_names(columns: Columns, step: int) -> list[str]:
    if len(columns.names) == 1 and not columns.named:
        return [f"x{step}"]
    return [f"{name}_{step}" for name in columns.names]
