"""`SpectralJunctionTree`: operators learned from statistics of rows."""

from __future__ import annotations

import math
import time
from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from eigentree.counting.counts import Counts
from eigentree.counting.holdout_sample import RowSample
from eigentree.counting.levels.hat_plan import hat_plan
from eigentree.counting.levels.number_scales import number_scales
from eigentree.counting.pair_counts import pairs_of_rows
from eigentree.counting.statistics import Statistics, check_counts
from eigentree.counting.structure_and_schema import graph_over, resolved
from eigentree.data.streams.encoded_stream import any_rows, any_rows_and_columns
from eigentree.data.tables.columns import Columns, require_columns
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.table import shown_columns
from eigentree.data.tables.weights import positive_weights, warn_of_few
from eigentree.em.estep.unique_rows import DistinctRows
from eigentree.em.mixed.emission_choice import families_on_graph
from eigentree.em.sizes import Size, SizeSearch, SizeTrial
from eigentree.em.tree_fit import finished
from eigentree.errors import DataError, ParameterError, RankError, quoted
from eigentree.estimators.mixins.constructor_parameters import estimator_class, learns
from eigentree.estimators.mixins.density_mixin import DensityMixin
from eigentree.estimators.mixins.spectral_mixin import SpectralMixin
from eigentree.graphs.coercion import as_structure
from eigentree.graphs.learned_templates import open_template
from eigentree.graphs.templates import Template
from eigentree.inference.networks.network import LatentNetwork
from eigentree.messages import renamed_arguments
from eigentree.planning.view_search import PlanOptions
from eigentree.spectral.learn.diagnostics import Clipping, SpectralReport
from eigentree.spectral.learn.moments import ExactTables
from eigentree.spectral.learn.operator_learning import learn
from eigentree.spectral.learn.shrinkage import choose
from eigentree.spectral.learn.spectral_fit import SpectralModel, exact_marginals
from eigentree.spectral.recover.recovery import Recovery, recovered
from eigentree.validation import finite_number, generator, one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from eigentree.counting.counts import MomentSource
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.graphs.graph import LatentGraph
    from eigentree.graphs.learned_templates import HiddenChowLiu
    from eigentree.inference.operators.tree_operators import TreeOperators
    from eigentree.planning.view_plan import ViewPlan
    from eigentree.validation import Seed

__all__ = ["SpectralJunctionTree"]


