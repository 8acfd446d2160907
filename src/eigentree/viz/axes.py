"""What all pictures share: axes in and out, names that fit, colours."""

from __future__ import annotations

from typing import Any

from eigentree.errors import EigentreeError, ParameterError, quoted

__all__ = ["COLOURS", "FONT", "GRID", "MARKERS", "axes_of", "checked_axes", "counted", "left_out", "shown_name"]

FONT = 8.0
"""Points of a name, where there is room."""

LONGEST_NAME = 40
"""Letters of a name that are shown."""

# Of Okabe and Ito, which people with any common colour-blindness tell apart; markers and lines differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GRID = {"color": "#dddddd", "linewidth": 0.6}


def checked_axes(ax: Any) -> Any:
    """Return what a picture is to be drawn on: axes, or None for axes of its own; else raise `ParameterError`."""
    if ax is not None and not hasattr(ax, "set_axis_off"):
        raise ParameterError(f"ax is one of matplotlib's Axes, not {quoted(ax)}")
    return ax


def axes_of(ax: Any, width: float, height: float) -> Any:
    """Return the axes that were given, or those of a new figure of so many inches."""
    if checked_axes(ax) is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise EigentreeError("et.plot needs matplotlib: pip install 'eigentree[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained").subplots()


def shown_name(name: object, longest: int = LONGEST_NAME) -> str:
    """Return a name on one line, shortened where it is long."""
    line = " ".join(str(name).split()) or repr(name)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def counted(count: int, what: str) -> str:
    """Return how many there are of something."""
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"


def left_out(shown: int, there: int, what: str, which: str) -> str:
    """Return a sentence on how many are left out; empty where all are shown.

    Examples
    --------
    >>> left_out(8, 17, "column", "most telling")
    'the 8 most telling of 17 columns; 9 are left out'
    """
    if shown >= there:
        return ""
    rest = there - shown
    return f"the {shown} {which} of {counted(there, what)}; {rest} {'is' if rest == 1 else 'are'} left out"
