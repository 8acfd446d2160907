"""Which family each column of numbers has: as the user said, or by the kind of the column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eigentree.data.tables.numbers import Numbers
from eigentree.errors import ParameterError, quoted, what_there_is
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.data.tables.columns import Columns
    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "checked_emissions",
    "coded_columns",
    "column_kinds",
    "covariate_family",
    "families_of_columns",
    "families_on_graph",
    "given_families",
    "is_of_covariates",
    "warn_without_numbers",
]

CATEGORICAL = "categorical"
"""The family of a table: the column is one of labels."""

COVARIATES = "membership"
"""The family of covariates, which no user gives: they are named by a parameter of their own."""

AUTO = "auto"

OF_KINDS = {"count": "negative_binomial"}
"""Families of kinds of columns where none is given, beside Gaussians: counts vary more than a Poisson lets them."""

KINDS_OF = {
    CATEGORICAL: "categorical",
    "ordinal": "ordinal",
    "poisson": "count",
    "negative_binomial": "count",
}
"""Kinds of columns that families need, where they are no continuous numbers."""


def checked_emissions(emissions: Any) -> dict[tuple[str, ...], Any]:
    """Return what a user gave for columns, by groups of names; none for "auto" or the name of one family.

    Raises
    ------
    ParameterError
        When it is no family, a column stands twice, or a family cannot have so many columns.
    """
    if isinstance(emissions, str) and emissions == AUTO:
        return {}
    from eigentree.emissions.families import family_of

    if isinstance(emissions, str):
        family_of(emissions, 1)
        return {}
    if not isinstance(emissions, Mapping):
        raise ParameterError(
            f"emissions is 'auto', a family such as 'gaussian', or a mapping of columns, or tuples of columns, to "
            f"families, not {quoted(emissions)}"
        )
    given = {names if isinstance(names, tuple) else (names,): family for names, family in emissions.items()}
    seen: set[str] = set()
    for group, family in given.items():
        if not group or not all(isinstance(name, str) for name in group):
            raise ParameterError(
                f"emissions are given by names of columns, or tuples of names, not {quoted(group)}"
            )
        for name in group:
            if name in seen:
                raise ParameterError(f"emissions name {name!r} twice; a column has one emission")
            seen.add(name)
        if not (isinstance(family, str) and family == CATEGORICAL):
            family_of(family, len(group))
    return given


def column_kinds(emissions: Any) -> dict[str, str]:
    """Return the kinds of columns that given families need."""
    kinds: dict[str, str] = {}
    for group, family in checked_emissions(emissions).items():
        name = family.get("family") if isinstance(family, Mapping) else family
        kinds |= dict.fromkeys(group, KINDS_OF.get(str(name), "continuous"))
    return kinds


def given_families(emissions: Any, columns: Columns) -> dict[tuple[str, ...], Any]:
    """Return the families that a user chose, by columns or groups of columns; ordered labels may be among them."""
    given = checked_emissions(emissions)
    for group in given:
        for name in group:
            if name not in columns.names:
                hint = what_there_is(name, columns.names)
                raise ParameterError(f"emissions name {quoted(name)}, no column{hint}")
    if isinstance(emissions, str) and emissions != AUTO:
        return {(name,): emissions for name in columns.numbers}
    return {group: family for group, family in given.items() if family != CATEGORICAL}


def families_of_columns(emissions: Any, columns: Columns) -> dict[tuple[str, ...], Any]:
    """Return the family of each number column or group of such: as the user chose, or by the kind of the column."""
    found = given_families(emissions, columns)
    named = {name for group in found for name in group}
    for name in columns.numbers:
        if name not in named:
            kind = columns.meanings[columns.position(name)]
            found[(name,)] = OF_KINDS.get(kind.kind if isinstance(kind, Numbers) else "", "gaussian")
    return found


def families_on_graph(emissions: Any, columns: Columns, graph: LatentGraph) -> dict[tuple[str, ...], Any]:
    """Return the family of each number column or group: one family of groups is of all below the same parents."""
    found = families_of_columns(emissions, columns)
    warn_without_numbers(emissions, columns)
    if not found or not graph.directed or not isinstance(emissions, str) or emissions == AUTO:
        return found
    from eigentree.emissions.families import FAMILIES

    if not FAMILIES[emissions].groups:
        return found
    below: dict[tuple[str, ...], list[str]] = {}
    for (name,) in found:
        below.setdefault(graph.parents(name), []).append(name)
    return {tuple(names): emissions for names in below.values()}


def covariate_family(columns: Columns, names: Sequence[str]) -> dict[str, Any]:
    """Return the family of covariates: their parent's states depend on them, by a multinomial logit."""
    from eigentree.data.tables.design import label_counts

    return {"family": COVARIATES, "levels": label_counts(columns, names)}


def is_of_covariates(family: Any) -> bool:
    """Return whether a family is that of covariates."""
    return isinstance(family, Mapping) and family.get("family") == COVARIATES


def warn_without_numbers(emissions: Any, columns: Columns) -> None:
    """Warn where the family of all numbers is given, and all columns have labels."""
    if isinstance(emissions, str) and emissions != AUTO and not columns.numbers:
        notice(
            f"emissions={emissions!r} is the family of all numbers, but every column was taken for labels; "
            f"name the columns, as emissions={{{columns.names[0]!r}: {emissions!r}}}",
            UserWarning,
        )


def coded_columns(families: Mapping[tuple[str, ...], Any], columns: Columns) -> Sequence[str]:
    """Return the columns of labels among those that have a family: ordered ones."""
    meanings = dict(zip(columns.names, columns.meanings, strict=True))
    return [name for group in families for name in group if not isinstance(meanings[name], Numbers)]