@estimator_class
class SpectralJunctionTree(SpectralMixin, DensityMixin):
    """A latent junction tree learned from counts, in one pass and without local optima (Algorithm 1 of the paper).

    Parameters
    ----------
    structure : LatentGraph, Template, "auto", or a graph of networkx, pgmpy or pyagrum
        The graph, a template such as ``zoo.HMM(order=2)``, or "auto": a tree of hidden variables
        (`zoo.HiddenChowLiu`) with as many states as held-out rows choose.
    views : int
        How many outside views of an edge are combined; 1 is equation 22 of the paper alone.
    scaling : {"variance", None}
        Whether counts are scaled so that their noise has equal variance.
    shrinkage : float or "auto"
        Shrinkage toward independent columns in units of the noise: 0 is none, infinity is independent columns (with
        variance scaling), and "auto" is chosen by held-out likelihood, from 0.4 on.
    max_rank : int, optional
        Largest rank of an edge.
    when_short : {"raise", "warn"}
        What to do where the views of an edge cannot reach its rank.
    floor : float or "auto"
        The share of its column's marginal distribution that every cell has at least given those before it; with 0,
        rows can be impossible.
    hats : int or "auto"
        Hat functions of each column of numbers: 5, 9, 17 or 33, or what held-out likelihood is best with.
    emissions : str or mapping
        Which columns are numbers ("semiparametric") and which "categorical"; "auto" goes by their cells.
    categories, handle_unknown, numeric
        As those of `EMJunctionTree`.

    Attributes
    ----------
    model_ : SpectralModel
        Columns, operators, and the fit they are from.
    statistics_ : Statistics
        The counts, after `fit`, `partial_fit` and `fit_statistics`.
    report_ : SpectralReport
        Per separator: rank, views, singular values, warnings.
    search_ : SizeSearch
        With the structure "auto": the numbers of hidden states that were tried, and their held-out scores.
    hats_ : int
        The number of hat functions that was used of columns of numbers; 0 where there are none.
    graph_, operators_, plan_, counts_, shrinkage_, floor_, n_features_in_
        Parts of these.

    Notes
    -----
    ``views=1, scaling=None, shrinkage=0`` is the published Algorithm 1, but for a normalising factor.

    Noise can leave a learned probability negative. Scores are log probabilities all the same, of one distribution
    that is normalised for every pattern of missing cells: the chain rule over columns, in which negative values are
    clipped and the rest is renormalised with the column's marginal distribution
    (`eigentree.inference.operators.normalised_scoring` has the formula); `report_.clipping` says how much. The
    renormalisation can differ a little between patterns of missing cells, so where something was clipped, the sum
    of `joint` over a column is not quite the `joint` of the others. `predict_proba` and `impute` cost one score for
    each state of each cell.

    Numbers are learned as in `SpectralHMM` (Song et al., 2010, with a finite basis in place of a kernel): hat
    functions of u = F(x), with a smooth estimate F of the column's cdf. What is learned of a number is a density
    f(x) g(F(x)) with its marginal density f and a piecewise linear g, exactly where the densities of all states are
    such. `score_samples` is a log density then, and `predict` the mean. F follows from the rows of the first `fit`;
    `partial_fit` keeps it. A stream is read once more for it.

    **floor="auto"** is chosen with the shrinkage; where that is given, it is 10 over the number of rows, at most
    0.001, and 0 with shrinkage 0.

    Examples
    --------
    >>> import eigentree as et
    >>> graph = et.zoo.hmm(length=6, order=1, hidden_states=2, observed_states=3)
    >>> truth = et.LatentNetwork.random(graph, seed=0)
    >>> model = et.SpectralJunctionTree(graph).fit(truth.sample(5_000, seed=1))
    >>> model.predict_proba(truth.sample(2, seed=2), target="x3").shape
    (2, 3)
    """

    structure: LatentGraph | Template | Any = "auto"
    views: int = 6
    scaling: Literal["variance"] | None = "variance"
    shrinkage: float | Literal["auto"] = "auto"
    max_rank: int | None = None
    when_short: Literal["raise", "warn"] = "raise"
    floor: float | Literal["auto"] = "auto"
    _: KW_ONLY
    hats: int | Literal["auto"] = "auto"
    emissions: str | Mapping[Any, Any] = "auto"
    categories: Categories | None = None
    handle_unknown: UnknownRule = "error"
    numeric: NumericRule = "emissions"

    model_: SpectralModel = field(init=False)
    statistics_: Statistics = field(init=False)
    report_: SpectralReport = field(init=False)
    search_: SizeSearch = field(init=False)

    @property
    def operators_(self) -> TreeOperators:
        """The learned operators."""
        return self.model_.operators

    @property
    def plan_(self) -> ViewPlan:
        """The views that were counted."""
        return self.model_.fit.plan

    @property
    def hats_(self) -> int:
        """The number of hat functions that was used of columns of numbers; 0 where there are none."""
        return max(self.model_.fit.hats, default=0)

    @property
    def counts_(self) -> Counts:
        """The counts that were learned from."""
        self._require_fit()
        if "statistics_" not in vars(self):
            raise AttributeError("this model was learned from population moments; there are no counts")
        return self.statistics_.counts

    @property
    def _model(self) -> SpectralModel:
        return self.model_

    @learns
    def fit(self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | str | None = None) -> Self:
        """Return the model learned from rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes, None, NaN, null or -1 for a missing cell, a row counting wherever the cells that are
            needed are present; or a stream, such as a path of CSV or Parquet files.
        y : None
            Ignored, for scikit-learn.
        sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
            How often each row counts; may be fractional.
        """
        self._check_parameters()
        if (template := open_template(self.structure)) is not None:
            return self._fit_sizes(template, X, sample_weight)
        graph, columns, rows = resolved(self.structure, X, ReadOptions.of(self, sample_weight))
        rows, weights = any_rows(rows, columns, sample_weight)
        plan, scales = self.plan(graph, columns), number_scales(rows, weights)
        return self._learn(plan, Statistics.empty(plan, columns, scales).update(rows, weights))

    def _fit_sizes(
        self, template: HiddenChowLiu, X: ArrayLike | Any, sample_weight: ArrayLike | str | None
    ) -> Self:
        """Return the model of a learned tree, its hidden states doubled while the held-out score rises."""
        if self.shrinkage != "auto":
            raise ParameterError(
                f"structure={quoted(self.structure)} has a size that held-out rows choose, and they choose the "
                f"shrinkage too; leave shrinkage 'auto', or give zoo.HiddenChowLiu(hidden_states=8)"
            )
        if isinstance(template.trees, int) and template.trees > 1:
            raise ParameterError(
                f"a spectral model has one tree, not the {template.trees} of {quoted(self.structure)}; leave trees "
                f"out, or take EMJunctionTree"
            )
        found, columns = any_rows_and_columns(X, ReadOptions.of(self, sample_weight))
        rows, weights = any_rows(found, columns, sample_weight)
        warn_of_few(weights)
        pairs = pairs_of_rows(rows, weights)
        scales = number_scales(rows, weights)
        trials: list[SizeTrial] = []
        best: dict[str, Any] = {}
        for states in template.numbers_of_states():
            began = time.process_time()
            try:
                plan = self.plan(template.tree(pairs, states), columns)
            except RankError:
                # More states than the columns can distinguish.
                if not trials:
                    raise
                break
            counted = Statistics.empty(plan, columns, scales).count_rows(rows, weights)
            fitted, score = self._fitted(plan, counted)
            parameters, spent = fitted["report_"].parameters, time.process_time() - began
            trials.append(SizeTrial(Size(states, 1), "spectral", 1, parameters, math.nan, score, spent))
            if best and not score > trials[-2].validation:
                break
            best = fitted
        chosen = max(trials, key=lambda trial: trial.validation)
        statistics: Statistics = best["statistics_"]
        held = float(statistics.sample.weights.sum())
        search = SizeSearch(tuple(trials), chosen.size, (1.0,), chosen.validation, statistics.rows, held)
        # Held-out rows chose these ranks: what they cannot support stands in the report, without a warning.
        return self._become(best | {"search_": search})

    @learns
    def partial_fit(
        self, X: ArrayLike | Any, y: object = None, sample_weight: ArrayLike | str | None = None
    ) -> Self:
        """Return the model learned from these rows and all that were given before, bit-identical to one `fit`.

        A structure that is learned, and its size, are those of the first rows.
        """
        if "statistics_" not in vars(self):
            return self.fit(X, y, sample_weight)
        self._check_parameters()
        kept = {"search_": self.search_} if "search_" in vars(self) else {}
        return self._learn(self.plan_, self.statistics_.update(*any_rows(X, self._columns, sample_weight)), **kept)

    @learns
    def fit_statistics(self, statistics: Statistics) -> Self:
        """Return the model learned from statistics, wherever their rows were counted.

        Parameters
        ----------
        statistics : Statistics
            Made by ``Statistics.of`` for the same structure, `views` and `max_rank`, or a sum of such.

        Raises
        ------
        DataError
            When they are of other columns, or columns that this model needs together were not counted together.
        """
        if not isinstance(statistics, Statistics):
            raise DataError(f"fit_statistics takes what Statistics.of makes, not {quoted(statistics)}")
        plan = self.plan(graph_over(self.structure, statistics.columns), statistics.columns)
        check_counts(plan, statistics.counts)
        return self._learn(plan, statistics)

    @learns
    def fit_moments(self, source: MomentSource) -> Self:
        """Return the model learned from joint tables.

        Parameters
        ----------
        source : LatentNetwork, Counts, or anything with ``joint(names) -> array``
            A network, whose population moments make the model exact, or counts of rows.

        Notes
        -----
        Moments of a network have no noise, so neither `shrinkage` nor `floor` is used. Counts have no rows to hold
        out, so shrinkage "auto" means 0.4.
        """
        if isinstance(self.structure, Template) or open_template(self.structure) is not None:
            raise ParameterError(
                "fit_moments needs a LatentGraph as structure; a template is built from columns of data"
            )
        plan = self.plan(as_structure(self.structure))
        if isinstance(source, Counts):
            check_counts(plan, source)
            return self._learn(plan, Statistics(source, RowSample.unknown(len(source.columns.names))))
        (fit,) = learn(plan, [ExactTables(source, plan.graph)], self.scaling)
        return self._become(
            {
                "model_": SpectralModel.of(fit, 0.0, 0.0, exact_marginals(source, plan.graph)),
                "columns_": source.columns if isinstance(source, LatentNetwork) else Columns.of(plan.graph),
                "report_": SpectralReport.of(fit, math.inf, 0.0, {}),
            }
        )

    @our_arithmetic
    def recover(self) -> Recovery:
        """Return the tables that are recovered from the fit: which hidden variables were resolved, and which not.

        Examples
        --------
        >>> import eigentree as et
        >>> truth = et.LatentNetwork.random(et.zoo.hmm(5, hidden_states=2, observed_states=3), seed=0)
        >>> recovery = et.SpectralJunctionTree(truth.graph).fit_moments(truth).recover()
        >>> sorted(recovery.resolved)
        ['h1', 'h2', 'h3']
        >>> recovery.unresolved
        mappingproxy({})
        """
        self._require_labels("recover")
        return recovered(self.model_.fit)

    def _require_labels(self, what: str) -> None:
        """Raise `DataError` where a column is one of numbers, of which no tables can be recovered."""
        self._require_fit()
        if numbers := self.columns_.numbers:
            raise DataError(
                f"{what} makes conditional probability tables, and {shown_columns(numbers)} of numbers have none; "
                f"EMJunctionTree(graph) learns densities, or read numbers as bins with numeric='quantiles'"
            )

    @our_arithmetic
    def to_network(
        self,
        X: ArrayLike | Any | None = None,
        steps: int = 20,
        *,
        sample_weight: ArrayLike | None = None,
        pseudo_counts: float = 0.1,
        random_state: Seed = 0,
    ) -> LatentNetwork:
        """Return a network with conditional probability tables: those recovered from the fit, refined by EM.

        Tables that cannot be recovered are first estimated on a part of the rows, the others fixed; then EM runs on
        all tables, on growing parts of the rows and at last on all of them.

        Parameters
        ----------
        X : array-like of shape (rows, columns), or a data frame, optional
            Codes, -1, NaN or null for a missing cell; without rows the tables are those that are recovered.
        steps : int
            Accelerated EM iterations on all rows.
        sample_weight : array-like of shape (rows,), optional
        pseudo_counts : float
            Added to every expected count, as `EMJunctionTree` does: no row of seen states gets probability zero.
        random_state : int, Generator or None
            For the start of unknown tables, and the parts of the rows.

        Raises
        ------
        RankError
            Without rows, where some table cannot be recovered. Names it and says why.
        DataError
            When a column is one of numbers.

        Examples
        --------
        >>> import eigentree as et
        >>> truth = et.LatentNetwork.random(et.zoo.hmm(8, hidden_states=2, observed_states=3), seed=0)
        >>> rows = truth.sample(1_000, seed=1)
        >>> network = et.SpectralJunctionTree(truth.graph).fit(rows).to_network(rows)
        >>> network.predict_proba(rows, target="h3").shape
        (1000, 2)
        """
        self._require_labels("to_network")
        recovery = self.recover()
        if X is None:
            return recovery.network.with_columns(self.columns_)
        whole_number("steps", steps)
        finite_number("pseudo_counts", pseudo_counts, 0.0)
        rows = self._rows(X)
        weights = positive_weights(sample_weight, rows.count)
        warn_of_few(weights)
        distinct = DistinctRows.of(rows.encode(), rows.columns.states, weights)
        network = finished(
            self.graph_, distinct, recovery.hints, steps, generator(random_state), float(pseudo_counts)
        )
        return network.with_columns(self.columns_)

    def _state_labels(self, target: str) -> Sequence[Hashable]:
        self.graph_.require(target)
        if target in self.graph_.hidden:
            self._refuse(f"{target!r} is hidden")
        return super()._state_labels(target)

    def posterior(self, X: ArrayLike | Any, names: Any = None) -> NoReturn:
        """Raise `GraphError`: only the network that `to_network` makes has hidden states."""
        self._refuse("posterior is about hidden variables")

    def decode(self, X: ArrayLike | Any) -> NoReturn:
        """Raise `GraphError`: only the network that `to_network` makes has hidden states."""
        self._refuse("decode is about hidden variables")

    @renamed_arguments(False, seed="random_state")
    def sample_hidden(self, X: ArrayLike | Any, random_state: Seed = None) -> NoReturn:
        """Raise `GraphError`: only the network that `to_network` makes has hidden states."""
        self._refuse("sample_hidden is about hidden variables")

    def _refuse(self, what: str) -> NoReturn:
        self._no_tables(what, "network = model.to_network(X)")

    def plan(self, graph: LatentGraph, columns: Columns | None = None) -> ViewPlan:
        """Return the plan that a fit on a graph follows.

        Parameters
        ----------
        graph : LatentGraph
        columns : Columns, optional
            Those of the rows, where some are numbers.

        Raises
        ------
        ParameterError
            When a parameter is out of range.
        DataError
            When the columns are not those of the graph.
        """
        self._check_parameters()
        numbers: tuple[str, ...] = ()
        if columns is not None:
            require_columns(columns, graph)
            families_on_graph(self.emissions, columns, graph)
            numbers = columns.numbers
        if numbers and self.scaling is None:
            raise ParameterError(
                f"numbers, such as {numbers[0]!r}, are learned with scaling='variance'; for Algorithm 1 as it was "
                f"published read them as bins, with numeric='quantiles'"
            )
        return hat_plan(graph, numbers, self.views, self.max_rank, self.when_short)

    def _check_parameters(self) -> None:
        PlanOptions.checked(self.views, self.max_rank, self.when_short)
        one_of("scaling", self.scaling, ("variance", None))
        self._check_learning("EMJunctionTree")

    def _learn(self, plan: ViewPlan, statistics: Statistics, **more: Any) -> Self:
        fitted, _ = self._fitted(plan, statistics)
        fitted["report_"].warn()
        return self._become(fitted | more)

    def _fitted(self, plan: ViewPlan, statistics: Statistics) -> tuple[dict[str, Any], float]:
        """Return the fitted attributes, and the mean log probability of held-out rows (-inf without any)."""
        if not statistics.rows > 0:
            raise DataError("there are no rows, or the weight of all rows is zero; there is nothing to learn from")
        shrinkage, floor, hats = self._given
        model, tried = choose(plan, statistics, self.scaling, shrinkage, floor, hats)
        sample, clipping = statistics.sample, Clipping(model.floor, 0.0, 0.0, 0)
        if len(sample.codes):
            scores = model.scored(sample.codes)
            clipping = Clipping.of(model.floor, scores, sample.weights, sample.codes.shape[1])
        report = SpectralReport.of(model.fit, statistics.rows, model.shrinkage, tried, statistics.counts, clipping)
        fitted = {
            "model_": model,
            "columns_": statistics.columns,
            "statistics_": statistics,
            "report_": report,
        }
        return fitted, tried.get((model.shrinkage, model.floor), -math.inf)
