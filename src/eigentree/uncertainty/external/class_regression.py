"""Class membership on covariates, in one, two or three steps: coefficients, odds ratios and Wald tests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from eigentree.data.tables.design import label_counts, term_names, terms_of, whitening_of
from eigentree.emissions.covariates.multinomial_logit import information, log_probabilities
from eigentree.errors import DataError, ParameterError
from eigentree.messages import notice
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.external.classified_rows import ONE_CLASS, ClassifiedRows
from eigentree.uncertainty.external.external_columns import ExternalColumns
from eigentree.uncertainty.external.wald_tests import WaldTests, combined
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.information import Information
from eigentree.uncertainty.refits import FittedModel
from eigentree.uncertainty.result_tables import ResultTable
from eigentree.validation import our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labeled_table import LabeledTable
    from eigentree.uncertainty.external.classified_rows import Assignment, ClassEvidence, Correction
    from eigentree.uncertainty.result_tables import Labelled

__all__ = ["ClassRegression", "class_regression"]

MOST_STEPS = 200

LARGEST_LOGIT = 15.0
"""Odds of e^15, three millions: where a row has larger ones, classes are separated and coefficients have no end."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassRegression(ResultTable):
    """Class membership on covariates by a multinomial logit.

    Attributes
    ----------
    coefficients : Estimates
        The logits relative to the reference class, by class and term.
    tests : WaldTests
        Of each covariate: whether all of its coefficients are zero (omnibus).
    errors : LabeledTable or None
        P(assigned class | class), by which three steps correct; of one and two steps None.
    notes : sequence of str
        Steps, correction and assignment, the reference class, and what else a reader has to know.
    """

    coefficients: Estimates
    tests: WaldTests
    errors: LabeledTable | None
    method: str

    _headings: ClassVar[Mapping[str, str]] = {"odds_ratio": "odds ratio"}

    @property
    def odds_ratios(self) -> Estimates:
        """The exponentials of the coefficients: by how much odds rise with one unit of a covariate."""
        own = self.coefficients
        values = np.exp(own.values)
        return Estimates(
            own.labels, values, own.covariance * np.outer(values, values), own.header, ["log"] * len(values)
        )

    def relative_to(self, reference: int) -> ClassRegression:
        """Return the same regression with another class as the reference.

        Parameters
        ----------
        reference : int
        """
        terms = [*dict.fromkeys(term for _, term in self.coefficients.labels)]
        classes = range(1 + len(self.coefficients.labels) // len(terms))
        whole_number("reference", reference, 0, most=len(classes) - 1)
        place = {label: at for at, label in enumerate(self.coefficients.labels)}
        wanted = [(one, term) for one in classes if one != reference for term in terms]
        weights = np.zeros((len(wanted), len(place)))
        for row, (one, term) in enumerate(wanted):
            for sign, label in ((1.0, (one, term)), (-1.0, (reference, term))):
                if label in place:
                    weights[row, place[label]] += sign
        return replace(self, coefficients=combined(self.coefficients, weights, wanted, self.coefficients.header))

    @property
    def reference(self) -> int:
        """The class that the others are compared with."""
        others = {label for label, _ in self.coefficients.labels}
        return next(one for one in range(len(others) + 1) if one not in others)

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        """How the coefficients were estimated, and the Wald tests of the covariates."""
        tests = [
            f"{name}: {test.statistic:.2f} (df {test.df}, p {test.p_value:.4f})"
            if test.df
            else f"{name}: none, as it is constant, or follows from the covariates before it"
            for (name,), test in zip(self.tests.labels, self.tests.tests, strict=True)
        ]
        return [f"reference class {self.reference}; {self.method}", f"Wald tests: {', '.join(tests)}"]

    def _table(self) -> Labelled:
        from scipy.stats import norm

        own, ratios = self.coefficients, self.odds_ratios
        errors, (low, high) = own.standard_errors, ratios.confint().T
        apart = np.divide(np.abs(own.values), errors, out=np.full_like(errors, np.nan), where=errors > 0)
        numbers = {"coefficient": own.values, "std_error": errors, "p_value": 2.0 * norm.sf(apart)}
        return own.header, own.labels, numbers | {"odds_ratio": ratios.values, "lower": low, "upper": high}


class Regression(NamedTuple):
    """A multinomial logit of classes whose counts or likelihoods are known; the first class is the reference.

    Parameters are those of the other classes, end to end.
    """

    design: Floats
    weights: Floats
    evidence: ClassEvidence

    def log_proba(self, parameters: Floats) -> Floats:
        """Return log P(class | covariates), shape (rows, classes)."""
        terms = self.design.shape[1]
        return log_probabilities(
            self.design, np.concatenate([np.zeros((terms, 1)), parameters.reshape(-1, terms).T], 1)
        )

    def value(self, parameters: Floats) -> float:
        """Return minus the log-likelihood."""
        log_proba = self.log_proba(parameters)
        if self.evidence.are_counts:
            return -float(self.weights @ (self.evidence.values * log_proba).sum(axis=1))
        return -float(self.weights @ np.log((np.exp(log_proba) * self.evidence.values).sum(axis=1)))

    def scores(self, parameters: Floats) -> Floats:
        """Return the gradient of the log-likelihood of each row, shape (rows, parameters)."""
        proba = np.exp(self.log_proba(parameters))
        apart = self.weights[:, None] * (self.evidence.counts(proba) - proba)[:, 1:]
        found: Floats = apart[:, :, None] * self.design[:, None, :]
        return found.reshape(len(found), -1)

    def hessian(self, parameters: Floats) -> Floats:
        """Return minus the second derivatives of the log-likelihood."""
        terms = self.design.shape[1]
        coefficients = np.concatenate([np.zeros((terms, 1)), parameters.reshape(-1, terms).T], axis=1)
        found = information(self.design, self.weights, coefficients)
        if self.evidence.are_counts:
            return found
        posterior = self.evidence.counts(np.exp(self.log_proba(parameters)))[:, 1:]
        for one, own in enumerate(posterior.T):
            for other, beside in enumerate(posterior.T):
                known = self.weights * own * ((one == other) - beside)
                block = np.ix_(range(one * terms, (one + 1) * terms), range(other * terms, (other + 1) * terms))
                found[block] -= self.design.T @ (known[:, None] * self.design)
        return found

    def fitted(self) -> Floats:
        """Return the parameters of maximum likelihood, found from zero by a trust-region Newton method."""
        from scipy.optimize import minimize

        start = np.zeros((self.evidence.values.shape[1] - 1) * self.design.shape[1])
        found = minimize(
            self.value,
            start,
            method="trust-exact",
            jac=lambda at: -self.scores(at).sum(axis=0),
            hess=self.hessian,
            options={"gtol": 1e-9 * float(self.weights.sum()), "maxiter": MOST_STEPS},
        )
        return np.asarray(found.x)


@our_arithmetic
def class_regression(
    model: Any,
    X: ArrayLike | Any,
    covariates: Any = None,
    *,
    n_steps: int | None = None,
    correction: Correction | None = "ML",
    assignment: Assignment = "modal",
    sample_weight: ArrayLike | None = None,
) -> ClassRegression:
    """Return class membership on covariates: coefficients, odds ratios and Wald tests, with standard errors.

    One step estimates classes and coefficients together: of a model that was fitted with ``covariates=[...]``. Two
    steps keep the fitted measurement model (Bakk and Kuha 2018). Three steps assign rows to classes, and correct
    for classification errors by maximum likelihood (Vermunt 2010) or by weights (BCH; Bolck, Croon and Hagenaars
    2004). Standard errors are robust (sandwich), and hold the uncertainty of the earlier steps.

    Parameters
    ----------
    model : a fitted LatentClassModel
    X : array-like of shape (rows, columns), or a data frame
        The rows that the model was fitted to.
    covariates : list of str, or array-like of shape (rows,) or (rows, covariates), or a data frame
        Columns of X, or a table with as many rows: numbers as they are, labels as indicators of all but the first;
        None of a model that has covariates of its own.
    n_steps : {1, 2, 3}, optional
        By default 1 for a model that has covariates, else 3.
    correction : {"ML", "BCH"} or None
        For the classification errors of three steps; None is the naive estimate, which is biased towards zero.
    assignment : {"modal", "soft"}
        Rows belong to their most probable class, or to each by its posterior probability.
    sample_weight : array-like of shape (rows,), optional
        The sampling weights of the fit.

    Notes
    -----
    Rows that miss a covariate are left out of the regression. Errors are robust, so a weight is that of one unit of
    a sample: give rows that stand for several equal ones as several rows.

    Examples
    --------
    >>> import eigentree as et
    >>> survey = et.datasets.load_contraceptive(as_frame=True).data
    >>> items = survey[["education", "husband_education", "living_standard", "media_exposure"]]
    >>> model = et.LatentClassModel(2, random_state=0).fit(items)
    >>> et.class_regression(model, survey, ["age", "religion"])
    class             term  coefficient  std. error       p  odds ratio     95 % interval
        1        intercept      -0.1488      0.2684  0.5793      0.8617  [0.5092, 1.4583]
        1              age       0.0028      0.0076  0.7161      1.0028  [0.9879, 1.0178]
        1  religion: other      -1.6304      0.2384  0.0000      0.1958  [0.1227, 0.3125]
    reference class 0; three steps, ML correction, modal assignment
    Wald tests: age: 0.13 (df 1, p 0.7161), religion: 46.79 (df 1, p 0.0000)
    """
    steps = 1 if getattr(model, "covariates", None) else 3
    if n_steps is not None:
        steps = whole_number("n_steps", n_steps, most=3)
    if steps == 1:
        return _one_step(model, X, covariates, sample_weight)
    if covariates is None:
        raise ParameterError(f"{steps} steps need covariates: names of columns of X, or a table with as many rows")
    external = ExternalColumns.of(model, X, "covariates", covariates)
    rows = ClassifiedRows.of(model, external.items, sample_weight, steps, correction, assignment)
    used = external.complete & (rows.weights > 0)
    if not used.any():
        raise DataError("no row has all covariates; impute them before, or drop the one with most missing cells")
    columns, weights = external.columns, rows.weights[used]
    design = terms_of(external.values[used], label_counts(columns, columns.names))
    whitening = whitening_of(design, weights)
    independent = design @ whitening
    here = Regression(independent, weights, rows.evidence().taken(used))
    found = here.fitted()
    if np.abs(here.log_proba(found)).max() > LARGEST_LOGIT:
        why = "covariates separate classes; leave the covariate out, or join its labels"
        if steps == 3 and correction == "BCH":
            why = (
                "covariates separate classes, or the BCH weights of a class add up to less than 0 somewhere; leave "
                "the covariate out, or use correction='ML' or n_steps=2"
            )
        notice(f"some coefficients have no end: {why}", UserWarning)
    covariance = rows.covariance(
        lambda evidence: Regression(independent, weights, evidence).scores(found), -here.hessian(found), used
    )
    terms = np.kron(np.eye(rows.posterior.shape[1] - 1), whitening)
    left_out = int((rows.weights > 0).sum()) - int(used.sum())
    method = rows.how + (f"; {left_out} rows miss a covariate" if left_out else "")
    return _regression(columns, columns.names, terms @ found, terms @ covariance @ terms.T, method, rows)


def _one_step(model: Any, X: Any, covariates: Any, sample_weight: ArrayLike | None) -> ClassRegression:
    """Return the coefficients of a model that has covariates of its own."""
    own = getattr(model, "covariates", None)
    if not own:
        raise ParameterError(
            "one step estimates all together; fit LatentClassModel(covariates=[...]), or n_steps=3"
        )
    if covariates is not None:
        raise ParameterError("the model has covariates of its own, which are columns of X; leave covariates out")
    fitted = FittedModel.of(model, X, None, sample_weight)
    if len(model.coefficients_) < 2:
        raise ParameterError(ONE_CLASS)

    def coefficients(at: Any) -> Floats:
        return np.asarray(at.coefficients_)[1:].ravel()

    found = Information(free_model(fitted)).estimates(coefficients, "robust")
    return _regression(model.columns_, own, found.values, found.covariance, "one step", None)


def _regression(
    columns: Columns,
    names: Sequence[str],
    values: Floats,
    covariance: Floats,
    method: str,
    rows: ClassifiedRows | None,
) -> ClassRegression:
    """Return coefficients by class and term, and the tests of all of a covariate."""
    terms = term_names(columns, names)
    labels = [(one, term) for one in range(1, 1 + len(values) // len(terms)) for _, term in terms]
    known = np.nan_to_num(np.diagonal(covariance)) > 0
    covariance = np.where(known & known[:, None], covariance, np.nan)
    estimates = Estimates(labels, values, covariance, ["class", "term"])
    tests = []
    for name in names:
        places = [at for at in range(len(values)) if known[at] and terms[at % len(terms)][0] == name]
        tests.append(estimates.wald(places))
    errors = rows.error_table if rows is not None and rows.n_steps == 3 else None
    wald = WaldTests(["covariate"], [(name,) for name in names], tests)
    return ClassRegression(estimates, wald, errors, method)
