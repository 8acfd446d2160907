"""Sequences of any length as integer codes: all steps end to end, and where each sequence starts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.steps import SequenceForm, Steps, steps_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import MISSING
from eigentree.data.tables.restore import filled_rows, sampled_rows
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import DEFAULT_OPTIONS, ReadOptions
from eigentree.data.tables.table import ARRAY, TEXT, frame_of
from eigentree.errors import DataError
from eigentree.messages import notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.data.tables.cells import Cells

__all__ = ["Sequences", "filled_sequences", "per_step", "sampled_sequences"]

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
    values : array, shape (steps, number channels)
        The cells of the channels that are numbers, NaN where one is missing; their code is 0 where one is known.

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
    values: Floats = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.values is None:
            object.__setattr__(self, "values", np.empty((len(self.codes), 0)))

    @classmethod
    def of(
        cls,
        X: ArrayLike | Any,
        columns: Columns,
        lengths: ArrayLike | None = None,
        sequence: str | None = None,
        time: str | None = None,
    ) -> Sequences:
        """Return what `Sequences.learned` describes, read by known columns; `Sequences` stay as they are.

        A cell that is no label of its channel is an error, unless ``columns.unknown`` calls it missing.
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
        columns = Columns.learned(steps.table, options)
        _report_rows(steps, columns)
        return cls._read(steps, columns)

    @classmethod
    def _read(cls, steps: Steps, columns: Columns) -> Sequences:
        table = steps.table
        if steps.starts is not None and not steps.starts[-1]:
            # Nothing shows how many channels there would be.
            codes = np.empty((0, len(columns.names)), columns.code_type, order="F")
            values = np.empty((0, len(columns.number_places)))
            return cls(columns, codes, steps.starts, steps.form, None, values)
        rows = Rows.of(table, columns, where=steps.named)
        codes, values = rows.encode(), rows.values()
        starts, kept = steps.starts, steps.places
        if starts is None:
            given = (codes != np.array(columns.states)).any(axis=1)
            if columns.unknown == "missing":
                # A label that is not known is a step, though its cell is missing.
                for place in table.places(columns.names, None, columns.named):
                    given |= _known(table.column(place, ""))
            starts, kept = _without_ends(given, steps.form.width)
        if kept is not None:
            codes, values = np.asfortranarray(codes[kept]), values[kept]
        for array in (codes, values, starts):
            array.flags.writeable = False
        return cls(columns, codes, starts, steps.form, kept if steps.starts is not None else None, values)

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
        return replace(self, codes=codes, starts=starts, form=LISTS, places=None, values=self.values[places])

    def __repr__(self) -> str:
        return f"Sequences({self.count} sequences, {self.steps} steps, {self.columns!r})"


def _report_rows(steps: Steps, columns: Columns) -> None:
    """Warn where rows of few numbers are sequences: elsewhere they are the steps of one, of several channels."""
    width = steps.form.width
    if steps.form.kind == "rows" and steps.form.flat and columns.numbers and steps.table.count > width**2:
        count = steps.table.count // width
        notice(
            f"the {count} rows of {width} numbers are read as {count} sequences of at most {width} steps; give "
            f"lengths=[{count}] if each row is a step of one sequence, and X[:, :, None] if these are sequences"
        )


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


def per_step(sequences: Sequences, values: NDArray[Any]) -> Any:
    """Return what was found for each step in the form of the sequences.

    A list of arrays for words and lists; one array, in the order of the steps or of the frame's rows, for one
    sequence, for lengths and for a long frame; for sequences in rows an array of axes (sequences, steps, …), with
    NaN, or -1 among whole numbers, beyond their ends.
    """
    form = sequences.form
    if form.kind in ("words", "lists"):
        return _split(values, sequences.starts)
    if form.width:
        beyond = np.nan if values.dtype.kind == "f" else -1
        made = np.full((sequences.count, form.width, *values.shape[1:]), beyond, values.dtype)
        made[_inside(sequences)] = values
        return made
    if sequences.places is None:
        return values
    placed = np.empty_like(values)
    placed[sequences.places] = values
    return placed


def filled_sequences(
    X: Any,
    lengths: ArrayLike | None,
    sequences: Sequences,
    codes: NDArray[Any],
    random: np.random.Generator | None,
) -> Any:
    """Return sequences with their missing cells filled, in the form in which they came; known cells stay.

    `X` and `lengths` are what the user gave, `sequences` the same, read, and `codes` those of all cells, filled; of
    numbers they are the numbers.
    Without `random`, which samples numbers inside their bins, a bin's typical number stands for it.
    """
    columns, form = sequences.columns, sequences.form
    if form.kind == "channels":
        return {
            name: _filled_wide(X[name], sequences, columns, columns.position(name), codes, random) for name in X
        }
    if form.kind == "rows" and form.flat:
        return _filled_wide(X, sequences, columns, 0, codes, random)
    if form.kind == "long":
        return _filled_long(X, sequences, codes, random)
    if not sequences.steps:
        return _regrouped([] if form.kind == "words" else np.empty((0, codes.shape[1])), form, sequences.starts)
    table = steps_of(X, lengths).table
    whole, known = _in_table(sequences, codes, table.count)
    frame = X if form.kind == "lengths" and frame_of(X) is not None else table
    made = filled_rows(frame, Rows.of_codes(known, columns), columns, whole, random)
    if frame is X:
        return made
    if form.kind == "rows":
        array = np.asarray(made).reshape(sequences.count, form.width, -1)
        if columns.plain:
            array[~_inside(sequences)] = -1
        return array
    return _regrouped(made, form, sequences.starts)


