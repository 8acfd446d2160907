"""A whole fit: from where to start, given or to be found, to climbs that have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from eigentree.em.entrants import Office
from eigentree.em.racing import raced
from eigentree.em.standing import Standing
from eigentree.em.starts import Start
from eigentree.exact.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from eigentree.em.course import Course
    from eigentree.em.entrants import Kind
    from eigentree.em.optimize.run import EMRun

__all__ = ["fitted"]


def fitted(
    course: Course, init: LatentNetwork | Literal["race"] | Kind, restarts: int, random: np.random.Generator
) -> Iterator[Standing]:
    """Yield how a fit stands, again and again, until its climbs have arrived.

    Parameters
    ----------
    course : Course
    init : LatentNetwork, "race" or the name of a kind of start
        A network, and each of several random starts, is climbed from to the end; other starts are raced.
    restarts : int
        How many starts of one kind; in a race of all kinds, how many are climbed to the end at most.
    random : Generator
    """
    if isinstance(init, LatentNetwork):
        return _each(course, [Start("given", course.whole.layout.vector(init))])
    office = Office(course.graph, course.rows, course.gaps)
    if init == "race":
        return raced(course, office.racing(course.has_one_part, random), restarts, random)
    entrants = office.of_kinds([init] * restarts, random)
    if init == "random":
        return _each(course, [entrant.make(course.rows) for entrant in entrants])
    return raced(course, entrants, restarts, random, at_once=True)


def _each(course: Course, starts: Sequence[Start]) -> Iterator[Standing]:
    """Yield how climbs from some starts stand, one after the other, each to the end."""
    climbs: list[tuple[str, EMRun]] = []
    for number, start in enumerate(starts):
        for climb in course.climbed(start.parameters):
            climbs[number:] = [(start.name, climb)]
            steps = number * course.max_iter + len(climb.history) - 1
            yield Standing(start, (), tuple(climbs), {}, steps)
