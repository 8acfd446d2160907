"""The race of starts of a hidden chain: on part of the sequences first, the best of them to the end on all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from eigentree.em.chain_resettling import resettled
from eigentree.em.chain_starts import start_of
from eigentree.em.optimize.run import em_run
from eigentree.em.standing import Heat
from eigentree.engine.sequence_passes import SequencePass
from eigentree.engine.symbols import Symbols

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.em.chain_starts import ChainKind
    from eigentree.em.chains import ChainObjective
    from eigentree.em.optimize.run import EMRun
    from eigentree.em.optimize.stopping import Stopping

__all__ = ["ChainCourse", "ChainStanding", "chain_climbs"]

WHOLE_STEPS = 60_000
"""Sequences of so many steps are raced on as a whole: what is best for a part of them may not be for all."""

RACED_STEPS = 20_000
"""Steps of the part of the sequences on which starts are raced, where they have more."""

LONGEST_PIECE = 1_000
"""A longer sequence is raced on pieces of it."""

ENTRANTS: tuple[tuple[ChainKind, int], ...] = (
    ("moments", 2),
    ("windows", 2),
    ("merged", 6),
    ("position", 1),
    ("random", 40),
)
"""How many starts of each kind are raced: those that are dear and end in few places are few."""

HEATS = ((10, 0.5), (20, 0.6), (40, 0.6), (100, 0.0))
"""Steps of each heat, and which share goes on after it, or as many as are run from to the end.

