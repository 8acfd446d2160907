"""The scikit-learn face of the spectral model."""

from __future__ import annotations

import math
import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from eigentree.counting.counts import Counts, MomentSource, weighted_chunks
from eigentree.counting.row_sample import RowSample
from eigentree.data.resolving import resolve_structure
from eigentree.data.rows import Rows, checked_weights
from eigentree.engine import queries
from eigentree.errors import DataError, ParameterError
from eigentree.spectral.diagnostics import SpectralReport
from eigentree.spectral.learning import CountedTables, ExactTables, learn
from eigentree.spectral.shrinkage import USUAL, choose_shrinkage, floored, log_marginals, pseudo_rows
from eigentree.spectral.views import ViewPlan
from eigentree.structures.zoo import Template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.spectral.learning import SpectralFit
    from eigentree.structures.graph import LatentGraph

    Floats = NDArray[np.float64]


class SpectralJunctionTree(BaseEstimator):  # type: ignore[misc]
    """A latent junction tree learned from counts, in one pass and without local minima.

    Parameters
    ----------
    structure : LatentGraph or Template
        The graph, or a template such as ``zoo.HMM(order=2, hidden_states=2)`` that builds one from the columns.
    views : int
        How many outside views of an edge are combined; 1 is the paper's Eq. 22 alone.
    scaling : {"variance", None}
        Whether counts are scaled so that their noise is even.
    shrinkage : float or "auto"
        Shrinkage toward independent columns (kappa), in units of the noise: 0 is none, infinity is independent
        columns (with variance scaling), 0.4 is about right for most data, and "auto" begins there and looks for
        better by held-out likelihood.
    max_rank : int, optional
        Cap on the rank of every edge.
    when_short : {"raise", "warn"}
        What to do where the views of an edge cannot reach its rank.

    Attributes
    ----------
    graph_ : LatentGraph
    operators_ : TreeOperators
    plan_ : ViewPlan
    counts_ : Counts
        After `fit` or `partial_fit`.
    shrinkage_ : float
        The shrinkage that was used.
    report_ : SpectralReport
        Per separator: rank, views, singular values, warnings; and what was floored when scoring.
    n_features_in_ : int

    Notes
    -----
    ``views=1, scaling=None, shrinkage=0`` is the published Algorithm 1.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.zoo.hmm(length=6, order=1, hidden_states=2, observed_states=3)
    >>> truth = et.LatentNetwork.random(graph, seed=0)
    >>> model = et.SpectralJunctionTree(graph).fit(truth.sample(5_000, seed=1))
    >>> model.predict_proba(truth.sample(2, seed=2), target="x3").shape
    (2, 3)
    """

    def __init__(
        self,
        structure: LatentGraph | Template,
        views: int = 6,
        scaling: Literal["variance"] | None = "variance",
        shrinkage: float | Literal["auto"] = "auto",
        max_rank: int | None = None,
        when_short: Literal["raise", "warn"] = "raise",
    ) -> None:
        self.structure = structure
        self.views = views
        self.scaling = scaling
        self.shrinkage = shrinkage
        self.max_rank = max_rank
        self.when_short = when_short

    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the model learned from rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame
            Codes; -1, NaN or null for a missing cell. A row counts wherever the cells that are needed are present.
        y : None
            Ignored, for scikit-learn.
        sample_weight : array-like of shape (rows,), optional
            How often each row counts; may be fractional.
        """
        graph = resolve_structure(self.structure, X)
        plan = self._plan(graph)
        self._take(graph, plan, *self._counted(Counts(graph, plan.groups()), None, X, sample_weight))
        return self

    def partial_fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Return the model learned from these rows and all that were given before.

        The result is the same, to the last bit, as `fit` on all the rows at once.
        """
        if not hasattr(self, "counts_"):
            return self.fit(X, y, sample_weight)
        counts, sample = self._counted(self.counts_, self._sample, X, sample_weight)
        self._take(self.graph_, self.plan_, counts, sample)
        return self

    def fit_moments(self, source: MomentSource) -> Self:
        """Return the model learned from joint tables.

        Parameters
        ----------
        source : LatentNetwork, Counts, or anything with ``joint(names) -> array``
            A network gives population moments, so that the model is exact. Counts give a fit to their rows;
            with no rows to hold out, shrinkage "auto" means 0.4 there.
        """
        if isinstance(self.structure, Template):
            raise ParameterError(
                "fit_moments needs a LatentGraph as structure; a template is built from columns of data"
            )
        graph = self.structure
        plan = self._plan(graph)
        if isinstance(source, Counts):
            if [(name, source.graph.states[name]) for name in source.graph.observed] != [
                (name, graph.states[name]) for name in graph.observed
            ]:
                raise DataError("the counts are of other columns than the structure's; count with the same graph")
            self._take(graph, plan, source, None)
            return self
        self._check_parameters()
        (fit,) = learn(plan, [ExactTables(source, graph)], self.scaling)
        marginals = []
        for name in graph.observed:
            with np.errstate(divide="ignore"):
                table = np.log(np.asarray(source.joint([name]), np.float64))
            marginals.append(np.append(np.maximum(table, -700.0), 0.0))
        self._finish(graph, plan, fit, tuple(marginals), 0.0)
        # What an earlier fit counted is no part of this model.
        for name in ("counts_", "_sample"):
            self.__dict__.pop(name, None)
        self.report_ = SpectralReport.of(plan, fit, math.inf, 0.0, {})
        return self

    def _plan(self, graph: LatentGraph) -> ViewPlan:
        self._check_parameters()
        return ViewPlan.build(graph, self.views, self.max_rank, self.when_short)

    def _check_parameters(self) -> None:
        if isinstance(self.views, bool) or not isinstance(self.views, int | np.integer) or self.views < 1:
            raise ParameterError(f"views is a whole number of at least 1, not {self.views!r}")
        if self.scaling is not None and not (isinstance(self.scaling, str) and self.scaling == "variance"):
            raise ParameterError(f"scaling is 'variance' or None, not {self.scaling!r}")
        if isinstance(self.shrinkage, str):
            if self.shrinkage != "auto":
                raise ParameterError(f"shrinkage is 'auto' or a number of at least 0, not {self.shrinkage!r}")
        elif not isinstance(self.shrinkage, Real) or not self.shrinkage >= 0:
            raise ParameterError(f"shrinkage is 'auto' or a number of at least 0, not {self.shrinkage!r}")
        if self.max_rank is not None and (not isinstance(self.max_rank, Integral) or self.max_rank < 1):
            raise ParameterError(
                f"max_rank is a whole number of at least 1, or None for no cap, not {self.max_rank!r}"
            )
        if self.when_short not in ("raise", "warn"):
            raise ParameterError(f"when_short is 'raise' or 'warn', not {self.when_short!r}")

    def _counted(
        self, counts: Counts, sample: RowSample | None, X: ArrayLike | Any, sample_weight: ArrayLike | None
    ) -> tuple[Counts, RowSample]:
        """Return the counts and the row sample with one more pass over data."""
        rows = Rows.of(X, counts.graph)
        weights = checked_weights(sample_weight, rows.count)
        seen = RowSample.empty(len(rows.states)) if sample is None else sample

        def chunks() -> Iterator[tuple[NDArray[Any], NDArray[Any] | None]]:
            nonlocal seen
            for codes, part in weighted_chunks(rows, weights):
                seen = seen.update(codes, part)
                yield codes, part

        return counts.count(chunks()), seen

    def _take(self, graph: LatentGraph, plan: ViewPlan, counts: Counts, sample: RowSample | None) -> None:
        self._check_parameters()
        if not counts.rows > 0:
            raise DataError("there are no rows, or all rows have weight 0; there is nothing to learn from")
        tried: Mapping[float, float] = {}
        if self.shrinkage == "auto" and sample is not None:
            shrinkage, tried, fit = choose_shrinkage(plan, counts, sample, self.scaling)
        else:
            shrinkage = USUAL if self.shrinkage == "auto" else float(self.shrinkage)
            (fit,) = learn(plan, [CountedTables(counts, pseudo_rows(graph) if shrinkage else 0.0)], self.scaling)
        self._finish(graph, plan, fit, log_marginals(counts), shrinkage)
        self.counts_ = counts
        self._sample = sample
        self.report_ = SpectralReport.of(plan, fit, counts.rows, shrinkage, tried, counts)
        self.report_.warn()

    def _finish(
        self,
        graph: LatentGraph,
        plan: ViewPlan,
        fit: SpectralFit,
        marginals: tuple[Floats, ...],
        shrinkage: float,
    ) -> None:
        self.graph_ = graph
        self.plan_ = plan
        self.operators_ = fit.operators(shrinkage)
        self._fit = fit
        self.shrinkage_ = shrinkage
        self.n_features_in_ = len(graph.observed)
        self._log_marginals = marginals

    def score_samples(self, X: ArrayLike | Any) -> Floats:
        """Return the log probability of each row, missing cells summed out; always finite.

        A learned probability can fail to be positive. The same fit, shrunk further toward independent columns, then
        answers for that row; how often is counted in ``report_.floored`` and said in a warning. The scores of all
        configurations then add up to somewhat more than 1, so they flatter the model where many rows are floored.
        """
        check_is_fitted(self, "operators_")
        rows = Rows.of(X, self.graph_)
        result = np.empty(rows.count)
        count = 0
        for start, codes in rows.chunks():
            log_size, sign = self.operators_.log_prob(codes)
            part, bad = floored(log_size, sign, codes, self._fit, self.shrinkage_, self._log_marginals)
            result[start : start + len(codes)] = part
            count += bad
        self.report_.floored += count
        if count:
            warnings.warn(
                f"{count} of {rows.count} rows had no positive probability and were floored: the same fit, shrunk "
                f"further, answers for them; more rows, a larger shrinkage or a lower max_rank make this rarer",
                RuntimeWarning,
                stacklevel=2,
            )
        return result

    def score(self, X: ArrayLike | Any, y: object = None) -> float:
        """Return the mean log probability of the rows."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike | Any, target: str) -> Floats:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        Always a distribution: negative entries become 0, and a row without any positive one gets the target's
        marginal.
        """
        check_is_fitted(self, "operators_")
        proba, undefined = queries.predict_proba(self.operators_, self.graph_, X, target)
        self._note_undefined(undefined, "rows")
        return proba

    def impute(
        self,
        X: ArrayLike | Any,
        method: Literal["mode", "sample"] = "mode",
        seed: int | np.random.Generator | None = None,
    ) -> NDArray[np.int64]:
        """Return the rows with their missing cells filled, by the likeliest state or by a joint draw."""
        check_is_fitted(self, "operators_")
        filled, undefined = queries.impute(self.operators_, self.graph_, X, method, seed)
        self._note_undefined(undefined, "missing cells")
        return filled

    def sample(
        self,
        n: int = 1,
        seed: int | np.random.Generator | None = None,
        given: Mapping[str, int] | None = None,
    ) -> NDArray[np.int64]:
        """Return rows drawn from the model, shape (n, columns), given the values of some columns if any.

        Where noise leaves no state of a cell a positive probability, the cell is drawn from its column alone.
        """
        check_is_fitted(self, "operators_")
        return queries.sample(self.operators_, self.graph_, n, given or {}, seed)[0]

    def joint(self, names: Sequence[str]) -> Floats:
        """Return the learned table of some observed variables; noise can leave small negative entries."""
        check_is_fitted(self, "operators_")
        return queries.joint(self.operators_, self.graph_, names)

    def _note_undefined(self, count: int, what: str) -> None:
        if count:
            warnings.warn(
                f"{count} {what} had no state of positive probability; their column's marginal was used",
                RuntimeWarning,
                stacklevel=3,
            )
