"""Distal outcomes of latent classes: means and proportions by class, and tests whether classes differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.tables.numbers import LabelCodes
from eigentree.errors import DataError
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.external.classified_rows import ClassifiedRows
from eigentree.uncertainty.external.external_columns import ExternalColumns
from eigentree.uncertainty.external.wald_tests import WaldTests, combined, known_wald
from eigentree.uncertainty.information import central_differences
from eigentree.uncertainty.result_tables import ResultTable
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats
    from eigentree.data.tables.labeled_table import LabeledTable
    from eigentree.uncertainty.estimates import Scale
    from eigentree.uncertainty.external.classified_rows import Assignment, ClassEvidence, Correction
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["DistalOutcomes", "distal_outcomes"]

MOST_ITERATIONS = 10_000

TOLERANCE = 1e-10
"""EM ends once no mean, in standard deviations, and no share moves by more in an iteration."""


@dataclass(frozen=True, eq=False, repr=False)
class DistalOutcomes(ResultTable):
    """Means of numbers and proportions of labels by class, and Wald tests whether classes differ.

    Attributes
    ----------
    estimates : Estimates
        By outcome, label (empty of a number) and class.
    tests : WaldTests
        Of each outcome: whether all classes have the same mean, or proportions (omnibus).
    pairwise : WaldTests
        The same of each pair of classes.
    errors : LabeledTable or None
        P(assigned class | class), by which three steps correct; of two steps None.
    notes : sequence of str
        Steps, correction and assignment, and what else a reader has to know.
    """

    estimates: Estimates
    tests: WaldTests
    pairwise: WaldTests
    errors: LabeledTable | None
    notes: Sequence[str] = ()

    def _table(self) -> Labelled:
        return self.estimates._table()

    @property
    def _words(self) -> int:
        return 2

    def _cells(self, digits: int) -> tuple[list[str], list[list[str]]]:
        own = self.estimates
        classes = [*dict.fromkeys(label[2] for label in own.labels)]
        head = ["outcome", "label", *(f"class {label}" for label in classes), "Wald", "df", "p"]
        lines: list[list[str]] = []
        for start in range(0, len(own.values), len(classes)):
            name, label, _ = own.labels[start]
            shown = [
                f"{own.values[at]:.{digits}f} ({own.standard_errors[at]:.{digits}f})"
                for at in range(start, start + len(classes))
            ]
            test = self.tests[name]
            words = [f"{test.statistic:.{digits}f}", str(test.df), f"{test.p_value:.{digits}f}"]
            is_first = not lines or own.labels[start - 1][0] != name
            lines.append([str(name), str(label), *shown, *(words if is_first else [""] * 3)])
        return head, lines


class Outcome(NamedTuple):
    """An outcome of some rows, numbers or indicators of labels, and the model of it in each class.

    Attributes
    ----------
    values : array, shape (rows, labels)
        A number has one column, and a mean of 0 and a variance of 1.
    weights : array, shape (rows,)
    is_number : bool
    """

    values: Floats
    weights: Floats
    is_number: bool

    def counts(self, parameters: Floats, evidence: ClassEvidence) -> Floats:
        """Return the counts of the classes: those given, or the posterior given the outcome as well."""
        if evidence.are_counts:
            return evidence.values
        shares, means, log_variances = self.parts(parameters, evidence.values.shape[1])
        if not self.is_number:
            return evidence.counts(shares * (self.values @ means.T))
        distance = np.square(self.values - means.T) / np.exp(log_variances)
        log_density = -0.5 * (distance + log_variances)
        return evidence.counts(shares * np.exp(log_density - log_density.max(axis=1, keepdims=True)))

    def parts(self, parameters: Floats, classes: int) -> tuple[Floats, Floats, Floats]:
        """Return the shares of classes, means by class and label, and logarithms of variances, from one vector."""
        means = parameters[: classes * self.values.shape[1]].reshape(classes, -1)
        rest = parameters[means.size :]
        return rest[:classes], means, rest[classes:]

    def updated(self, counts: Floats, are_counts: bool) -> Floats:
        """Return the parameters that maximise the likelihood, given the counts of the classes."""
        own: Floats = self.weights[:, None] * counts
        totals: Floats = own.sum(axis=0)
        means: Floats = (own.T @ self.values) / totals[:, None]
        if are_counts:
            return means.ravel()
        shares = totals / totals.sum()
        if not self.is_number:
            return np.concatenate([means.ravel(), shares])
        variances = (own * np.square(self.values - means.T)).sum(axis=0) / totals
        return np.concatenate([means.ravel(), shares, np.log(np.maximum(variances, np.finfo(np.float64).eps))])

    def fitted(self, evidence: ClassEvidence) -> Floats:
        """Return the parameters of maximum likelihood, or of weighted means."""
        if evidence.are_counts:
            return self.updated(evidence.values, True)
        found = self.updated(evidence.counts(np.ones(evidence.values.shape[1])), False)
        for _ in range(MOST_ITERATIONS):
            before, found = found, self.updated(self.counts(found, evidence), False)
            if np.abs(found - before).max() < TOLERANCE:
                break
        return found

    def scores(self, parameters: Floats, evidence: ClassEvidence) -> Floats:
        """Return what is added up to 0 at the estimates, of each row, shape (rows, parameters)."""
        classes = evidence.values.shape[1]
        shares, means, log_variances = self.parts(parameters, classes)
        counts = self.counts(parameters, evidence)
        own = self.weights[:, None] * counts
        apart = self.values[:, None, :] - means
        found = [(own[:, :, None] * apart).reshape(len(own), -1)]
        if not evidence.are_counts:
            found.append(own - self.weights[:, None] * shares)
        if not evidence.are_counts and self.is_number:
            found.append(own * (np.square(apart[:, :, 0]) / np.exp(log_variances) - 1.0))
        return np.concatenate(found, axis=1)

    def slopes(self, parameters: Floats, evidence: ClassEvidence) -> Floats:
        """Return the derivatives of the sum of the scores by the parameters, by central differences."""
        return central_differences(lambda by: self.scores(parameters + by, evidence).sum(axis=0), len(parameters))


@our_arithmetic
def distal_outcomes(
    model: Any,
    X: ArrayLike | Any,
    outcomes: Any,
    *,
    n_steps: int = 3,
    correction: Correction | None = "BCH",
    assignment: Assignment = "modal",
    sample_weight: ArrayLike | None = None,
) -> DistalOutcomes:
    """Return means and proportions of distal outcomes by class, and Wald tests whether classes differ.

    Each outcome is by itself. BCH weighs rows by the classes that they were assigned to, so it assumes nothing of
    the distribution of an outcome within a class (Bakk and Vermunt 2016). "ML" and two steps take numbers for
    normal in each class, so that the outcome is informative about the class. Standard errors are robust (sandwich),
    and hold the uncertainty of the earlier steps.

    Parameters
    ----------
    model : a fitted LatentClassModel
    X : array-like of shape (rows, columns), or a data frame
        The rows that the model was fitted to.
    outcomes : list of str, or array-like of shape (rows,) or (rows, outcomes), or a data frame
        Columns of X, or a table with as many rows: numbers have means, labels proportions.
    n_steps : {2, 3}
    correction : {"BCH", "ML"} or None
        For the classification errors of three steps; None is the naive estimate, whose classes are too much alike.
    assignment : {"modal", "soft"}
        Rows belong to their most probable class, or to each by its posterior probability.
    sample_weight : array-like of shape (rows,), optional
        The sampling weights of the fit.

    Notes
    -----
    Rows that miss an outcome are left out for that. Errors are robust, so a weight is that of one unit of a sample:
    give rows that stand for several equal ones as several rows.

    Examples
    --------
    >>> import eigentree as et
    >>> survey = et.datasets.load_contraceptive(as_frame=True).frame
    >>> items = survey[["education", "husband_education", "living_standard", "media_exposure"]]
    >>> model = et.LatentClassModel(2, random_state=0).fit(items)
    >>> et.distal_outcomes(model, survey, ["children", "class"])
     outcome       label          class 0          class 1     Wald  df       p
    children              2.8904 (0.0785)  3.7414 (0.1154)  33.9429   1  0.0000
       class   long-term  0.3129 (0.0174)  0.1137 (0.0148)  91.0691   2  0.0000
       class        none  0.3281 (0.0181)  0.5551 (0.0221)
       class  short-term  0.3590 (0.0178)  0.3312 (0.0203)
    three steps, BCH correction, modal assignment
    """
    external = ExternalColumns.of(model, X, "outcomes", outcomes)
    rows = ClassifiedRows.of(model, external.items, sample_weight, n_steps, correction, assignment)
    classes, names = range(rows.posterior.shape[1]), external.columns.names
    parts, tests, pairwise, notes = [], [], [], [rows.how]
    for name, cells, meaning in zip(names, external.values.T, external.columns.meanings, strict=True):
        used = ~np.isnan(cells) & (rows.weights > 0)
        if not used.any():
            raise DataError(f"outcome {name!r} has no known cell among the rows that count; leave it out")
        if left_out := int((rows.weights > 0).sum()) - int(used.sum()):
            notes.append(f"{left_out} rows miss {name}")
        shown = tuple(meaning.coded.values) if isinstance(meaning, LabelCodes) else ("",)
        own = _of_outcome(rows, cells[used], used, name, shown)
        parts.append(own)
        tests.append(known_wald(_differences(own, len(shown), classes)))
        pairwise += [
            ((name, *pair), known_wald(_differences(own, len(shown), pair))) for pair in combinations(classes, 2)
        ]
    labels = [label for own in parts for label in own.labels]
    values, scales = (
        np.concatenate([own.values for own in parts]),
        [each for own in parts for each in own.scales or ()],
    )
    return DistalOutcomes(
        Estimates(labels, values, _blocks([own.covariance for own in parts]), parts[0].header, scales),
        WaldTests(["outcome"], [(name,) for name in names], tests),
        WaldTests(
            ["outcome", "class", "other class"], [pair for pair, _ in pairwise], [test for _, test in pairwise]
        ),
        rows.error_table if n_steps == 3 else None,
        notes,
    )


def _of_outcome(
    rows: ClassifiedRows, cells: Floats, used: Booleans, name: str, shown: Sequence[Hashable]
) -> Estimates:
    """Return the means or proportions of one outcome, label by label and class by class."""
    weights = rows.weights[used]
    middle, spread = 0.0, 1.0
    if len(shown) == 1:
        middle = float(np.average(cells, weights=weights))
        spread = math.sqrt(float(np.average(np.square(cells - middle), weights=weights))) or 1.0
        outcome = Outcome(((cells - middle) / spread)[:, None], weights, True)
    else:
        outcome = Outcome(np.eye(len(shown))[cells.astype(np.int64)], weights, False)
    evidence = rows.evidence().taken(used)
    if evidence.are_counts and (totals := weights @ evidence.values).min() <= 0:
        raise DataError(
            f"the rows with outcome {name!r} have no weight in class {int(totals.argmin())}; leave it out, or give "
            f"n_steps=2"
        )
    found = outcome.fitted(evidence)
    covariance = rows.covariance(lambda at: outcome.scores(found, at), outcome.slopes(found, evidence), used)
    classes = evidence.values.shape[1]
    order = np.arange(classes * len(shown)).reshape(classes, -1).T.ravel()
    values = middle + spread * found[order]
    scales: list[Scale] = ["logit" if len(shown) > 1 and 0 < value < 1 else "identity" for value in values]
    labels = [(name, label, one) for label in shown for one in range(classes)]
    own = spread**2 * covariance[np.ix_(order, order)]
    return Estimates(labels, values, own, ["outcome", "label", "class"], scales)


def _differences(own: Estimates, labels: int, classes: Sequence[int]) -> Estimates:
    """Return the differences of some classes to the first of them, of all labels but the last."""
    count = len(own.values) // labels
    lines = []
    for label in range(max(1, labels - 1)):
        for one in classes[1:]:
            line = np.zeros(len(own.values))
            line[label * count + one], line[label * count + classes[0]] = 1.0, -1.0
            lines.append(line)
    return combined(own, np.array(lines), [(place,) for place in range(len(lines))], ["place"])


def _blocks(parts: Sequence[Floats]) -> Floats:
    """Return a matrix with some on its diagonal; outcomes are estimated one by one, so beside these it has NaN."""
    size = sum(len(part) for part in parts)
    found, start = np.full((size, size), np.nan), 0
    for part in parts:
        found[start : start + len(part), start : start + len(part)] = part
        start += len(part)
    return found
