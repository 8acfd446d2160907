"""Queries that models of sequences have."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.inputs import InputSequences, are_letters, lengths_of, split_frame
from eigentree.data.sequences.sequence_codes import Sequences, filled_sequences, sampled_sequences
from eigentree.data.sequences.steps import SequenceForm, names_of
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.mixins.constructor_parameters import Parameters
from eigentree.inference.queries import warn_undefined
from eigentree.messages import renamed_arguments
from eigentree.validation import (
    FILL_METHODS,
    MOST_THREADS,
    check_cells,
    checked_quantiles,
    flag,
    generator,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.inference.sequences.hmm_chain import Chain
    from eigentree.spectral.sequences.sequence_model import SpectralSequenceModel
    from eigentree.validation import FillMethod, Seed

__all__ = ["IMPOSSIBLE", "SequenceMixin", "distributions_or_uniform", "require_plain", "sequence_and_time"]

IMPOSSIBLE = "sequences are impossible under this model"


class SequenceMixin(Parameters):
    """Queries of a fitted model of sequences.

    Attributes
    ----------
    form_ : SequenceForm
        The form of the training sequences, in which sampled ones come too.
    """

    model_: Chain | SpectralSequenceModel
    form_: SequenceForm
    sequence: str | None
    time: str | None
    n_jobs: int

    @property
    def _input_columns(self) -> Columns | None:
        """The columns of inputs; None for a model without."""
        columns: Columns | None = getattr(self.model_, "input_columns", None)
        return columns

    def _sequences(
        self, X: ArrayLike | Any, lengths: ArrayLike | None, inputs: Any = None, ahead: int = 0
    ) -> Sequences:
        """Return sequences as the model reads them, with their inputs, and those of so many steps ahead."""
        self._require_fit()
        if isinstance(X, Sequences):
            return X
        X, inputs = self._parted(X, inputs)
        return self._with_inputs(
            Sequences.of(X, self._columns, lengths, *sequence_and_time(self, X)), inputs, ahead
        )

    def _with_inputs(self, sequences: Sequences, inputs: Any, ahead: int = 0) -> Sequences:
        columns = self._input_columns
        if columns is None:
            if inputs is not None:
                raise DataError("the model was fitted without inputs, so it takes none; give them to fit as well")
            return sequences
        if inputs is None:
            raise DataError(
                f"the model was fitted with inputs ({', '.join(map(repr, columns.names))}), so it needs them: give "
                f"inputs=, one row for each step or for each sequence"
            )
        model: Any = self.model_
        return InputSequences.joined(sequences, inputs, columns, ahead, getattr(model, "symbols", None))

    def _parted(self, X: Any, inputs: Any) -> tuple[Any, Any]:
        """Return sequences and inputs, where a frame may hold both."""
        columns = self._input_columns
        if columns is None:
            return X, inputs
        return split_frame(X, inputs, columns.names if columns.named else ())

    def _ignore(self, y: object, lengths: object, sequences: Sequences) -> None:
        """Raise `DataError` where lengths are given in the place of y, as hmmlearn has it."""
        if lengths is not None or not isinstance(y, list | tuple | np.ndarray) or getattr(y, "ndim", 1) == 0:
            return
        if len(y) == sequences.count:
            return
        counts = [int(each) for each in y if isinstance(each, int | np.integer)]
        if len(counts) == len(y) and sum(counts) == sequences.steps:
            raise DataError(
                f"the second argument is y, which is ignored, but {quoted(y)} are lengths, which add up to "
                f"{sequences.steps} steps; give them by name, as lengths="
            )

    def _channel(self, target: str | None) -> int:
        """Return the place of a channel; None stands for the only one."""
        names = self._columns.names
        if target is None and len(names) > 1:
            raise DataError(f"there are several channels; give one of {', '.join(names)} as target=")
        return 0 if target is None else self._columns.position(target)

    @our_arithmetic
    def score_samples(
        self,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        per_symbol: bool = False,
        inputs: Any = None,
    ) -> Floats:
        """Return the log probability of each sequence, given its inputs if any, missing cells marginalised out.

        Where channels are numbers it is a log density.

        Parameters
        ----------
        X, lengths, inputs
            As for `fit`; inputs of a model that was fitted with some.
        per_symbol : bool
            Divide by the number of steps; NaN for an empty sequence.
        """
        flag("per_symbol", per_symbol)
        sequences = self._sequences(X, lengths, inputs)
        threads = whole_number("n_jobs", self.n_jobs, most=MOST_THREADS)
        log_prob = self.model_.log_prob(sequences, threads)
        warn_undefined(int(np.isneginf(log_prob).sum()), f"of {len(log_prob)} {IMPOSSIBLE}")
        if not per_symbol:
            return log_prob
        counts = sequences.lengths
        by_step: Floats = np.divide(log_prob, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return by_step

    def score(
        self, X: ArrayLike | Any, y: object = None, lengths: ArrayLike | None = None, inputs: Any = None
    ) -> float:
        """Return the mean log probability of the sequences; `y` is ignored."""
        sequences = self._sequences(X, lengths, inputs)
        self._ignore(y, lengths, sequences)
        return float(self.score_samples(sequences).mean())

    @our_arithmetic
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
        X, lengths, inputs
            The sequences so far, of which one may be empty, as for `fit`; inputs of a model that was fitted with
            some, those of so many further steps of each sequence included.
        target : str, optional
            The channel; needed where there are several.
        steps : int
            How many steps ahead; cells between are marginalised out.
        """
        columns = self._columns
        place = self._channel(target)
        name = columns.names[place]
        if place in columns.number_places:
            raise DataError(
                f"the channel {name!r} is of numbers, which have a density; predict_next has their means"
            )
        proba = self.model_.ahead(self._sequences(X, lengths, inputs, whole_number("steps", steps)), steps)[place]
        proba = distributions_or_uniform(proba, "their next cell is taken as uniform")
        axis = "sequence" if name != "sequence" else "of sequence"
        called = names_of(X, self.sequence, len(proba))
        return LabeledTable.answer(proba, (axis, name), (called, columns.labels(name)))

    @our_arithmetic
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
        X, lengths, inputs
            The sequences so far, of which one may be empty, as for `fit`; inputs of a model that was fitted with
            some, those of so many further steps of each sequence included.
        steps : int
            How many steps ahead; what is between is integrated out.
        quantiles : sequence of float, optional
            Shares between 0 and 1; the result has the shape (sequences, number channels, quantiles) then.
        """
        columns = self._columns
        whole_number("steps", steps)
        shares = None if quantiles is None else checked_quantiles(quantiles)
        if not columns.number_places:
            raise DataError("no channel is of numbers; predict_next_proba has the probabilities of categories")
        found = self._numbers_ahead(self._sequences(X, lengths, inputs, steps), steps, shares)
        channels = [columns.names[place] for place in columns.number_places]
        called = names_of(X, self.sequence, len(found))
        if shares is None:
            return LabeledTable.answer(found, ("sequence", "channel"), (called, channels))
        return LabeledTable.answer(found, ("sequence", "channel", "quantile"), (called, channels, shares))

    def _numbers_ahead(self, sequences: Sequences, steps: int, quantiles: Sequence[float] | None) -> Floats:
        """Return means, or quantiles, of the numbers so many steps after the end of each sequence."""
        raise NotImplementedError

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
        X, lengths, inputs
            As for `fit`; inputs of a model that was fitted with some.
        method : {"mode", "mean", "median", "sample"}
            "mode" or "mean": the most probable state, and the mean of a number; "median": the median of a number;
            "sample": a joint sample of all missing cells of a sequence.
        random_state : int, Generator or None
            For "sample".
        """
        one_of("method", method, FILL_METHODS)
        sequences = self._sequences(X, lengths, inputs)
        X, _ = self._parted(X, inputs)
        random = generator(random_state)
        model: Any = self.model_
        of_labels = method == "median" and not self._columns.number_places
        codes, lost = model.filled(sequences, "mode" if of_labels else method, random)
        warn_undefined(lost, f"{IMPOSSIBLE}; their missing cells are imputed as if no cell were known")
        return filled_sequences(X, lengths, sequences, codes, random if method == "sample" else None)

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
            Inputs of a model that was fitted with them: one row for each step, one for each sequence, or a list of
            arrays, as long as each sequence is to be.
        """
        count, steps = whole_number("n", n, 0, DataError), whole_number("length", length, 1, DataError)
        columns = self._columns
        about = self._input_columns
        are_words = about is not None and are_letters(about) and self.form_.kind == "words"
        given = None if inputs is None else lengths_of(inputs, are_words)
        total = count * steps if given is None else sum(given)
        check_cells("the sequences", total * len(columns.names), "draw fewer or shorter ones", DataError)
        random = generator(random_state)
        lengths = np.full(count, steps) if given is None else np.array(given)
        model: Any = self.model_
        starts = np.concatenate([[0], np.cumsum(lengths)])
        if inputs is not None or self._input_columns is not None:
            cells = model.drawn(self._empty(starts, inputs), random)
        else:
            cells = model.drawn(starts, random)
        cells = cells if cells.dtype.kind == "f" else cells.astype(np.int64)
        if len({*lengths.tolist()}) < 2:
            return sampled_sequences(columns, self.form_, cells, len(lengths), int(lengths.max(initial=0)), random)
        form = SequenceForm("words" if self.form_.kind == "words" else "lists", len(columns.names) == 1)
        (whole,) = sampled_sequences(columns, form, cells, 1, len(cells), random)
        return [whole[begin:end] for begin, end in pairwise(starts)]

    def _empty(self, starts: Integers, inputs: Any) -> Sequences:
        """Return sequences of some lengths with these inputs, whose cells are still to be sampled."""
        columns = self._columns
        codes = np.zeros((int(starts[-1]), len(columns.names)), columns.code_type, order="F")
        values = np.full((len(codes), len(columns.number_places)), np.nan)
        form = SequenceForm("words" if self.form_.kind == "words" else "lists")
        return self._with_inputs(Sequences(columns, codes, starts, form, None, values), inputs)


def distributions_or_uniform(proba: Floats, then: str, what: str = IMPOSSIBLE) -> Floats:
    """Return distributions, uniform ones where nothing is possible; a warning says how often."""
    totals = proba.sum(axis=1, keepdims=True)
    warn_undefined(int((totals == 0).sum()), f"{what}; {then}")
    even = np.full_like(proba, 1.0 / proba.shape[1])
    known: Floats = np.divide(proba, totals, out=even, where=totals > 0)
    return known


def require_plain(model: Any, what: str) -> None:
    """Raise `ParameterError` where a model of sequences depends on inputs, which there are none of here."""
    if getattr(getattr(model, "model_", None), "input_columns", None) is not None:
        hint = "; show model.at_inputs(...), the model for given ones" if hasattr(model, "at_inputs") else ""
        raise ParameterError(f"{what} of a model with inputs would depend on these{hint}")


def sequence_and_time(model: SequenceMixin, X: Any) -> tuple[str | None, str | None]:
    """Return the names of the columns that hold the sequence and the time of each row of a long frame, or None."""
    if model.sequence is not None and not isinstance(model.sequence, str):
        raise ParameterError(f"sequence is the name of a column, not {quoted(model.sequence)}")
    # New sequences may come in another form than the training sequences.
    is_long = model.sequence is not None and hasattr(X, "columns") and not isinstance(X, Sequences)
    return (model.sequence, model.time) if is_long else (None, None)
