"""`MixtureHMM`: clusters of sequences, each with a hidden Markov model of its own, fitted by EM."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.design import design_names
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.em.chain_fit import ChainLayout
from eigentree.em.durations.duration_objective import DurationLayout
from eigentree.em.number_chains import NumberChainLayout
from eigentree.errors import ParameterError, quoted
from eigentree.estimators.em_hmm import EMHMM
from eigentree.estimators.fits.given_tables import allowed_transitions
from eigentree.estimators.mixins.chain_tables import DIFFER
from eigentree.estimators.mixins.constructor_parameters import estimator_class
from eigentree.estimators.mixins.sequence_mixin import distributions_or_uniform
from eigentree.inference.sequences.duration_chain import DurationChain
from eigentree.validation import one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.inference.sequences.hmm_chain import Chain

__all__ = ["MixtureHMM"]


@dataclass(eq=False, repr=False)
class NumberOfClusters:
    """The parameter that stands before those of `EMHMM`: those of the last base class come first."""

    n_clusters: int = 2


@estimator_class
class MixtureHMM(EMHMM, NumberOfClusters):
    """A mixture hidden Markov model: clusters of sequences, each with a hidden Markov model of its own.

    It is one hidden Markov model whose transitions stay within the states of a cluster; `tables_`, `decode`,
    `filter` and the other queries of `HMM` are those of this one. States are numbered through all clusters, and
    `state_clusters_` has the cluster of each. `predict` and `predict_proba` are of clusters, `clusters_` has the
    model of each.

    Which cluster a sequence belongs to may depend on covariates, by a multinomial logit whose reference is the
    first cluster: the `inputs` of `fit` and of queries, one row for each sequence. Numbers are as they are, and
    categories are indicators of each label but the first.

    Parameters
    ----------
    n_clusters : int
    hidden_states : int or sequence of int
        The states of each cluster, or one number for each.
    n_init, tol, max_iter, init
        As those of `HMM`; a mapping has the tables of all states together, as `tables_`.
    order : int
        How many earlier states a state depends on.
    transitions : {"full", "left-to-right"}
        Which state of a cluster may follow which of it: any; the same or a later one.
    pseudo_counts, accelerate, sticky, stopping, validation_fraction, random_state, n_jobs, verbose
        As those of `HMM`.
    sequence, time, categories, handle_unknown, numeric, emissions, durations, max_duration
        As those of `HMM`; durations are of models without covariates.

    Attributes
    ----------
    state_clusters_ : array of int, shape (states,)
        The cluster of each state.
    cluster_weights_ : array, shape (n_clusters,)
        The share of each cluster, or with covariates ``at_inputs(...)`` has it; clusters of as many states are
        numbered by size, the largest first, unless `transitions` or `init` give them an order.
    clusters_ : list of HMM
        The hidden Markov model of each cluster.
    coefficients_ : LabeledTable
        With covariates: the logits of the clusters, whose standard errors `estimates` has and whose exponentials
        `odds_ratios`.
    tables_, emissions_, means_, covars_, n_parameters_, start_, history_, objectives_, n_iter_, converged_
        As those of `HMM`, of all states.
    columns_ : Columns
        The channels.

    Examples
    --------
    >>> calm, busy = ["AAAABAAAA", "AAABAAAAA", "BAAAAAAAB"], ["ABABABAB", "BABABBAB", "ABBABABA"]
    >>> model = MixtureHMM(n_clusters=2, hidden_states=1, random_state=0).fit([*calm, *busy] * 5)
    >>> model.predict(["AAAAAAA", "ABABABA"]).tolist()
    [0, 1]
    >>> [round(float(each.emissionprob_[0, 0]), 1) for each in model.clusters_]
    [0.8, 0.5]
    """

    _: KW_ONLY
    order: int = 1
    # Not for users to choose here.
    start: None = field(init=False, default=None)
    inputs_affect: str = field(init=False, default="start")

    state_clusters_: Integers = field(init=False)

    @property
    def _cluster_sizes(self) -> list[int]:
        """How many states each cluster has, as the parameters say."""
        count, given = whole_number("n_clusters", self.n_clusters), self.hidden_states
        if not isinstance(given, list | tuple):
            return [whole_number("hidden_states", given)] * count
        if len(given) != count:
            raise ParameterError(
                f"hidden_states are one number, or one for each of {count} clusters, not {quoted(given)}"
            )
        return [whole_number("hidden_states", size) for size in given]

    def _sizes(self) -> tuple[int, ...]:
        return (sum(self._cluster_sizes),)

    @property
    def _groups(self) -> Integers:
        return np.repeat(np.arange(self.n_clusters), self._cluster_sizes)

    def _allowed(self) -> tuple[Booleans, ...]:
        one_of("transitions", self.transitions, ("full", "left-to-right"))
        (whole,) = allowed_transitions(self.transitions, self._sizes())
        return (whole & (self._groups[:, None] == self._groups),)

    def _by_size(self, used: Floats, sizes: Sequence[int]) -> list[Integers]:
        """Return the order of states: by size within clusters, and clusters of as many states by size."""
        groups = self._groups
        totals = np.bincount(groups, used)
        counts = np.bincount(groups)
        clusters = np.arange(len(counts))
        for size in np.unique(counts):
            alike = clusters[counts == size]
            clusters[counts == size] = alike[np.argsort(-totals[alike], kind="stable")]
        own = [np.flatnonzero(groups == cluster) for cluster in clusters]
        return [np.concatenate([states[np.argsort(-used[states], kind="stable")] for states in own])]

    @property
    def _first_states(self) -> Integers:
        return np.flatnonzero(np.diff(self.state_clusters_, prepend=-1))

    @property
    def cluster_weights_(self) -> Floats:
        """The share of each cluster, shape (n_clusters,)."""
        self._require_fit()
        if self._inputs is not None:
            raise AttributeError(f"cluster_weights_ {DIFFER}")
        start = self.model_.links[0]
        return np.asarray(np.add.reduceat(start, self._first_states))

    @property
    def clusters_(self) -> list[EMHMM]:
        """The hidden Markov model of each cluster, fitted."""
        self._require_fit()
        model, found = self._inputs, []
        # Which inputs does not matter: the shares of clusters are left out.
        whole: Chain = self.model_ if model is None else model.at(np.eye(len(design_names(model.input_columns)))[0])
        known = {name: value for name, value in self.get_params(deep=False).items() if name != "n_clusters"}
        fitted = {name: value for name, value in self._fitted.items() if name != "state_clusters_"}
        for states in np.split(np.arange(whole.states), self._first_states[1:]):
            chain = whole.permuted([states])
            total = chain.links[0].sum()
            first = chain.links[0] / total if total > 0 else np.full(len(states), 1.0 / len(states))
            own: ChainLayout = ChainLayout(
                (len(states),),
                chain.order,
                chain.columns.states,
                allowed_transitions(self.transitions, (len(states),)),
            )
            if chain.numbers:
                own = NumberChainLayout.of(own, chain.numbers)
            if isinstance(chain, DurationChain):
                assert self.durations is not None
                own = DurationLayout.of_segments(own, self.durations, chain.durations.shape[1])
            made = EMHMM(**known | {"hidden_states": len(states)})
            plain = replace(chain, links=(first, *chain.links[1:]))
            vars(made).update(fitted | {"model_": plain, "n_parameters_": own.free_count})
            found.append(made)
        return found

    @property
    def tables_(self) -> dict[str, Any]:
        """The learned tables by name: "clusters", "start", "transitions" and "emissions", axes and states named.

        "clusters" are the shares of the clusters, "start" the joint distribution of as many first states as the
        order, of all clusters, "transitions" P(state | as many before it), "emissions" P(cell | state), a dict
        where there are several channels. With covariates, "clusters" is not here but at `at_inputs`, and "start"
        is P(first state | its cluster).
        """
        found = TablesByName(super().tables_)
        model = self._inputs
        if model is None:
            return TablesByName(clusters=LabeledTable(self.cluster_weights_, ["cluster"], [self._labels])) | found
        shares = model.tables.start.of_groups[1]
        return TablesByName(start=LabeledTable(shares, ["state"], [range(model.states)])) | found

    @property
    def coefficients_(self) -> LabeledTable:  # type: ignore[override]
        """The coefficients of the clusters: a line for each, of which the first is the reference."""
        model = self._inputs
        self._require_fit()
        if model is None:
            raise AttributeError(
                "coefficients_ are those of covariates, and the model was fitted without; give inputs="
            )
        found = model.tables.start.of_groups[0].T
        return LabeledTable(found, ["cluster", "covariate"], [self._labels, design_names(model.input_columns)])

    @property
    def _labels(self) -> range:
        return range(len(self._first_states))

    @our_arithmetic
    def predict_proba(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str = "cluster",
        inputs: Any = None,
    ) -> Any:
        """Return P(cluster | sequence) of each sequence, shape (sequences, n_clusters); or that of hidden states.

        Parameters
        ----------
        X, lengths, inputs
            As for `fit`; covariates of a model that was fitted with some.
        target : {"cluster", "state"}
            "state": P(hidden state | all steps of its sequence) of each step, in the form of `filter`; states are
            those of all clusters.
        """
        one_of("target", target, ("cluster", "state"))
        if target == "state":
            return super().predict_proba(X, lengths, "state", inputs)
        sequences = self._sequences(X, lengths, inputs)
        proba = self._cluster_proba(sequences)
        return LabeledTable.answer(proba, ("sequence", "cluster"), (range(len(proba)), self._labels))

    def predict(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Integers:
        """Return the most probable cluster of each sequence, shape (sequences,); `decode` has hidden states."""
        return np.asarray(np.asarray(self.predict_proba(X, lengths, inputs=inputs)).argmax(axis=1))

    def entropy(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> float:
        """Return how certain the clusters of sequences are: entropy R², 1 for certain ones, 0 for mere guesses."""
        return self.criteria(X, lengths, sample_weight, inputs).entropy_r2

    def _certainty(self, sequences: Sequences, weights: Floats) -> list[tuple[Floats, Floats]]:
        return [(self._cluster_proba(sequences), weights)]

    def _cluster_proba(self, sequences: Sequences) -> Floats:
        """Return P(cluster | sequence); without steps the shares of the clusters, with covariates even ones."""
        firsts, chosen = self._first_states, sequences.lengths > 0
        proba = np.zeros((sequences.count, len(firsts)))
        if self._inputs is None:
            proba[:] = self.cluster_weights_
        # A sequence is in one cluster at all of its steps.
        states = self.model_.smoothed(sequences)[sequences.starts[:-1][chosen]]
        proba[chosen] = np.add.reduceat(states, firsts, axis=1)
        return distributions_or_uniform(proba, "their clusters are taken as equally probable")
