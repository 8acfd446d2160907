"""Queries of hidden Markov models: those of hidden states, tables, and coefficients of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from eigentree.data.sequences.inputs import design_of
from eigentree.data.sequences.sequence_codes import Sequences, per_step
from eigentree.data.tables.design import design_names
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.data.tables.weights import positive_weights
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.chain_tables import DIFFER, ChainTablesMixin, one_or_all
from eigentree.estimators.mixins.constructor_parameters import cloned
from eigentree.estimators.mixins.information_criteria import Criteria
from eigentree.estimators.mixins.sequence_mixin import IMPOSSIBLE, SequenceMixin, distributions_or_uniform
from eigentree.estimators.mixins.uncertainty_mixin import EstimateOptions, UncertaintyMixin
from eigentree.inference.networks.hidden_variables import Decoded
from eigentree.inference.queries import warn_undefined
from eigentree.inference.sequences.input_chain import InputChain
from eigentree.validation import one_of, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.inference.sequences.hmm_chain import Chain
    from eigentree.uncertainty.estimates import Estimates

__all__ = ["HiddenSequenceMixin"]


class HiddenSequenceMixin(UncertaintyMixin, ChainTablesMixin, SequenceMixin):
    """Queries of a hidden Markov model whose conditional probability tables are known, and may depend on inputs.

    `inputs` are one row for each step, or one for each sequence, in any form that `fit` takes; queries take them
    where the model was fitted with some.
    """

    model_: Chain
    pseudo_counts: float
    sticky: float

    @our_arithmetic
    def filter(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Any:
        """Return P(hidden state | the steps of its sequence so far) of each step.

        A list of arrays of shape (steps, states) for words and lists; for sequences that came in one array or
        frame, one array: a row for each of its rows, or for sequences in rows, axes (sequences, steps, states).
        Of a factorial HMM, a dict of these: "chain 0", "chain 1", ….
        """
        sequences = self._sequences(X, lengths, inputs)
        return self._of_chains(sequences, self.model_.of_each(self._of_steps(self.model_.filtered(sequences)[0])))

    @our_arithmetic
    def predict_proba(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str = "state",
        inputs: Any = None,
    ) -> Any:
        """Return P(hidden state | all steps of its sequence) of each step, in the form of `filter`.

        Parameters
        ----------
        X, lengths, inputs
            As for `fit`; inputs of a model that was fitted with some.
        target : {"state"}
        """
        one_of("target", target, ("state",))
        sequences = self._sequences(X, lengths, inputs)
        return self._of_chains(sequences, self.model_.of_each(self._of_steps(self.model_.smoothed(sequences))))

    @our_arithmetic
    def decode(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Decoded:
        """Return the jointly most probable hidden states of each sequence (Viterbi), and their log probability.

        States come in the form in which the sequences came; of a factorial HMM, a dict of these by chain.
        """
        sequences = self._sequences(X, lengths, inputs)
        states, log_prob = self.model_.decoded(sequences)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"{IMPOSSIBLE}; their hidden states are -1")
        return Decoded(self._of_chains(sequences, self.model_.states_of_each(states)), log_prob)

    def predict(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Any:
        """Return the most probable hidden states of each sequence, jointly over its steps: those of `decode`."""
        return self.decode(X, lengths, inputs).states

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        state = self.model_.states_ahead(sequences, steps)
        known = distributions_or_uniform(state, "their next state is taken as uniform")
        return self.model_.numbers_ahead(sequences, known, steps, quantiles)

    def bic(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> float:
        """Return the Bayesian information criterion: the lower, the better.

        It is -2 · log-likelihood + `n_parameters_` · log(number of steps), as other programs for hidden Markov
        models have it; weighted steps are as many as their weights add up to. It compares fits of maximum
        likelihood: a fit with pseudo-counts is warned of.
        """
        return self._criteria(self._sequences(X, lengths, inputs), sample_weight).bic

    def aic(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> float:
        """Return Akaike's information criterion, -2 · log-likelihood + 2 · `n_parameters_`."""
        return self._criteria(self._sequences(X, lengths, inputs), sample_weight).aic

    @our_arithmetic
    def criteria(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> Criteria:
        """Return all information criteria by name, with log-likelihood, parameters and entropy R² of the steps.

        `Criteria` says what each is. They compare fits of maximum likelihood, as `bic` does. The entropy R² of a
        mixture is that of its clusters.
        """
        sequences = self._sequences(X, lengths, inputs)
        weights = positive_weights(sample_weight, sequences.count)
        return self._criteria(sequences, sample_weight, self._certainty(sequences, weights))

    def _certainty(self, sequences: Sequences, weights: Floats) -> list[tuple[Floats, Floats]]:
        """Return the posteriors of what is hidden, and how often each of them counts."""
        found = self.model_.of_each(self._of_steps(self.model_.smoothed(sequences)))
        return [(posterior, np.repeat(weights, sequences.lengths)) for posterior in found]

    def to_network(self, length: int) -> LatentNetwork:
        """Return the `LatentNetwork` of sequences of one length, with the same tables at every step.

        Hidden states are h0, h1, …; a channel c of step t is called ``c_t``, or xt where it has no name. Those of a
        factorial HMM are h0_t, h1_t, …, as those of `zoo.factorial_hmm`. Numbers are leaves with an emission.
        """
        if self._inputs is not None:
            raise DataError(f"tables {DIFFER}")
        return self.model_.network(whole_number("length", length))

    @property
    def _inputs(self) -> InputChain | None:
        """The model, if its tables depend on inputs."""
        model: Any = self.model_
        return model if isinstance(model, InputChain) else None

    def at_inputs(self, inputs: Any) -> Self:
        """Return the hidden Markov model of sequences whose inputs are always the same: one without inputs.

        All that a model without inputs has is had of it, such as ``tables_``, diagrams and profiles.

        Parameters
        ----------
        inputs : mapping, or sequence of cells
            The cell of each column of inputs, by name or in their order; of a single column its cell.
        """
        model = self._inputs
        self._require_fit()
        if model is None:
            raise DataError("the model was fitted without inputs; its tables_ are the same at all steps")
        columns = model.input_columns
        if not isinstance(inputs, Mapping):
            is_row = isinstance(inputs, list | tuple) or (isinstance(inputs, np.ndarray) and inputs.ndim == 1)
            cells = list(inputs) if is_row else [inputs]
            if len(cells) != len(columns.names):
                raise DataError(f"inputs are cells of {', '.join(columns.names)}, not {quoted(inputs)}")
            inputs = dict(zip(columns.names, cells, strict=True))
        if absent := [name for name in columns.names if name not in inputs]:
            raise DataError(f"inputs have no {absent[0]!r}; give a cell of each of {', '.join(columns.names)}")
        codes, values = columns.given_codes(inputs), columns.given_values(inputs)
        row = np.array([[codes[name] for name in columns.names]])
        numbers = np.array([[values[columns.names[place]] for place in columns.number_places]])
        chain = model.at(design_of(columns, row, numbers, model.symbols)[0])
        plain: Self = cloned(self)
        vars(plain).update(self._fitted | {"model_": chain})
        return plain

    @property
    def _fitted(self) -> dict[str, Any]:
        """All fitted attributes, by name."""
        return {name: value for name, value in vars(self).items() if name[-1] == "_" and name[0] != "_"}

    @property
    def coefficients_(self) -> TablesByName:
        """The coefficients of the multinomial logits by name: "start", "transitions", and channels.

        Those of "start" have the axes covariate and state, those of "transitions" the state before, covariate and
        state, those of a channel the state, covariate and label. The first class that is possible is the reference,
        whose coefficients are zero. Of symbols, which have tables of their own, the first is the intercept.
        """
        model = self._inputs
        self._require_fit()
        if model is None:
            raise AttributeError(
                "coefficients_ are those of inputs, and the model was fitted without; give inputs="
            )
        names = design_names(model.input_columns)
        found = TablesByName()
        for what, table in model.tables.named(self._columns.names):
            if table.kind == "fixed":
                continue
            array = table.coefficients.transpose(1, 0, 2)
            labels = range(array.shape[2])
            if what == "start":
                found[what] = LabeledTable(array[0], ["covariate", "state"], [names, labels])
            elif what == "transitions":
                states = [range(model.states), names, labels]
                found[what] = LabeledTable(array, ["state before", "covariate", "state"], states)
            else:
                states = [range(model.states), names, self._columns.labels(what)]
                found[what] = LabeledTable(array, ["state", "covariate", what], states)
        return found

    def odds_ratios(self, X: ArrayLike | Any = None, **options: Unpack[EstimateOptions]) -> Estimates:
        """Return the odds ratios of inputs: by how much odds of a state rise with one unit of each, with intervals.

        They are the exponentials of the coefficients in `estimates`, relative to the first state that is possible.

        Parameters
        ----------
        X : the training data, optional
        **options
            As those of `estimates`.
        """
        from eigentree.uncertainty.quantities import ratios_of

        self._require_fit()
        return self.estimates(X, **options | {"statistic": ratios_of})

    def _criteria(
        self,
        sequences: Sequences,
        sample_weight: ArrayLike | None,
        posteriors: Iterable[tuple[Floats, Floats]] = (),
    ) -> Criteria:
        log_prob = self.score_samples(sequences)
        weights = positive_weights(sample_weight, len(log_prob))
        steps = float(weights @ sequences.lengths)
        if not steps > 0:
            raise DataError("no sequence that counts has a step; there is nothing to judge the model by")
        prior = max(float(self.pseudo_counts), float(self.sticky))
        return Criteria.of_rows(log_prob, weights, self.n_parameters_, steps, prior, posteriors)

    def _of_chains(self, sequences: Sequences, each: Sequence[NDArray[Any]]) -> Any:
        """Return what was found for each step and chain, in the form of the sequences."""
        found = {name: per_step(sequences, values) for name, values in zip(self._chain_names, each, strict=True)}
        return one_or_all(found)

    def _of_steps(self, proba: Floats) -> Floats:
        return distributions_or_uniform(
            proba, "the hidden states of their steps are taken as uniform", f"steps of {IMPOSSIBLE}"
        )
