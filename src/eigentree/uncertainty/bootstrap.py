"""Bootstrap of any statistic of a fitted model, and variances by the replicate weights of a survey."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.messages import notice, renamed_arguments
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.information import group_numbers
from eigentree.uncertainty.quantities import Quantities
from eigentree.uncertainty.refits import MOST_REPLICATES, FittedModel, followed
from eigentree.validation import an_array, finite_number, flag, generator, one_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.validation import Seed

__all__ = ["Bootstrap", "Resampling", "bootstrap", "replicate_variance"]

FEWEST = 2
"""Replicates without which there is no variance."""


class Resampling(NamedTuple):
    """What is resampled: units, which are rows, sequences or clusters of such, within strata.

    Attributes
    ----------
    weights : array, shape (rows,)
    unit : array of int, shape (rows,), or None
        The unit of each row. None: rows are resampled as often as they count.
    stratum : array of int, shape (units,)
    is_stratified : bool
    """

    weights: Floats
    unit: Integers | None
    stratum: Integers
    is_stratified: bool

    @classmethod
    def of(cls, weights: Floats, clusters: ArrayLike | None = None, strata: ArrayLike | None = None) -> Resampling:
        """Return what is resampled of rows with weights, given the cluster and the stratum of each."""
        rows = len(weights)
        if rows < FEWEST:
            raise DataError(
                "one row or sequence cannot be resampled; give parametric=True, to sample from the model"
            )
        if clusters is None and strata is None:
            if weights.sum() < FEWEST:
                raise ParameterError(
                    f"sample_weight adds up to {weights.sum():g}, and says how often each row counts; multiply it, "
                    f"or give clusters=range({rows}) if each row was sampled with a weight of its own"
                )
            return cls(weights, None, np.zeros(0, np.int64), False)
        within = np.zeros(rows, np.int64) if strata is None else group_numbers("strata", strata, rows)
        inside = np.arange(rows) if clusters is None else group_numbers("clusters", clusters, rows)
        # A cluster belongs to one stratum, whatever it is called in others.
        units, unit = np.unique(np.stack([within, inside]), axis=1, return_inverse=True)
        sizes = np.bincount(units[0])
        if (sizes < FEWEST).any():
            what = f"stratum {int(np.argmin(sizes))}, counted from 0," if strata is not None else "the data"
            raise DataError(f"{what} has one cluster, which shows no variance; join it with another stratum")
        return cls(weights, unit.ravel(), units[0], strata is not None)

    def drawn(self, random: np.random.Generator) -> Floats:
        """Return how often each row counts in a resample.

        Rows are sampled with replacement, as many as their weights add up to. Of the n units of a stratum n - 1 are
        sampled and weighted by n / (n - 1), so that variances are unbiased where there are few (Rao and Wu, 1988);
        without strata they are n.
        """
        if self.unit is None:
            total = self.weights.sum()
            counts = random.multinomial(round(total), self.weights / total)
            return np.asarray(counts * (total / counts.sum()))
        factor = np.empty(len(self.stratum))
        for stratum in range(int(self.stratum.max()) + 1):
            own = np.flatnonzero(self.stratum == stratum)
            count = len(own) - self.is_stratified
            factor[own] = random.multinomial(count, np.full(len(own), 1.0 / len(own))) * (len(own) / count)
        return self.weights * factor[self.unit]


@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Estimates):
    """Estimates with the replicates of a bootstrap, from which their covariance matrix and intervals are.

    Attributes
    ----------
    replicates : array, shape (replicates, quantities)
    failed : tuple of str
        Why replicates could not be fitted; these are left out.
    """

    replicates: Floats = field(kw_only=True)
    failed: tuple[str, ...] = ()

    @property
    def estimates(self) -> Estimates:
        """The estimates alone, whose intervals are normal on the scale of each."""
        return Estimates(self.labels, self.values, self.covariance, self.header, self.scales, notes=self.notes)

    def chosen(self, places: Sequence[int]) -> Bootstrap:
        """Return some of the estimates, by their places."""
        own = list(places)
        return Bootstrap(**vars(self.estimates.chosen(own)), replicates=self.replicates[:, own], failed=self.failed)

    def confint(
        self, level: float = 0.95, method: Literal["percentile", "basic", "normal"] = "percentile"
    ) -> Floats:
        """Return an interval for each quantity, shape (quantities, 2).

        Parameters
        ----------
        level : float
            The share of samples whose interval covers the truth, for large samples.
        method : {"percentile", "basic", "normal"}
            "percentile": quantiles of the replicates, which stay where the quantity can be. "basic": these mirrored
            at the estimate. "normal": as those of `estimates`, on the scale of each quantity.
        """
        one_of("method", method, ("percentile", "basic", "normal"))
        if not 0 < finite_number("level", level, 0.0) < 1:
            raise ParameterError(f"level is between 0 and 1, such as 0.95, not {quoted(level)}")
        if method == "normal":
            return self.estimates.confint(level)
        shares = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
        # The k-th of B replicates is the quantile k / (B + 1).
        ends = np.quantile(self.replicates, shares, axis=0, method="weibull")
        return np.asarray((ends if method == "percentile" else 2.0 * self.values - ends[::-1]).T)


@renamed_arguments(False, seed="random_state")
def bootstrap(
    model: Any,
    X: ArrayLike | Any,
    statistic: Callable[[Any], Any] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    inputs: Any = None,
    n_replicates: int = 200,
    parametric: bool = False,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    random_state: Seed = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> Bootstrap:
    """Return replicates of a statistic of a fitted model: standard errors and intervals without formulas.

    Each replicate is a fit to resampled rows or sequences, or to such that are sampled from the model. It starts
    from the original fit, and hidden states are matched to those of that, each hidden variable by itself. What was
    chosen for the original fit (columns, bins, families of numbers, pseudo-counts) is kept. A model that is an
    average of several fits (``structure="auto"``) is searched for anew in every replicate.

    Parameters
    ----------
    model : LatentClassModel, EMJunctionTree or EMHMM
        Fitted to `X`.
    X : as ``model.fit`` takes it, in memory
    statistic : callable, optional
        What is computed of a fitted estimator: a number, an array, a table, `Estimates`, or a mapping of names to
        these; by default all tables, means and standard deviations.
    sample_weight : array-like of shape (rows,) or (sequences,), optional
        How often each row counts: equal rows that are one line.
    lengths : array-like of int, shape (sequences,), optional
        As ``EMHMM.fit`` takes them.
    inputs : as ``EMHMM.fit`` takes them, optional
        Inputs of a model that was fitted with them.
    n_replicates : int
        200 are enough for standard errors, 1,000 or more for intervals (Efron and Tibshirani, 1993).
    parametric : bool
        Sample data from the model, with the cells missing that are missing in `X`, in place of resampling.
    clusters : array-like of shape (rows,) or (sequences,), optional
        Which rows were sampled together: they are resampled together.
    strata : array-like of shape (rows,) or (sequences,), optional
        Within which clusters, or rows, are resampled.
    random_state : int, Generator or None
    n_jobs : int
        Processes that share the replicates; results do not depend on it.
    verbose : int
        Show progress if positive, where stderr is a terminal.

    Notes
    -----
    Weights of a survey, which say how many others a row stands for, go with `clusters` or `strata`; then units are
    resampled, and their rows keep their weights. Inputs are resampled with their sequences, and kept where data are
    sampled from the model.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> model = et.LatentClassModel(n_classes=2, random_state=0).fit(votes)
    >>> et.bootstrap(model, votes, lambda fit: {"share of the larger class": fit.class_weights_[0]}, random_state=0)
                     quantity  estimate  std. error  95 % interval
    share of the larger class    0.5207      0.0301  [0.4738, 0.5900]
    """
    fitted = FittedModel.of(model, X, lengths, sample_weight, inputs)
    original = _original(fitted, statistic)
    seeds = generator(random_state).spawn(whole_number("n_replicates", n_replicates, FEWEST, most=MOST_REPLICATES))
    resampling = None
    if not flag("parametric", parametric):
        resampling = Resampling.of(fitted.weights, clusters, strata)
    elif clusters is not None or strata is not None:
        raise ParameterError("parametric data are sampled row by row; leave clusters and strata out")
    found, failed = followed(partial(_replicate, fitted, statistic, resampling), seeds, n_jobs, verbose)
    if len(found) < FEWEST:
        raise DataError(f"{len(failed)} of {n_replicates} replicates failed: {failed[0]}")
    notes = []
    if failed:
        notes.append(f"{len(failed)} of {n_replicates} replicates failed and are left out: {failed[0]}")
        notice(notes[0], UserWarning)
    replicates, (labels, values, header, scales) = np.array(found), original
    covariance = np.atleast_2d(np.cov(replicates, rowvar=False))
    return Bootstrap(
        labels, values, covariance, header, scales, None, notes, replicates=replicates, failed=tuple(failed)
    )


FACTORS: dict[str, Callable[[int, float], float]] = {
    "jackknife": lambda count, rho: (count - 1.0) / count,
    "brr": lambda count, rho: 1.0 / (count * (1.0 - rho) ** 2),
    "bootstrap": lambda count, rho: 1.0 / count,
}
"""By what a squared deviation is multiplied, given the number of replicates and Fay's rho."""


