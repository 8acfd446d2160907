"""The face that every estimator shows: one set of methods, with the same arguments on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.engine.answers import Answers, warn_helped
from eigentree.models.parameters import Parameters

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.engine.model import Model
    from eigentree.structures.graph import LatentGraph

__all__ = ["Face"]


class Face(Parameters, Answers):
    """What users ask of a fitted estimator; `fit` leaves a model, and the model answers.

    Attributes
    ----------
    model_ : Model
    """

    model_: Model

    @property
    def _model(self) -> Model:
        self._require_fit()
        return self.model_

    @property
    def graph_(self) -> LatentGraph:
        """The graph that was fitted."""
        return self._model.graph

    @property
    def n_features_in_(self) -> int:
        """How many columns the data have."""
        return len(self._model.columns.names)

    def score_samples(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, hidden variables and missing cells summed out.

        A warning says for how many rows the model had to help itself.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell.
        """
        log_prob, replaced = self._model.log_prob(X)
        warn_helped(replaced, f"of {len(log_prob)} rows {self._model.replaced}")
        return log_prob

    def score(self, X: ArrayLike | Any, y: object = None) -> float:
        """Return the mean log probability of the rows; `y` is ignored."""
        log_prob, replaced = self._model.log_prob(X)
        warn_helped(replaced, f"of {len(log_prob)} rows {self._model.replaced}")
        return float(log_prob.mean())
