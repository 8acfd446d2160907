"""Multiple imputation: completed tables that differ as much as missing cells are uncertain, and Rubin's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.errors import DataError, ParameterError, quoted
from eigentree.messages import renamed_arguments
from eigentree.progress import shown_progress
from eigentree.uncertainty.bootstrap import Resampling
from eigentree.uncertainty.estimates import Estimates
from eigentree.uncertainty.refits import MOST_REPLICATES, Failed, FittedModel, replicated
from eigentree.validation import MOST_THREADS, an_array, generator, whole_number

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.uncertainty.result_tables import Labelled
    from eigentree.validation import Seed

__all__ = ["PooledEstimates", "halved", "multiple_imputation", "pool"]

FEWEST = 2
"""Completed tables without which nothing is known of how they differ."""

DIFFERENT = "estimates of different quantities are not pooled; give the same of each table"


@renamed_arguments(False, seed="random_state")
def multiple_imputation(
    model: Any,
    X: ArrayLike | Any,
    m: int = 20,
    *,
    sample_weight: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    random_state: Seed = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> list[Any]:
    """Return completed tables: each has its missing cells sampled from a model of its own.

    The model of each is fitted to resampled rows, so that the tables also differ by how uncertain the parameters
    are (proper multiple imputation; Rubin, 1987; Honaker and King, 2010). Do with each table what you would do with
    complete data, and `pool` the results.

    Parameters
    ----------
    model : LatentClassModel, EMJunctionTree or EMHMM
        Fitted to `X`.
    X : as ``model.fit`` takes it, in memory
    m : int
        How many tables; as many as there are percents of rows with missing cells make standard errors reproducible
        (White, Royston and Wood, 2011).
    sample_weight, lengths, clusters, strata
        As those of `bootstrap`.
    random_state : int, Generator or None
    n_jobs : int
        Processes that share the tables; results do not depend on it.
    verbose : int
        Show progress if positive, where stderr is a terminal.

    Returns
    -------
    list
        Of m tables in the form of `X`: frames of the same library, words, or arrays.

    Notes
    -----
    A model that averages several fits (``structure="auto"``) is searched for anew for each table, on a random half
    of the rows: halves vary as much as bootstrap samples do (Shao and Wu, 1989), and have no row twice, which would
    be both learned from and held out.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> model = et.LatentClassModel(n_classes=2, random_state=0).fit(votes)
    >>> tables = et.multiple_imputation(model, votes, m=5, random_state=0)
    >>> len(tables), sum(cell is None for row in tables[0] for cell in row)
    (5, 0)
    """
    fitted = FittedModel.of(model, X, lengths, sample_weight)
    if not fitted.is_average:
        # Made once, and taken along to other processes.
        _ = fitted.posteriors
    resampling = Resampling.of(fitted.weights, clusters, strata)
    seeds = generator(random_state).spawn(whole_number("m", m, FEWEST))
    tables: list[Any] = []
    with shown_progress(verbose, "imputations", m) as report:
        run = partial(_completed, fitted, resampling, X, lengths)
        for each in replicated(run, seeds, whole_number("n_jobs", n_jobs, most=MOST_THREADS)):
            if isinstance(each, Failed):
                raise DataError(f"imputation {len(tables) + 1} of {m} failed: {each.reason}")
            tables.append(each)
            report(len(tables), 0.0)
    return tables


def _completed(
    fitted: FittedModel, resampling: Resampling, X: Any, lengths: ArrayLike | None, random: np.random.Generator
) -> Any:
    """Return the data with their missing cells sampled from a fit to resampled data."""
    weights = halved(resampling, random) if fitted.is_average else resampling.drawn(random)
    refit = fitted.refit(fitted.data, weights, random)
    how: dict[str, Any] = {"method": "sample", "random_state": random}
    return refit.impute(X, **how) if fitted.network is not None else refit.impute(X, lengths, **how)


def halved(resampling: Resampling, random: np.random.Generator) -> Floats:
    """Return how often each row counts in a random half of the units of each stratum, or of the rows.

    A mean of n/2 of n units, without replacement, has the variance (1 - 1/2) / (n/2) = 1/n around that of all.
    """
    weights, unit, stratum = resampling.weights, resampling.unit, resampling.stratum
    if unit is None:
        counts = np.rint(weights).astype(np.int64)
        if (counts == weights).all():
            return random.multivariate_hypergeometric(counts, int(counts.sum()) // 2).astype(np.float64)
        # Weights that are not whole are no numbers of equal rows.
        unit, stratum = np.arange(len(weights)), np.zeros(len(weights), np.int64)
    is_in = np.zeros(len(stratum))
    for each in range(int(stratum.max()) + 1):
        own = np.flatnonzero(stratum == each)
        # Of an odd number one more or one less, as often.
        is_in[random.permutation(own)[: (len(own) + int(random.integers(2))) // 2]] = 1.0
    return weights * is_in[unit]


@dataclass(frozen=True, eq=False, repr=False)
class PooledEstimates(Estimates):
    """Estimates that are pooled over completed tables; `covariance` is the total one.

    Attributes
    ----------
    missing_information : array, shape (quantities,)
        Which fraction of the information about each is missing.
    n_imputations : int
    """

    missing_information: Floats | None = None
    n_imputations: int = 0

    _headings: ClassVar[Mapping[str, str]] = {"missing_information": "missing info"}

    def _table(self) -> Labelled:
        header, labels, numbers = super()._table()
        # The ends of the interval stand last.
        ends = {name: numbers[name] for name in ("lower", "upper")}
        shown = {name: own for name, own in numbers.items() if name not in ends}
        return header, labels, shown | {"missing_information": self.missing_information} | ends


def pool(
    estimates: Sequence[Any] | ArrayLike,
    standard_errors: ArrayLike | None = None,
    *,
    df: float | ArrayLike | None = None,
) -> PooledEstimates:
    """Return the pooled estimates of several completed tables, by Rubin's rules.

    The pooled estimate is their mean. Its variance is the mean of their variances, W, plus (1 + 1/m) B, the
    variance between them. Intervals are those of a t distribution.

    Parameters
    ----------
    estimates : sequence
        One for each of m tables: `Estimates`; results of statsmodels, or whatever has ``params`` and
        ``cov_params()``; or numbers, shape (m,) or (m, quantities).
    standard_errors : array-like, same shape, optional
        Of numbers, which need them.
    df : float or array-like of shape (quantities,), optional
        Degrees of freedom that complete data have, such as rows minus parameters of a regression: those of the
        pooled estimates are then never more (Barnard and Rubin, 1999).

    Examples
    --------
    >>> pool([0.52, 0.49, 0.55], standard_errors=[0.05, 0.05, 0.06])
    quantity  estimate  std. error  missing info  95 % interval
           0    0.5200      0.0638        0.3494  [0.3881, 0.6519]
    """
    labels, values, covariances, header, scales = _listed(estimates, standard_errors)
    count, quantities = values.shape
    within, between = covariances.mean(axis=0), np.atleast_2d(np.cov(values, rowvar=False))
    total = within + (1.0 + 1.0 / count) * between
    own, extra = np.diagonal(total), (1.0 + 1.0 / count) * np.diagonal(between)
    share = np.divide(extra, own, out=np.zeros(quantities), where=own != 0)
    # Where all estimates are the same, the variance is known as well as that of complete data.
    with np.errstate(divide="ignore"):
        freedom = (count - 1.0) / share**2
        if df is not None:
            complete = _positive("df", df, quantities)
            observed = (complete + 1.0) / (complete + 3.0) * complete * (1.0 - share)
            freedom = 1.0 / (1.0 / freedom + 1.0 / observed)
    missing = np.where(share == 0, 0.0, share + (1.0 - share) * 2.0 / (freedom + 3.0))
    return PooledEstimates(
        labels,
        values.mean(axis=0),
        total,
        header,
        scales,
        freedom,
        missing_information=missing,
        n_imputations=count,
    )


def _listed(
    estimates: Any, standard_errors: ArrayLike | None
) -> tuple[Sequence[tuple[Hashable, ...]], Floats, Floats, Sequence[str], Any]:
    """Return labels, values (tables, quantities), covariance matrices, the header of labels, and scales."""
    listed = estimates
    if isinstance(estimates, Iterable) and not hasattr(estimates, "shape"):
        listed = list(islice(estimates, MOST_REPLICATES + 1))
        if len(listed) > MOST_REPLICATES:
            raise DataError(f"estimates are of at most {MOST_REPLICATES:,} tables, not {quoted(estimates)}")
    if isinstance(listed, list) and listed and standard_errors is None:
        first = listed[0]
        if all(isinstance(each, Estimates) for each in listed):
            if any(list(each.labels) != list(first.labels) for each in listed):
                raise ParameterError(DIFFERENT)
            found = [(each.values, each.covariance) for each in listed]
            return first.labels, *_stacked(found), first.header, first.scales
        if all(hasattr(each, "params") and hasattr(each, "cov_params") for each in listed):
            found = [(np.asarray(each.params), np.asarray(each.cov_params())) for each in listed]
            names = getattr(first.params, "index", range(len(found[0][0])))
            if any(list(getattr(each.params, "index", names)) != list(names) for each in listed):
                raise ParameterError(DIFFERENT)
            return [(name,) for name in names], *_stacked(found), ("quantity",), None
    if standard_errors is None:
        raise ParameterError(
            f"estimates that are numbers need standard_errors, one for each; Estimates and results of statsmodels "
            f"have both, but not {quoted(estimates)}"
        )
    values = an_array("estimates", listed, DataError)
    errors = an_array("standard_errors", standard_errors, DataError)
    if (
        values.shape != errors.shape
        or values.ndim not in (1, 2)
        or not values.size
        or not all(each.dtype.kind in "iuf" for each in (values, errors))
    ):
        raise DataError(
            f"estimates and standard_errors are numbers of one shape, (tables,) or (tables, quantities), not "
            f"{values.shape} and {errors.shape}"
        )
    if not (np.isfinite(values).all() and np.isfinite(errors).all() and (errors >= 0).all()):
        raise DataError("estimates and standard_errors are finite, and standard errors not negative")
    values, errors = (each.reshape(len(each), -1).astype(np.float64) for each in (values, errors))
    found = [(own, np.diag(error**2)) for own, error in zip(values, errors, strict=True)]
    return [(place,) for place in range(values.shape[1])], *_stacked(found), ("quantity",), None


def _stacked(found: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Return values and covariance matrices of all tables, once there are several and all are alike."""
    if len(found) < FEWEST:
        raise DataError(f"there are estimates of {len(found)} table; pooling needs those of at least {FEWEST}")
    if len({values.shape for values, _ in found}) > 1:
        raise DataError("the tables have different numbers of estimates; give the same quantities of each")
    return np.stack([values for values, _ in found]), np.stack([own for _, own in found])


def _positive(argument: str, given: ArrayLike, count: int) -> Floats:
    """Return a positive number for each quantity, from one for all or one for each."""
    found = an_array(argument, given, ParameterError)
    if found.shape not in ((), (count,)) or found.dtype.kind not in "iuf" or not (found > 0).all():
        raise ParameterError(f"{argument} is a positive number, or one for each quantity, not {quoted(given)}")
    return np.broadcast_to(found.astype(np.float64), (count,))
