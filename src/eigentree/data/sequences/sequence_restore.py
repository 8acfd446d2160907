"""Results about sequences in the form in which these came: per step, with cells imputed, or sampled."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.steps import steps_of
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.restore import filled_rows, sampled_rows
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.table import ARRAY, TEXT, frame_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Integers
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.data.sequences.steps import SequenceForm

__all__ = ["filled_sequences", "per_step", "sampled_sequences"]


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
    codes: Codes,
    random: np.random.Generator | None,
) -> Any:
    """Return sequences with their missing cells filled, in the form in which they came; known cells stay.

    Parameters
    ----------
    X : what the user gave
    lengths : the same
    sequences : Sequences
        The same, read.
    codes : array of int, shape (steps, channels)
        The codes of all cells, filled.
    random : Generator, optional
        Samples numbers inside their bins; without it a bin's typical number stands for it.
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
    columns: Columns, form: SequenceForm, codes: Integers, count: int, length: int, random: np.random.Generator
) -> Any:
    """Return codes of sequences of one length, shape (count · length, channels), in the form of others."""
    starts = np.arange(count + 1) * length
    if form.kind in ("rows", "channels") and (form.flat or form.kind == "channels"):
        made = {}
        for channel, name in enumerate(columns.names):
            wide = _wide_columns(columns, channel, _names_of_steps(form, length))
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


def _in_table(sequences: Sequences, codes: Codes, count: int) -> tuple[Integers, Codes]:
    """Return the filled codes, and the known ones, of each row of the table that the steps were read from."""
    if len(codes) == count:
        order = sequences.places if sequences.places is not None else slice(None)
    else:
        order = np.flatnonzero(_inside(sequences))
    # What is beyond the ends counts as known, and is left as it is.
    whole = np.zeros((count, codes.shape[1]), np.int64)
    known = np.zeros((count, codes.shape[1]), sequences.codes.dtype)
    whole[order], known[order] = codes, sequences.codes
    return whole, known


def _filled_wide(
    X: Any, sequences: Sequences, columns: Columns, channel: int, codes: Codes, random: np.random.Generator | None
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


def _filled_long(X: Any, sequences: Sequences, codes: Codes, random: np.random.Generator | None) -> Any:
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


def _names_of_steps(form: SequenceForm, length: int) -> list[str]:
    return list(form.names) if len(form.names) == length else [f"x{step}" for step in range(length)]
