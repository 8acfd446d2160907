"""What spectral estimators share: shrinkage, floor, and numbers that are learned from hat functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from eigentree.counting.levels.hats import HATS
from eigentree.data.tables.state_rules import check_rules
from eigentree.em.mixed.emission_choice import checked_emissions
from eigentree.errors import GraphError, ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.validation import auto_or_number

if TYPE_CHECKING:
    from eigentree.data.tables.state_rules import NumericRule

__all__ = ["SpectralMixin", "check_hat_families"]

FAMILIES = ("auto", "semiparametric", "categorical")
"""What `emissions` can be: "auto" and "semiparametric" are the same."""


class SpectralMixin(Parameters):
    """What estimators share that learn operators from counts, of rows and of sequences."""

    shrinkage: float | Literal["auto"]
    floor: float | Literal["auto"]
    hats: int | Literal["auto"]
    emissions: Any
    numeric: NumericRule
    model_: Any

    @property
    def shrinkage_(self) -> float:
        """The shrinkage that was used."""
        return float(self.model_.shrinkage)

    @property
    def floor_(self) -> float:
        """The floor that was used."""
        return float(self.model_.floor)

    @property
    def _given(self) -> tuple[float | None, float | None, int | None]:
        """Shrinkage, floor and number of hat functions; None for what is chosen."""
        shrinkage, floor = (None if isinstance(each, str) else float(each) for each in (self.shrinkage, self.floor))
        return shrinkage, floor, None if isinstance(self.hats, str) else self.hats

    def _check_learning(self, other: str) -> None:
        """Raise `ParameterError` unless these arguments are possible; name who has other families of numbers."""
        auto_or_number("shrinkage", self.shrinkage, math.inf)
        auto_or_number("floor", self.floor, 1.0)
        if not (isinstance(self.hats, str | int) and self.hats in ("auto", *HATS)):
            raise ParameterError(f"hats is 'auto' or one of {', '.join(map(str, HATS))}, not {quoted(self.hats)}")
        check_hat_families(type(self).__name__, self.emissions, other)
        check_rules(self.handle_unknown, self.numeric)

    def _no_tables(self, what: str, where: str) -> NoReturn:
        """Raise `GraphError`, which says where there are tables of hidden states."""
        self._require_fit()
        raise GraphError(
            f"{what}, and a spectral model has no tables of them; {where} has, and takes the same queries"
        )


def check_hat_families(estimator: str, emissions: Any, other: str) -> None:
    """Raise `ParameterError` unless numbers are to be learned from hat functions; name who has other families."""
    given = checked_emissions(emissions)
    for family in (emissions,) if isinstance(emissions, str) else given.values():
        if family not in FAMILIES:
            raise ParameterError(
                f"{estimator} learns numbers with 'semiparametric' emissions, not {quoted(family)}; {other} has "
                f"the other families"
            )
