"""Standard errors, covariances and intervals of the parameters that an estimator has learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.errors import DataError, ParameterError
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.uncertainty.estimates import Estimates
    from eigentree.uncertainty.information import Kind

__all__ = ["EstimateOptions", "UncertaintyMixin"]

AVERAGE = (
    "the model averages several fits, so its tables have no standard errors; fit a graph or a template such as "
    "zoo.Mixture(), or use bootstrap"
)

NOT_SAVED = ("_training_", "_errors_")
"""What a fitted estimator keeps beside its parameters, in memory only."""


class EstimateOptions(TypedDict, total=False):
    """Arguments of `estimates` that `vcov` and `confint` take too."""

    lengths: ArrayLike | None
    sample_weight: ArrayLike | None
    inputs: Any
    kind: Kind | None
    clusters: ArrayLike | None
    strata: ArrayLike | None
    statistic: Callable[[Any], Any] | None


class UncertaintyMixin(Parameters):
    """Standard errors of an estimator of tables that has been fitted by maximum likelihood, or with a prior."""

    @our_arithmetic
    def estimates(
        self,
        X: ArrayLike | Any = None,
        *,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
        kind: Kind | None = None,
        clusters: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        statistic: Callable[[Any], Any] | None = None,
    ) -> Estimates:
        """Return all parameters with standard errors, intervals and covariances.

        Probabilities have intervals on the logit scale and standard deviations on the log scale, so that they stay
        inside what is possible. Parameters that are on the boundary, and those that the data do not identify, have
        no standard error, and a note names them.

        Parameters
        ----------
        X : the training data, optional
            The rows that the model was fitted to, which the estimator remembers until it is saved or pickled,
            except for streams.
        lengths, sample_weight, inputs
            As `fit` had them, where `X` is given.
        kind : {"observed", "empirical", "robust"}, optional
            Which covariance matrix: of the Hessian of the log-likelihood ("observed", the default), of the scores
            of rows ("empirical"), or of both ("robust").
        clusters : array-like, optional
            The cluster of each row or sequence, such as a school: those of one cluster may depend on each other.
        strata : array-like, optional
            The stratum of each row or sequence, within which clusters, or rows, were sampled.
        statistic : callable, optional
            What is estimated, given an estimator: a number, an array, a table, or a mapping of names to these; by
            default all parameters, as `tables_` has them.

        Raises
        ------
        ParameterError
            When the model is an average of several fits (``structure="auto"``).

        Notes
        -----
        "observed" inverts minus the Hessian of the log-likelihood, pseudo-counts included; "empirical" the sum of
        outer products of the scores of rows. "robust" is the sandwich of both, right for sampling weights and where
        the model is wrong; to it a row with a weight is one unit, to the others as many rows. With `clusters` or
        `strata` the kind is "robust". A `statistic` has standard errors by the delta method.

        Examples
        --------
        >>> import eigentree as et
        >>> votes = et.datasets.load_votes().data
        >>> model = et.LatentClassModel(n_classes=2, random_state=0).fit(votes)
        >>> model.estimates().part(table="h")
        table  state  given  estimate  std. error  95 % interval
            h      0           0.5207      0.0247  [0.4723, 0.5688]
            h      1           0.4793      0.0247  [0.4312, 0.5277]
        """
        from eigentree.uncertainty.free_models import free_model
        from eigentree.uncertainty.information import Information
        from eigentree.uncertainty.refits import FittedModel

        self._require_fit()
        if "search_" in vars(self):
            raise ParameterError(AVERAGE)
        given: dict[str, Any] = {"lengths": lengths, "sample_weight": sample_weight, "inputs": inputs}
        if X is None:
            X, given = self._training
        fitted = FittedModel.of(self, X, given.get("lengths"), given.get("sample_weight"), given.get("inputs"))
        return Information(free_model(fitted)).estimates(statistic, kind, clusters, strata)

    def vcov(self, X: ArrayLike | Any = None, **options: Unpack[EstimateOptions]) -> Floats:
        """Return the covariance matrix of all parameters, in the order of `estimates`, whose arguments it takes."""
        return self.estimates(X, **options).vcov()

    def confint(self, X: ArrayLike | Any = None, level: float = 0.95, **options: Unpack[EstimateOptions]) -> Floats:
        """Return an interval for each parameter, shape (parameters, 2), in the order of `estimates`.

        Parameters
        ----------
        X : the training data, optional
        level : float
        **options
            As those of `estimates`.
        """
        if isinstance(X, float):
            raise ParameterError(f"the level is given by name: confint(level={X:g})")
        return self.estimates(X, **options).confint(level)

    @property
    def standard_errors_(self) -> dict[Any, LabeledTable]:
        """The standard errors of the parameters, in tables like those of `tables_`; NaN where there is none.

        They are those of `estimates` of the training data. Of numbers in sequences, mean and standard deviation by
        channel stand beside the tables.
        """
        self._require_fit()
        if (known := vars(self).get("_errors_")) is None:
            from eigentree.uncertainty.quantities import parameter_tables

            known = _filled(parameter_tables(self), iter(self.estimates().standard_errors.tolist()))
            self._errors_ = known
        return known

    @property
    def _training(self) -> tuple[Any, dict[str, Any]]:
        """The data of `fit`, and the other arguments that came with them."""
        found: tuple[Any, dict[str, Any]] | None = vars(self).get("_training_")
        if found is None:
            raise DataError(
                "the training data are not there any more (a stream, or a model from a file), and standard errors "
                "come from them; give them, as estimates(X)"
            )
        return found

    def _remembered(self, X: Any, **more: Any) -> dict[str, Any]:
        """Return the fitted attribute that holds the training data, unless they are a stream."""
        return {} if is_stream(X) else {"_training_": (X, more)}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in NOT_SAVED}


def _filled(tables: Mapping[Any, Any], numbers: Iterator[float]) -> TablesByName:
    """Return tables of the same axes, filled with numbers in the order of their entries."""
    found: dict[Any, Any] = {}
    for key, table in tables.items():
        if isinstance(table, Mapping):
            found[key] = _filled(table, numbers)
        else:
            own = [next(numbers) for _ in range(table.size)]
            array = table.array.copy()
            array.flat = own
            found[key] = LabeledTable(array, table.names, table.states)
    return TablesByName(found.items())
