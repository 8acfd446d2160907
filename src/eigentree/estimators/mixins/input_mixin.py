"""Queries of a hidden Markov model whose tables may depend on inputs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, design_names, design_of, lengths_of, split_frame
from eigentree.data.sequences.sequence_codes import Sequences, sampled_sequences
from eigentree.data.sequences.steps import SequenceForm
from eigentree.data.tables.labeled_table import LabeledTable, TablesByName
from eigentree.errors import DataError, quoted
from eigentree.estimators.mixins.constructor_parameters import cloned
from eigentree.estimators.mixins.sequence_mixin import HiddenSequenceMixin
from eigentree.inference.sequences.input_chain import InputChain
from eigentree.messages import renamed_arguments
from eigentree.validation import check_cells, generator, our_arithmetic, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats
    from eigentree.estimators.mixins.information_criteria import Criteria
    from eigentree.inference.networks.hidden_variables import Decoded
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.validation import FillMethod, Seed

__all__ = ["InputMixin"]


class InputMixin(HiddenSequenceMixin):
    """Queries of a hidden Markov model that take inputs, where it was fitted with some.

    `inputs` are one row for each step, or one for each sequence, in any form that `fit` takes.
    """

    @property
    def _inputs(self) -> InputChain | None:
        """The model, if its tables depend on inputs."""
        model: Any = self.model_
        return model if isinstance(model, InputChain) else None

    def _sequences(
        self, X: ArrayLike | Any, lengths: ArrayLike | None, inputs: Any = None, ahead: int = 0
    ) -> Sequences:
        self._require_fit()
        model = self._inputs
        if isinstance(X, Sequences):
            return X
        if model is None:
            if inputs is not None:
                raise DataError("the model was fitted without inputs, so it takes none; give them to fit as well")
            return super()._sequences(X, lengths)
        columns = model.input_columns
        X, inputs = split_frame(X, inputs, columns.names if columns.named else ())
        if inputs is None:
            raise DataError(
                f"the model was fitted with inputs ({', '.join(map(repr, columns.names))}), so it needs them: give "
                f"inputs=, one row for each step or for each sequence"
            )
        return InputSequences.joined(super()._sequences(X, lengths), inputs, columns, ahead)

    def score_samples(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        per_symbol: bool = False,
        inputs: Any = None,
    ) -> Floats:
        """Return the log probability of each sequence given its inputs, missing cells marginalised out.

        Where channels are numbers it is a log density.

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences in any form that `fit` takes.
        lengths : array-like of int, shape (sequences,), optional
            How many steps of an array belong to each sequence.
        per_symbol : bool
            Divide by the number of steps; NaN for an empty sequence.
        inputs : as for `fit`
        """
        return super().score_samples(self._sequences(X, lengths, inputs), per_symbol=per_symbol)

    def score(
        self, X: ArrayLike | Any, y: object = None, lengths: ArrayLike | None = None, inputs: Any = None
    ) -> float:
        """Return the mean log probability of the sequences; `y` is ignored."""
        sequences = self._sequences(X, lengths, inputs)
        self._ignore(y, lengths, sequences)
        return float(self.score_samples(sequences).mean())

    def filter(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Any:
        """Return P(hidden state | the steps of its sequence so far) of each step.

        A list of arrays of shape (steps, states) for words and lists; for sequences that came in one array or
        frame, one array: a row for each of its rows, or for sequences in rows, axes (sequences, steps, states).
        Of a factorial HMM, a dict of these: "chain 0", "chain 1", ….
        """
        return super().filter(self._sequences(X, lengths, inputs))

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
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
        lengths : array-like of int, shape (sequences,), optional
        target : {"state"}
        inputs : as for `fit`
        """
        return super().predict_proba(self._sequences(X, lengths, inputs), target=target)

    def decode(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Decoded:
        """Return the jointly most probable hidden states of each sequence (Viterbi), and their log probability.

        States come in the form in which the sequences came; of a factorial HMM, a dict of these by chain.
        """
        return super().decode(self._sequences(X, lengths, inputs))

    def predict(self, X: ArrayLike | Any, lengths: ArrayLike | None = None, inputs: Any = None) -> Any:
        """Return the most probable hidden states of each sequence, jointly over its steps: those of `decode`."""
        return self.decode(X, lengths, inputs).states

    def predict_next_proba(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        target: str | None = None,
        steps: int = 1,
        inputs: Any = None,
    ) -> LabeledTable:
        """Return P(the next cell | sequence) of each sequence, shape (sequences, states).

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences so far; one may be empty.
        lengths : array-like of int, shape (sequences,), optional
        target : str, optional
            The channel; needed where there are several.
        steps : int
            How many steps ahead; cells between are marginalised out.
        inputs : as for `fit`
            Those of so many further steps of each sequence included.
        """
        sequences = self._sequences(X, lengths, inputs, whole_number("steps", steps))
        return super().predict_next_proba(sequences, None, target, steps)

    def predict_next(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        steps: int = 1,
        quantiles: Sequence[float] | None = None,
        inputs: Any = None,
    ) -> LabeledTable:
        """Return the mean of each number that comes next, shape (sequences, number channels), or quantiles of it.

        Parameters
        ----------
        X : lists or arrays, an array, a frame, or a mapping of channels to frames
            Sequences so far; one may be empty.
        lengths : array-like of int, shape (sequences,), optional
        steps : int
            How many steps ahead; what is between is integrated out.
        quantiles : sequence of float, optional
            Shares between 0 and 1; the result has the shape (sequences, number channels, quantiles) then.
        inputs : as for `fit`
            Those of so many further steps of each sequence included.
        """
        sequences = self._sequences(X, lengths, inputs, whole_number("steps", steps))
        return super().predict_next(sequences, None, steps, quantiles)

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def impute(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        method: FillMethod = "mode",
        random_state: Seed = None,
        inputs: Any = None,
    ) -> Any:
        """Return the sequences with their missing cells imputed, in the form in which they came.

        Missing cells at the end of a row of a wide frame are beyond the sequence, and stay missing.

        Parameters
        ----------
        X : words, lists or arrays, an array, a frame, or a mapping of channels to frames
        lengths : array-like of int, shape (sequences,), optional
        method : {"mode", "mean", "median", "sample"}
            "mode", also called "mean", takes the most probable state of each missing cell given the known cells of
            its sequence, and of a number its mean; "median" is the same but for numbers, which get their median;
            "sample" samples all missing cells of a sequence jointly.
        random_state : int, Generator or None
            For "sample".
        inputs : as for `fit`
        """
        sequences = self._sequences(X, lengths, inputs)
        if self._inputs is not None:
            columns = self._inputs.input_columns
            X, _ = split_frame(X, inputs, columns.names if columns.named else ())
        return self._imputed(X, lengths, sequences, method, random_state)

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def sample(self, n: int = 1, length: int = 10, random_state: Seed = None, inputs: Any = None) -> Any:
        """Return sequences sampled from the model, in the form of the training sequences.

        Parameters
        ----------
        n : int
            How many.
        length : int
            How many steps each has.
        random_state : int, Generator or None
        inputs : as for `fit`
            A list of arrays, one for each sequence, says how many sequences there are and how long they are. Else
            there is one row for each step of all sequences, or one row for each sequence.
        """
        model = self._inputs if self.__sklearn_is_fitted__() else None
        if model is None or inputs is None:
            if inputs is not None or model is not None:
                self._sequences([], None, inputs)
            return super().sample(n, length, random_state)
        count, steps = whole_number("n", n, 0, DataError), whole_number("length", length, 1, DataError)
        columns = self._columns
        kind: Literal["words", "lists"] = "words" if self.form_.kind == "words" else "lists"
        own_lengths = lengths_of(inputs, kind == "words")
        total = count * steps if own_lengths is None else sum(own_lengths)
        check_cells("the sequences", total * len(columns.names), "draw fewer or shorter ones", DataError)
        lengths = np.full(count, steps) if own_lengths is None else np.array(own_lengths)
        random = generator(random_state)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        codes = np.zeros((int(starts[-1]), len(columns.names)), columns.code_type, order="F")
        empty = np.full((len(codes), len(columns.number_places)), np.nan)
        without = Sequences(columns, codes, starts, SequenceForm(kind), None, empty)
        cells = model.drawn(InputSequences.joined(without, inputs, model.input_columns), random)
        cells = cells if cells.dtype.kind == "f" else cells.astype(np.int64)
        if len(set(lengths.tolist())) == 1:
            return sampled_sequences(columns, self.form_, cells, len(lengths), int(lengths[0]), random)
        (whole,) = sampled_sequences(
            columns, SequenceForm(kind, len(columns.names) == 1), cells, 1, len(cells), random
        )
        return [whole[begin:end] for begin, end in pairwise(starts)]

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
        return super().bic(self._sequences(X, lengths, inputs), None, sample_weight)

    def aic(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> float:
        """Return Akaike's information criterion, -2 · log-likelihood + 2 · `n_parameters_`."""
        return super().aic(self._sequences(X, lengths, inputs), None, sample_weight)

    def criteria(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        inputs: Any = None,
    ) -> Criteria:
        """Return all information criteria by name, with log-likelihood, parameters and entropy R² of the steps.

        `Criteria` says what each is. They compare fits of maximum likelihood, as `bic` does.
        """
        return super().criteria(self._sequences(X, lengths, inputs), None, sample_weight)

    def to_network(self, length: int) -> LatentNetwork:
        """Return the `LatentNetwork` of sequences of one length, with the same tables at every step.

        Hidden states are h0, h1, …; a channel c of step t is called ``c_t``, or xt where it has no name. Those of a
        factorial HMM are h0_t, h1_t, …, as those of `zoo.factorial_hmm`. Numbers are leaves with an emission.
        """
        if self._inputs is not None:
            raise DataError(f"tables {DIFFER}")
        return super().to_network(length)

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
        chain = model.at(design_of(columns, row, numbers)[0])
        kept = ("columns_", "form_", "n_parameters_", "start_", "history_", "validation_history_", "objectives_")
        fitted = {name: getattr(self, name) for name in (*kept, "n_iter_", "converged_")}
        plain: Self = cloned(self)
        vars(plain).update(fitted | {"model_": chain})
        return plain

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

    @property
    def tables_(self) -> dict[str, Any]:
        """The learned tables by name: "start", "transitions" and "emissions", axes and states named.

        "start" is the joint distribution of as many first states as the order, "transitions" P(state | as many
        before it), "emissions" P(cell | state), a dict where there are several channels. Of a factorial HMM,
        "start" and "transitions" are dicts of one table per chain, and emissions depend on the states of all.
        Tables that depend on symbols have an axis more, "input"; those that depend on numbers are not here, but at
        `at_inputs`.
        """
        model = self._inputs if self.__sklearn_is_fitted__() else None
        if model is None:
            return super().tables_
        columns, states = self._columns, range(model.states)
        found, shown = TablesByName(), TablesByName()
        shapes: dict[str, tuple[list[str], list[Sequence[Any]]]] = {
            "start": (["state"], [states]),
            "transitions": (["state before", "state"], [states, states]),
        }
        for what, table in model.tables.named(columns.names):
            if table.kind == "logit" or (what in columns.names and columns.position(what) in columns.number_places):
                continue
            names, labels = shapes.get(what, (["state", what if what != "state" else "cell"], [states, ()]))
            if what in columns.names:
                labels = [states, columns.labels(what)]
            array = table.array[..., 0, :] if what == "start" else table.array
            if table.kind == "tables":
                names = ["input", *names]
                labels = [model.input_columns.labels(model.input_columns.names[0]), *labels]
            (shown if what in columns.names else found)[what] = LabeledTable(array, names, labels)
        if shown:
            found["emissions"] = shown if len(shown) > 1 else next(iter(shown.values()))
        return found

    def _of_one_chain(self, name: str, table: str) -> Floats:
        if self._inputs is not None:
            raise AttributeError(f"{name} {DIFFER}")
        return super()._of_one_chain(name, table)

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        model = self._inputs
        if model is None:
            return super()._numbers_ahead(sequences, steps, quantiles)
        assert isinstance(sequences, InputSequences)
        state = model.states_ahead(sequences, steps)
        totals = state.sum(axis=1, keepdims=True)
        state = np.divide(state, totals, out=np.full_like(state, 1.0 / model.states), where=totals > 0)
        return model.numbers_ahead(sequences, state, steps, quantiles)


DIFFER = "depend on the inputs; at_inputs(...) is the model for given ones"
