"""Hidden states of sequences as pictures: where they lead, and which were passed through."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import DataError, ParameterError, did_you_mean, quoted
from eigentree.models.profiles import profiles as profiles_of
from eigentree.models.sequence_face import HiddenSequenceFace
from eigentree.viz.axes import FONT, axes_of, checked_axes, left_out

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Integers

__all__ = ["decoded", "transitions"]

MOST_STATES = 12
"""States of a diagram; more are a tangle."""

FAINTEST = 0.05
"""Moves that are less likely than this share of the likeliest are left out."""

WIDEST = 6.0
"""Points of the arrow of the likeliest move."""

MOST_SEQUENCES = 2_000
"""Sequences that are drawn, evenly taken from all."""

COLOUR_MAP = "viridis"
"""From dark to light, and told apart by people with any common colour-blindness."""


def transitions(model: HiddenSequenceFace, chain: str | None = None, ax: Any = None) -> Any:
    """Return matplotlib's axes with where the hidden states of a model of sequences lead.

    In each state stands how likely it is to stay; arrows are the wider the likelier the move. Moves far less likely
    than the likeliest are left out.

    Parameters
    ----------
    model : a fitted EMHMM of order 1
    chain : str, optional
        Of several chains side by side, which one; the first unless given.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When there are no transitions to draw, or nothing to draw on.
    """
    checked_axes(ax)
    if not isinstance(model, HiddenSequenceFace):
        raise ParameterError(f"a fitted EMHMM has transitions to draw, not {quoted(model)}")
    profile = next(iter(profiles_of(model, None if chain is None else [chain]).values()))
    moves = profile.transitions
    assert moves is not None
    if moves.ndim > 2:
        raise ParameterError(
            "transitions are drawn of order 1; those of a higher one are in tables_['transitions']"
        )
    count = len(moves)
    if count > MOST_STATES:
        raise ParameterError(f"transitions are drawn of at most {MOST_STATES} states, not of {count}")
    ax = axes_of(ax, 4.6, 4.6)
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    places = np.column_stack([np.cos(angles), np.sin(angles)]) if count > 1 else np.zeros((1, 2))
    largest = max((float(moves[pair]) for pair in permutations(range(count), 2)), default=0.0)
    faint = 0
    for one, other in permutations(range(count), 2):
        if moves[one, other] < FAINTEST * largest or not moves[one, other] > 0:
            faint += bool(moves[one, other] > 0)
            continue
        _draw_move(ax, places[one], places[other], float(moves[one, other]), largest, f"move {one} {other}")
    for state, (x, y) in enumerate(places):
        ax.text(
            x,
            y,
            f"state {state}\nstays {moves[state, state]:.2f}",
            ha="center",
            va="center",
            fontsize=FONT,
            bbox={"boxstyle": "round,pad=0.5", "facecolor": "#FBE3B0", "edgecolor": "#B87700"},
            zorder=3,
            gid=f"state {state}",
        )
    ax.set_xlim(-1.45, 1.45)
    ax.set_ylim(-1.35, 1.35)
    ax.set_axis_off()
    title = "where states lead, by step" if chain is None else f"where the states of {chain} lead, by step"
    rarer = f"\n{faint} rarer move{'s are' if faint > 1 else ' is'} left out" if faint else ""
    ax.set_title(title + rarer, fontsize=FONT + 1)
    return ax


def _draw_move(ax: Any, start: Any, end: Any, share: float, largest: float, gid: str) -> None:
    """Draw an arrow that bends aside, so that a move and its return stand apart, and write how likely it is."""
    from matplotlib.patches import FancyArrowPatch

    width = 0.8 + (WIDEST - 0.8) * share / largest
    ax.add_patch(
        FancyArrowPatch(
            tuple(start),
            tuple(end),
            arrowstyle="-|>",
            connectionstyle="arc3,rad=0.16",
            mutation_scale=9 + 1.5 * width,
            shrinkA=26,
            shrinkB=27,
            linewidth=width,
            color="#5A6A78",
            alpha=0.85,
            zorder=1,
            gid=gid,
        )
    )
    along = end - start
    beside = np.array([along[1], -along[0]])
    x, y = start + 0.5 * along + 0.115 * beside
    ax.text(
        x,
        y,
        f"{share:.2g}" if share >= 0.01 else f"{share:.1g}",
        fontsize=FONT - 1,
        ha="center",
        va="center",
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.9},
        zorder=2,
    )


def decoded(
    model: HiddenSequenceFace,
    X: ArrayLike | Any,
    lengths: ArrayLike | None = None,
    chain: str | None = None,
    ax: Any = None,
) -> Any:
    """Return matplotlib's axes with the likeliest hidden states of sequences, one line each, alike ones together.

    Parameters
    ----------
    model : a fitted EMHMM
    X : sequences, as for ``model.decode``
        Not a frame with one step per row.
    lengths : array-like of int, shape (sequences,), optional
    chain : str, optional
        Of several chains side by side, which one; the first unless given.
    ax : matplotlib Axes, optional
        Where to draw; by default a figure of its own.

    Raises
    ------
    ParameterError
        When there are no states to draw, or nothing to draw on.
    DataError
        When the sequences cannot be read.
    """
    checked_axes(ax)
    if not isinstance(model, HiddenSequenceFace):
        raise ParameterError(f"a fitted EMHMM decodes states to draw, not {quoted(model)}")
    states = model.decode(X, lengths).states
    if isinstance(states, dict):
        name = next(iter(states)) if chain is None else chain
        if name not in states:
            raise DataError(f"there is no chain {quoted(name)}{did_you_mean(name, states)}")
        states = states[name]
    table = _padded(states, lengths)
    # By their ends first: where sequences lead is what they differ by most.
    order = np.lexsort(table.T)
    every = np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_SEQUENCES)).round().astype(int))
    shown = table[order[every]]
    ax = axes_of(ax, 5.4, 4.2)
    _draw_states(ax, np.ma.masked_less(shown, 0), max(int(table.max(initial=0)) + 1, 2))
    below = left_out(len(shown), len(table), "sequence", "evenly taken")
    ax.set_xlabel("step" + (f"\n{below}" if below else ""), fontsize=FONT)
    ax.set_ylabel("sequence", fontsize=FONT)
    ax.tick_params(labelsize=FONT)
    ax.set_title("likeliest hidden states", fontsize=FONT + 1)
    return ax


def _padded(states: Any, lengths: Any) -> Integers:
    """Return the states of sequences as rows of one array, -1 beyond their ends."""
    if isinstance(states, np.ndarray) and states.ndim == 2:
        return states.astype(np.int64)
    if isinstance(states, np.ndarray):
        if lengths is None:
            raise DataError(
                "steps below each other are drawn with lengths=; or give a list of sequences, or one in each row"
            )
        states = np.split(states, np.cumsum(np.asarray(lengths))[:-1])
    table = np.full((len(states), max(map(len, states), default=0)), -1)
    for row, own in enumerate(states):
        table[row, : len(own)] = own
    if not table.size:
        raise DataError("there are no steps to draw")
    return table


def _draw_states(ax: Any, table: Any, count: int) -> None:
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    colours = colormaps[COLOUR_MAP].resampled(count)
    ax.imshow(table, aspect="auto", interpolation="nearest", cmap=colours, vmin=-0.5, vmax=count - 0.5)
    marks = [
        Line2D([], [], linestyle="", marker="s", markersize=8, color=colours(state), label=f"state {state}")
        for state in range(count)
    ]
    ax.legend(handles=marks, fontsize=FONT, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
