"""`FAMILIES`, all families by the names that users call them, and `make`, which starts one of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eigentree.emissions.covariates.membership import Membership
from eigentree.emissions.full import FullGaussian, TiedGaussian
from eigentree.emissions.gamma import Gamma
from eigentree.emissions.gaussian import Diagonal, Gaussian
from eigentree.emissions.lognormal import LogNormal
from eigentree.emissions.negative_binomial import NegativeBinomial
from eigentree.emissions.normal_scores import NormalScores
from eigentree.emissions.ordinal import Ordinal
from eigentree.emissions.poisson import Poisson
from eigentree.emissions.semiparametric import SemiParametric
from eigentree.emissions.student import StudentT
from eigentree.errors import ParameterError, quoted, what_there_is
from eigentree.validation import finite_number

if TYPE_CHECKING:
    from eigentree.arrays import Floats
    from eigentree.emissions.base import Emission

__all__ = ["FAMILIES", "family_of", "make"]

FAMILIES: dict[str, type[Emission]] = {
    each.family: each
    for each in (
        Gaussian,
        Diagonal,
        FullGaussian,
        TiedGaussian,
        NormalScores,
        StudentT,
        LogNormal,
        Gamma,
        SemiParametric,
        Poisson,
        NegativeBinomial,
        Ordinal,
    )
}
"""Families by name; whoever writes one adds it here."""

FIXED = ("cells", "weights", "states")
"""Arguments of `Emission.started` that are no settings."""


def family_of(spec: object, columns: int) -> tuple[type[Emission], dict[str, Any]]:
    """Return the family and the settings of what a user gave for a number of columns, checked.

    Parameters
    ----------
    spec : str or dict
        A family's name, or ``{"family": name, setting: value, …}``.
    columns : int

    Examples
    --------
    >>> family, settings = family_of({"family": "gaussian", "prior_rows": 0.0}, 1)
    >>> family.__name__, settings
    ('Gaussian', {'prior_rows': 0.0})
    """
    settings = dict(spec) if isinstance(spec, Mapping) else {"family": spec}
    name = settings.pop("family", None)
    if not isinstance(name, str) or name not in FAMILIES:
        if isinstance(spec, Mapping) and name is None:
            raise ParameterError(f"emission {quoted(spec)} has no 'family'; add one of {', '.join(FAMILIES)}")
        meant = "gaussian" if isinstance(name, str) and name == "normal" else name
        raise ParameterError(f"there is no family of emissions {quoted(name)}{what_there_is(meant, FAMILIES)}")
    family = FAMILIES[name]
    if columns > 1 and not family.groups:
        groups = ", ".join(repr(each.family) for each in FAMILIES.values() if each.groups)
        raise ParameterError(
            f"family {name!r} is of one column, but was given a group of {columns}; give each column by itself, or "
            f"choose a family of groups: {groups}"
        )
    known = [each for each in inspect.signature(family.started).parameters if each not in FIXED]
    for each in settings:
        if each not in known:
            raise ParameterError(f"family {name!r} has no setting {quoted(each)}{what_there_is(each, known)}")
    if "prior_rows" in settings:
        finite_number("prior_rows", settings["prior_rows"], 0.0)
    return family, settings


def make(spec: object, cells: Floats, weights: Floats, states: int) -> Emission:
    """Return an emission of a family in which every state shows what all rows show together.

    Parameters
    ----------
    spec : str or dict
        A family's name, or ``{"family": name, setting: value, …}``.
    cells : array, shape (rows, columns)
        NaN where missing.
    weights : array, shape (rows,)
    states : int
        Of the parent of the columns.
    """
    if isinstance(spec, Mapping) and spec.get("family") == Membership.family:
        # Of covariates, which users name by another parameter.
        return Membership.started(cells, weights, states, levels=spec["levels"])
    family, settings = family_of(spec, cells.shape[1])
    return family.started(cells, weights, states, **settings)
