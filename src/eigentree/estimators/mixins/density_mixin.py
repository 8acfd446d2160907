"""Queries that every estimator of tables of data has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.partitions import is_dask_frame
from eigentree.data.streams.sources import is_stream
from eigentree.errors import ParameterError, quoted
from eigentree.estimators.mixins.batch_output import Writing, scored_batches
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.graphs.graph import LatentGraph
from eigentree.graphs.templates import Template
from eigentree.inference.dask_queries import scored_lazily
from eigentree.inference.queries import warn_undefined

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.inference.queries import Model

__all__ = ["DensityMixin", "require_estimator"]


class DensityMixin(Parameters, Writing):
    """Queries of a fitted estimator, which its `model_` answers."""

    model_: Model

    @property
    def _model(self) -> Model:
        self._require_fit()
        return self.model_

    @property
    def graph_(self) -> LatentGraph:
        """The graph that was fitted."""
        return self._model.graph

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns that `impute` and `sample` give; `input_features` is ignored."""
        return np.array(self._columns.names, object)

    def score_samples(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, hidden variables and missing cells marginalised out.

        A warning says how many scores were renormalised, or of impossible rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell. The scores of a
            stream are in memory, eight bytes per row; `score_samples_to` writes them into a file.
        """
        if is_dask_frame(X):
            lazy: Floats = scored_lazily(self, X)
            return lazy
        if is_stream(X):
            scored = list(scored_batches(self._model, self._columns, X))
            log_prob, replaced = np.concatenate([part for part, _ in scored]), sum(count for _, count in scored)
        else:
            log_prob, replaced = self._model.log_prob(self._rows(X))
        warn_undefined(replaced, f"of {len(log_prob)} rows {self._model.replaced}")
        return log_prob

    def score(self, X: ArrayLike | Any, y: object = None) -> float:
        """Return the mean log probability of the rows; `y` is ignored."""
        mean: Any = self.score_samples(X).mean()
        return float(mean.compute() if is_dask_frame(X) else mean)


def require_estimator(estimator: object) -> None:
    """Raise `ParameterError` unless this is an estimator that another one can fit to rows of its own."""
    if not isinstance(estimator, DensityMixin):
        structure = isinstance(estimator, str | LatentGraph | Template)
        hint = f"; a structure is wrapped, as in EMJunctionTree({quoted(estimator)})" if structure else ""
        raise ParameterError(
            f"estimator is a SpectralJunctionTree, an EMJunctionTree or an OnlineEMJunctionTree, "
            f"not {quoted(estimator)}{hint}"
        )
