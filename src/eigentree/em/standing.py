"""How a race stands: what its heats showed, and how far its climbs have come."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from eigentree.em.optimize.run import EMRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.em.optimize.objective import Objective
    from eigentree.em.starts import Start

__all__ = ["Heat", "Standing"]


class HasWhole(Protocol):
    """What can be climbed on as a whole."""

    @property
    def whole(self) -> Objective:
        """The objective of all rows."""


class Heat(NamedTuple):
    """What one heat showed.

    Attributes
    ----------
    rows : int
        Rows that differ.
    steps : int
        Steps on these rows so far.
    standings : tuple of (str, float)
        Each start's kind and objective per row, the leader first.
    """

    rows: int
    steps: int
    standings: tuple[tuple[str, float], ...]


class Standing(NamedTuple):
    """How a race stands.

    Attributes
    ----------
    leader : Start
        With the parameters that it has come to.
    heats : tuple of Heat
    climbs : tuple of (str, EMRun)
        The climbs on all rows, as far as they have come, by the kind of their start.
    absent : mapping of str to str
        The kinds of which there can be no start, with the reason.
    steps : int
        Steps on all rows so far.
    """

    leader: Start
    heats: tuple[Heat, ...]
    climbs: tuple[tuple[str, EMRun], ...]
    absent: Mapping[str, str]
    steps: int

    @property
    def objective(self) -> float:
        """The highest objective on all rows so far; NaN as long as there are only parts."""
        return max((climb.history[-1] for _, climb in self.climbs), default=math.nan)

    def rescued(self, course: HasWhole) -> Standing:
        """Return where an interrupted race stands, with the leader on all rows if it was not there yet."""
        if self.climbs:
            return self
        here = course.whole.evaluated(self.leader.parameters)
        return self._replace(climbs=((self.leader.name, EMRun(here, (here.objective,))),))
