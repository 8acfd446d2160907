"""The most probable hidden states of sequences, one row each, similar ones together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.markup.charts import Axis, CellGrid, Chart, left_out, linear_axis

if TYPE_CHECKING:
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.inference.sequences.hmm_chain import Chain

__all__ = ["state_sequence_chart"]


def state_sequence_chart(model: Chain, sequences: Sequences, chain: str | None, most: int) -> Chart:
    """Return the most probable states of sequences (Viterbi).

    Parameters
    ----------
    model : Chain
    sequences : Sequences
    chain : str or None
        Of a factorial HMM, which chain; the first unless given.
    most : int
        Sequences that are drawn at most, evenly taken from all.

    Raises
    ------
    DataError
        When there is no such chain, or no step.
    """
    each = model.states_of_each(model.decoded(sequences)[0])
    names = [f"chain {place}" for place in range(len(each))] if len(each) > 1 else ["state"]
    name = names[0] if chain is None else chain
    if name not in names:
        raise DataError(f"there is no chain {quoted(name)}{did_you_mean(name, names)}")
    states, count = each[names.index(name)], model.sizes[names.index(name)]
    if not len(states):
        raise DataError("there are no steps to draw")
    lengths = sequences.lengths
    table = np.full((sequences.count, int(lengths.max())), -1)
    table[np.arange(table.shape[1]) < lengths[:, None]] = states
    # By their ends first: where sequences lead is what they differ by most.
    order = np.lexsort(table.T)
    every = np.unique(np.linspace(0, len(order) - 1, min(len(order), most)).round().astype(int))
    shown = table[order[every]]
    below = left_out(len(shown), len(table), "sequence", "evenly taken")
    # Steps and sequences are counted from 0; a cell reaches from its number to the next.
    x = linear_axis("step" + f"; {below}" * bool(below), [0.0, table.shape[1]], grid=False)
    shares = np.bincount(states[states >= 0], minlength=count) / max(len(states), 1)
    return Chart(
        title="most probable hidden states",
        description="; ".join(f"state {state}: {share:.0%} of steps" for state, share in enumerate(shares)),
        x=x._replace(high=float(table.shape[1]), ticks=tuple(t for t in x.ticks if t[0] <= table.shape[1])),
        y=Axis("sequence", float(len(shown)), 0.0, grid=False),
        marks=(CellGrid(shown, tuple(f"state {state}" for state in range(count))),),
        size=(330.0, 200.0),
    )
