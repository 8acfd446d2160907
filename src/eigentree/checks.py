"""The checks of arguments that all faces share: whole numbers, numbers, choices, seeds."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.errors import EigentreeError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Seed", "finite_number", "generator", "one_of", "whole_number"]

Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
"""What users may give as `seed` or `random_state`."""


def whole_number(argument: str, value: Any, least: int = 1, error: type[EigentreeError] = ParameterError) -> int:
    """Return a whole number of at least `least`, or raise an error that names the argument; True is no number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < least:
        raise error(f"{argument} is a whole number of at least {least}, not {value!r}")
    return int(value)


def finite_number(argument: str, value: Any, least: float) -> float:
    """Return a finite number of at least `least`, or raise `ParameterError`; True is no number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not least <= float(value) < math.inf:
        raise ParameterError(f"{argument} is a finite number of at least {least:g}, not {value!r}")
    return float(value)


def one_of(
    argument: str, value: Any, choices: Sequence[str | None], error: type[EigentreeError] = ParameterError
) -> None:
    """Raise an error unless the value is one of the choices."""
    # By kind first: an array has no truth when compared.
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise error(f"{argument} is {' or '.join(repr(choice) for choice in choices)}, not {value!r}")


def generator(random_state: Seed) -> np.random.Generator:
    """Return the generator that a seed stands for; the generator itself where one is given."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ParameterError(
            f"a seed is a whole number of at least 0, a Generator or None, not {random_state!r}"
        ) from None
