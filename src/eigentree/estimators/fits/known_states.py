"""Hidden states, or their labels, that are known at some steps: another channel of sequences, which shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, codes_of_steps
from eigentree.errors import ParameterError
from eigentree.inference.sequences.hmm_chain import Chain

if TYPE_CHECKING:
    from eigentree.arrays import Codes, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout

__all__ = ["StepLabels", "chain_with_known_states", "with_labels", "without_known_states"]

AnyChain = TypeVar("AnyChain")


class StepLabels(NamedTuple):
    """The label of each step, the number of labels where it is not known; each stands for equally many states."""

    codes: Codes | Integers
    labels: int


def chain_with_known_states(
    layout: ChainLayout, sequences: Sequences, states: Any, is_named: bool
) -> tuple[ChainLayout, Sequences]:
    """Return a layout and sequences that have known states as their last channel."""
    if isinstance(sequences, InputSequences):
        raise ParameterError("states are of chains without inputs; leave states= or inputs= out")
    if len(layout.sizes) > 1:
        raise ParameterError("states are those of one hidden chain; give hidden_states as one number")
    if not is_named:
        raise ParameterError("states and tables to start from are given both; leave states= or init= out")
    if not isinstance(states, StepLabels):
        states = StepLabels(codes_of_steps(states, sequences, layout.states, "states"), layout.states)
    made = replace(layout, channels=(*layout.channels, states.labels), known_states=True)
    return made, with_labels(sequences, states)


def with_labels(sequences: Sequences, labels: StepLabels) -> Sequences:
    """Return sequences with the labels of their steps as the last channel."""
    columns, count = sequences.columns, labels.labels
    name = next(name for name in ("state", "known state", "state of the step") if name not in columns.names)
    wide = columns.with_column(len(columns.names), name, count, None)
    codes = np.asfortranarray(np.column_stack([sequences.codes, labels.codes]).astype(wide.code_type))
    return replace(sequences, columns=wide, codes=codes)


def without_known_states(chain: AnyChain, sequences: Sequences) -> AnyChain:
    """Return a chain without the channel of known states, if it has one, given the sequences without."""
    if not isinstance(chain, Chain) or len(chain.emissions) == len(sequences.columns.names):
        return chain
    return replace(chain, columns=sequences.columns, emissions=chain.emissions[:-1])
