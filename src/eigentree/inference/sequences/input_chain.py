"""`InputChain`: a hidden Markov model whose tables depend on inputs, and exact inference."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.data.sequences.inputs import are_symbols
from eigentree.inference.sequences.cell_tables import CellTables, StepQueries
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.links import InputLinks
from eigentree.inference.sequences.number_steps import Numbered, ShownSteps
from eigentree.inference.sequences.tree_steps import TreeSteps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.inputs import InputSequences
    from eigentree.data.tables.columns import Columns
    from eigentree.emissions.base import Emission

__all__ = ["Affected", "Dependence", "DependentTable", "InputChain", "InputTables"]

Dependence = Literal["fixed", "tables", "logit"]
"""How a table depends on inputs: it does not, there is one for each symbol, or by a multinomial logit."""

Affected = Literal["start", "transitions", "emissions"]
"""What may depend on inputs."""


@dataclass(frozen=True, eq=False)
class DependentTable:
    """A conditional probability table that may depend on inputs.

    Attributes
    ----------
    kind : {"fixed", "tables", "logit"}
    array : array
        Of "fixed" probabilities, shape (rows, classes); of "tables" such of each symbol, shape (symbols, rows,
        classes); of "logit" coefficients, shape (covariates, rows, classes), zero in the first class of a row that
        is possible.
    possible : array of bool, shape (rows, classes)
    groups : array of int, shape (classes,), optional
        Of a logit of one row: the group of each class, 0, 0, …, 1, …. Which group it is depends on inputs, which
        class of it does not: their coefficients differ in intercepts only, those of the first covariate.
    """

    kind: Dependence
    array: Floats
    possible: Booleans
    groups: Integers | None = None

    def proba(self, design: Floats) -> Floats:
        """Return the probabilities at inputs, shape (inputs, rows, classes); of one input where it is fixed."""
        if self.kind == "fixed":
            return self.array[None]
        found: Floats = np.tensordot(design, self.array, 1)
        if self.kind == "logit":
            found = np.where(self.possible, found, -np.inf)
            found -= found.max(axis=-1, keepdims=True)
            np.exp(found, out=found)
            found /= found.sum(axis=-1, keepdims=True)
        return found

    @property
    def coefficients(self) -> Floats:
        """The coefficients of a multinomial logit; those of symbols are the first, and differences from it."""
        if self.kind == "logit":
            return self.array
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.array)
            reference = self.possible.argmax(axis=1)
            logs = np.where(self.possible, logs - logs[:, np.arange(len(reference)), reference, None], 0.0)
            found: Floats = np.concatenate([logs[:1], logs[1:] - logs[0]])
        return found

    def permuted(self, rows: Integers | None, classes: Integers | None) -> DependentTable:
        """Return the table with rows and classes in another order; None leaves one as it is."""
        array, possible = self.array, self.possible
        if rows is not None:
            array, possible = array[..., rows, :], possible[rows]
        if classes is not None:
            array, possible = array[..., classes], possible[:, classes]
        if self.kind == "logit":
            reference = possible.argmax(axis=1)
            array = np.where(possible, array - array[:, np.arange(len(reference)), reference, None], 0.0)
        groups = None if self.groups is None else np.sort(self.groups)
        return replace(self, array=array, possible=possible, groups=groups)

    @property
    def of_groups(self) -> tuple[Floats, Floats]:
        """The coefficients of groups, shape (covariates, groups), and P(class | its group), shape (classes,)."""
        assert self.groups is not None
        firsts, raw = np.flatnonzero(np.diff(self.groups, prepend=-1)), np.exp(self.array[0, 0])
        totals = np.add.reduceat(raw, firsts)
        found = self.array[:, 0, firsts].copy()
        found[0] = np.log(totals)
        return found - found[:, :1], raw / totals[self.groups]

    def with_groups(self, coefficients: Floats, shares: Floats) -> DependentTable:
        """Return the table with other coefficients of groups, and other P(class | its group)."""
        array = coefficients[:, None, self.groups]
        array[0, 0] += np.log(np.maximum(shares, np.finfo(np.float64).tiny))
        return replace(self, array=array - array[..., :1])


@dataclass(frozen=True, eq=False)
class InputTables:
    """All parameters of a hidden chain with inputs.

    Attributes
    ----------
    start, transitions : DependentTable
        Of one row, and of one for each state.
    emissions : tuple of DependentTable
        Of each channel; ones for a channel of numbers.
    numbers : mapping of tuple of int to Emission
        Whose states are those of the chain, or, where these emissions depend on symbols, those under the first
        symbol, then under the second, and so on.
    """

    start: DependentTable
    transitions: DependentTable
    emissions: tuple[DependentTable, ...]
    numbers: Numbered = field(default_factory=dict)

    def named(self, channels: Sequence[str]) -> list[tuple[str, DependentTable]]:
        """Return all tables by name: "start", "transitions", and the channels."""
        return [
            ("start", self.start),
            ("transitions", self.transitions),
            *zip(channels, self.emissions, strict=True),
        ]

    def links(self, design: Floats) -> InputLinks:
        """Return where the chain starts and moves on, for each input."""
        return InputLinks(self.start.proba(design)[:, 0], self.transitions.proba(design))


@dataclass(frozen=True, eq=False)
class InputChain(StepQueries):
    """A hidden Markov model whose start, transitions or emissions depend on inputs.

    Its queries are those of `Chain`, of sequences with inputs.

    Attributes
    ----------
    columns, input_columns : Columns
        Of channels and of inputs.
    tables : InputTables
    """

    columns: Columns
    input_columns: Columns
    tables: InputTables

    order = 1
    parallel = ()

    @property
    def states(self) -> int:
        """Number of hidden states."""
        return len(self.tables.transitions.possible)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states of each chain, of which there is one."""
        return (self.states,)

    @property
    def numbers(self) -> Numbered:
        """The emission of each group of number channels."""
        return self.tables.numbers

    @property
    def symbols(self) -> bool:
        """Whether each input has tables of its own."""
        kinds = {table.kind for _, table in self.tables.named(self.columns.names)}
        return are_symbols(self.input_columns) and "logit" not in kinds

    def at(self, design: Floats) -> Chain:
        """Return the chain without inputs that this one is where all inputs are those of one row of a design."""
        start, moves = self.tables.links(design[None])
        shown = [table.proba(design[None])[0] for table in self.tables.emissions]
        symbol = int(design.argmax())
        own = np.arange(self.states) + symbol * self.states
        numbers = {
            group: emission if emission.states == self.states else emission.permuted(own)
            for group, emission in self.numbers.items()
        }
        return Chain.of(self.columns, [[start[0], moves[0]]], shown, numbers)

    def _read_steps(
        self, sequences: InputSequences
    ) -> tuple[TreeSteps, tuple[InputLinks, Integers, Floats], Floats]:
        shown = [table.proba(sequences.design) for table in self.tables.emissions]
        which, inputs = sequences.which, [len(table) for table in shown]
        steps = ShownSteps.of(self.columns, sequences.codes, sequences.values, self.numbers, which, inputs)
        lines, highest = steps.likelihoods(shown, list(self.numbers.values()))
        known = self.tables.links(sequences.design), which, lines
        return TreeSteps.of_sequences(sequences.starts), known, highest

    def filtered(self, sequences: InputSequences) -> tuple[Floats, Floats]:
        """Return P(state | steps so far) of each step, and at the end of each sequence, zeros of an empty one."""
        passes, known, _ = self._read_steps(sequences)
        steps = passes.filtered(*known)
        ends = np.zeros((sequences.count, self.states))
        own = sequences.lengths > 0
        ends[own] = steps[sequences.starts[1:][own] - 1]
        return steps, ends

    def states_ahead(self, sequences: InputSequences, steps: int) -> Floats:
        """Return P(state so many steps after the end | sequence, inputs), shape (sequences, states)."""
        links, ahead = self.tables.links(sequences.design), sequences.ahead
        _, state = self.filtered(sequences)
        for step in range(steps):
            moved = links.on(state, ahead[:, step])
            is_first = (sequences.lengths == 0) & (step == 0)
            state = np.where(is_first[:, None], links.starts_of(ahead[:, step]), moved)
        return state

    def cells_at(self, sequences: InputSequences, ahead: int = 0) -> CellTables:
        """Return the distributions of the cells of all steps, or so many steps after the end of each sequence."""
        which = sequences.ahead[:, ahead - 1] if ahead else sequences.which
        tables = [table.proba(sequences.design) for table in self.tables.emissions]
        return CellTables(self.columns, tables, self.numbers, which)

    def drawn(self, sequences: InputSequences, random: np.random.Generator) -> NDArray[Any]:
        """Return the cells of new sequences with these inputs: codes, or floats where some are numbers."""
        links, steps = self.tables.links(sequences.design), TreeSteps.of_sequences(sequences.starts)
        states = steps.drawn(links, sequences.which, None, random.random(sequences.steps))
        return self.cells_at(sequences).sampled(states, random)

    def permuted(self, orders: Sequence[Integers]) -> InputChain:
        """Return the same with states in another order: state i is now ``order[i]``, of the only order."""
        (order,) = orders
        tables = self.tables
        numbers: Mapping[tuple[int, ...], Emission] = {
            group: emission.permuted(np.add.outer(np.arange(0, emission.states, self.states), order).ravel())
            for group, emission in tables.numbers.items()
        }
        return replace(
            self,
            tables=InputTables(
                tables.start.permuted(None, order),
                tables.transitions.permuted(order, order),
                tuple(table.permuted(order, None) for table in tables.emissions),
                dict(numbers),
            ),
        )
