"""What scikit-learn asks about the columns of whatever was fitted to some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from eigentree.estimators.mixins.constructor_parameters import Parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.data.tables.columns import Columns

__all__ = ["Features"]


class Features(Parameters, ABC):
    """An estimator that knows the columns of its data, once it is fitted."""

    @property
    @abstractmethod
    def _columns(self) -> Columns:
        """The columns, which know what codes stand for."""

    @property
    def n_features_in_(self) -> int:
        """How many columns the data have."""
        return len(self._columns.names)

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the columns, if the estimator was fitted on a frame that names them."""
        if not self._columns.named:
            raise AttributeError("feature_names_in_: the estimator was fitted on columns without names")
        return np.array(self._columns.names, object)
