"""Likelihood-ratio tests of a small against a large model: by the chi-squared distribution, and by the bootstrap.

Where the small model is the large one with parameters on the boundary, as with one class fewer, the statistic has
no chi-squared distribution. Its distribution is then sampled: both models are fitted to data that are sampled
from the small one (McLachlan, 1987; Nylund, Asparouhov and Muthén, 2007, who call it BLRT).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import DataError, ParameterError
from eigentree.messages import kept_notices, notice, renamed_arguments
from eigentree.uncertainty.refits import MOST_REPLICATES, FittedModel, followed, log_likelihood
from eigentree.validation import generator, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.validation import Seed

__all__ = [
    "BootstrapLikelihoodRatioTest",
    "LikelihoodRatioTest",
    "bootstrap_likelihood_ratio_test",
    "likelihood_ratio_test",
]

REPLICATES = 199
"""So many replicates make the test at the 5 % level exact: 0.05 · 200 is a whole number (Davison and Hinkley,
1997)."""

EXCEEDANCES = 10
"""So many replicates that are no smaller than the statistic end a test. The tenth of 199 makes p larger than 5 %:
the decision at that level is the same as that of all replicates."""

LOCAL_OPTIMUM = 0.01
"""So many nats below the log-likelihood of a part of it, a model is not at its optimum: fits end nearer to
theirs."""


class LikelihoodRatioTest(NamedTuple):
    """A likelihood-ratio test by the chi-squared distribution.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    df : int
        The difference of the numbers of free parameters.
    p_value : float
    """

    statistic: float
    df: int
    p_value: float


@dataclass(frozen=True, eq=False)
class BootstrapLikelihoodRatioTest:
    """A likelihood-ratio test by the parametric bootstrap.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    p_value : float
        (1 + x) / (1 + B) for x of B replicates that are no smaller than the statistic; x / B where the last of so
        many ended the test.
    n_replicates : int
        How many there were.
    replicates : array
        The statistic of each.
    failed : tuple of str
        Why replicates could not be fitted; these are left out.
    """

    statistic: float
    p_value: float
    n_replicates: int
    replicates: Floats = field(repr=False)
    failed: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        exceeding = int((self.replicates >= self.statistic).sum())
        return (
            f"Bootstrap likelihood-ratio test: statistic {self.statistic:.4f}, p = {self.p_value:.4f}\n"
            f"{exceeding} of {self.n_replicates} replicates are as large"
        )


@renamed_arguments(False)
def likelihood_ratio_test(
    small: Any,
    large: Any,
    X: ArrayLike | Any,
    *,
    sample_weight: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> LikelihoodRatioTest:
    """Return the test of a small model against a large one by the chi-squared distribution.

    The small model has to be the large one with constraints on parameters that lie inside their range: such as
    tables that are equal in two groups, an order of a Markov chain that is lower, a covariate that has no effect.
    Models that differ in their numbers of classes or hidden states need `bootstrap_likelihood_ratio_test`.

    Parameters
    ----------
    small, large : LatentClassModel, EMJunctionTree or EMHMM
        Both fitted to `X` by maximum likelihood (``pseudo_counts=1e-6`` or 0).
    X : as ``fit`` takes it, in memory
    sample_weight : array-like of shape (rows,) or (sequences,), optional
        How often each row counts.
    lengths : array-like of int, shape (sequences,), optional

    Examples
    --------
    >>> import eigentree as et
    >>> survey = et.datasets.load_contraceptive(as_frame=True).data[["education", "media_exposure", "age"]]
    >>> small = et.LatentClassModel(2, random_state=0).fit(survey[["education", "media_exposure"]])
    >>> large = et.LatentClassModel(2, covariates=["age"], random_state=0).fit(survey)
    >>> et.likelihood_ratio_test(small, large, survey).df
    1
    """
    nested = _Nested.of(small, large, X, lengths, sample_weight)
    df = int(large.n_parameters_) - int(small.n_parameters_)
    if df < 1:
        raise ParameterError(
            f"the large model has {large.n_parameters_} parameters and the small one {small.n_parameters_}; give "
            f"the small one first"
        )
    from scipy.stats import chi2

    statistic = nested.observed()
    if _hidden_sizes(small) != _hidden_sizes(large):
        notice(
            "the models differ in their numbers of hidden states, where the statistic is not chi-squared, and this "
            "p-value is wrong; use bootstrap_likelihood_ratio_test",
            UserWarning,
        )
    return LikelihoodRatioTest(statistic, df, float(chi2.sf(statistic, df)))


@renamed_arguments(False, seed="random_state")
def bootstrap_likelihood_ratio_test(
    small: Any,
    large: Any,
    X: ArrayLike | Any,
    *,
    sample_weight: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    n_replicates: int = REPLICATES,
    max_exceedances: int | None = EXCEEDANCES,
    random_state: Seed = None,
    n_jobs: int = 1,
    verbose: int = 0,
) -> BootstrapLikelihoodRatioTest:
    """Return the test of a small model against a large one by the parametric bootstrap (BLRT).

    Such as two classes against three, or three hidden states of an HMM against four. A replicate is the statistic
    of as many data, with the same cells missing, sampled from the small model. The fit of the small model to these
    starts from the parameters that they were sampled with. The large model starts as the estimator itself does, by
    a multi-start of up to 20 candidates unless `init` and `n_init` say otherwise, since a poor local optimum would
    make the p-value too small.

    Parameters
    ----------
    small, large : LatentClassModel, EMJunctionTree or EMHMM
        Both fitted to `X`.
    X : as ``fit`` takes it, in memory
    sample_weight : array-like of shape (rows,) or (sequences,), optional
        How often each row counts; with sampling weights there is no such test.
    lengths : array-like of int, shape (sequences,), optional
    n_replicates : int
        Most replicates.
    max_exceedances : int or None
        The test ends with so many replicates that are no smaller than the statistic (Besag and Clifford, 1991), or
        with None after all of them.
    random_state : int, Generator or None
    n_jobs : int
        Processes that share the replicates; results do not depend on it.
    verbose : int
        Show progress if positive, where stderr is a terminal.

    Notes
    -----
    A test that ends early has the share of such replicates as its p-value. The defaults decide at the 5 % level as
    all 199 would, and take about 40 where the small model is true.

    Examples
    --------
    >>> import eigentree as et
    >>> votes = et.datasets.load_votes().data
    >>> one, two = (et.LatentClassModel(n_classes=n, random_state=0).fit(votes) for n in (1, 2))
    >>> et.bootstrap_likelihood_ratio_test(one, two, votes, n_replicates=19, random_state=0).p_value
    0.05
    """
    nested = _Nested.of(small, large, X, lengths, sample_weight)
    if nested.small.covariates != nested.large.covariates:
        raise ParameterError(
            "covariates are not sampled, so both models need the same ones; likelihood_ratio_test tests whether "
            "covariates have an effect"
        )
    statistic = nested.observed()
    seeds = generator(random_state).spawn(whole_number("n_replicates", n_replicates, most=MOST_REPLICATES))
    most = None if max_exceedances is None else whole_number("max_exceedances", max_exceedances)

    def exceeding(replicates: list[float]) -> int:
        return sum(each >= statistic for each in replicates)

    found, failed = followed(nested.replicate, seeds, n_jobs, verbose, exceeding, most)
    if not found:
        raise DataError(f"all {len(failed)} replicates failed: {failed[0]}")
    if failed:
        notice(f"{len(failed)} replicates failed and are left out: {failed[0]}", UserWarning)
    exceeded = exceeding(found)
    ended = exceeded == most and len(found) < n_replicates
    p_value = exceeded / len(found) if ended else (1 + exceeded) / (1 + len(found))
    return BootstrapLikelihoodRatioTest(statistic, p_value, len(found), np.array(found), tuple(failed))


@dataclass(frozen=True, eq=False)
class _Nested:
    """Two models that were fitted to the same data."""

    small: FittedModel
    large: FittedModel

    @classmethod
    def of(
        cls, small: Any, large: Any, X: ArrayLike | Any, lengths: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> _Nested:
        """Return two models with their data, once both describe the same columns.

        Rows that miss a covariate of a model do not count: its fit has left them out.
        """
        with kept_notices():
            # That the small model ignores covariates of the large one is known.
            first, second = (FittedModel.of(model, X, lengths, sample_weight) for model in (small, large))
        items = [_items(each) for each in (first, second)]
        if items[0] != items[1]:
            raise ParameterError(
                f"both models need the same columns, and the small one has {items[0]}, the large one {items[1]}; "
                f"fit both to the same data with the same settings"
            )
        known = first.has_covariates & second.has_covariates
        first, second = (replace(each, weights=each.weights * known) for each in (first, second))
        for each in (first, second):
            if each.is_average:
                raise ParameterError(
                    "structure='auto' averages several fits, and no model of that kind is a part of another; fit "
                    "one graph each"
                )
        return cls(first, second)

    def observed(self) -> float:
        """Return the statistic of the models as they were fitted."""
        with kept_notices():
            small, large = (
                log_likelihood(each.model, each.data, each.weights) for each in (self.small, self.large)
            )
        if large < small - LOCAL_OPTIMUM:
            notice(
                f"the log-likelihood of the large model, {large:.4f}, is below that of the small one, {small:.4f}: "
                f"it has ended at a local optimum, or has more pseudo-counts; fit it with a larger n_init",
                UserWarning,
            )
        return _statistic(small, large)

    def replicate(self, random: np.random.Generator) -> float:
        """Return the statistic of both models after fits to data that are sampled from the small one."""
        data, weights = self.small.sampled(random)
        small, large = self.small.refit(data, weights, random), self.large.fresh(data, weights, random)
        return _statistic(log_likelihood(small, data, weights), log_likelihood(large, data, weights))


def _items(fitted: FittedModel) -> Columns:
    """Return the columns that a model describes."""
    columns = fitted.data.columns
    return columns.only([name for name in columns.names if name not in fitted.covariates])


def _hidden_sizes(model: Any) -> list[int]:
    """Return the numbers of states of the hidden variables of a model that have several."""
    graph = getattr(model, "graph_", None)
    sizes = [graph.states[name] for name in graph.hidden] if graph else [*model.model_.sizes]
    return sorted(size for size in sizes if size > 1)


def _statistic(small: float, large: float) -> float:
    """Return twice the difference of log-likelihoods, which is not negative for maxima of nested models."""
    return max(2.0 * (large - small), 0.0)
