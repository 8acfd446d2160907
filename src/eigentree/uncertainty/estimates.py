"""Estimates with their covariance matrix: standard errors, intervals, Wald tests, and tables for a paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from eigentree.errors import ParameterError, UnknownNameError, quoted, what_there_is
from eigentree.uncertainty.result_tables import ResultTable
from eigentree.validation import finite_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from eigentree.arrays import Floats
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["Estimates", "Scale", "WaldTest"]

Scale = Literal["identity", "log", "logit"]
"""Where an estimate is about normal: as it is, its logarithm (what is positive), its logit (what is in (0, 1))."""


class WaldTest(NamedTuple):
    """A Wald test that several quantities are zero together.

    Attributes
    ----------
    statistic : float
    df : int
    p_value : float
        Of the chi-squared distribution with `df` degrees of freedom.
    """

    statistic: float
    df: int
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(ResultTable):
    """Estimates of several quantities, with their covariance matrix.

    Parameters
    ----------
    labels : sequence of tuple
        What each is an estimate of: one label for each entry of `header`.
    values : array, shape (quantities,)
    covariance : array, shape (quantities, quantities)
        NaN in the row and column of a quantity that has no standard error.
    header : sequence of str
        What the labels are, such as ``("variable", "state", "class")``.
    scales : sequence of {"identity", "log", "logit"}, optional
        Where each estimate is about normal; intervals are made there, so that those of probabilities stay inside 0
        and 1. By default all are as they are.
    df : array, shape (quantities,), optional
        Degrees of freedom of a t distribution; by default intervals are normal.
    notes : sequence of str
        What a reader has to know, such as which parameters are on the boundary.

    Examples
    --------
    >>> found = Estimates([("age",), ("income",)], np.array([0.5, -1.0]), np.diag([0.04, 0.25]), ["covariate"])
    >>> found
    covariate  estimate  std. error  95 % interval
          age    0.5000      0.2000  [0.1080, 0.8920]
       income   -1.0000      0.5000  [-1.9800, -0.0200]
    >>> round(found.wald().p_value, 4)
    0.0059
    """

    labels: Sequence[tuple[Hashable, ...]]
    values: Floats
    covariance: Floats
    header: Sequence[str]
    scales: Sequence[Scale] | None = None
    df: Floats | None = None
    notes: Sequence[str] = ()

    _last_flush_left: ClassVar[bool] = True

    @property
    def standard_errors(self) -> Floats:
        """The standard error of each; NaN where there is none."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))

    def vcov(self) -> Floats:
        """Return the covariance matrix of the estimates."""
        return self.covariance

    def confint(self, level: float = 0.95) -> Floats:
        """Return an interval for each, shape (quantities, 2).

        Parameters
        ----------
        level : float
            The share of samples whose interval covers the truth, for large samples.
        """
        from scipy.stats import norm, t

        share = finite_number("level", level, 0.0)
        if not 0 < share < 1:
            raise ParameterError(f"level is between 0 and 1, such as 0.95, not {quoted(level)}")
        upper = (1.0 + share) / 2.0
        width = np.full(len(self.values), norm.ppf(upper)) if self.df is None else t.ppf(upper, self.df)
        made = np.empty((len(self.values), 2))
        for scale in set(self._scales):
            own = np.flatnonzero([each == scale for each in self._scales])
            forward, slope, back = TRANSFORMS[scale]
            with np.errstate(all="ignore"):
                middle = forward(self.values[own])
                half = width[own] * self.standard_errors[own] * slope(self.values[own])
                made[own] = back(np.stack([middle - half, middle + half], axis=1))
        return made

    def wald(self, chosen: Iterable[int] | None = None) -> WaldTest:
        """Return the Wald test that some quantities are all zero.

        Parameters
        ----------
        chosen : iterable of int, optional
            Their places among the estimates; by default all.

        Raises
        ------
        ParameterError
            When one of them has no standard error.
        """
        from scipy.stats import chi2

        own = list(range(len(self.values)) if chosen is None else chosen)
        if not all(isinstance(place, int | np.integer) and 0 <= place < len(self.values) for place in own):
            raise ParameterError(f"chosen are places from 0 to {len(self.values) - 1}, not {quoted(chosen)}")
        values, covariance = self.values[own], self.covariance[np.ix_(own, own)]
        if (unknown := np.isnan(covariance).sum(axis=1)).any():
            first = self.labels[own[int(unknown.argmax())]]
            raise ParameterError(
                f"{quoted(first)} has no standard error, or no covariance with another one, so these have no Wald "
                f"test together; give the places of others as chosen"
            )
        df = int(np.linalg.matrix_rank(covariance)) if len(covariance) else 0
        statistic = float(values @ np.linalg.pinv(covariance, hermitian=True) @ values)
        return WaldTest(statistic, df, float(chi2.sf(statistic, df)))

    def part(self, **wanted: Hashable) -> Estimates:
        """Return the estimates whose labels are as wanted, such as ``variable="age"``."""
        for name in wanted:
            if name not in self.header:
                raise UnknownNameError(f"no label is {quoted(name)}{what_there_is(name, self.header)}")
        own = [
            place
            for place, labels in enumerate(self.labels)
            if all(labels[list(self.header).index(name)] == label for name, label in wanted.items())
        ]
        if not own:
            held = {name: {str(labels[place]) for labels in self.labels} for place, name in enumerate(self.header)}
            absent = [name for name, label in wanted.items() if str(label) not in held[name]]
            hint = what_there_is(wanted[absent[0]], sorted(held[absent[0]])) if absent else ""
            raise UnknownNameError(f"there are no estimates with {quoted(wanted)}{hint}")
        return self.chosen(own)

    def chosen(self, places: Sequence[int]) -> Estimates:
        """Return some of the estimates, by their places."""
        own = list(places)
        return Estimates(
            [self.labels[place] for place in own],
            self.values[own],
            self.covariance[np.ix_(own, own)],
            self.header,
            [self._scales[place] for place in own],
            None if self.df is None else self.df[own],
            self.notes,
        )

    @property
    def _scales(self) -> Sequence[Scale]:
        return ["identity"] * len(self.values) if self.scales is None else self.scales

    def _table(self) -> Labelled:
        low, high = self.confint().T
        numbers = {"estimate": self.values, "std_error": self.standard_errors, "lower": low, "upper": high}
        return self.header, self.labels, numbers


TRANSFORMS: dict[Scale, tuple[Callable[[Floats], Floats], ...]] = {
    "identity": (lambda x: x, lambda x: np.ones_like(x), lambda x: x),
    "log": (np.log, lambda x: 1.0 / x, np.exp),
    "logit": (
        lambda x: np.log(x) - np.log1p(-x),
        lambda x: 1.0 / (x * (1.0 - x)),
        lambda x: 1.0 / (1.0 + np.exp(-x)),
    ),
}
"""Of each scale: the function to it, its derivative, and its inverse."""
