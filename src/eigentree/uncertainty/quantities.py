"""Any statistic of a fitted model as labelled numbers; by default all parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.errors import ParameterError, named_failures, quoted
from eigentree.inference.sequences.input_chain import InputChain
from eigentree.uncertainty.estimates import Estimates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from eigentree.arrays import Floats
    from eigentree.uncertainty.estimates import Scale

__all__ = ["Quantities", "parameter_tables", "ratios_of"]

PARAMETER_HEADER = ("table", "state", "given")

MOMENTS: dict[Hashable, Scale] = {"mean": "identity", "std": "log"}
"""What the tables of numbers have in place of states, and where estimates of it are about normal."""

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
        if statistic is not None and not callable(statistic):
            raise ParameterError(f"statistic is a function of a fitted estimator, not {quoted(statistic)}")
        if statistic is None:
            lines, header = list(_parameters(model)), PARAMETER_HEADER
        else:
            with named_failures("the statistic", ParameterError):
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
    """Yield each entry of each table, in the order of `parameter_tables`; then coefficients of covariates."""
    tables = parameter_tables(model)
    network = getattr(model, "network_", None)
    if network is None:
        for part, own in tables.items():
            scales = {} if part in model.tables_ else MOMENTS
            for key, table in own.items() if isinstance(own, Mapping) else [("", own)]:
                name = key if part == "emissions" and key else f"{part} {key}".strip()
                joint = part == "start" and "input" not in table.names
                if "covariate" in table.names:
                    scales = dict.fromkeys(table.states[-1], "identity")
                lines = _entries(name, table, table.ndim if joint else 1, scales)
                # Transitions from one cluster to another are no parameters.
                clusters = getattr(model, "state_clusters_", None) if part == "transitions" else None
                for line, place in zip(lines, np.ndindex(*table.shape), strict=True):
                    if clusters is None or np.ptp(clusters[list(place)]) == 0:
                        yield line
        return
    for key, table in tables.items():
        name, targets = (", ".join(key), len(key)) if isinstance(key, tuple) else (key, 1)
        yield from _entries(name, table, targets, MOMENTS if key in model.columns_.numbers else {})
    if network.measurement is not network:
        table = model.coefficients_
        # Those of the first class are zero: others are compared with it.
        others = LabeledTable(np.asarray(table)[1:], table.names, [table.states[0][1:], table.states[1]])
        yield from _entries("coefficients", others, 1, dict.fromkeys(table.states[1], "identity"))


def parameter_tables(model: Any) -> dict[Any, Any]:
    """Return the tables of a fitted estimator, with mean and standard deviation of each number in each state."""
    found = dict(model.tables_) | _coefficients(model)
    if getattr(model, "network_", None) is not None:
        return found
    chain = model.model_
    for group, emission in chain.numbers.items():
        mean, variance = (own[0] for own in emission.moments(np.full((1, len(group)), np.nan)))
        axes: list[tuple[str, Sequence[Hashable]]] = [("state", range(chain.states)), ("moment", list(MOMENTS))]
        if emission.states != chain.states:
            # It depends on symbols.
            inputs = chain.input_columns
            axes.insert(0, ("input", inputs.labels(inputs.names[0])))
        names, states = zip(*axes, strict=True)
        for column, place in enumerate(group):
            moments = np.stack([mean[:, column], np.sqrt(variance[:, column])], axis=1)
            found[model.columns_.names[place]] = LabeledTable(moments.reshape(*map(len, states)), names, states)
    return found


def _coefficients(model: Any) -> dict[Any, Any]:
    """Return the coefficients of multinomial logits of a hidden Markov model with inputs, but of the reference."""
    chain = getattr(model, "model_", None)
    if not isinstance(chain, InputChain):
        return {}
    found = {}
    for name, own in chain.tables.named(model.columns_.names):
        if own.groups is not None:
            table = model.coefficients_
            names, (clusters, terms) = table.names[::-1], table.states
            found["logit of clusters"] = LabeledTable(np.asarray(table)[1:].T, names, [terms, clusters[1:]])
        elif own.kind == "logit":
            table = model.coefficients_[name]
            # Where not every state may follow, the reference differs from row to row.
            others = slice(1 if own.possible[:, 0].all() else 0, None)
            states = [*table.states[:-1], list(table.states[-1])[others]]
            found[f"logit of {name}"] = LabeledTable(np.asarray(table)[..., others], table.names, states)
    return found


def ratios_of(model: Any) -> Estimates:
    """Return the exponentials of the coefficients of a hidden Markov model with inputs, but intercepts."""
    lines = [
        (labels, value)
        for key, table in _coefficients(model).items()
        for labels, value, _ in _entries(key, table, 1, {})
        if not str(labels[2]).endswith("covariate=intercept")
    ]
    if not lines:
        raise ParameterError(
            "odds ratios are those of multinomial logits of inputs, which are numbers or several columns; the "
            "model has none"
        )
    labels, values = zip(*lines, strict=True)
    unknown = np.full((len(values), len(values)), np.nan)
    return Estimates(list(labels), np.exp(values), unknown, PARAMETER_HEADER, ["log"] * len(values))


def _entries(name: str, table: LabeledTable, targets: int, scales: Mapping[Hashable, Scale]) -> Iterator[Line]:
    """Yield the entries of a table whose last axes, so many, are what it is the distribution of.

    Entries are probabilities, but for those whose label has a scale.
    """
    given = table.ndim - targets
    for place in np.ndindex(*table.shape):
        labels = [states[each] for states, each in zip(table.states, place, strict=True)]
        named = [f"{axis}={label}" for axis, label in zip(table.names, labels, strict=True)]
        state = labels[-1] if targets == 1 else ", ".join(named[given:])
        yield (name, state, ", ".join(named[:given])), float(table[place]), scales.get(state, "logit")


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
