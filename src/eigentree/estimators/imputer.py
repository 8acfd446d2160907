"""`JunctionTreeImputer`: a model's imputation as a step of a pipeline."""

from __future__ import annotations

import sys
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.data.tables.restore import arranged, as_frame
from eigentree.errors import DataError
from eigentree.estimators.em_junction_tree import EMJunctionTree
from eigentree.estimators.mixins.constructor_parameters import Parameters, cloned, estimator_class, learns
from eigentree.estimators.mixins.density_mixin import require_estimator
from eigentree.validation import FILL_METHODS, FillMethod, different_names, one_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.data.tables.columns import Columns
    from eigentree.validation import Seed

__all__ = ["OUTPUTS", "JunctionTreeImputer"]

OUTPUTS = ("default", "pandas", "polars")
"""What `set_output` takes: rows as they came, or frames of a library."""


@estimator_class
class JunctionTreeImputer(Parameters):
    """A transformer that imputes missing cells by a model, given the other cells of their row.

    Parameters
    ----------
    estimator : SpectralJunctionTree, EMJunctionTree or OnlineEMJunctionTree, optional
        The model, itself unfitted; by default ``EMJunctionTree(handle_unknown="missing")``, which learns its
        structure and imputes unknown labels too.
    method : {"mode", "mean", "median", "sample"}
        "mode" or "mean": the most probable state, and the mean of a number; "median": the median of a number;
        "sample": a joint sample of all missing cells of a row.
    random_state : int, Generator or None
        For "sample", and for the default estimator.

    Attributes
    ----------
    estimator_ : SpectralJunctionTree, EMJunctionTree or OnlineEMJunctionTree
        The fitted estimator.
    n_features_in_ : int
    feature_names_in_ : array of str
        The names of the columns, where a frame names them.

    Notes
    -----
    Rows come back as they came, unless `set_output` says otherwise; the columns of a frame come back in the order
    in which they were fitted.

    Examples
    --------
    >>> import eigentree as et, pandas as pd
    >>> votes = pd.DataFrame({"budget": ["y", "y", "n", "n"] * 9, "crime": ["y", "y", "n", "n"] * 9})
    >>> votes.loc[0, "crime"] = None
    >>> imputer = et.JunctionTreeImputer(et.EMJunctionTree(et.zoo.Mixture(2), random_state=0))
    >>> imputer.fit_transform(votes).loc[0, "crime"]
    'y'
    """

    estimator: Any = None
    method: FillMethod = "mode"
    random_state: Seed = None

    estimator_: Any = field(init=False)
    _estimator_type = None

    @property
    def _columns(self) -> Columns:
        columns: Columns = self.estimator_.columns_
        return columns

    @learns
    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the imputer after its estimator has learned from rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, codes or numbers; None, NaN, null or -1 for a missing cell.
        y : ignored
        sample_weight : array-like of shape (rows,), optional
            How often each row counts.
        """
        one_of("method", self.method, FILL_METHODS)
        estimator = self.estimator
        if estimator is None:
            estimator = EMJunctionTree(random_state=self.random_state, handle_unknown="missing")
        require_estimator(estimator)
        return self._become({"estimator_": cloned(estimator).fit(X, sample_weight=sample_weight)})

    def transform(self, X: ArrayLike | Any) -> Any:
        """Return the rows with their missing cells imputed, as they came or as `set_output` says.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
        """
        given = arranged(X, self._columns)
        filled = self.estimator_.impute(given, self.method, self.random_state)
        library = self._library()
        return filled if library is None else as_frame(filled, self._columns.names, library)

    @learns
    def fit_transform(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Any:
        """Return the rows with their missing cells imputed, after learning from them; arguments as of `fit`."""
        return self.fit(X, y, sample_weight).transform(X)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the columns that come out, which are those that go in.

        Parameters
        ----------
        input_features : sequence of str, optional
            What to call columns that have no names of their own.
        """
        names = self._columns.names
        if input_features is None:
            return np.array(names, object)
        given = np.array(different_names("input_features", input_features, DataError), object)
        if len(given) != len(names):
            raise DataError(
                f"input_features should have length equal to number of features ({len(names)}), got {len(given)}"
            )
        if self._columns.named and tuple(given) != names:
            raise DataError("input_features is not equal to feature_names_in_; leave it out")
        return given

    def set_output(self, *, transform: Literal["default", "pandas", "polars"] | None = None) -> Self:
        """Return the imputer, which from now on hands out frames of a library; None changes nothing.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            "default" hands rows out as they came.
        """
        one_of("transform", transform, (*OUTPUTS, None))
        if transform is not None:
            # The name under which scikit-learn's clone looks for it.
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def output(self) -> str | None:
        """What `set_output` has said; None where it was never called."""
        set_here: dict[str, str] = vars(self).get("_sklearn_output_config", {})
        return set_here.get("transform")

    def _library(self) -> str | None:
        """Return the library of the frames to hand out, by `set_output` or scikit-learn's own setting, if any."""
        # Nobody has set anything of a library that nobody has imported.
        sklearn = sys.modules.get("sklearn")
        chosen = self.output or ("default" if sklearn is None else sklearn.get_config()["transform_output"])
        return None if chosen == "default" else str(chosen)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        # Whole numbers that were floats only to have NaN among them come back whole.
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.non_deterministic = self.method == "sample" and self.random_state is None
        return tags
