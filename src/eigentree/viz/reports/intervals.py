"""Estimates, criteria and the classification table of a model that is reported on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from eigentree.errors import EigentreeError
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin
from eigentree.inference.networks.hidden_variables import HiddenQueries
from eigentree.uncertainty.classification_table import classification_table

if TYPE_CHECKING:
    from eigentree.estimators.mixins.information_criteria import Criteria
    from eigentree.uncertainty.classification_table import ClassificationTable
    from eigentree.uncertainty.estimates import Estimates
    from eigentree.viz.reports.evaluation_data import EvaluationData, ModelAdapter

__all__ = ["classification_of", "criteria_of", "is_mixture", "parameter_estimates"]

MOST_PARAMETERS = 300
"""Most free parameters whose standard errors are computed for a page, which takes seconds then."""


def is_mixture(adapter: ModelAdapter) -> bool:
    """Whether the states of a model's only hidden variable are classes of rows, of which all columns depend."""
    return not adapter.steps and not adapter.mixed and len(adapter.hidden) == 1


def parameter_estimates(training: EvaluationData) -> Estimates | None:
    """Return the parameters of a fitted model with standard errors; None where it has none, or very many.

    Averages of fits have none, nor have models whose training data do not fit them.
    """
    model = training.adapter.model
    if not isinstance(model, IterativeMixin) or getattr(model, "n_parameters_", 0) > MOST_PARAMETERS:
        return None
    try:
        return model.estimates(training.sequences if training.adapter.steps else training.rows)
    except EigentreeError:
        return None


def criteria_of(data: EvaluationData) -> tuple[Criteria | None, bool]:
    """Return the information criteria of a model that is one fit, and whether they can be compared with others."""
    model: Any = data.adapter.model
    if data.adapter.mixed or not hasattr(model, "criteria"):
        return None, False
    try:
        with warnings.catch_warnings(record=True) as caught:
            # A fit with pseudo-counts is warned of.
            warnings.simplefilter("always")
            return model.criteria(data.sequences if data.adapter.steps else data.rows), not caught
    except EigentreeError:
        return None, False


def classification_of(data: EvaluationData) -> ClassificationTable | None:
    """Return how surely rows are assigned to classes; None where a model has no classes."""
    model = data.adapter.model
    if not (is_mixture(data.adapter) and isinstance(model, HiddenQueries) and data.count):
        return None
    try:
        return classification_table(model, data.rows)
    except EigentreeError:
        return None
