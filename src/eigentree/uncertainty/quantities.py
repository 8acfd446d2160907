"""Any statistic of a fitted model as labelled numbers; by default all parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.errors import ParameterError, quoted
from eigentree.uncertainty.estimates import Estimates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.uncertainty.estimates import Scale

__all__ = ["Quantities", "parameter_tables"]

PARAMETER_HEADER = ("table", "state", "given")

MOMENTS: dict[Hashable, Scale] = {"mean": "identity", "std": "log"}
"""What the tables of numbers have in place of states, and where estimates of it are about normal."""

COEFFICIENTS = "coefficients"
"""What the coefficients of class membership are called among the tables of a model."""

Line = tuple[tuple["Hashable", ...], float, "Scale"]


class Quantities(NamedTuple):
    """Numbers that a statistic gives.

    Attributes
    ----------
    labels : list of tuple
    values : array, shape (quantities,)
    header : tuple of str
    scales : list of {"identity", "log", "logit"}
        Where each estimate is about normal.
    """

    labels: list[tuple[Hashable, ...]]
    values: Floats
    header: tuple[str, ...]
    scales: list[Scale]

    @classmethod
    def of(cls, model: Any, statistic: Callable[[Any], Any] | None) -> Quantities:
        """Return the numbers that a statistic of a fitted model gives; without one, its parameters.

        Parameters
        ----------
        model : a fitted estimator whose tables are known
        statistic : callable, optional
            Of the estimator; returns a number, an array, a table, `Estimates`, or a mapping of names to these.
        """
        header: tuple[str, ...] = ("quantity",)
        if statistic is None:
            lines, header = list(_parameters(model)), PARAMETER_HEADER
        else:
            found = statistic(model)
            if isinstance(found, Estimates):
                scales = found.scales or ["identity"] * len(found.values)
                return cls(list(found.labels), np.array(found.values), tuple(found.header), list(scales))
            lines = [((name,), value, "identity") for name, value in _named("", found)]
        if not lines:
            raise ParameterError(
                "the statistic gives no number; return one, an array, or a mapping of names to these"
            )
        labels, values, scales = (list(each) for each in zip(*lines, strict=True))
        return cls(labels, np.array(values, np.float64), header, scales)


def _parameters(model: Any) -> Iterator[Line]:
    """Yield each entry of each table, as ``tables_`` has them; of numbers mean and standard deviation."""
    for key, table in _tables(parameter_tables(model)):
        targets = len(key) if isinstance(key, tuple) else table.ndim if key == "start" else 1
        name = ", ".join(key) if isinstance(key, tuple) else key
        yield from _entries(name, table, targets)


def parameter_tables(model: Any) -> dict[Any, Any]:
    """Return the tables of a fitted estimator, with mean and standard deviation of each number in each state.

    Where classes depend on covariates, their coefficients stand in place of the shares of the classes.
    """
    found = dict(model.tables_)
    if getattr(model, "covariates", None):
        # Covariates decide on the classes; the first one is the reference.
        own = model.coefficients_
        others = LabeledTable(np.asarray(own)[1:], own.names, [own.states[0][1:], own.states[1]])
        found = {COEFFICIENTS: others} | {name: table for name, table in found.items() if name != own.names[0]}
    if getattr(model, "network_", None) is None and (channels := model.columns_.number_places):
        means, variances = model.means_, np.diagonal(model.covars_, axis1=1, axis2=2)
        for place, channel in enumerate(channels):
            moments = np.stack([means[:, place], np.sqrt(variances[:, place])], axis=1)
            states = [range(len(means)), list(MOMENTS)]
            found[model.columns_.names[channel]] = LabeledTable(moments, ["state", "moment"], states)
    return found


def _tables(tables: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[Any, LabeledTable]]:
    """Yield the tables of a model by name; those of several chains or channels stand in mappings of their own."""
    for key, table in tables.items():
        if isinstance(table, Mapping):
            yield from _tables(table, "" if key == "emissions" else f"{key} ")
        else:
            yield f"{prefix}{key}" if isinstance(key, str) else key, table


def _entries(name: str, table: LabeledTable, targets: int) -> Iterator[Line]:
    """Yield the entries of a table whose last axes, so many, are what it is the distribution of."""
    given = table.ndim - targets
    for place in np.ndindex(*table.shape):
        labels = [states[each] for states, each in zip(table.states, place, strict=True)]
        named = [f"{axis}={label}" for axis, label in zip(table.names, labels, strict=True)]
        state = labels[-1] if targets == 1 else ", ".join(named[given:])
        scale: Scale = MOMENTS[state] if table.names[-1] == "moment" else "logit"
        if name == COEFFICIENTS:
            scale = "identity"
        yield (name, state, ", ".join(named[:given])), float(table[place]), scale


def _named(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers of what a statistic gives, with what each is called."""
    if isinstance(value, Mapping):
        for key, own in value.items():
            yield from _named(f"{name} {key}".strip(), own)
        return
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            f"a statistic returns a number, an array, Estimates, or a mapping of names to these, "
            f"not {quoted(value)}"
        ) from None
    labels: Sequence[Sequence[Hashable]] = [range(size) for size in array.shape]
    if isinstance(value, LabeledTable) and value.names:
        labels = [[f"{axis}={label}" for label in own] for axis, own in zip(value.names, value.states, strict=True)]
    for place in np.ndindex(*array.shape):
        shown = ", ".join(str(own[each]) for own, each in zip(labels, place, strict=True))
        yield f"{name}[{shown}]" if shown else name or "statistic", float(array[place])
