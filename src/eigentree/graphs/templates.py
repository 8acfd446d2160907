"""Templates: structures that are known up to their columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice, pairwise
from math import ceil
from typing import Any, Self

from eigentree import validation as checks
from eigentree.errors import GraphError, ParameterError, did_you_mean, quoted
from eigentree.graphs.graph import Derived, LatentGraph
from eigentree.messages import refuse_foreign_names, renamed, renamed_arguments

__all__ = [
    "HMM",
    "FactorialHMM",
    "LatentTree",
    "Mixture",
    "MultiGroupMixture",
    "SemiHiddenMarkov",
    "Template",
    "apart",
    "at_step",
    "each_count",
    "unrolled",
    "whole_number",
]

whole_number = partial(checks.whole_number, error=GraphError)


class Template(Derived, ABC):
    """A structure that is known up to its columns.

    A template is a frozen dataclass whose fields are its sizes, the main one called `hidden_states`. Estimators
    show them among their parameters, such as ``structure__hidden_states``, and set one by taking another template.
    """

    def __new__(cls, *_: Any, **named: Any) -> Self:
        """Return a new template, unless a size is called as in another library."""
        refuse_foreign_names(named, cls.__annotations__)
        return super().__new__(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the sizes by name; `deep` is there for scikit-learn, since no size has parameters of its own."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def changed(self, **sizes: Any) -> Self:
        """Return the template with some sizes changed; this one stays as it is.

        Examples
        --------
        >>> HMM(order=2).changed(hidden_states=4)
        HMM(order=2, hidden_states=4)
        """
        known = self.get_params()
        refuse_foreign_names(sizes, known)
        for name in sizes:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}{hint}")
        return replace(self, **sizes)  # type: ignore[type-var]

    def __sklearn_clone__(self) -> Self:
        # What never changes can be shared, and the graphs that it built with it.
        return self

    def __post_init__(self) -> None:
        self._check_sizes(*self.get_params())

    def _check_sizes(self, *names: str) -> None:
        """Put sizes, checked to be whole numbers, in the place of those that were given."""
        for name in names:
            least = 2 if name == "branching" else 1
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least=least))

    def build(self, states: Sequence[int], names: Sequence[str] | None = None) -> LatentGraph:
        """Return the graph over columns with these numbers of states.

        The columns are named x0, x1, … unless `names` are given. Where a hidden variable would have the
        name of a column, the names of all hidden variables get the prefix ``hidden_``.
        """
        counts = _each_number("states", states)
        checks.check_variables("this graph", len(counts))
        if not counts:
            raise GraphError("states must give the number of states of at least one column, and is empty")
        if names is None:
            names = [f"x{column}" for column in range(len(counts))]
        expected = f"{len(counts)} different names, one per column"
        named = list(islice(checks.one_by_one("names", names, expected, GraphError), len(counts) + 1))
        for name in named:
            if not isinstance(name, str) or not name:
                raise GraphError(f"variable names are non-empty strings, not {quoted(name)}")
        if len(named) != len(counts) or len(set(named)) != len(named):
            raise GraphError(f"names is a list of {expected}, not {quoted(names)}")
        # The same columns give the same graph, which keeps its plan.
        return self.derived(_graph_over, tuple(zip(named, counts, strict=True)))

    @abstractmethod
    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        """Return the graph over columns, given as names and numbers of states that were checked."""


def _graph_over(template: Template, columns: tuple[tuple[str, int], ...]) -> LatentGraph:
    return template._over(dict(columns))


@dataclass(frozen=True)
class HMM(Template):
    """A hidden Markov model of any order, one step per column; see `hmm`."""

    order: int = 1
    hidden_states: int = 2

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        hidden = apart([f"h{t}" for t in range(len(columns))], columns)
        checks.check_variables("the edges of this graph", len(columns) * min(self.order, len(columns)))
        states: dict[str, int] = {}
        edges: list[tuple[str, str]] = []
        for t, (column, count) in enumerate(columns.items()):
            states |= {hidden[t]: self.hidden_states, column: count}
            edges += [(earlier, hidden[t]) for earlier in hidden[max(0, t - self.order) : t]]
            edges.append((hidden[t], column))
        return LatentGraph(states, edges, hidden)


@dataclass(frozen=True)
class FactorialHMM(Template):
    """A factorial hidden Markov model, one step per column; see `factorial_hmm`.

    Examples
    --------
    >>> FactorialHMM(levels=2, hidden_states=[2, 2]).changed(levels=3)
    FactorialHMM(levels=3, hidden_states=2)
    """

    levels: int = 2
    hidden_states: int | Sequence[int] = 2

    def __post_init__(self) -> None:
        self._check_sizes("levels")
        counts = each_count("hidden_states", self.hidden_states, self.levels, "level")
        # One number where all levels are alike, so that `levels` can be changed; no list, which has no hash.
        object.__setattr__(self, "hidden_states", counts if len(set(counts)) > 1 else counts[0])

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        counts = each_count("hidden_states", self.hidden_states, self.levels, "level")
        hidden = {f"h{level}": count for level, count in enumerate(counts)}
        return chain(columns, hidden, [(level, "x") for level in hidden], [(level, level) for level in hidden])


@dataclass(frozen=True)
class Mixture(Template):
    """A mixture of products, one hidden variable above all columns; see `mixture`."""

    hidden_states: int = 2

    @property
    def components(self) -> int:
        """What `hidden_states` was called in 0.1.0."""
        renamed("Mixture.components", "hidden_states")
        return self.hidden_states

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        (hidden,) = apart(["h"], columns)
        edges = [(hidden, column) for column in columns]
        return LatentGraph({hidden: self.hidden_states, **columns}, edges, [hidden])


# The constructor is written by the dataclass, so it can only be decorated here.
Mixture.__init__ = renamed_arguments(components="hidden_states")(Mixture.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True)
class MultiGroupMixture(Template):
    """A mixture of products whose sizes of classes differ between groups, and whose columns may.

    Parameters
    ----------
    hidden_states : int
    group : str
        The column that says which group a row belongs to: a parent of the hidden variable.
    invariant : bool or sequence of str
        The columns whose tables are the same in all groups, True for all; of others the group is a parent too.

    Examples
    --------
    >>> MultiGroupMixture(2, "country", invariant=["q1"]).build([2, 3, 3], ["country", "q1", "q2"]).parents("q2")
    ('country', 'h')
    """

    hidden_states: int = 2
    group: str = "group"
    invariant: bool | Sequence[str] = True

    def __post_init__(self) -> None:
        self._check_sizes("hidden_states")
        if not isinstance(self.invariant, bool):
            names = checks.different_names("invariant", self.invariant, GraphError)
            object.__setattr__(self, "invariant", tuple(names))

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        named = (self.group,) if isinstance(self.invariant, bool) else (self.group, *self.invariant)
        for name in named:
            if name not in columns:
                raise GraphError(f"{quoted(name)} is no column{did_you_mean(str(name), columns)}")
        (hidden,) = apart(["h"], columns)
        edges = [(self.group, hidden)]
        for column in columns:
            if column == self.group:
                continue
            is_same = self.invariant if isinstance(self.invariant, bool) else column in self.invariant
            edges += [(hidden, column)] if is_same else [(self.group, column), (hidden, column)]
        return LatentGraph({hidden: self.hidden_states, **columns}, edges, [hidden])


@dataclass(frozen=True)
class SemiHiddenMarkov(Template):
    """A hidden Markov model with explicit durations, one step per column; see `semi_hidden_markov`."""

    hidden_states: int = 2
    max_duration: int = 3

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        hidden = {"s": self.hidden_states, "d": self.max_duration}
        return chain(columns, hidden, [("s", "d"), ("s", "x")], [("s", "s"), ("d", "s"), ("d", "d")])


@dataclass(frozen=True)
class LatentTree(Template):
    """A balanced tree of hidden variables whose leaves are the columns, all equally far from the root.

    Level by level, neighbours are put under one hidden variable, at most `branching` at a time and in
    groups as equal as can be, until one root is left. See `latent_tree` for one of another shape.

    Examples
    --------
    >>> LatentTree(branching=3).build([2] * 5).edges[2:]
    (('h1', 'x0'), ('h1', 'x1'), ('h1', 'x2'), ('h2', 'x3'), ('h2', 'x4'))
    """

    hidden_states: int = 2
    branching: int = 2

    def _over(self, columns: Mapping[str, int]) -> LatentGraph:
        widths = [len(columns)]
        while len(widths) == 1 or widths[0] > 1:
            widths.insert(0, ceil(widths[0] / self.branching))
        hidden = apart([f"h{node}" for node in range(sum(widths[:-1]))], columns)
        supply = iter([*hidden, *columns])
        levels = [list(islice(supply, width)) for width in widths]
        edges = [
            (parents[place * len(parents) // len(children)], child)
            for parents, children in pairwise(levels)
            for place, child in enumerate(children)
        ]
        return LatentGraph({**dict.fromkeys(hidden, self.hidden_states), **columns}, edges, hidden)


def chain(
    columns: Mapping[str, int],
    hidden: Mapping[str, int],
    within: list[tuple[str, str]],
    between: list[tuple[str, str]],
) -> LatentGraph:
    """Return the graph of a chain; a slice has the hidden variables and one column, the "x" of `within`."""
    checks.check_variables("this graph", len(columns) * (1 + len(hidden)))
    names = apart([at_step(name, t) for t in range(len(columns)) for name in hidden], columns)
    supply = iter(names)
    slices: list[dict[str, str]] = []
    states: dict[str, int] = {}
    for column, observed in columns.items():
        now = {name: next(supply) for name in hidden}
        states |= {now[name]: count for name, count in hidden.items()} | {column: observed}
        slices.append(now | {"x": column})
    return LatentGraph(states, unrolled(slices, within, between), names)


def unrolled(
    slices: list[dict[str, str]], within: list[tuple[str, str]], between: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return the edges of all slices: `between` leads from each slice to the next, `within` stays in one."""
    edges: list[tuple[str, str]] = []
    for t, now in enumerate(slices):
        if t > 0:
            edges += [(slices[t - 1][source], now[target]) for source, target in between]
        edges += [(now[source], now[target]) for source, target in within]
    return edges


def at_step(name: str, step: int) -> str:
    """Return the name of a slice's variable at a step."""
    # "h1" at step 2 must not look like "h" at step 12.
    return f"{name}_{step}" if name[-1].isdigit() else f"{name}{step}"


def apart(hidden: list[str], columns: Collection[str]) -> list[str]:
    """Return the names of hidden variables, with a prefix where one of them is the name of a column."""
    while any(name in columns for name in hidden):
        hidden = [f"hidden_{name}" for name in hidden]
    return hidden


def _each_number(argument: str, values: object) -> tuple[int, ...]:
    given = islice(checks.one_by_one(argument, values, "whole numbers", GraphError), checks.MOST_VARIABLES + 1)
    return tuple([whole_number(f"{argument}[{place}]", number) for place, number in enumerate(given)])


def each_count(argument: str, value: object, count: int, unit: str) -> tuple[int, ...]:
    """Return `count` whole numbers, from one number for all or from one for each."""
    checks.check_variables("this graph", count)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (whole_number(argument, value),) * count
    numbers = _each_number(argument, value)
    if len(numbers) != count:
        raise GraphError(f"{argument} must be one number or {count}, one per {unit}, but {len(numbers)} are given")
    return numbers
