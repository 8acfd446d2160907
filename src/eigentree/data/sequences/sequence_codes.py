"""Sequences of any length as integer codes: all steps end to end, and where each sequence starts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.steps import SequenceForm, Steps, steps_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import MISSING
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions
from eigentree.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Codes, Integers
    from eigentree.data.tables.cells import Cells

__all__ = ["Sequences"]

LISTS = SequenceForm("lists")
"""The form of sequences that came in no other."""


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
            The column of a frame that names the sequence of each row.
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
            # Nothing shows how many channels there would be.
            codes = np.empty((0, len(columns.names)), columns.code_type, order="F")
            return cls(columns, codes, steps.starts, steps.form)
        codes = Rows.of(table, columns, where=steps.named).encode()
        starts, kept = steps.starts, steps.places
        if starts is None:
            given = (codes != np.array(columns.states)).any(axis=1)
            if columns.unknown == "missing":
                # A label that is not known is a step, though its cell is missing.
                for place in table.places(columns.names, None, columns.named):
                    given |= _known(table.column(place, ""))
            starts, kept = _without_ends(given, steps.form.width)
        if kept is not None:
            codes = np.asfortranarray(codes[kept])
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


def _known(cells: Cells) -> Booleans:
    """Return which cells hold anything."""
    if isinstance(cells, Categorical):
        return np.asarray(cells.places >= 0)
    return np.asarray((cells == cells) & (cells != MISSING))


def _without_ends(given: Booleans, width: int) -> tuple[Integers, Integers | None]:
    """Return where sequences start that stand in rows of equal width, and which steps are theirs (None for all).

    A sequence ends with its last step at which some channel is given.
    """
    rows = given.reshape(-1, width)
    lengths = np.where(rows.any(axis=1), width - rows[:, ::-1].argmax(axis=1), 0)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if starts[-1] == given.size:
        return starts, None
    return starts, np.flatnonzero(np.arange(width) < lengths[:, None])
