"""The layout of a hidden semi-Markov chain, from the arguments that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.data.sequences.inputs import InputSequences
from eigentree.em.durations.duration_families import DURATIONS
from eigentree.em.durations.duration_objective import DurationLayout
from eigentree.errors import ParameterError
from eigentree.validation import check_cells, one_of, whole_number

if TYPE_CHECKING:
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.em.chain_fit import ChainLayout
    from eigentree.em.durations.duration_families import DurationName
    from eigentree.estimators.em_hmm import EMHMM

__all__ = ["chain_with_durations", "check_durations"]


def check_durations(model: EMHMM) -> None:
    """Raise `ParameterError` unless durations are given as they may be."""
    if model.durations is None:
        if model.max_duration is not None:
            raise ParameterError("max_duration is of durations; give durations='explicit', or leave it out")
        return
    one_of("durations", model.durations, tuple(DURATIONS))
    if model.max_duration is not None:
        whole_number("max_duration", model.max_duration)
    if model.sticky:
        raise ParameterError("sticky is of chains without durations, which say how long states last; leave it out")


def chain_with_durations(
    layout: ChainLayout, sequences: Sequences, family: DurationName, longest: int | None
) -> DurationLayout:
    """Return where each parameter of a chain with durations stands, given that of the chain without."""
    if isinstance(sequences, InputSequences):
        raise ParameterError("durations are of chains without inputs; leave durations or inputs= out")
    if layout.order > 1 or len(layout.sizes) > 1:
        raise ParameterError(
            "durations are for one hidden chain of order 1; give hidden_states as one number and order=1"
        )
    most = max(1, int(sequences.lengths.max(initial=1))) if longest is None else longest
    check_cells("the durations of all states", layout.states * most, "lower max_duration", ParameterError)
    return DurationLayout.of_segments(layout, family, most)
