"""Intervals of the parameters of a model that is reported on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.errors import EigentreeError
from eigentree.estimators.mixins.iterative_mixin import IterativeMixin
from eigentree.viz.interval_charts import interval_chart

if TYPE_CHECKING:
    from eigentree.markup.charts import Chart
    from eigentree.viz.reports.evaluation_data import EvaluationData

__all__ = ["parameter_intervals"]

MOST_PARAMETERS = 300
"""Most free parameters whose standard errors are computed for a page, which takes seconds then."""

MOST_SHOWN = 60
"""Intervals that are drawn; the table behind has more."""


def parameter_intervals(training: EvaluationData) -> Chart | None:
    """Return the intervals of the parameters of a fitted model; None where it has none, or very many.

    Averages of fits have none, nor have models whose training data do not fit them.
    """
    model = training.adapter.model
    if not isinstance(model, IterativeMixin) or getattr(model, "n_parameters_", 0) > MOST_PARAMETERS:
        return None
    try:
        found = model.estimates(training.sequences if training.adapter.steps else training.rows)
    except EigentreeError:
        return None
    # Numbers have scales of their own.
    shares = [place for place, scale in enumerate(found.scales or ()) if scale == "logit"]
    return interval_chart(found.chosen(shares) if shares else found, MOST_SHOWN)
