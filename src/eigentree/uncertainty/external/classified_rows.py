"""`ClassifiedRows`: rows with the classes that a fitted model assigns to them, and what is known of its errors.

Steps one and two of a stepwise analysis. The third reads of each row either counts of the classes (`counts`), or
how likely what is known of it is in each class: its items (two-step; Bakk and Kuha 2018), or the class that it was
assigned to (ML; Vermunt 2010). The counts are the assigned class itself (naive), or weights whose expectation,
given the true class, is an indicator of that (BCH; Bolck, Croon and Hagenaars 2004).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.messages import notice
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.information import Information, SurveyDesign, central_differences
from eigentree.uncertainty.refits import FittedModel
from eigentree.validation import one_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats
    from eigentree.uncertainty.information import FreeModel

__all__ = ["ONE_CLASS", "Assignment", "ClassEvidence", "ClassifiedRows", "Correction"]

Correction = Literal["ML", "BCH"]
Assignment = Literal["modal", "soft"]

ONE_CLASS = "the model has one class, so nothing depends on it; fit two classes at least"


class ClassEvidence(NamedTuple):
    """What the third step reads of each row.

    Attributes
    ----------
    values : array, shape (rows, classes)
        Counts, or likelihoods.
    are_counts : bool
    """

    values: Floats
    are_counts: bool

    def counts(self, prior: Floats) -> Floats:
        """Return the counts of classes: those given, or posteriors, given the prior of each row."""
        if self.are_counts:
            return self.values
        joint = prior * self.values
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def taken(self, rows: Booleans) -> ClassEvidence:
        """Return that of some rows."""
        return ClassEvidence(self.values[rows], self.are_counts)


@dataclass(frozen=True, eq=False)
class ClassifiedRows:
    """Rows with the classes that a model assigns to them.

    Attributes
    ----------
    free : FreeModel
        The fitted model, which is moved for what its errors add to those of the third step.
    hidden : str
        The class variable.
    n_steps : int
    correction : {"ML", "BCH"} or None
    assignment : {"modal", "soft"}
    """

    free: FreeModel
    hidden: str
    n_steps: int
    correction: Correction | None
    assignment: Assignment

    @classmethod
    def of(
        cls,
        model: Any,
        X: Any,
        sample_weight: ArrayLike | None,
        n_steps: int,
        correction: Correction | None,
        assignment: Assignment,
    ) -> ClassifiedRows:
        """Return the rows that a model was fitted to, classified by it."""
        n_steps = whole_number("n_steps", n_steps, 2, most=3)
        one_of("correction", correction, ("ML", "BCH", None))
        one_of("assignment", assignment, ("modal", "soft"))
        if assignment == "soft" and correction == "ML" and n_steps == 3:
            raise ParameterError(
                "the ML correction is of modal assignments; leave assignment out, or give correction='BCH'"
            )
        fitted = FittedModel.of(model, X, None, sample_weight)
        network = fitted.network
        hidden = () if network is None else network.graph.hidden
        shares = network.tables.get(hidden[0]) if network is not None and len(hidden) == 1 else None
        if shares is not None and shares.ndim != 1:
            raise ParameterError(
                "the classes of the model depend on a group; fit it without group=, and give that as a covariate"
            )
        if network is None or shares is None:
            raise ParameterError(
                f"the model is a fitted LatentClassModel, or another with one class variable, not {quoted(model)}"
            )
        if network.measurement is not network:
            raise ParameterError(
                "the model has covariates of its own (one step); fit it without them, or leave out n_steps"
            )
        if len(shares) < 2:
            raise ParameterError(ONE_CLASS)
        return cls(free_model(fitted), hidden[0], n_steps, correction, assignment)

    @property
    def weights(self) -> Floats:
        """How often each row counts."""
        return self.free.weights

    def _posterior(self, by: Floats) -> tuple[Floats, Floats]:
        """Return P(class | items) of each row, and P(class), the model at some coordinates."""
        network = self.free.estimator(by).network_
        found = np.asarray(network.posterior(self.free.data)[self.hidden])
        return found[self.free.places], np.asarray(network.tables[self.hidden])

    @cached_property
    def _here(self) -> tuple[Floats, Floats]:
        return self._posterior(np.zeros(self.free.count))

    @property
    def posterior(self) -> Floats:
        """P(class | items) of each row."""
        return self._here[0]

    def _assigned(self, posterior: Floats) -> Floats:
        """Return the class that each row is assigned to, as an indicator of each."""
        if self.assignment == "soft":
            return posterior
        # Where parameters move a little, rows stay where they are.
        return np.asarray(np.eye(self.posterior.shape[1])[self.posterior.argmax(axis=1)])

    def _errors(self, posterior: Floats) -> Floats:
        """Return P(assigned class | class), a row for each class."""
        weighted = self.weights[:, None] * posterior
        return np.asarray((weighted.T @ self._assigned(posterior)) / weighted.sum(axis=0)[:, None])

    @cached_property
    def errors(self) -> Floats:
        """P(assigned class | class), a row for each class."""
        return self._errors(self.posterior)

    @property
    def error_table(self) -> LabeledTable:
        """The same with names."""
        labels = range(len(self.errors))
        return LabeledTable(self.errors, [self.hidden, f"assigned {self.hidden}"], [labels, labels])

    @property
    def uses_errors(self) -> bool:
        """Whether the third step corrects for classification errors."""
        return self.n_steps == 3 and self.correction is not None

    def evidence(self, by: Floats | None = None, errors: Floats | None = None) -> ClassEvidence:
        """Return what the third step reads of each row, the model at some coordinates, or errors being others."""
        posterior, shares = self._here if by is None else self._posterior(by)
        if self.n_steps == 2:
            return ClassEvidence(posterior / shares, False)
        assigned = self._assigned(posterior)
        if self.correction is None:
            return ClassEvidence(assigned, True)
        errors = self._errors(posterior) if errors is None else errors
        if self.correction == "ML":
            return ClassEvidence(assigned @ errors.T, False)
        if np.linalg.matrix_rank(errors) < len(errors):
            raise DataError(
                "classes are not distinguished by the classes that rows are assigned to, so BCH has no "
                "weights; use correction='ML', n_steps=2, or fewer classes"
            )
        return ClassEvidence(assigned @ np.linalg.inv(errors), True)

    def covariance(self, scores: Callable[[ClassEvidence], Floats], slopes: Floats, rows: Booleans) -> Floats:
        """Return the covariance of estimates that solve ``scores(evidence).sum(axis=0) == 0`` (a sandwich).

        It holds what the parameters of the model and the classification errors, which are estimates as well, add:
        those of all steps solve their equations together (stacked estimating equations).

        Parameters
        ----------
        scores : callable
            Of the evidence of some rows; returns the shape (rows, parameters), weights included.
        slopes : array, shape (parameters, parameters)
            The derivatives of the sum of the scores by the parameters.
        rows : array of bool, shape (all rows,)
            Those that the scores are of.
        """
        own = np.zeros((len(rows), len(slopes)))
        own[rows] = scores(self.evidence().taken(rows))
        moved = self.free.differences(lambda by: scores(self.evidence(by).taken(rows)).sum(axis=0))
        information = Information(self.free)
        inverse, directions = information.covariance("observed", SurveyDesign(None, None))
        known = self.free.places >= 0
        own[known] += self.weights[known, None] * (information.scores @ inverse @ moved.T)[self.free.places[known]]
        if self.uses_errors:
            own += self._errors_of_errors @ self._by_errors(scores, rows).T
        bread = np.linalg.pinv(slopes)
        count = int((self.weights > 0).sum())
        covariance = np.asarray(bread @ (own.T @ own) @ bread.T * (count / max(count - 1, 1)))
        unknown = directions.depends(bread @ moved)
        if unknown.any():
            notice(
                "these rows do not identify the model of the first step, so what depends on it has no standard "
                "error; fit fewer classes",
                UserWarning,
            )
            covariance[unknown] = covariance[:, unknown] = np.nan
        return covariance

    @cached_property
    def _errors_of_errors(self) -> Floats:
        """By how much each row moves each of the classification errors, shape (rows, classes · classes)."""
        weighted = self.weights[:, None] * self.posterior
        apart = self._assigned(self.posterior)[:, None, :] - self.errors
        found: Floats = (weighted / weighted.sum(axis=0))[:, :, None] * apart
        return found.reshape(len(found), -1)

    def _by_errors(self, scores: Callable[[ClassEvidence], Floats], rows: Booleans) -> Floats:
        """Return the derivatives of the sum of the scores by the classification errors."""

        def totals(change: Floats) -> Floats:
            errors = self.errors + change.reshape(self.errors.shape)
            return np.asarray(scores(self.evidence(errors=errors).taken(rows)).sum(axis=0))

        return central_differences(totals, self.errors.size)

    @property
    def how(self) -> str:
        """How it was done, in the words of the field."""
        if self.n_steps == 2:
            return "two steps (measurement model fixed)"
        correction = "no correction (naive)" if self.correction is None else f"{self.correction} correction"
        return f"three steps, {correction}, {self.assignment} assignment"