def sampled_sequences(
    columns: Columns, form: SequenceForm, codes: NDArray[Any], count: int, length: int, random: np.random.Generator
) -> Any:
    """Return cells of sequences of one length, shape (count · length, channels), in the form of others.

    Cells are codes, of numbers the numbers.
    """
    starts = np.arange(count + 1) * length
    if form.kind in ("rows", "channels") and (form.flat or form.kind == "channels"):
        made = {}
        steps_names = form.names if len(form.names) == length else [f"x{step}" for step in range(length)]
        for channel, name in enumerate(columns.names):
            wide = _wide_columns(columns, channel, steps_names)
            made[name] = sampled_rows(wide, codes[:, channel].reshape(count, length), random)
        return made if form.kind == "channels" else made[columns.names[0]]
    rows = sampled_rows(columns, codes, random)
    if form.kind == "long":
        import narwhals as nw

        frame = nw.from_native(rows, eager_only=True)
        steps = np.arange(count * length)
        cells: dict[str, Any] = {str(form.sequence): steps // length}
        if form.time is not None:
            cells[form.time] = steps % length
        cells |= {name: frame[name] for name in frame.columns}
        return nw.from_dict(cells, backend=frame.implementation).to_native()
    if form.kind == "rows":
        return np.asarray(rows).reshape(count, length, -1)
    return _regrouped(rows, replace(form, kind="words" if form.kind == "words" else "lists"), starts)


def _regrouped(rows: Any, form: SequenceForm, starts: Integers) -> Any:
    """Return cells of all steps, as a table is restored, sequence by sequence."""
    if form.kind == "words" and isinstance(rows, list):
        text = "".join(rows)
        return [text[begin:end] for begin, end in pairwise(starts)]
    array = np.asarray(rows)
    if form.flat and array.ndim == 2:
        array = array[:, 0]
    if form.kind in ("words", "lists"):
        return _split(array, starts)
    return array


def _split(values: NDArray[Any], starts: Integers) -> list[NDArray[Any]]:
    """Return what belongs to each sequence; of no sequences, nothing."""
    return [values[begin:end] for begin, end in pairwise(starts.tolist())]


def _inside(sequences: Sequences) -> NDArray[np.bool_]:
    """Return which places of rows belong to the sequences that stand in them."""
    found: NDArray[np.bool_] = np.arange(sequences.form.width) < sequences.lengths[:, None]
    return found


def _in_table(sequences: Sequences, codes: NDArray[Any], count: int) -> tuple[NDArray[Any], Codes]:
    """Return the filled codes, and the known ones, of each row of the table that the steps were read from."""
    if len(codes) == count:
        order = sequences.places if sequences.places is not None else slice(None)
    else:
        order = np.flatnonzero(_inside(sequences))
    # What is beyond the ends counts as known, and is left as it is.
    whole = np.zeros((count, codes.shape[1]), np.float64 if codes.dtype.kind == "f" else np.int64)
    known = np.zeros((count, codes.shape[1]), sequences.codes.dtype)
    whole[order], known[order] = codes, sequences.codes
    return whole, known


def _filled_wide(
    X: Any,
    sequences: Sequences,
    columns: Columns,
    channel: int,
    codes: NDArray[Any],
    random: np.random.Generator | None,
) -> Any:
    """Return a frame or an array of one sequence per row, filled."""
    width = sequences.form.width
    both = _in_table(sequences, codes, sequences.count * width)
    whole, known = (each[:, channel].reshape(-1, width) for each in both)
    frame = frame_of(X)
    names = tuple(f"x{step}" for step in range(width)) if frame is None else tuple(map(str, frame.columns))
    wide = _wide_columns(columns, channel, names)
    made = filled_rows(X, Rows.of_codes(known, wide), wide, whole, random)
    if frame is None and wide.plain:
        made[~_inside(sequences)] = -1
    return made


def _filled_long(X: Any, sequences: Sequences, codes: NDArray[Any], random: np.random.Generator | None) -> Any:
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    channels = [name for name in frame.columns if name not in (sequences.form.sequence, sequences.form.time)]
    whole, known = _in_table(sequences, codes, len(codes))
    columns = sequences.columns
    made = filled_rows(frame.select(channels).to_native(), Rows.of_codes(known, columns), columns, whole, random)
    filled = nw.from_native(made, eager_only=True)
    return frame.with_columns(*[filled[name] for name in channels]).to_native()


def _wide_columns(columns: Columns, channel: int, names: Sequence[str]) -> Columns:
    """Return the columns of a table that has a column for each step of one channel."""
    width = len(names)
    return Columns(
        tuple(names),
        (columns.states[channel],) * width,
        (columns.meanings[channel],) * width,
        columns.unknown,
        ARRAY if columns.container == TEXT else columns.container,
        columns.container not in (ARRAY, TEXT),
    )
