"""The layout of a hidden chain whose tables depend on the inputs that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, are_symbols, learned_inputs
from eigentree.data.tables.columns import Columns
from eigentree.em.inputs.input_objective import InputLayout
from eigentree.em.number_chains import NumberChainLayout
from eigentree.errors import DataError, ParameterError, did_you_mean, quoted
from eigentree.inference.sequences.input_chain import Affected
from eigentree.validation import check_cells

if TYPE_CHECKING:
    from eigentree.arrays import Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout
    from eigentree.inference.sequences.input_chain import Dependence

__all__ = ["affected_tables", "chain_with_inputs", "check_constant"]


def affected_tables(given: Any) -> tuple[str, ...]:
    """Return which tables depend on inputs, as the user gave them."""
    names = (given,) if isinstance(given, str) else given
    known = get_args(Affected)
    if not isinstance(names, list | tuple) or not names or any(name not in known for name in names):
        other = (
            next((name for name in names if name not in known), None) if isinstance(names, list | tuple) else None
        )
        hint = did_you_mean(other, known) if isinstance(other, str) else ""
        raise ParameterError(
            f"inputs_affect is one or several of {', '.join(map(repr, known))}, not {quoted(given)}{hint}"
        )
    return tuple(names)


def check_constant(sequences: InputSequences) -> None:
    """Raise `DataError` unless inputs, which are covariates of sequences, are the same at all steps of each."""
    number = np.repeat(np.arange(sequences.count), sequences.lengths)
    differs = (np.diff(number) == 0) & (np.diff(sequences.which) != 0)
    if differs.any():
        raise DataError(
            f"the inputs of a mixture are covariates of each sequence, and those of sequence "
            f"{number[differs.argmax()]} differ from step to step; give one row for each sequence"
        )


def chain_with_inputs(
    layout: ChainLayout,
    sequences: Sequences,
    inputs: Any,
    affected: tuple[str, ...],
    groups: Integers | None = None,
) -> tuple[InputSequences, Columns, InputLayout]:
    """Return sequences with their inputs, the columns of these, and where each parameter stands.

    `groups` of states: in which of them a sequence starts depends on inputs, by a logit, and nothing else does.
    """
    if layout.order > 1 or len(layout.sizes) > 1:
        raise ParameterError(
            "inputs are for one hidden chain of order 1; give hidden_states as one number and order=1, or no inputs"
        )
    if isinstance(sequences, InputSequences) and isinstance(inputs, Columns):
        columns, both, symbols = inputs, sequences, are_symbols(inputs) and groups is None
    else:
        columns = learned_inputs(inputs, sequences)
        symbols = are_symbols(columns) and groups is None
        both = InputSequences.joined(sequences, inputs, columns, symbols=symbols)
    if groups is not None:
        check_constant(both)
    states, channels = layout.states, sequences.columns
    how: Dependence = "tables" if symbols else "logit"
    numbers = dict(layout.numbers) if isinstance(layout, NumberChainLayout) else {}
    shown: list[Dependence] = []
    for place in range(len(channels.names)):
        depends = "emissions" in affected and place not in channels.number_places
        shown.append(how if depends else "fixed")
    if numbers and "emissions" in affected:
        if how == "logit":
            raise ParameterError(
                "emissions of numbers depend on symbols only, which are a single input column of categories; leave "
                "'emissions' out of inputs_affect, or cut the inputs into categories"
            )
        every = np.arange(states * len(both.design)) % states
        numbers = {group: emission.permuted(every) for group, emission in numbers.items()}
    kinds: tuple[Dependence, ...] = (
        how if "start" in affected and not layout.starts else "fixed",
        how if "transitions" in affected else "fixed",
        *shown,
    )
    for kind, count in zip(kinds, (states, states**2, *(states * own for own in channels.states)), strict=True):
        if kind != "fixed":
            check_cells(
                "the tables of all inputs", count * len(both.design), "join or round inputs", ParameterError
            )
    return both, columns, InputLayout.of(layout, both.design, kinds, numbers, groups)
