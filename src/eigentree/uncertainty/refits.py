"""A fitted model with its data, and fits of the same model to other weights, or to data sampled from it.

A replicate starts from what was fitted, so that it takes a few iterations and hidden states keep their meaning;
what is left of label switching is undone by matching states to those of the original fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree.data.sequences.forests import Forest
from eigentree.data.sequences.inputs import InputSequences, split_frame
from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, EigentreeError, ParameterError, quoted
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.inference.sequences.input_chain import InputChain
from eigentree.inference.sequences.tree_chain import TreeChain
from eigentree.messages import kept_notices
from eigentree.progress import shown_progress
from eigentree.validation import MOST_THREADS, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats, Integers

__all__ = ["MOST_REPLICATES", "Failed", "FittedModel", "followed", "log_likelihood", "replicated"]

T = TypeVar("T")
Task = TypeVar("Task")

MOST_REPLICATES = 1_000_000
"""Far more than any quantile needs."""

BATCH = 8
"""So many pieces of work for each process between two looks at their results."""


@dataclass(frozen=True)
class Failed:
    """Why a replicate has no result."""

    reason: str


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted estimator whose tables are known, with the rows or sequences that it was fitted to.

    Attributes
    ----------
    model : EMJunctionTree, LatentClassModel or EMHMM
    data : Rows or Sequences
        With the columns of the model, which all replicates keep.
    weights : array, shape (rows,) or (sequences,)
    """

    model: Any
    data: Rows | Sequences
    weights: Floats

    @classmethod
    def of(
        cls,
        model: Any,
        X: ArrayLike | Any,
        lengths: ArrayLike | None,
        sample_weight: ArrayLike | None,
        inputs: Any = None,
    ) -> FittedModel:
        """Return a fitted estimator with its data, once it is one that can be fitted again from where it is."""
        fitted = getattr(model, "network_", None) or getattr(model, "model_", None)
        if not isinstance(fitted, LatentNetwork | Chain | InputChain) or not hasattr(model, "emissions"):
            raise ParameterError(
                f"the model is a fitted LatentClassModel, EMJunctionTree or EMHMM, not {quoted(model)}"
            )
        _, trained = vars(model).get("_training_", (None, {}))
        if trained.get("states") is not None:
            raise DataError("fits with known states (states=) have no standard errors, replicates or tests")
        if is_stream(X):
            raise DataError(f"replicates need rows in memory, and these come in batches ({quoted(X)})")
        columns = model.columns_.reading(model.handle_unknown)
        data: Rows | Sequences
        if isinstance(fitted, TreeChain):
            data = X if isinstance(X, Forest) else Forest.grown(X, None, columns)
        elif isinstance(fitted, Chain | InputChain):
            if isinstance(fitted, InputChain):
                about = fitted.input_columns
                X, inputs = split_frame(X, inputs, about.names if about.named else ())
                if inputs is None:
                    raise DataError(
                        "the model was fitted with inputs, so give them: bootstrap and estimates take inputs=, and "
                        "what has no such argument is of models without"
                    )
            is_long = model.sequence is not None and hasattr(X, "columns") and not isinstance(X, Sequences)
            named = (model.sequence, model.time) if is_long else (None, None)
            data = Sequences.of(X, columns, lengths, *named)
            if isinstance(fitted, InputChain):
                data = InputSequences.joined(data, inputs, fitted.input_columns, symbols=fitted.symbols)
        else:
            if lengths is not None:
                raise DataError("lengths are those of sequences, and the model is one of rows; leave them out")
            data = Rows.of(X, columns)
        return cls(model, data, np.array(positive_weights(sample_weight, data.count), np.float64))

    @property
    def network(self) -> LatentNetwork | None:
        """The tables of a model of rows."""
        found: LatentNetwork | None = getattr(self.model, "network_", None)
        return found

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that class membership depends on, which are no items."""
        return tuple(getattr(self.model, "covariates", None) or ())

    @property
    def has_covariates(self) -> Booleans:
        """Which rows have all covariates; fits leave the others out."""
        known = np.ones(self.data.count, np.bool_)
        if isinstance(self.data, Rows):
            for name in self.covariates:
                known &= ~self.data.missing(self.data.columns.position(name))
        return known

    @property
    def is_average(self) -> bool:
        """Whether the model averages several fits, whose hidden states are no classes."""
        return "search_" in vars(self.model)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The arguments of an estimator that learns the same from other data, which choose nothing anew.

        A model that is an average is searched for again.
        """
        if isinstance(self.data, Forest):
            raise ParameterError("trees are not fitted again or sampled; estimates() has their standard errors")
        found: dict[str, Any] = self.model.get_params(deep=False)
        found |= {"n_jobs": 1, "verbose": 0}
        if self.is_average:
            return found
        if "pseudo_counts_" in vars(self.model):
            found["pseudo_counts"] = self.model.pseudo_counts_
        if "structure" in found:
            found["structure"] = self.model.graph_
        found["emissions"] = self._families() or "auto"
        if found.get("durations") is not None:
            found["max_duration"] = self.model.model_.durations.shape[1]
        return found

    def _families(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return the family and the settings of each emission, by its columns."""
        given, families = self.model.emissions, {}
        for key, emission in self.model.emissions_.items():
            group = (key,) if isinstance(key, str) else key
            if group == self.covariates:
                continue
            own = given.get(group, given.get(group[0])) if isinstance(given, Mapping) else None
            settings = dict(own) if isinstance(own, Mapping) else {}
            families[group] = {**settings, "family": emission.family, **emission.sizes}
        return families

    @cached_property
    def start(self) -> Any:
        """What `init` of a fit is that starts from this one."""
        if self.network is not None:
            return self.network
        if isinstance(self.model.model_, InputChain):
            return self.model.model_.tables
        tables = self.model.tables_
        groups = self.model.emissions_
        shown = tables.get("emissions", {})
        if groups:
            names = self.model.columns_.names
            coded = [name for name in names if not any(name in group for group in groups)]
            shown = {**(shown if isinstance(shown, dict) else dict.fromkeys(coded, shown)), **groups}
        kept = {name: tables[name] for name in ("start", "transitions", "durations") if name in tables}
        return kept | {"emissions": shown}

    def refit(self, data: Rows | Sequences, weights: Floats, random: np.random.Generator) -> Any:
        """Return the estimator after a fit to other data of the same columns, from where this one is.

        Where that start is impossible, such as where tables have zeros that these data contradict, the fit starts
        as the estimator itself does. `matched` numbers its hidden states as those of this fit.
        """
        if self.is_average:
            return self.fresh(data, weights, random)
        made = type(self.model)(**(self.settings | {"init": self.start, "random_state": random}))
        try:
            return made.fit(data, sample_weight=weights, **self._about)
        except EigentreeError:
            return self.fresh(data, weights, random)

    def fresh(self, data: Rows | Sequences, weights: Floats, random: np.random.Generator) -> Any:
        """Return the estimator after a fit to other data that starts as the estimator itself does."""
        made = type(self.model)(**(self.settings | {"random_state": random}))
        return made.fit(data, sample_weight=weights, **self._about)

    @property
    def _about(self) -> dict[str, Any]:
        """What `fit` takes beside data: the columns of inputs, which the data have then."""
        fitted = getattr(self.model, "model_", None)
        return {"inputs": fitted.input_columns} if isinstance(fitted, InputChain) else {}

    def matched(self, refit: Any) -> Any:
        """Return a refit whose hidden states are numbered as those of this fit.

        Each hidden variable by itself is matched by how often two of its states, one of each fit, are expected
        together in the original data (Hungarian assignment). Those of an average of several fits are left alone.
        """
        if self.is_average:
            return refit
        fresh = self._posteriors_of(refit)
        clusters = getattr(self.model, "state_clusters_", None)
        orders = [
            _matching(self.posteriors[name], own, self._unit_weights, clusters) for name, own in fresh.items()
        ]
        if self.network is None:
            refit.model_ = refit.model_.permuted(orders)
        elif orders:
            refit.network_ = refit.network_.relabelled(dict(zip(fresh, orders, strict=True)))
        return refit

    @cached_property
    def posteriors(self) -> dict[Any, Floats]:
        """The posterior of each hidden variable in each row, or of each chain at each step."""
        return self._posteriors_of(self.model)

    def _posteriors_of(self, model: Any) -> dict[Any, Floats]:
        if isinstance(self.data, Sequences):
            chain: Chain = model.model_
            return dict(enumerate(chain.of_each(chain.smoothed(self.data))))
        network: LatentNetwork = model.network_
        found: Any = network.posterior(self.data) if network.graph.hidden else {}
        return {name: np.asarray(table) for name, table in found.items()}

    @cached_property
    def _unit_weights(self) -> Floats:
        """How often each row or step counts."""
        return np.repeat(self.weights, self.data.lengths) if isinstance(self.data, Sequences) else self.weights

    @cached_property
    def repeated(self) -> Rows | Sequences:
        """The rows or sequences, each as often as it counts; of fractions as many as they add up to, rounded."""
        if (self.weights == 1.0).all():
            return self.data
        ends = np.rint(np.concatenate([[0.0], np.cumsum(self.weights)])).astype(np.int64)
        numbers = np.repeat(np.arange(len(self.weights)), np.diff(ends))
        return self.data.chosen(numbers) if isinstance(self.data, Sequences) else self.data.taken(numbers)

    def sampled(self, random: np.random.Generator) -> tuple[Rows | Sequences, Floats]:
        """Return data sampled from the model, with weights of 1: as many as there are, the same cells missing.

        Covariates are not sampled but kept, and items are sampled given these.
        """
        pattern = self.repeated
        if isinstance(pattern, Sequences):
            return _sampled_sequences(self.model.model_, pattern, random), np.ones(pattern.count)
        assert self.network is not None
        columns = pattern.columns
        absent = np.array([np.nan if p in columns.number_places else s for p, s in enumerate(columns.states)])
        missing = np.stack([pattern.missing(place) for place in range(len(columns.states))], axis=1)
        if not self.covariates:
            cells = np.array(self.network.model.draw(pattern.count, random)[0])
            return Rows.of_codes(np.where(missing, absent, cells), columns), np.ones(pattern.count)
        given = [columns.position(name) for name in self.covariates]
        cells = np.tile(absent, (pattern.count, 1))
        cells[:, given] = np.stack([pattern.cells[place] for place in given], axis=1)
        # Rows without all covariates are left out of fits.
        known = ~missing[:, given].any(axis=1)
        cells[known] = self.network.model.impute(Rows.of_codes(cells[known], columns), "sample", random)[0]
        return Rows.of_codes(np.where(missing, absent, cells), columns), np.ones(pattern.count)


def log_likelihood(model: Any, data: Rows | Sequences, weights: Floats) -> float:
    """Return the log-likelihood of data under a fitted estimator; data that do not count may be impossible."""
    counted = weights > 0
    return float(weights[counted] @ model.score_samples(data)[counted])


def _sampled_sequences(chain: Any, pattern: Sequences, random: np.random.Generator) -> Sequences:
    """Return sequences sampled from a chain, of the same lengths and with the same cells missing."""
    columns, missing = pattern.columns, pattern.missing
    cells = chain.drawn(pattern if isinstance(chain, InputChain) else pattern.starts, random)
    numbers = list(columns.number_places)
    values = np.where(missing[:, numbers], np.nan, cells[:, numbers].astype(np.float64))
    codes = cells.copy()
    codes[:, numbers] = 0
    codes = np.where(missing, np.array(columns.states), codes)
    return replace(pattern, codes=np.asfortranarray(codes, columns.code_type), values=values)


def _matching(own: Floats, other: Floats, weights: Floats, clusters: Integers | None = None) -> Integers:
    """Return, for each state of one fit, the state of another one that it is met with most.

    Those of a cluster are matched with those of one that has as many.
    """
    from scipy.optimize import linear_sum_assignment

    together = (own * weights[:, None]).T @ other
    if clusters is None:
        return np.asarray(linear_sum_assignment(together, maximize=True)[1])
    groups = np.split(np.arange(len(together)), np.flatnonzero(np.diff(clusters)) + 1)
    orders = [[_matching(own[:, one], other[:, two], weights) for two in groups] for one in groups]
    # Clusters of other sizes are no match: nothing is met with them.
    met = [
        [
            together[one, two[order]].sum() if len(one) == len(two) else -1.0
            for two, order in zip(groups, row, strict=True)
        ]
        for one, row in zip(groups, orders, strict=True)
    ]
    matched = linear_sum_assignment(np.array(met), maximize=True)[1]
    return np.concatenate([groups[two][orders[one][two]] for one, two in enumerate(matched)])


def followed(
    run: Callable[[Task], Any],
    tasks: Sequence[Task],
    n_jobs: int,
    verbose: int,
    counted: Callable[[list[Any]], int] | None = None,
    most: int | None = None,
) -> tuple[list[Any], list[str]]:
    """Return what replicates give, and why some have failed, shown as they come with the number of failures.

    With `counted`, what this counts of them is shown instead, and they end when it is `most`.
    """
    found: list[Any] = []
    failed: list[str] = []
    with shown_progress(verbose, "replicates", len(tasks)) as report:
        for each in replicated(run, tasks, whole_number("n_jobs", n_jobs, most=MOST_THREADS)):
            if isinstance(each, Failed):
                failed.append(each.reason)
            elif found and np.shape(each) != np.shape(found[0]):
                raise ParameterError(
                    f"the statistic gives {len(found[0])} numbers for one replicate and {len(each)} for another; "
                    f"return as many of each"
                )
            else:
                found.append(each)
            shown = counted(found) if counted else len(failed)
            report(len(found) + len(failed), float(shown))
            if counted and shown == most:
                break
    return found, failed


def replicated(run: Callable[[Task], T], tasks: Sequence[Task], n_jobs: int) -> Iterator[T | Failed]:
    """Yield what each replicate gives, in the order of the tasks, while several processes work.

    What a fit warns of is not repeated for every replicate.
    """
    if n_jobs == 1 or len(tasks) == 1:
        for task in tasks:
            yield _attempted(run, task)
        return
    from joblib import Parallel, delayed

    with Parallel(n_jobs) as pool:
        for start in range(0, len(tasks), BATCH * n_jobs):
            yield from pool(delayed(_attempted)(run, task) for task in tasks[start : start + BATCH * n_jobs])


def _attempted(run: Callable[[Task], T], task: Task) -> T | Failed:
    """Return what a replicate gives, or why it gives nothing."""
    try:
        with kept_notices() as notices:
            found = run(task)
    except EigentreeError as error:
        return Failed(str(error))
    # A fit that is interrupted keeps what it has; replicates of one do not go on.
    if any(message.startswith("the fit was interrupted") for message, _ in notices):
        raise KeyboardInterrupt
    return found
