"""Wald tests of several hypotheses, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.result_tables import ResultTable, labelled_frame

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from eigentree.arrays import Floats
    from eigentree.uncertainty.estimates import WaldTest

__all__ = ["WaldTests", "combined", "known_wald"]


@dataclass(frozen=True, eq=False, repr=False)
class WaldTests(ResultTable):
    """Wald tests, each with what it is about.

    Attributes
    ----------
    header : sequence of str
        What the labels are.
    labels : list of tuple
    tests : list of WaldTest
    """

    header: Sequence[str]
    labels: Sequence[tuple[Hashable, ...]]
    tests: Sequence[WaldTest]

    def __getitem__(self, label: Hashable) -> WaldTest:
        """Return the test of one label, or of several as a tuple."""
        return self.tests[list(self.labels).index(label if isinstance(label, tuple) else (label,))]

    def to_frame(self) -> Any:
        """Return a pandas data frame: labels, statistic, degrees of freedom and p-value."""
        names = ("statistic", "df", "p_value")
        numbers = {name: [getattr(test, name) for test in self.tests] for name in names}
        return labelled_frame(self.header, self.labels, numbers)

    @property
    def _words(self) -> int:
        return len(self.header)

    def _cells(self, digits: int) -> tuple[list[str], list[list[str]]]:
        lines = [
            [*map(str, labels), f"{test.statistic:.{digits}f}", str(test.df), f"{test.p_value:.{digits}f}"]
            for labels, test in zip(self.labels, self.tests, strict=True)
        ]
        return [*self.header, "Wald", "df", "p"], lines


def combined(
    estimates: Estimates, weights: Floats, labels: Sequence[tuple[Hashable, ...]], header: Sequence[str]
) -> Estimates:
    """Return linear combinations of estimates, such as differences, a row of weights for each.

    One of an estimate without a standard error has none.
    """
    covariance = weights @ np.nan_to_num(estimates.covariance) @ weights.T
    unknown = weights[:, np.isnan(np.diagonal(estimates.covariance))].any(axis=1)
    covariance[unknown] = covariance[:, unknown] = np.nan
    return Estimates(labels, weights @ estimates.values, covariance, header)


def known_wald(estimates: Estimates) -> WaldTest:
    """Return the test that all are zero, of those that have a standard error."""
    return estimates.wald(np.flatnonzero(~np.isnan(estimates.standard_errors)).tolist())
