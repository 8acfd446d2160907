"""Checks of arguments: what passes comes back in its plain form, what does not is named in an error of ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sized
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from eigentree.errors import DataError, EigentreeError, GraphError, ParameterError, did_you_mean, in_short, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "ARITHMETIC",
    "FILL_METHODS",
    "MOST_CELLS",
    "MOST_STATES",
    "MOST_THREADS",
    "MOST_VARIABLES",
    "MOST_WHOLE",
    "FillMethod",
    "Seed",
    "a_mapping",
    "an_array",
    "as_float",
    "auto_or_number",
    "check_cells",
    "check_variables",
    "checked_quantiles",
    "different_names",
    "finite_number",
    "flag",
    "generator",
    "one_by_one",
    "one_of",
    "our_arithmetic",
    "plain_number",
    "whole_number",
]

Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
"""What users may give as `seed` or `random_state`."""

FillMethod: TypeAlias = Literal["mode", "mean", "median", "sample"]
"""How missing cells are filled; "mode" and "mean" are the same: the mode of a category, the mean of a number."""

FILL_METHODS = get_args(FillMethod)

MOST_WHOLE = 2**53
"""Largest whole number that an argument may be: beyond, floats merge whole numbers."""

MOST_SEED = 2**128 - 1
"""Largest seed, of as many bits as numpy's own."""

MOST_CELLS = 2**30
"""Most numbers of an array that is handed out: 8 GiB."""

MOST_STATES = 2**31
"""Most states of a variable: codes have 32 bits."""

MOST_VARIABLES = 2**17
"""Most variables of a graph: planning takes about half a millisecond for each, and memory a kilobyte."""

MOST_SHOWN = 8
"""Most columns whose errors are shown."""

MOST_THREADS = 1024
"""Most threads of `n_jobs`."""

ARITHMETIC: dict[str, Any] = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
"""numpy's own rules for overflow and underflow, whatever users have set: a probability may underflow to zero."""

our_arithmetic = np.errstate(**ARITHMETIC)
"""A decorator of functions that compute under these rules."""

T = TypeVar("T")


def whole_number(
    argument: str,
    value: Any,
    least: int = 1,
    error: type[EigentreeError] = ParameterError,
    most: int = MOST_WHOLE,
) -> int:
    """Return a whole number of at least `least`, or raise an error that names the argument; True is no number."""
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    number = int(value) if whole else least - 1
    if number < least:
        raise error(f"{argument} is a whole number of at least {least}, not {quoted(value)}")
    if number > most:
        raise error(f"{argument} is a whole number of at most {in_short(most)}, not {quoted(value)}")
    return number


def finite_number(
    argument: str, value: Any, least: float, error: type[EigentreeError] = ParameterError, most: float = math.inf
) -> float:
    """Return a finite number within a range, or raise an error that names the argument; True is no number."""
    number = as_float(value)
    if not least <= number <= most or math.isinf(number):
        range_ = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise error(f"{argument} is a finite number {range_}, not {quoted(value)}")
    return number


def checked_quantiles(value: Any) -> list[float]:
    """Return quantiles as numbers, once they are shares between 0 and 1, and there is one."""
    shares = np.atleast_1d(an_array("quantiles", value, ParameterError))
    numbers = shares.dtype.kind in "iuf" and shares.ndim == 1 and len(shares) > 0
    if not numbers or not ((shares > 0) & (shares < 1)).all():
        raise ParameterError(f"quantiles are shares between 0 and 1, not {quoted(value)}")
    return [float(share) for share in shares]


def auto_or_number(argument: str, value: Any, most: float) -> None:
    """Raise `ParameterError` unless a value is "auto" or a number from 0 to `most`."""
    if not 0 <= as_float(value) <= most and not (isinstance(value, str) and value == "auto"):
        range_ = "of at least 0" if math.isinf(most) else f"from 0 to {most:g}"
        raise ParameterError(f"{argument} is 'auto' or a number {range_}, not {quoted(value)}")


def as_float(value: Any) -> float:
    """Return a real number as a float: infinite where no float is as large, NaN where it is no number at all."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value == abs(value) else -math.inf


def plain_number(value: Any) -> Any:
    """Return a number of numpy's, or a fraction, as one of Python's own; what is none, or too large, as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    number = as_float(value)
    return value if math.isinf(number) else number


