"""The heats of a race: how long each is, how many enter before it, and how many stay after it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Round", "rounds_of"]


class Round(NamedTuple):
    """A heat: how long it is, and who runs in it.

    Attributes
    ----------
    steps : int
    most : int
        How many can stay after it.
    slow : bool
        Whether starts may hope for more than they gained.
    entered : int
        How many starts have entered when it begins, the earlier ones included.
    curved : bool
        Whether starts turn to Newton's steps in it.
    """

    steps: int
    most: int
    slow: bool = False
    entered: int = 0
    curved: bool = False


ALL = 1_000
"""More starts than there are."""

OPENING_ONE_HIDDEN = (
    Round(20, 2, entered=2),
    Round(20, 2, entered=4),
    Round(40, 2, entered=6),
    Round(80, 2, entered=10),
    Round(160, 2, entered=ALL),
)
"""Heats of starts that have not run yet, where there is one hidden variable: climbs are short, and show early."""

OPENING_MANY_HIDDEN = (
    Round(10, ALL, True, entered=2),
    Round(20, ALL, True, entered=4),
    Round(40, 6, True, entered=10),
    Round(80, 3),
    Round(160, 2),
)
"""Heats of starts that have not run yet, where there are several."""

OPENING_OF_MANY = (
    Round(10, ALL, True, entered=2),
    Round(20, ALL, True, entered=4),
    Round(40, 6, True),
    Round(80, 3, entered=10),
    Round(160, 2),
)
"""The same on a part of many rows: most enter late, and not at all where the first ones arrive at one top."""

OPENING_ON_A_PART = (
    Round(50, ALL, True, entered=2),
    Round(100, 8, True, entered=14),
    Round(150, 4, True),
    Round(300, 2, True),
    Round(600, 2, True),
)
"""The same on a part of rows that are not many: steps on it cost little, so that many starts climb for long. Random
ones are behind for a hundred steps or two, and yet those that end highest are among them."""

RESETTLED = (Round(20, 2, entered=2), Round(20, 2, entered=4), Round(40, 1))
"""The same where the leader is resettled afterwards: that finds better ends than more starts do."""

LATER = (Round(20, 3, True, entered=ALL), Round(40, 3, True), Round(80, 2, True), Round(160, 2, True))
"""Heats on more rows than before."""

OPENING_CURVED = (
    Round(20, 1, entered=1),
    Round(40, 1),
    Round(40, 1, curved=True),
)
"""Heats of what moments tell, alone on a part of many rows: Newton's steps soon end a climb near its top."""

LATER_CURVED = (Round(10, 2, entered=ALL), Round(40, 1))
"""The same on more rows."""

LATER_OF_MANY = (Round(20, 4, entered=ALL), Round(40, 3))
"""The same where rows are many, and steps on them dear: on a part chance has more of a say than the starts that are
left differ by, so it is soon left."""

LAST_OF_MANY = (Round(20, 3, entered=ALL), Round(40, 3), Round(80, 2))
"""The same on all of them, which alone tell whose end is highest."""

LAST = Round(320, 1)
"""A heat on all rows, after those; unless the leader is resettled."""


def rounds_of(
    is_first: bool, many_hidden: bool, many_rows: bool, is_last: bool, is_resettled: bool, is_curved: bool
) -> tuple[Round, ...]:
    """Return the heats on some rows.

    Parameters
    ----------
    is_first : bool
        Whether nothing was raced before.
    many_hidden : bool
        Whether there are several hidden variables.
    many_rows : bool
        Whether steps on all rows are dear.
    is_last : bool
        Whether these are all rows.
    is_resettled : bool
        Whether the leader is resettled afterwards.
    is_curved : bool
        Whether parts of the rows tell how the log-likelihood of all of them bends.
    """
    rounds: tuple[Round, ...]
    if is_curved:
        rounds = OPENING_CURVED if is_first else LATER_CURVED
    elif not is_first:
        of_many = LAST_OF_MANY if is_last else LATER_OF_MANY
        rounds = of_many if many_rows else LATER
    elif is_resettled:
        rounds = RESETTLED
    elif many_hidden and many_rows:
        rounds = OPENING_OF_MANY
    elif many_hidden:
        rounds = OPENING_MANY_HIDDEN if is_last else OPENING_ON_A_PART
    else:
        rounds = OPENING_ONE_HIDDEN
    return (*rounds, LAST) if is_last and not is_resettled else rounds
