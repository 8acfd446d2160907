"""Rows that are elsewhere, on a disk or on other machines: what they say comes in parts and is added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from eigentree.em.optimize.objective import Objective
from eigentree.em.prior import spread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.arrays import Floats, Integers
    from eigentree.em.estep.expectation import Expectation
    from eigentree.em.optimize.objective import ExpectedCounts
    from eigentree.em.parameters import ParameterLayout

__all__ = ["PartedObjective", "Parts"]


class Parts(Protocol):
    """Rows that are counted where they lie.

    Attributes
    ----------
    weight : float
        The total weight of the rows.
    """

    @property
    def weight(self) -> float:
        """The total weight of the rows."""

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say; parameters go out, one sum comes back, the same whoever was first to answer."""


@dataclass(frozen=True, eq=False)
class PartedObjective(Objective):
    """The objective of rows that are elsewhere.

    Attributes
    ----------
    expectation : Expectation
    parts : Parts
    prior : (parameters,)
    numbers : (rows,), optional
        By which the user knows the rows, where they are not counted through.
    """

    expectation: Expectation
    parts: Parts
    prior: Floats
    numbers: Integers | None = None

    @classmethod
    def of(
        cls,
        expectation: Expectation,
        parts: Parts,
        margins: Mapping[str, Floats],
        pseudo_counts: float,
        numbers: Integers | None = None,
    ) -> PartedObjective:
        """Return the problem of some parts, given how often each code of each column occurs in all of them."""
        return cls(expectation, parts, spread(expectation.layout, margins, pseudo_counts), numbers)

    @property
    def layout(self) -> ParameterLayout:
        """Where each parameter stands."""
        return self.expectation.layout

    @property
    def weight(self) -> float:
        """The total weight of the rows."""
        return self.parts.weight

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say."""
        found = self.parts.counted(parameters)
        if self.numbers is None or found.impossible < 0:
            return found
        return found._replace(impossible=int(self.numbers[found.impossible]))
