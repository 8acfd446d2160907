"""The tables of a hidden chain as users give them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.number_chains import NumberChainObjective, given_emission
from eigentree.emissions.base import Emission
from eigentree.errors import ParameterError, quoted
from eigentree.validation import an_array, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats
    from eigentree.em.chain_fit import SequenceObjective

__all__ = ["allowed_transitions", "first_links", "given_distributions", "given_emissions", "of_each_chain"]

SUM_ROUNDING = 1e-6
"""How far from 1 a given distribution may add up."""


def of_each_chain(what: str, given: Any, chains: int) -> list[Any]:
    """Return what was given of each chain; of a single one, nothing but that is given."""
    if chains == 1:
        return [given]
    each = list(given.values()) if isinstance(given, Mapping) else given
    if not isinstance(each, list | tuple) or len(each) != chains:
        raise ParameterError(f"{what} is a list of {chains} arrays, one for each chain, not {quoted(given)}")
    return list(each)


def given_emissions(problem: SequenceObjective, shown: Any) -> tuple[list[Floats], list[Emission]]:
    """Return the table of each channel, ones for numbers, and the emissions of numbers, that the user gave."""
    layout = problem.layout
    what = "init['emissions']"
    if not isinstance(problem, NumberChainObjective):
        tables = list(shown.values()) if isinstance(shown, Mapping) else [shown]
        if len(tables) != len(layout.channels):
            raise ParameterError(f"{what} needs a table for each of {len(layout.channels)} channels")
        pairs = zip(tables, layout.channels, strict=True)
        return [given_distributions(what, table, (*layout.sizes, count)) for table, count in pairs], []
    columns, numbers = problem.walk.columns, problem.layout.numbers
    names = {tuple(columns.names[place] for place in group): group for group in numbers}
    coded = [name for place, name in enumerate(columns.names) if place not in columns.number_places]
    if len(names) == 1 and not coded and (isinstance(shown, Emission) or not _is_by_channel(shown, columns.names)):
        shown = {next(iter(names)): shown}
    given = {(key,) if isinstance(key, str) else key: own for key, own in shown.items()} if _maps(shown) else {}
    if set(given) != {*names, *((name,) for name in coded)}:
        wanted = ", ".join(
            repr(group[0] if len(group) == 1 else group) for group in [*names, *((n,) for n in coded)]
        )
        raise ParameterError(f"{what} is a mapping with {wanted}, not {quoted(shown)}")
    tables = [
        given_distributions(what, given[(name,)], (*layout.sizes, count))
        if name in coded
        else np.ones((layout.states, 1))
        for name, count in zip(columns.names, layout.channels, strict=True)
    ]
    return tables, [given_emission(what, numbers[group], given[key]) for key, group in names.items()]


def _maps(given: Any) -> bool:
    return isinstance(given, Mapping)


def _is_by_channel(given: Any, names: Sequence[str]) -> bool:
    """Return whether a mapping has channels, or tuples of them, for keys, and no parameters."""
    return isinstance(given, Mapping) and any(key in names or isinstance(key, tuple) for key in given)


def allowed_transitions(given: Any, sizes: Sequence[int]) -> tuple[Booleans, ...]:
    """Return which state of each chain may follow which, as the user gave it."""
    if isinstance(given, str):
        one_of("transitions", given, ("full", "left-to-right"))
        every = tuple(np.ones((size, size), np.bool_) for size in sizes)
        return every if given == "full" else tuple(map(np.triu, every))
    each = of_each_chain("transitions", given, len(sizes))
    return tuple(_may_follow(own, size) for own, size in zip(each, sizes, strict=True))


def _may_follow(given: Any, states: int) -> Booleans:
    """Return which state may follow which, as the user gave it."""
    array = an_array("transitions", given, ParameterError)
    # NaN is no answer, and a negative number is an error.
    if array.shape != (states, states) or array.dtype.kind not in "biuf" or not (array >= 0).all():
        raise ParameterError(
            f"transitions is 'full', 'left-to-right' or an array of shape ({states}, {states}), zero where a "
            f"state cannot follow, not {quoted(given)}"
        )
    allowed: Booleans = array != 0
    if not allowed.any(axis=1).all():
        raise ParameterError(f"transitions: no state may follow state {int(np.argmin(allowed.any(axis=1)))}")
    return allowed


def first_links(given: Any, states: int, order: int) -> list[Floats]:
    """Return the tables of the first steps, each given those before it, of their joint distribution."""
    joint = given_distributions("init['start']", given, (states,) * order, whole=True)
    links = []
    for earlier in range(order):
        own = joint.sum(axis=tuple(range(earlier + 1, order)))
        totals = own.sum(axis=-1, keepdims=True)
        links.append(np.divide(own, totals, out=np.full_like(own, 1.0 / states), where=totals > 0))
    return links


def given_distributions(what: str, given: Any, shape: tuple[int, ...], whole: bool = False) -> Floats:
    """Return given distributions as an array, once they are some; `whole` ones are normalised over all axes."""
    try:
        table: Floats = np.array(an_array(what, given, ParameterError), np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} is an array of numbers, not {quoted(given)}") from None
    if table.shape != shape:
        raise ParameterError(f"{what} has the shape {table.shape}, but needs {shape}")
    totals = table.sum(axis=None if whole else -1)
    if not (table >= 0).all() or not np.allclose(totals, 1.0, atol=SUM_ROUNDING):
        raise ParameterError(f"{what} is made of probabilities, and each distribution has the sum 1")
    return table
