"""The rows or sequences that a report evaluates a model on: codes, missing cells, unseen labels, masked cells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.sequences.steps import steps_of
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.cells import Factored
from eigentree.data.tables.labels import UNKNOWN
from eigentree.data.tables.restore import row_labels
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.table import table_of
from eigentree.data.tables.text_cells import Written, read_as
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.estimators.mixins.sequence_mixin import sequence_and_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labels import Meaning
    from eigentree.data.tables.table import Table
    from eigentree.viz.reports.adapters import ModelAdapter

__all__ = ["EvaluationData", "MaskedCells", "UnseenLabel", "evaluation_data", "sampled"]

MOST_SCORED = 2_000_000
"""Most steps that are scored to predict cells of sequences."""


class UnseenLabel(NamedTuple):
    """A label that the model never saw.

    Attributes
    ----------
    column, label : str
    cells : int
        How many hold it.
    """

    column: str
    label: str
    cells: int


class MaskedCells(NamedTuple):
    """Known cells that were masked, and what the model predicts for each from the other cells.

    Attributes
    ----------
    unit : array of int
        The row or sequence of each.
    step : array of int
        Which of its steps; 0 in rows.
    column, code : array of int
    predicted : array of int
        The most probable code.
    proba, highest : array of float
        The probability of the cell's own code, and of the most probable one.
    """

    unit: Integers
    step: Integers
    column: Integers
    code: Integers
    predicted: Integers
    proba: Floats
    highest: Floats


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Rows, or sequences, as codes of a model's columns; labels that it never saw are missing cells.

    Attributes
    ----------
    adapter : ModelAdapter
    columns : Columns
    codes : array of int, shape (rows, columns), or (steps, channels)
    starts : array of int or None
        Where sequences begin; None for rows.
    names : sequence
        What the rows or sequences are called.
    unseen : tuple of UnseenLabel
    """

    adapter: ModelAdapter
    columns: Columns
    codes: Codes
    starts: Integers | None
    names: Sequence[Any]
    unseen: tuple[UnseenLabel, ...]

    @property
    def count(self) -> int:
        """How many rows or sequences there are."""
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    @property
    def missing(self) -> Booleans:
        """Which cells are missing, those of unknown labels among them."""
        found: Booleans = self.codes == np.array(self.columns.states)
        return found

    @property
    def sequences(self) -> Sequences:
        """The sequences."""
        assert self.starts is not None
        return Sequences(self.columns, self.codes, self.starts)

    def chosen(self, units: Integers) -> EvaluationData:
        """Return some of the rows or sequences, by their numbers."""
        names = [self.names[unit] for unit in units.tolist()]
        if self.starts is None:
            return replace(self, codes=np.asfortranarray(self.codes[units]), names=names)
        some = self.sequences.chosen(units)
        return replace(self, codes=some.codes, starts=some.starts, names=names)

    def log_prob(self) -> Floats:
        """Return the log probability of each row or sequence, missing cells marginalised out."""
        if self.starts is not None:
            found: Floats = self._model.log_prob(self.sequences)
            return found
        scores: Floats = self._model.log_prob(Rows.of_codes(self.codes, self.columns))[0]
        return scores

    @property
    def _model(self) -> Any:
        """What answers queries about codes."""
        model = self.adapter.model
        return model.model_ if hasattr(model, "model_") else model.model

    def masked_cells(self, most: int, seed: int = 0) -> MaskedCells:
        """Return what the model predicts for known cells, each masked in turn, from all others of its row.

        Parameters
        ----------
        most : int
            How many cells at most: whole rows, and single cells of sequences, which are sampled.
        seed : int
        """
        return self._of_rows(most, seed) if self.starts is None else self._of_sequences(most, seed)

    def _of_rows(self, most: int, seed: int) -> MaskedCells:
        units = sampled(self.count, max(1, most // len(self.columns.names)), seed)
        codes = np.asfortranarray(self.codes[units])
        tables = self._model.distributions(codes, range(codes.shape[1]))
        parts = []
        for column, (proba, _) in enumerate(tables):
            known = np.flatnonzero(codes[:, column] < self.columns.states[column])
            own = codes[known, column].astype(np.int64)
            parts.append(_cells(units[known], np.zeros(len(known), np.int64), column, own, proba[known]))
        return _merged(parts)

    def _of_sequences(self, most: int, seed: int) -> MaskedCells:
        sequences = self.sequences
        steps, channels = np.nonzero(~self.missing)
        numbers = np.repeat(np.arange(self.count), sequences.lengths)
        picked = sampled(len(steps), most, seed)
        # Each state of a cell is a sequence of its own, scored whole.
        work = sequences.lengths[numbers[steps[picked]]] * np.array(self.columns.states)[channels[picked]]
        if work.sum() > MOST_SCORED:
            picked = sampled(len(steps), max(1, int(MOST_SCORED / work.mean())), seed)
        steps, channels = steps[picked], channels[picked]
        parts = []
        for channel, states in enumerate(self.columns.states):
            at = steps[channels == channel]
            units = numbers[at]
            own = at - sequences.starts[units]
            if not len(at):
                continue
            log_prob = np.empty((len(at), states))
            trial = sequences.chosen(units)
            codes = trial.codes.copy(order="F")
            for state in range(states):
                codes[trial.starts[:-1] + own, channel] = state
                log_prob[:, state] = self._model.log_prob(replace(trial, codes=codes))
            code = self.codes[at, channel].astype(np.int64)
            parts.append(_cells(units, own, channel, code, _normalised(log_prob)))
        return _merged(parts)


def sampled(count: int, most: int, seed: int) -> Integers:
    """Return the numbers of all that there are, or of a random sample of so many, in their order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def evaluation_data(
    adapter: ModelAdapter, X: Any, lengths: Any = None, names: Sequence[Any] | None = None
) -> EvaluationData:
    """Return rows or sequences as the model reads them.

    Parameters
    ----------
    adapter : ModelAdapter
    X : rows or sequences, as its estimator takes them
    lengths : array-like of int, optional
    names : sequence, optional
        What they are called.

    Raises
    ------
    DataError
        When they do not fit its columns, or come in batches.
    """
    if is_stream(X):
        raise DataError("a report evaluates rows in memory, not a stream; read some of them first")
    columns = adapter.columns.reading("missing")
    starts: Integers | None = None
    unseen: tuple[UnseenLabel, ...] = ()
    called: Sequence[Any]
    if adapter.steps:
        telling = sequence_and_time(adapter.model, X)
        sequences = Sequences.of(X, columns, lengths, *telling)
        codes, starts, called = sequences.codes, sequences.starts, range(sequences.count)
        if not isinstance(X, Sequences):
            unseen = _unseen(steps_of(X, lengths, *telling).table, columns)
    else:
        if lengths is not None:
            raise DataError("lengths are those of sequences, and this is a model of rows; leave them out")
        codes = Rows.of(X, columns).encode()
        called = row_labels(X, len(codes))
        if not isinstance(X, Rows):
            unseen = _unseen(table_of(X), columns)
    data = EvaluationData(adapter, columns, codes, starts, called if names is None else _listed(names), unseen)
    if len(data.names) != data.count:
        raise DataError(f"there are {len(data.names)} names, but {data.count} {adapter.unit}s; name each of them")
    return data


def _listed(names: Any) -> list[Any]:
    try:
        return list(names)
    except TypeError:
        raise ParameterError(f"names are what rows or sequences are called, not {quoted(names)}") from None


def _unseen(table: Table, columns: Columns) -> tuple[UnseenLabel, ...]:
    """Return the labels that columns do not have, with how many cells hold each, in the order of the columns."""
    found: list[UnseenLabel] = []
    described = zip(columns.names, columns.meanings, columns.states, strict=True)
    for place, (name, meaning, states) in zip(
        table.places(columns.names, None, columns.named), described, strict=True
    ):
        cells = table.column(place, name)
        if isinstance(cells, Written):
            cells = read_as(cells, meaning)
        counted = Counter(_unknown(cells, meaning, states))
        found += [UnseenLabel(name, label, count) for label, count in sorted(counted.items())]
    return tuple(found)


def _unknown(cells: Any, meaning: Meaning | None, states: int) -> list[str]:
    """Return the cells whose label is unknown, as they are written."""
    if meaning is not None:
        odd = np.flatnonzero(meaning.encode(cells) == UNKNOWN)
    elif isinstance(cells, Factored):
        codes = [label if isinstance(label, int) and 0 <= label < states else UNKNOWN for label in cells.labels]
        odd = np.flatnonzero(np.array([*codes, 0])[cells.places] == UNKNOWN)
    else:
        numbers = cells.astype(np.float64)
        with np.errstate(invalid="ignore"):
            strange = (numbers != np.floor(numbers)) | (numbers >= states) | (numbers < -1)
        odd = np.flatnonzero(strange & (numbers == numbers))
    if isinstance(cells, Factored):
        return [str(cells.labels[place]) for place in cells.places[odd].tolist()]
    return [str(cell) for cell in cells[odd].tolist()]


def _cells(units: Integers, steps: Integers, column: int, codes: Integers, proba: Floats) -> MaskedCells:
    places = np.arange(len(codes))
    best = proba.argmax(axis=1) if len(codes) else np.empty(0, np.int64)
    which = np.full(len(codes), column)
    return MaskedCells(units, steps, which, codes, best, proba[places, codes], proba[places, best])


def _merged(parts: Sequence[MaskedCells]) -> MaskedCells:
    if not parts:
        empty, none = np.empty(0, np.int64), np.empty(0)
        return MaskedCells(empty, empty, empty, empty, empty, none, none)
    return MaskedCells(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _normalised(log_prob: Floats) -> Floats:
    """Return distributions in proportion to probabilities; uniform ones where all are impossible."""
    peak = log_prob.max(axis=1, keepdims=True)
    lost = np.isneginf(peak)
    table = np.exp(np.where(lost, 0.0, log_prob) - np.where(lost, 0.0, peak))
    normal: Floats = table / table.sum(axis=1, keepdims=True)
    return normal