def replicate_variance(
    model: Any,
    X: ArrayLike | Any,
    replicate_weights: ArrayLike,
    statistic: Callable[[Any], Any] | None = None,
    *,
    kind: Literal["jackknife", "brr", "bootstrap"] = "jackknife",
    scale: ArrayLike | None = None,
    rho: float = 0.0,
    lengths: ArrayLike | None = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> Estimates:
    """Return estimates with the covariance matrix that the replicate weights of a survey give.

    It is the sum, over replicates, of a factor times the squared deviation from the estimate of all data. Each
    replicate is a fit from the original one, as those of `bootstrap`.

    Parameters
    ----------
    model : LatentClassModel, EMJunctionTree or EMHMM
        Fitted to `X` with the survey's full weights.
    X : as ``model.fit`` takes it, in memory
    replicate_weights : array-like of shape (rows, replicates)
        The weights of the rows or sequences in each replicate, as surveys publish them.
    statistic : callable, optional
        As that of `bootstrap`.
    kind : {"jackknife", "brr", "bootstrap"}
        The factor for R replicates: (R - 1) / R for "jackknife" (JK1), 1 / (R (1 - rho)²) for "brr", 1 / R for
        "bootstrap".
    scale : float or array-like of shape (replicates,), optional
        Another factor, or one for each replicate, such as (n - 1) / n for those that leave out one of the n
        clusters of a stratum (JKn).
    rho : float
        Fay's: the share of its weight that a unit keeps where it is left out.
    lengths, n_jobs, verbose
        As those of `bootstrap`.
    """
    fitted = FittedModel.of(model, X, lengths, None)
    weights = an_array("replicate_weights", replicate_weights, DataError)
    if weights.ndim != 2 or len(weights) != fitted.data.count or weights.shape[1] < FEWEST:
        raise DataError(
            f"replicate_weights has the shape {weights.shape}, but needs a row for each of {fitted.data.count} and "
            f"a column for each replicate, at least {FEWEST}"
        )
    columns = [np.array(positive_weights(own, len(weights)), np.float64) for own in weights.T]
    factors = _factors(kind, scale, rho, len(columns))
    original = _original(fitted, statistic)
    found, failed = followed(partial(_reweighted, fitted, statistic), columns, n_jobs, verbose)
    if failed:
        raise DataError(f"{len(failed)} of {len(columns)} replicates failed: {failed[0]}")
    deviations = np.array(found) - original.values
    covariance = (deviations * factors[:, None]).T @ deviations
    labels, values, header, scales = original
    return Estimates(labels, values, covariance, header, scales)


def _factors(kind: str, scale: ArrayLike | None, rho: float, count: int) -> Floats:
    """Return the factor of each replicate, once what was given makes sense."""
    one_of("kind", kind, tuple(FACTORS))
    if not finite_number("rho", rho, 0.0) < 1:
        raise ParameterError(f"rho is at least 0 and less than 1, not {quoted(rho)}")
    if rho and kind != "brr":
        raise ParameterError(f"rho is Fay's, for kind='brr', and kind is {kind!r}; leave it out")
    if scale is None:
        return np.full(count, FACTORS[kind](count, rho))
    given = an_array("scale", scale, ParameterError)
    if given.shape not in ((), (count,)) or given.dtype.kind not in "iuf" or not (given >= 0).all():
        raise ParameterError(f"scale is a factor, or one for each of {count} replicates, not {quoted(scale)}")
    return given * np.ones(count)


def _original(fitted: FittedModel, statistic: Callable[[Any], Any] | None) -> Quantities:
    """Return the statistic of the original fit."""
    if statistic is None and fitted.is_average:
        raise ParameterError(
            "structure='auto' averages several fits, whose parameters mean nothing by themselves; give a "
            "statistic, or fit one graph"
        )
    if not fitted.is_average:
        # Made once, and taken along to other processes.
        _ = fitted.posteriors
    return Quantities.of(fitted.model, statistic)


def _replicate(
    fitted: FittedModel,
    statistic: Callable[[Any], Any] | None,
    resampling: Resampling | None,
    random: np.random.Generator,
) -> Floats:
    """Return the statistic of a fit to resampled rows, or to rows sampled from the model."""
    data, weights = (fitted.data, resampling.drawn(random)) if resampling else fitted.sampled(random)
    return Quantities.of(fitted.matched(fitted.refit(data, weights, random)), statistic).values


def _reweighted(fitted: FittedModel, statistic: Callable[[Any], Any] | None, weights: Floats) -> Floats:
    """Return the statistic of a fit to other weights."""
    # Nothing is random but the start of a fit that cannot start from the original one.
    refit = fitted.refit(fitted.data, weights, generator(0))
    return Quantities.of(fitted.matched(refit), statistic).values
