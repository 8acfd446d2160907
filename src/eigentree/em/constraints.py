"""Constraints on tables: entries that are fixed, and distributions that are equal.

With counts added up over equal distributions, and the free entries of a distribution sharing what its fixed ones
leave, the M-step has a closed form. The mean over equal entries is the orthogonal projection of a gradient onto the
parameters that satisfy the constraints, so accelerated steps need no change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from eigentree.em.parameters import ParameterLayout
from eigentree.errors import ParameterError, quoted, what_there_is
from eigentree.validation import a_mapping, one_by_one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["ConstrainedLayout", "Constraints"]

ROUNDING = 1e-9
"""By so much the fixed entries of a whole distribution may differ from 1 in sum."""

PREFERENCE = 1e-9
"""What a permutation of states has to gain before it is preferred to none."""

NO_TIE = (
    "equal is a list of ties, such as [('q1', 'q2')] for two tables, or [(('q1', 0), ('q1', 1))] for two of their"
)


@dataclass(frozen=True, eq=False)
class ConstrainedLayout(ParameterLayout):
    """Where each parameter stands, which of them are fixed, and which are equal.

    Attributes
    ----------
    fixed : array
        The value of each entry that is fixed, NaN where it is free; equal entries have equal values.
    first_equal : array of int
        The first entry that each one is equal to.
    """

    fixed: Floats
    first_equal: Integers

    @cached_property
    def _free(self) -> Booleans:
        return np.isnan(self.fixed)

    @cached_property
    def _mass(self) -> Floats:
        """What the fixed entries of its distribution leave for the free ones, for each entry."""
        return 1.0 - super().totals(np.where(self._free, 0.0, self.fixed))

    @cached_property
    def learned(self) -> Booleans:
        """Which parameters are free, and rows can say anything about."""
        return self._pooled(super().learned.astype(np.float64)).astype(np.bool_) & self._free

    @cached_property
    def _leading(self) -> Booleans:
        """Which entries are learned, and are the first of those that are equal."""
        leading: Booleans = self.learned & (self.first_equal == np.arange(self.size))
        return leading

    @cached_property
    def learned_count(self) -> int:
        """The number of different entries that are learned."""
        return int(self._leading.sum())

    @cached_property
    def free_count(self) -> int:
        """The number of free parameters."""
        return self.learned_count - int(np.logical_or.reduceat(self._leading, self._first).sum())

    @property
    def n_constraints(self) -> int:
        """How many parameters are free without the constraints, and not with them."""
        return ParameterLayout.of(self.graph).free_count - self.free_count

    @cached_property
    def _alike(self) -> Floats:
        """How many entries each one is equal to, itself included."""
        return np.bincount(self.first_equal, minlength=self.size)[self.first_equal].astype(np.float64)

    def _pooled(self, counts: Floats) -> Floats:
        """Return, for each entry, the mean count of the entries that are equal."""
        sums = np.bincount(self.first_equal, counts, self.size)
        pooled: Floats = sums[self.first_equal] / self._alike
        return pooled

    def totals(self, counts: Floats) -> Floats:
        """Return, for each free entry, the sum over those of its distribution, as if nothing in it were fixed."""
        totals = super().totals(np.where(self._free, self._pooled(counts), 0.0))
        return np.divide(totals, self._mass, out=np.zeros_like(totals), where=self._free)

    def normalised(self, counts: Floats, fallback: Floats) -> Floats:
        """Return fixed entries, and relative frequencies of what these leave."""
        totals = self.totals(counts)
        known = self._free & (totals > 0)
        return np.divide(self._pooled(counts), totals, out=np.where(self._free, fallback, self.fixed), where=known)

    @cached_property
    def uniform(self) -> Floats:
        """The vector whose distributions are uniform over their free entries."""
        return self.normalised(np.ones(self.size), self.fixed)

    def projected(self, parameters: Floats) -> Floats:
        """Return parameters that satisfy the constraints, after the permutation of states that fits them best."""
        if orders := self.orders(parameters):
            parameters = self.vector(self.network(parameters).relabelled(orders))
        return self.normalised(parameters, self.uniform)

    def orders(self, parameters: Floats) -> dict[str, Integers]:
        """Return the order of the states of hidden variables that fits fixed entries best, where it is another."""
        from scipy.optimize import linear_sum_assignment

        found: dict[str, Integers] = {}
        tables, wanted = self.tables(parameters), self.tables(self.fixed)
        for name in self.graph.hidden:
            cost = np.full((self.graph.states[name],) * 2, PREFERENCE) - PREFERENCE * np.eye(
                self.graph.states[name]
            )
            for key, axes in self.axes.items():
                if name in axes and not np.isnan(wanted[key]).all():
                    own, target = (np.moveaxis(each[key], axes.index(name), 0) for each in (tables, wanted))
                    apart = np.nan_to_num(own[None] - target[:, None])
                    cost += (apart**2).reshape(*cost.shape, -1).sum(axis=2)
            order = linear_sum_assignment(cost)[1]
            if not np.array_equal(order, np.arange(len(order))):
                found[name] = order
        return found


class Constraints(NamedTuple):
    """What users fix and what they make equal, as estimators take it."""

    fixed: Any = None
    equal: Any = None

    def layout(self, graph: LatentGraph, columns: Columns, numbers: Sequence[str] = ()) -> ConstrainedLayout | None:
        """Return where parameters stand under the constraints, or None where there are none.

        `numbers` are the columns whose emission has no table that could be constrained.
        """
        if self.fixed is None and self.equal is None:
            return None
        plain = ParameterLayout.of(graph)
        reader = _Reader(plain, columns, frozenset(numbers))
        fixed = reader.fixed({} if self.fixed is None else self.fixed)
        line = reader.ties(() if self.equal is None else self.equal)
        starts, lengths = reader.starts, plain.lengths
        first_equal = np.repeat(starts[line] - starts, lengths) + np.arange(plain.size)
        return ConstrainedLayout(graph, plain.axes, _completed(plain, fixed, first_equal), first_equal)


def _completed(layout: ParameterLayout, fixed: Floats, first_equal: Integers) -> Floats:
    """Return fixed entries, those included that follow from others."""
    highest, lowest = np.full(layout.size, -np.inf), np.full(layout.size, np.inf)
    known = ~np.isnan(fixed)
    np.maximum.at(highest, first_equal[known], fixed[known])
    np.minimum.at(lowest, first_equal[known], fixed[known])
    if (conflict := highest[first_equal] > lowest[first_equal])[known].any():
        place = int(np.flatnonzero(conflict & known)[0])
        raise ParameterError(
            f"fixed gives {_at(layout, place)} the value {fixed[place]:g}, but another to an entry that "
            f"equal makes the same; fix one of them, or both alike"
        )
    fixed = np.where(np.isfinite(highest), highest, np.nan)[first_equal]
    free = np.isnan(fixed)
    left = 1.0 - layout.totals(np.where(free, 0.0, fixed))
    count = layout.totals(free.astype(np.float64))
    wrong = (left < -ROUNDING) | ((count == 0) & (left > ROUNDING))
    if wrong.any():
        place = int(wrong.argmax())
        raise ParameterError(
            f"the fixed entries of the distribution of {_at(layout, place)} sum to {1.0 - left[place]:.6g}; all of "
            f"its entries sum to 1, and free ones are NaN"
        )
    return np.where(free & ((count == 1) | (left <= ROUNDING)), np.maximum(left, 0.0), fixed)


def _at(layout: ParameterLayout, place: int) -> str:
    """Return what a message calls the table of an entry, and the entry."""
    key = max((each for each in layout.axes if layout.starts[each] <= place), key=layout.starts.__getitem__)
    cell = np.unravel_index(place - layout.starts[key], layout.shapes[key])
    named = ", ".join(f"{name}={int(at)}" for name, at in zip(layout.axes[key], cell, strict=True))
    return f"{_shown(key)} at {named}"


def _shown(key: TableKey) -> str:
    return quoted(key[0] if len(key) == 1 else key)


@dataclass(frozen=True)
class _Reader:
    """What users give, in places of the vector; `numbers` have no table."""

    layout: ParameterLayout
    columns: Columns
    numbers: frozenset[str]

    @cached_property
    def starts(self) -> Integers:
        """Where each distribution starts."""
        lengths = self.layout.lengths
        return np.cumsum(lengths) - lengths

    def fixed(self, given: Any) -> Floats:
        """Return the value of each entry that is fixed, NaN where it is free."""
        layout = self.layout
        vector = np.full(layout.size, np.nan)
        for name, table in a_mapping("fixed", given, "{'q1': [[0.9, nan, nan], ...]}", ParameterError).items():
            key = self._key("fixed", name)
            values = self._table(name, key, table)
            known = values[~np.isnan(values)]
            if not ((known >= 0) & (known <= 1)).all():
                raise ParameterError(f"fixed[{quoted(name)}] holds probabilities from 0 to 1, and NaN where free")
            vector[layout.starts[key] : layout.starts[key] + values.size] = values.ravel()
        return vector

    def _table(self, name: Any, key: TableKey, given: Any) -> Floats:
        """Return a table of fixed entries, from an array or from a mapping of states to probabilities."""
        axes, shape = self.layout.axes[key], self.layout.shapes[key]
        what = f"fixed[{quoted(name)}]"
        if isinstance(given, Mapping):
            table = np.full(shape, np.nan)
            for state, values in given.items():
                place = self._state(what, axes[-1], state)
                own = _numbers(f"{what}[{quoted(state)}]", values)
                try:
                    table[..., place] = own
                except ValueError:
                    raise ParameterError(
                        f"{what}[{quoted(state)}] is a number, or an array of the shape {shape[:-1]} of "
                        f"{', '.join(map(repr, axes[:-1]))}, not of the shape {own.shape}"
                    ) from None
            return table
        table = _numbers(what, given)
        if table.shape != shape:
            raise ParameterError(
                f"{what} has the shape {table.shape}, but the table has {shape}, one axis for each of "
                f"{', '.join(map(repr, axes))}"
            )
        return table

    def ties(self, given: Any) -> Integers:
        """Return, for each distribution, the first one that it is equal to."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        pairs: list[tuple[Integers, Integers]] = []
        for tie in one_by_one("equal", given, "ties", ParameterError):
            first, *others = self._members(tie)
            pairs += [(first, other) for other in others]
        count = len(self.starts)
        if not pairs:
            return np.arange(count)
        left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
        linked = coo_array((np.ones(len(left)), (left, right)), shape=(count, count))
        components = connected_components(linked, directed=False)[1]
        first_of = np.unique(components, return_index=True)[1]
        return np.asarray(first_of[components], np.int64)

    def _members(self, tie: Any) -> list[Integers]:
        """Return the distributions of each member of a tie, in an order that is theirs in all members."""
        if isinstance(tie, str) or not isinstance(tie, list | tuple) or not tie:
            raise ParameterError(f"{NO_TIE} lines, and {quoted(tie)} is none")
        found = [(member, *self._lines(member)) for member in tie]
        if len(found) == 1:
            # All distributions of one table.
            (_, lines, length) = found[0]
            found = [(tie[0], line, length) for line in lines[:, None]]
        (name, first, length), *others = found
        for other, lines, own in others:
            if (len(lines), own) != (len(first), length):
                raise ParameterError(
                    f"equal ties {quoted(name)} to {quoted(other)}, but the first is {len(first)} distributions of "
                    f"{length} states, the second {len(lines)} of {own}; where a label does not occur in a column, "
                    f"give all of them as categories="
                )
        return [lines for _, lines, _ in found]

    def _lines(self, member: Any) -> tuple[Integers, int]:
        """Return the distributions that a member of a tie names, and how many states they have."""
        layout, given = self.layout, cast("Any", {})
        if isinstance(member, tuple) and not (set(map(type, member)) == {str} and member in layout.axes):
            if len(member) != 2 or not isinstance(member[0], str):
                raise ParameterError(f"{NO_TIE} lines, and {quoted(member)} is neither a table nor a line")
            member, given = member
        key = self._key("equal", member)
        axes, shape = layout.axes[key], layout.shapes[key]
        parents = axes[: len(axes) - len(key)]
        if not isinstance(given, Mapping):
            if len(parents) != 1:
                example = ", ".join(f"{parent!r}: 0" for parent in parents)
                raise ParameterError(
                    f"a line of {quoted(member)} is named by the states of its parents, {{{example}}}, not "
                    f"{quoted(given)}"
                )
            given = {parents[0]: given}
        length = math.prod(shape[len(parents) :])
        first = int(np.searchsorted(self.starts, layout.starts[key]))
        lines = first + np.arange(math.prod(shape[: len(parents)])).reshape(shape[: len(parents)])
        for name, state in given.items():
            if name not in parents:
                raise ParameterError(
                    f"{quoted(name)} is no parent of {quoted(member)}{what_there_is(name, parents)}"
                )
            axis = parents.index(name)
            lines = lines.take([self._state("equal", name, state)], axis)
        return lines.ravel(), length

    def _key(self, argument: str, name: Any) -> TableKey:
        key = (name,) if isinstance(name, str) else name
        if isinstance(name, str) and name in self.numbers:
            raise ParameterError(
                f"{argument} names {name!r}, which is a column of numbers; only tables of categories can be "
                f"constrained, but a number can be without a parent on which it should not depend"
            )
        if not isinstance(key, tuple) or key not in self.layout.axes:
            names = [each for own in self.layout.axes for each in own]
            raise ParameterError(f"{argument} names {quoted(name)}, which has no table{what_there_is(name, names)}")
        return key

    def _state(self, what: str, name: str, state: Any) -> int:
        """Return the place of a state, by its label where the variable is observed and by its number otherwise."""
        graph = self.layout.graph
        labels = range(graph.states[name]) if name in graph.hidden else self.columns.labels(name)
        for place, label in enumerate(labels):
            if label == state:
                return place
        raise ParameterError(
            f"{what} names the state {quoted(state)} of {name!r}{what_there_is(state, [*map(str, labels)])}"
        )


def _numbers(what: str, given: Any) -> Floats:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"{what} is an array of probabilities, NaN where they are free, not {quoted(given)}"
        ) from None
