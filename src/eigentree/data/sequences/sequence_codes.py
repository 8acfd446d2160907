"""Sequences of any length as integer codes: all steps end to end, and where each sequence starts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.sequence_forms import SequenceForm
from eigentree.data.sequences.steps import Steps, steps_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import MISSING, UNKNOWN
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions
from eigentree.data.tables.table import warn_of_extra
from eigentree.data.tables.text_cells import read_as
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Booleans, Codes, Integers
    from eigentree.data.tables.cells import Cells
    from eigentree.data.tables.labels import Meaning

__all__ = ["Sequences"]

LISTS = SequenceForm("lists")
"""The form of sequences that came in no other."""

CHUNK = 2**20
"""Most cells that are encoded at a time."""


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences whose steps are cells of the same columns, one column per channel.

    Attributes
    ----------
    columns : Columns
        One column per channel: names, states, labels.
    codes : array of unsigned int, shape (steps, channels), column-major
        All sequences end to end; the code after the last state of its channel marks a missing cell.
    starts : array of int, shape (sequences + 1,)
        Sequence i is ``codes[starts[i]:starts[i + 1]]``; it may be empty.
    form : SequenceForm
        The form in which they came, and in which answers go back.
    places : array of int, shape (steps,), or None
        Where each step stands in a long frame whose rows are not in the order of the sequences.

    Examples
    --------
    >>> sequences = Sequences.learned(["ACCA", "GA"])
    >>> sequences.columns
    Columns(x0: 'A', 'C', 'G')
    >>> sequences.codes[:, 0].tolist(), sequences.starts.tolist()
    ([0, 1, 1, 0, 2, 0], [0, 4, 6])
    """

    columns: Columns
    codes: Codes
    starts: Integers
    form: SequenceForm = field(default=LISTS)
    places: Integers | None = None

    @classmethod
    def of(
        cls,
        X: ArrayLike | Any,
        columns: Columns,
        lengths: ArrayLike | None = None,
        sequence: str | None = None,
        time: str | None = None,
    ) -> Sequences:
        """Return what users bring, read by known columns; `Sequences` stay as they are.

        Parameters
        ----------
        X : words, lists or arrays of different lengths, an array, a frame, or a mapping of channels to frames
            See `Sequences.learned`.
        columns : Columns
        lengths : array-like of int, optional
        sequence, time : str, optional

        Raises
        ------
        DataError
            When there are none, channels are missing or too many, or a cell is no label of its channel and
            ``columns.unknown`` does not call it missing.
        """
        if isinstance(X, Sequences):
            return X
        return cls._read(steps_of(X, lengths, sequence, time), columns)

    @classmethod
    def learned(
        cls,
        X: ArrayLike | Any,
        lengths: ArrayLike | None = None,
        sequence: str | None = None,
        time: str | None = None,
        options: ReadOptions = DEFAULT_OPTIONS,
    ) -> Sequences:
        """Return what users bring, with the columns that it has; `Sequences` stay as they are.

        Parameters
        ----------
        X : words, lists or arrays of different lengths, an array, a frame, or a mapping of channels to frames
            Words: sequences of letters. A list of lists or arrays: one sequence each, of cells or of rows with one
            cell per channel. An array with `lengths`: all sequences end to end. A list or array of numbers: one
            sequence. An array of two axes, or a frame, without `lengths` and `sequence`: one sequence per row, one
            step per column, and what is missing at the end of a row is not part of the sequence; of three axes, the
            last are channels. A mapping of names to such frames: one channel each. A frame with `sequence`: one
            step per row.
        lengths : array-like of int, shape (sequences,), optional
            How many steps of X belong to each sequence.
        sequence : str, optional
            The column of a frame that tells the sequence of each row.
        time : str, optional
            The column of such a frame by which the steps of a sequence are ordered; else as they stand.
        options : ReadOptions
        """
        if isinstance(X, Sequences):
            return X
        steps = steps_of(X, lengths, sequence, time)
        if steps.starts is not None and not steps.starts[-1]:
            what, least = ("words", "letter") if steps.form.kind == "words" else ("sequences", "step")
            raise DataError(f"all {what} are empty; give at least one {least}")
        return cls._read(steps, Columns.learned(steps.table, options))

    @classmethod
    def _read(cls, steps: Steps, columns: Columns) -> Sequences:
        table = steps.table
        if steps.starts is not None and not steps.starts[-1]:
            # Nothing tells how many channels there would be.
            codes = np.empty((0, len(columns.names)), columns.code_type, order="F")
            return cls(columns, codes, steps.starts, steps.form)
        warn_of_extra(table, columns.names)
        marked = [
            _Channel(name, count, meaning, read_as(table.column(place, name), meaning))
            for place, name, count, meaning in zip(
                table.places(columns.names, None, columns.named),
                columns.names,
                columns.states,
                columns.meanings,
                strict=True,
            )
        ]
        starts, kept = steps.starts, steps.places
        if starts is None:
            starts, kept = _without_ends(marked, steps.width)
        codes = np.empty((int(starts[-1]), len(marked)), columns.code_type, order="F")
        for channel, each in enumerate(marked):
            bad = each.encode(codes[:, channel], kept, columns.unknown == "missing")
            if bad >= 0:
                raise _unknown_cell(each, bad, starts, kept)
        for array in (codes, starts):
            array.flags.writeable = False
        return cls(columns, codes, starts, steps.form, kept if steps.starts is not None else None)

    @property
    def count(self) -> int:
        """Number of sequences."""
        return len(self.starts) - 1

    @property
    def steps(self) -> int:
        """Number of steps of all of them."""
        return len(self.codes)

    @cached_property
    def lengths(self) -> Integers:
        """Number of steps of each."""
        return np.diff(self.starts)

    @cached_property
    def missing(self) -> Booleans:
        """Which cells are missing, shape (steps, channels)."""
        found: Booleans = self.codes == np.array(self.columns.states)
        return found

    def chosen(self, numbers: ArrayLike) -> Sequences:
        """Return some of the sequences, by their numbers, in this order."""
        own = np.asarray(numbers, np.int64)
        lengths = self.lengths[own]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.starts[own] - starts[:-1], lengths) + np.arange(starts[-1])
        codes = np.asfortranarray(self.codes[places])
        return replace(self, codes=codes, starts=starts, form=LISTS, places=None)

    def __repr__(self) -> str:
        return f"Sequences({self.count} sequences, {self.steps} steps, {self.columns!r})"


