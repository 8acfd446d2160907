"""Wald tests of several hypotheses, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.result_tables import ResultTable

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from eigentree.arrays import Floats
    from eigentree.uncertainty.estimates import WaldTest
    from eigentree.uncertainty.result_tables import Labelled

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

    _headings: ClassVar[Mapping[str, str]] = {"statistic": "Wald"}

    def __getitem__(self, label: Hashable) -> WaldTest:
        """Return the test of one label, or of several as a tuple."""
        return self.tests[list(self.labels).index(label if isinstance(label, tuple) else (label,))]

    def _table(self) -> Labelled:
        names = ("statistic", "df", "p_value")
        return self.header, self.labels, {name: [getattr(test, name) for test in self.tests] for name in names}


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