def one_of(
    argument: str, value: Any, choices: Sequence[str | None], error: type[EigentreeError] = ParameterError
) -> None:
    """Raise an error unless the value is one of the choices; it names them, and the one that may be meant.

    Examples
    --------
    >>> one_of("scaling", "varaince", ("auto", "variance", None))
    Traceback (most recent call last):
    eigentree.errors.ParameterError: scaling is 'auto', 'variance' or None, not 'varaince'; did you mean 'variance'?
    """
    # By type first: an array has no truth value when compared.
    if not (value is None or isinstance(value, str)) or value not in choices:
        *others, last = map(repr, choices)
        known = f"{', '.join(others)} or {last}" if others else last
        hint = did_you_mean(value, [choice for choice in choices if choice is not None])
        raise error(f"{argument} is {known}, not {quoted(value)}{hint}")


def flag(argument: str, value: Any, error: type[EigentreeError] = ParameterError) -> bool:
    """Return a truth value, or raise an error that names the argument."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{argument} is True or False, not {quoted(value)}")
    return bool(value)


def different_names(argument: str, names: Any, error: type[EigentreeError] = GraphError) -> tuple[str, ...]:
    """Return a list of names, once each is a string and none occurs twice."""
    if isinstance(names, str):
        raise error(f"{argument} is a list of names; write {argument}=[{quoted(names)}]")
    found: dict[str, None] = {}
    for name in one_by_one(argument, names, "names", error):
        if not isinstance(name, str):
            raise error(f"{argument} is a list of names, and {quoted(name)} is no string")
        if name in found:
            raise error(f"{argument} names {quoted(name)} twice; each variable may be named once")
        found[name] = None
    return tuple(found)


def one_by_one(argument: str, value: Any, members: str, error: type[EigentreeError]) -> Iterator[Any]:
    """Return an iterator over what a list holds, or raise an error; what is given may never end."""
    try:
        # Lazy frames have items, and are no lists.
        if hasattr(type(value), "__iter__") and not isinstance(value, str | bytes):
            return iter(value)
    except TypeError:
        # Arrays without an axis say that they can be iterated over, and cannot.
        pass
    raise error(f"{argument} is a list of {members}, not {quoted(value)}")


def an_array(what: str, value: Any, error: type[EigentreeError]) -> NDArray[Any]:
    """Return an array of whatever type, or raise an error; nothing enormous is converted."""
    try:
        if not (isinstance(value, Sized) and not isinstance(value, np.ndarray) and len(value) > MOST_CELLS):
            return np.asarray(value)
    except Exception:  # what an object's own __len__ and __array__ raise
        pass
    raise error(f"{what} is not an array of numbers, but {quoted(value)}")


def a_mapping(
    argument: str, value: Any, example: str, error: type[EigentreeError] = GraphError
) -> Mapping[Any, Any]:
    """Return a mapping, or raise an error that names the argument and gives an example of one."""
    if not isinstance(value, Mapping):
        raise error(f"{argument} is a mapping, such as {example}, not {quoted(value)}")
    return value


def check_cells(
    what: str, cells: int, do: str, error: type[EigentreeError] = DataError, most: int | None = None
) -> None:
    """Raise an error where an array would have more cells than may be; `do` says what to do then."""
    most = most or MOST_CELLS
    if cells > most:
        unit, size = ("GiB", 2**27) if most >= 2**27 else ("MiB", 2**17)
        raise error(
            f"{what} would be {in_short(cells)} numbers, {in_short(cells // size)} {unit} "
            f"(the limit is {in_short(most)}, {most // size} {unit}); {do}"
        )


def check_variables(what: str, count: int) -> None:
    """Raise `GraphError` where a graph would have more variables, or more edges for them, than may be."""
    if count > MOST_VARIABLES:
        raise GraphError(
            f"{what} would take {in_short(count)} variables (the limit is {in_short(MOST_VARIABLES)}), more than "
            f"can be planned in minutes; give fewer or smaller numbers"
        )


def generator(random_state: Seed) -> np.random.Generator:
    """Return the generator that a seed stands for; the generator itself where one is given."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    whole = isinstance(random_state, Integral) and not isinstance(random_state, bool | np.bool_)
    if not whole or not 0 <= random_state <= MOST_SEED:
        raise ParameterError(
            f"a seed is a whole number of at least 0, a Generator or None, not {quoted(random_state)}"
        )
    return np.random.default_rng(int(random_state))