Where states are hardly told apart, who will be highest shows late; where they are, climbs have ended by then.
"""


@dataclass(frozen=True, eq=False)
class ChainCourse:
    """What is run on, and how.

    Attributes
    ----------
    problem : ChainObjective
    stopping : Stopping
    max_iter : int
    accelerate : bool
    validation : ChainObjective, optional
    """

    problem: ChainObjective
    stopping: Stopping
    max_iter: int
    accelerate: bool
    validation: ChainObjective | None = None

    def climbed(self, start: Floats) -> Iterator[EMRun]:
        """Yield a climb on all sequences."""
        return em_run(self.problem, start, self.stopping, self.max_iter, self.accelerate, self.validation)


class ChainStanding(NamedTuple):
    """How a fit stands.

    Attributes
    ----------
    climbs : tuple of (str, EMRun)
        The kind of start and the climb on all sequences, of each so far.
    heats : tuple of Heat
    absent : tuple of (str, str)
        The kinds of which there could be no start, with the reason.
    """

    climbs: tuple[tuple[str, EMRun], ...]
    heats: tuple[Heat, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()

    @property
    def best(self) -> tuple[str, EMRun]:
        """The kind and the climb that came highest."""
        return max(self.climbs, key=lambda each: each[1].score)

    @property
    def steps(self) -> int:
        """Steps on all sequences so far."""
        return sum(len(climb.history) - 1 for _, climb in self.climbs)


def chain_climbs(
    course: ChainCourse, init: Floats | str, restarts: int, random: np.random.Generator
) -> Iterator[ChainStanding]:
    """Yield how a fit stands after each step on all sequences, until it is over.

    Parameters
    ----------
    course : ChainCourse
    init : parameters to start from, "race", or a kind of start
    restarts : int
        How many starts are run from to the end.
    random : Generator
    """
    if not isinstance(init, str):
        yield from _to_the_end(course, [("given", init)], ChainStanding(()))
        return
    kinds = dict(ENTRANTS) if init == "race" else {cast("ChainKind", init): restarts}
    part = _part(course.problem, random)
    drawn = [(kind, start_of(kind, part, random)) for kind, count in kinds.items() for _ in range(count)]
    entrants = [(str(kind), start) for kind, start in drawn if start is not None]
    absent = tuple((kind, WITHOUT[kind]) for kind in dict.fromkeys(kind for kind, start in drawn if start is None))
    if not entrants:
        # Moments may tell nothing, chance always does.
        entrants = [
            ("random", start) for _ in range(restarts) if (start := start_of("random", part, random)) is not None
        ]
    heats: list[Heat] = []
    if init == "race":
        entrants = _raced(course, part, entrants, restarts, heats, random)
    yield from _to_the_end(course, entrants[:restarts], ChainStanding((), tuple(heats), absent))


WITHOUT = {
    "moments": "symbols are too few or too many for moments to tell the states apart",
    "merged": "symbols and pairs of them are not more than states, or too many to be merged",
}
"""Why there may be no start of a kind."""


def _raced(
    course: ChainCourse,
    part: ChainObjective,
    entrants: Sequence[tuple[str, Floats]],
    restarts: int,
    heats: list[Heat],
    random: np.random.Generator,
) -> list[tuple[str, Floats]]:
    """Return the starts that did best, the leader first; what each heat showed is added to a list."""

    def climbs_from(start: Floats, steps: int) -> Iterator[EMRun]:
        return em_run(part, start, course.stopping, steps, course.accelerate)

    def reached(start: Floats, steps: int) -> EMRun:
        *_, climb = climbs_from(start, steps)
        return climb

    most = sum(steps for steps, _ in HEATS)
    field = [_Entrant.of(kind, climbs_from(start, most)) for kind, start in entrants]
    done = 0
    for steps, share in HEATS:
        field = [entrant.further(steps) for entrant in field]
        done += steps
        field = _ordered(field, part, done, heats)[: max(restarts, round(share * len(field)))]
    moved = [
        entrant._replace(climb=resettled(part.layout, entrant.climb, reached, part.weight, random))
        for entrant in field[:RESETTLED]
    ]
    field = _ordered([*moved, *field], part, done, heats)
    if _is_small(course.problem):
        return [(entrant.kind, entrant.climb.parameters) for entrant in field]
    # What part of the sequences rules out, others may show.
    return [(entrant.kind, part.layout.mixed(entrant.climb.parameters, SOFTENED)) for entrant in field]


class _Entrant(NamedTuple):
    """A start of a race: its kind, how far it has come, and how it goes on, with all that its climb remembers."""

    kind: str
    climb: EMRun
    onward: Iterator[EMRun]

    @classmethod
    def of(cls, kind: str, climbs: Iterator[EMRun]) -> _Entrant:
        return cls(kind, next(climbs), climbs)

    def further(self, steps: int) -> _Entrant:
        """Return where it is after some more steps, or fewer if it has arrived."""
        *_, climb = (self.climb, *islice(self.onward, steps))
        return self._replace(climb=climb)

    @property
    def objective(self) -> float:
        return self.climb.history[-1]


def _ordered(entrants: Sequence[_Entrant], part: ChainObjective, done: int, heats: list[Heat]) -> list[_Entrant]:
    """Return who is where after a heat, the leader first, those that have met once; the heat is added to a list."""
    ends = sorted(entrants, key=lambda end: -end.objective)
    rows = int((part.walk.weights > 0).sum())
    heats.append(Heat(rows, done, tuple((end.kind, end.objective / part.weight) for end in ends)))
    kept: list[_Entrant] = []
    for end in ends:
        if not kept or kept[-1].objective - end.objective > SAME * part.weight:
            kept.append(end)
    return kept


RESETTLED = 2
"""How many of the leaders move their states."""

SOFTENED = 1e-3
"""The share of even distributions in the starts that are run from to the end."""

SAME = 1e-7
"""Starts whose objectives per step differ by less have met."""


def _to_the_end(
    course: ChainCourse, entrants: Sequence[tuple[str, Floats]], standing: ChainStanding
) -> Iterator[ChainStanding]:
    for kind, start in entrants:
        before = standing
        for climb in course.climbed(start):
            standing = before._replace(climbs=(*before.climbs, (kind, climb)))
            yield standing


def _is_small(problem: ChainObjective) -> bool:
    """Return whether all sequences that differ are raced on."""
    return int(np.diff(problem.walk.starts)[problem.walk.weights > 0].sum()) <= WHOLE_STEPS


def _part(problem: ChainObjective, random: np.random.Generator) -> ChainObjective:
    """Return a problem of part of the sequences, whole or in pieces; the same problem where they are few."""
    walk = problem.walk
    order = walk.order if walk.order is not None else np.arange(len(walk.weights))
    own = order[walk.weights[order] > 0]
    lengths = np.diff(walk.starts)[own]
    taken = random.permutation(len(own))
    most_pieces = max(1, RACED_STEPS // LONGEST_PIECE)
    pieces: list[tuple[int, int, float]] = []
    total = 0
    whole = _is_small(problem)
    for place in range(len(own)) if whole else taken.tolist():
        begin, length, weight = int(walk.starts[own[place]]), int(lengths[place]), float(walk.weights[own[place]])
        if whole or length <= LONGEST_PIECE:
            pieces.append((begin, begin + length, weight))
            total += length
        else:
            for first in random.integers(
                0, length - LONGEST_PIECE + 1, min(most_pieces, length // LONGEST_PIECE)
            ).tolist():
                pieces.append((begin + first, begin + first + LONGEST_PIECE, weight))
                total += LONGEST_PIECE
        if not whole and total >= RACED_STEPS:
            break
    symbols = walk.symbols
    steps = np.concatenate([symbols.steps[begin:end] for begin, end, _ in pieces])
    starts = np.concatenate([[0], np.cumsum([end - begin for begin, end, _ in pieces])])
    weights = np.array([weight for *_, weight in pieces])
    part = SequencePass(Symbols(steps, symbols.lines, symbols.states), starts, weights, walk.threads)
    share = 1.0 if whole else min(1.0, total / max(1.0, problem.weight))
    return replace(problem, walk=part, prior=problem.prior * share)
