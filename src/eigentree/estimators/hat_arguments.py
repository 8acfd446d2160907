"""Arguments of spectral estimators that learn numbers from hat functions."""

from __future__ import annotations

from typing import Any

from eigentree.counting.levels.hats import HATS
from eigentree.em.mixed.emission_choice import checked_emissions
from eigentree.errors import ParameterError, quoted

__all__ = ["check_hat_families", "check_hats"]

FAMILIES = ("auto", "semiparametric", "categorical")
"""What `emissions` can be: "auto" and "semiparametric" are the same."""


def check_hats(hats: Any) -> None:
    """Raise `ParameterError` unless this is a number of hat functions, or "auto"."""
    if not (isinstance(hats, str | int) and hats in ("auto", *HATS)):
        raise ParameterError(f"hats is 'auto' or one of {', '.join(map(str, HATS))}, not {quoted(hats)}")


def check_hat_families(estimator: str, emissions: Any, other: str) -> None:
    """Raise `ParameterError` unless numbers are to be learned from hat functions; name who has other families."""
    given = checked_emissions(emissions)
    for family in (emissions,) if isinstance(emissions, str) else given.values():
        if family not in FAMILIES:
            raise ParameterError(
                f"{estimator} learns numbers with 'semiparametric' emissions, not {quoted(family)}; {other} has "
                f"the other families"
            )
