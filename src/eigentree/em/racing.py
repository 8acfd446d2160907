"""The race of starts: many short climbs on some of the rows, fewer and longer ones on more, the last to the end.

How high a climb will end shows late, and later on some structures than on others. So no share of the starts is
dropped after a fixed number of steps. Heats become longer, each twice the one before, and after each heat a start
stays only if it might still win: if what it gained in this heat would bring it ahead of the leader. The number that
can stay has a bound, which falls from heat to heat.

Where there is one hidden variable, the winner is resettled at last: one of its states is given up for another, and
what climbs higher from there takes its place.

Two starts begin, and others enter before later heats, once the leader's climb proves to be long; they run the heats
that they missed. So what a race costs is in proportion to what it decides: where a climb is short, few are tried.

Where rows are few, steps cost little, and optima are many and close to each other. Four starts run to the end, and
others follow, one after the other, until a dozen have come to one height: it takes many starts to find the highest
of several tops, and fewer to see that there is but one.

Where rows are many, the spectral start runs alone at first. Its tables come from moments of all rows. If a climb on
a part of the rows gains little more from them than chance makes of that part, moments and likelihood have led to
the same place, and no other start is asked. Else all starts race, that one among them as it was made, unless the
first of them arrive at one top. Parts of the rows cannot tell whose end will be highest where ends differ by less
than chance makes of a part, so several may run on all rows. Where a climb has arrived on a part, what that tells of
the curvature of the log-likelihood makes the climbs on more rows short.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from eigentree.em.entrants import Entrant
from eigentree.em.field import Field
from eigentree.errors import EigentreeError, RankError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from eigentree.em.course import Course, Part
    from eigentree.em.distinct import DistinctRows
    from eigentree.em.standing import Heat, Standing
    from eigentree.em.starts import Start

__all__ = ["raced"]


def raced(
    course: Course,
    entrants: Sequence[Entrant],
    finalists: int,
    random: np.random.Generator,
    at_once: bool = False,
) -> Iterator[Standing]:
    """Yield how a race stands, again and again, until its winner has arrived.

    Parameters
    ----------
    course : Course
    entrants : sequence of Entrant
        The later ones take part only where climbs are long.
    finalists : int
        Most starts that are climbed to the end.
    random : Generator
        Draws the parts of the rows.
    at_once : bool
        Whether all take part, from the beginning.
    """
    heats: list[Heat] = []
    absent: dict[str, str] = {}
    waiting, parts = deque(entrants), course.parts(random)
    told = [entrant for entrant in entrants if entrant.name == "spectral"]
    is_confirmed = False
    if told and course.is_curved and not at_once:
        probe = Field(course, parts[0], at_once, curved=True)
        yield from _run(probe, parts[0], deque(told[:1]), heats, absent)
        is_confirmed = probe.is_confirmed
        if is_confirmed:
            waiting, parts = deque(_going_on(probe)), parts[1:]
        else:
            waiting = deque(_as_made(entrants, told[0], probe.entered))
    for part in parts:
        field = Field(course, part, at_once, curved=is_confirmed)
        yield from _run(field, part, waiting, heats, absent)
        if not field.runners:
            raise RankError(_nobody(absent))
        waiting = deque(_going_on(field))
    for _ in field.resettling(random):
        yield field.standing(heats, absent)
    for runner in field.runners[:finalists]:
        while not runner.arrived:
            runner.advance(1)
            yield field.standing(heats, absent)


def _run(
    field: Field, part: Part, waiting: deque[Entrant], heats: list[Heat], absent: dict[str, str]
) -> Iterator[Standing]:
    """Yield how a race stands while all heats on a part of the rows are run, which are added to those before."""
    for number, heat in enumerate(field.rounds):
        field.opened(heat)
        for runner in field.runners:
            field.run(runner, heat)
            yield field.standing(heats, absent)
        while waiting and field.has_room(heat):
            entrant = waiting.popleft()
            try:
                start = entrant.make(part.rows)
            except EigentreeError as error:
                absent[entrant.name] = str(error)
                continue
            field.enter(start, field.rounds[: number + 1], len(waiting))
            yield field.standing(heats, absent)
        if not field.runners:
            return
        heats.append(field.closed(number, heat))


def _going_on(field: Field) -> list[Entrant]:
    """Return those who go on to other rows."""
    return [Entrant(start.name, partial(_again, start)) for start in field.starts()]


def _as_made(entrants: Sequence[Entrant], asked: Entrant, made: Sequence[Start]) -> list[Entrant]:
    """Return all entrants, with the start that one of them has made already; without it if it could make none."""
    again = [Entrant(start.name, partial(_again, start)) for start in made]
    return [each for entrant in entrants for each in (again if entrant is asked else [entrant])]


def _nobody(absent: Mapping[str, str]) -> str:
    told = "; ".join(f"there can be no {name} start: {reason}" for name, reason in absent.items())
    return f"{told}; init='race' tries other starts beside it, and fewer hidden states want less of the moments"


def _again(start: Start, rows: DistinctRows) -> Start:
    """Return the start with which one that has run on some rows goes on to others."""
    return start