@dataclass(eq=False)
class _Channel:
    """The cells of one channel, and what they stand for."""

    name: str
    states: int
    meaning: Meaning | None
    cells: Cells

    def marks(self, start: int, stop: int, kept: Integers | None = None) -> Integers:
        """Return the codes of some cells, `MISSING` or `UNKNOWN` where there is none."""
        picked: Any = slice(start, stop) if kept is None else kept[start:stop]
        cells = self.cells
        part: Cells = (
            Categorical(cells.places[picked], cells.labels) if isinstance(cells, Categorical) else cells[picked]
        )
        if self.meaning is not None:
            return self.meaning.encode(part)
        return _plain_codes(part, self.states)

    def encode(self, codes: NDArray[Any], kept: Integers | None, lenient: bool) -> int:
        """Write the codes of all cells that are kept; return the first that has none, or -1."""
        for start in range(0, len(codes), CHUNK):
            marks = self.marks(start, min(start + CHUNK, len(codes)), kept)
            if not lenient and (unknown := marks == UNKNOWN).any():
                return start + int(unknown.argmax())
            marks[marks < 0] = self.states
            codes[start : start + CHUNK] = marks
        return -1

    def cell(self, place: int) -> Any:
        """Return a cell as the user gave it."""
        cells = self.cells
        return cells.labels[cells.places[place]] if isinstance(cells, Categorical) else cells[place].item()


def _plain_codes(cells: Cells, states: int) -> Integers:
    """Return the codes of cells that stand for themselves."""
    if isinstance(cells, Categorical):
        own = [
            label if isinstance(label, int) and 0 <= label < states else MISSING if label == -1 else UNKNOWN
            for label in cells.labels
        ]
        return np.array([*own, MISSING], np.int64)[cells.places]
    if cells.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            known = (cells >= 0) & (cells < states) & (cells == np.floor(cells))
            absent = (cells != cells) | (cells == MISSING)
    else:
        known = (cells >= 0) & (cells < states)
        absent = cells == MISSING
    if known.all():
        return cells.astype(np.int64)
    codes = np.where(absent, MISSING, UNKNOWN).astype(np.int64)
    codes[known] = cells[known]
    return codes


def _without_ends(channels: Sequence[_Channel], width: int) -> tuple[Integers, Integers | None]:
    """Return where sequences start that stand in rows of equal width, and which cells are theirs (None for all).

    A sequence ends with the last step at which some channel is given.
    """
    cells = channels[0].cells
    total = len(cells.places if isinstance(cells, Categorical) else cells)
    rows = total // width
    lengths = np.zeros(rows, np.int64)
    each = max(1, CHUNK // width)
    for first in range(0, rows, each):
        last = min(first + each, rows)
        given = np.zeros((last - first, width), np.bool_)
        for channel in channels:
            given |= (channel.marks(first * width, last * width) != MISSING).reshape(-1, width)
        lengths[first:last] = np.where(given.any(axis=1), width - given[:, ::-1].argmax(axis=1), 0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if starts[-1] == total:
        return starts, None
    return starts, np.flatnonzero(np.arange(width) < lengths[:, None])


def _unknown_cell(channel: _Channel, step: int, starts: Integers, kept: Integers | None) -> DataError:
    number = int(np.searchsorted(starts, step, side="right")) - 1
    cell = channel.cell(step if kept is None else int(kept[step]))
    name = channel.name
    known = f"the codes 0 to {channel.states - 1} (-1, NaN or null for a missing cell)"
    if channel.meaning is not None:
        known = channel.meaning.described()
    return DataError(
        f"step {step - int(starts[number])} of sequence {number} holds {cell!r}, but {name!r} has {known}; fit "
        f"with all of them as categories=, or take what is unknown as missing with handle_unknown='missing'"
    )
