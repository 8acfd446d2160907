"""Sequences as users bring them, read as one table of steps: words, lists, arrays with lengths, frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from eigentree.data.tables.cells import Categorical, array_cells, is_missing, letter_cells, plain_label
from eigentree.data.tables.table import ARRAY, TEXT, ColumnTable, Table, as_array, frame_of, table_of
from eigentree.errors import DataError, FileError, quoted, what_there_is
from eigentree.io.codec import FLAG, TEXTS, WHOLE, Field, Record, optional
from eigentree.io.codec import TEXT as STRING
from eigentree.validation import an_array, check_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Integers
    from eigentree.data.tables.cells import Cells, Label
    from eigentree.io.codec import At
    from eigentree.io.stores import Reader

__all__ = ["FORM", "FormKind", "SequenceForm", "Steps", "names_of", "steps_of"]


DIFFERENT_STEPS = "the steps of the sequences differ: each is one cell, or a row of equally many cells"


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of some sequences, which came in some `form`.

    The table has one row per step and one column per channel; `places` is the row that each step is, None where
    they stand in order. `starts` is where each sequence starts; None where sequences stand in rows of equal width,
    and end where only missing cells follow. `inputs` are a table of what is known of each step beside its cells.
    """

    table: Table
    starts: Integers | None
    form: SequenceForm
    places: Integers | None = None
    inputs: Table | None = None

    def named(self, row: int) -> str:
        """Return what messages call a row of the table: a step of a sequence."""
        if self.starts is None:
            number, step = divmod(row, self.form.width)
        else:
            place = row if self.places is None else int(np.flatnonzero(self.places == row)[0])
            number = int(np.searchsorted(self.starts, place, side="right")) - 1
            step = place - int(self.starts[number])
        return f"step {step} of sequence {number}"


def steps_of(
    X: ArrayLike | Any,
    lengths: ArrayLike | None = None,
    sequence: str | None = None,
    time: str | None = None,
) -> Steps:
    """Return the steps of what a user brings."""
    if isinstance(X, Steps):
        return X
    if sequence is not None and lengths is not None:
        raise DataError("lengths are for arrays of steps, sequence= for frames; give one of them")
    if time is not None and sequence is None:
        raise DataError("time= orders the rows of each sequence of a frame; name these by sequence=")
    if isinstance(X, Mapping):
        return _channels(X, lengths, sequence)
    frame = frame_of(X)
    if sequence is not None:
        if frame is None:
            raise DataError(f"sequence={quoted(sequence)} names a column of a frame, but the data are {quoted(X)}")
        return _long(X, frame, sequence, time)
    if lengths is not None:
        return _end_to_end(X, lengths)
    if frame is not None:
        names = tuple(map(str, frame.columns))
        return _rows({"x0": X}, SequenceForm("rows", names=names, width=len(names)), named=False)
    if isinstance(X, np.ndarray) and X.ndim in (2, 3):
        return _array_rows(X)
    return _listed(X)


def names_of(X: ArrayLike | Any, sequence: str | None, count: int) -> Sequence[Any]:
    """Return what sequences are called: the cells of the column that names them, in their order, else 0, 1, …."""
    frame = None if sequence is None else frame_of(X)
    return range(count) if frame is None else list(dict.fromkeys(frame[sequence].to_list()))


def _starts(lengths: Any) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


# One table after another ---------------------------------------------------------------------------------------


def _end_to_end(X: Any, lengths: Any) -> Steps:
    """Return the steps of an array of all of them, and how many belong to each sequence."""
    given = an_array("lengths", lengths, DataError)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise DataError(f"lengths are whole numbers, one for each sequence, not {quoted(lengths)}")
    if (given < 0).any():
        raise DataError(f"lengths holds {int(given.min())}; a sequence has at least 0 steps")
    array = X if frame_of(X) is not None or isinstance(X, np.ndarray | Table) else _array(X)
    flat = getattr(array, "ndim", 2) == 1
    table = table_of(array.reshape(-1, 1) if flat else array, 0)
    if (total := int(given.sum(dtype=np.float64))) != table.count:
        raise DataError(f"lengths add up to {total}, but the data have {table.count} steps; they must be the same")
    return Steps(table, _starts(given), SequenceForm("lengths", flat))


def _long(X: Any, frame: Any, sequence: str, time: str | None) -> Steps:
    """Return the steps of a frame in which each row is one, of a sequence that a column names."""
    for name in (sequence, *([time] if time is not None else [])):
        if not isinstance(name, str) or name not in frame.columns:
            hint = what_there_is(name, [other for other in frame.columns if isinstance(other, str)])
            if name in map(str, frame.columns):
                hint = " as text; rename them, as with frame.rename(columns=str)"
            raise DataError(f"the frame has no column {quoted(name)}{hint}")
    if sequence == time:
        raise DataError(f"sequence= and time= are both {sequence!r}; they are two columns")
    channels = [name for name in frame.columns if name not in (sequence, time)]
    if not channels:
        raise DataError("the frame has no column beside those of sequence= and time=; each step needs a cell")
    table = table_of(frame.select(channels).to_native())
    groups = _groups(frame[sequence], sequence)
    keys = [groups]
    if time is not None:
        if bool(frame[time].is_null().any()):
            raise DataError(f"the column {time!r} of time= has missing cells, so steps have no order; drop them")
        keys.insert(0, _ranks(frame, time))
    order = np.lexsort(keys)
    starts = _starts(np.bincount(groups))
    sorted_already = bool((order == np.arange(len(order))).all())
    form = SequenceForm("long", len(channels) == 1, sequence=sequence, time=time)
    return Steps(table, starts, form, None if sorted_already else order)


def _groups(series: Any, name: str) -> Integers:
    """Return the number of the sequence that each row belongs to, in the order in which they first occur."""
    keys = np.asarray(series.to_numpy())
    cells = series.to_list() if keys.dtype.kind == "O" else None
    absent = keys != keys if cells is None else np.array([is_missing(cell) for cell in cells], np.bool_)
    if absent.any():
        raise DataError(
            f"row {int(np.argmax(absent))} has no sequence: its cell of {name!r} is missing; drop such rows"
        )
    if cells is not None:
        numbers: dict[Any, int] = {}
        try:
            return np.array([numbers.setdefault(cell, len(numbers)) for cell in cells], np.int64)
        except TypeError:
            raise DataError(
                f"the column {name!r} of sequence= holds {quoted(cells[0])}; sequences have names or numbers"
            ) from None
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[groups]


def _ranks(frame: Any, time: str) -> Integers:
    """Return the place of each row by a column in the order that its own library has for it, then as rows stand."""
    row = "row" if time != "row" else "place"
    try:
        order = frame.select(time).with_row_index(row).sort(time, row)[row].to_numpy()
    except Exception:
        # Each library has errors of its own for what has no order.
        raise DataError(
            f"the column {time!r} of time= cannot be sorted; steps are ordered by numbers, times, text or ordered "
            f"categories"
        ) from None
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


# One sequence after another ------------------------------------------------------------------------------------


def _listed(X: Any) -> Steps:
    """Return the steps of a list of sequences, or of one sequence alone."""
    if isinstance(X, str | bytes):
        raise DataError(f"the data are the text {X[:60]!r}; for one sequence of letters write [text]")
    sized = hasattr(type(X), "__len__") and getattr(X, "ndim", 1) != 0
    if not sized or (not hasattr(type(X), "__getitem__") and not hasattr(X, "dtype")):
        raise DataError(f"sequences are words, lists, arrays or a frame, not {quoted(X)}")
    check_cells("the data", len(X), "give them in parts")
    items = X if isinstance(X, list | tuple) else _items(X)
    if not len(items):
        raise DataError("there are no sequences; give at least one")
    if isinstance(items, np.ndarray):
        return Steps(table_of(items.reshape(-1, 1)), _starts([len(items)]), SequenceForm("one"))
    first = items[0]
    if isinstance(first, str | bytes):
        return _words(items)
    if not _is_sequence(first):
        array = _array(items)
        if array.ndim != 1:
            raise DataError("a list holds sequences, or the cells of one, not both")
        return Steps(table_of(array.reshape(-1, 1)), _starts([len(items)]), SequenceForm("one"))
    wrong = next((place for place, item in enumerate(items) if not _is_sequence(item)), None)
    if wrong is not None:
        raise DataError(f"sequence {wrong} is {quoted(items[wrong])}; others are lists, and each must be one")
    lengths = list(map(len, items))
    array = _joined(items)
    if array.ndim > 2:
        raise DataError("a sequence has steps, and a step has cells; these have further axes")
    flat = array.ndim == 1
    return Steps(
        table_of(array.reshape(-1, 1) if flat else array, 0), _starts(lengths), SequenceForm("lists", flat)
    )


def _items(X: Any) -> Any:
    """Return what an array or series holds: an array of cells as it is, others one by one."""
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 1:
        raise DataError(f"sequences are lists of steps, not an array of {array.ndim} axes")
    return array if array.dtype.kind in "biuf" else array.tolist()


def _is_sequence(item: Any) -> bool:
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, list | tuple) or (hasattr(item, "__array__") and hasattr(type(item), "__len__"))


def _joined(items: Sequence[Any]) -> NDArray[Any]:
    """Return the steps of all sequences as one array."""
    filled = [item for item in items if len(item)]
    try:
        if all(isinstance(item, list | tuple) for item in filled):
            return _array(list(chain.from_iterable(filled)))
        arrays = [item if isinstance(item, np.ndarray) else _array(item) for item in filled]
        if any(isinstance(item, np.ma.MaskedArray) for item in arrays):
            joined: NDArray[Any] = np.ma.concatenate(arrays)  # type: ignore[no-untyped-call]
            return joined
        kinds = {array.dtype.kind for array in arrays}
        if kinds & set("USO") and len(kinds) > 1:
            arrays = [array.astype(object) for array in arrays]
        return np.concatenate(arrays) if arrays else np.empty(0)
    except (ValueError, TypeError):
        raise DataError(DIFFERENT_STEPS) from None


def _array(cells: Any) -> NDArray[Any]:
    return as_array(cells, "the sequences", DIFFERENT_STEPS)


def _words(items: Sequence[Any]) -> Steps:
    words = [item.decode("utf-8", "backslashreplace") if isinstance(item, bytes) else item for item in items]
    wrong = next((place for place, word in enumerate(words) if not isinstance(word, str)), None)
    if wrong is not None:
        raise DataError(f"sequence {wrong} is {quoted(words[wrong])}, others are words; give words alone, or lists")
    starts = _starts(list(map(len, words)))
    letters = letter_cells("".join(words))
    return Steps(ColumnTable(None, [letters], int(starts[-1]), TEXT), starts, SequenceForm("words"))


# One row per sequence ------------------------------------------------------------------------------------------


def _array_rows(X: NDArray[Any]) -> Steps:
    count, width, *channels = X.shape
    if not count or not width:
        raise DataError(f"an array of sequences has rows and columns, not the shape {X.shape}")
    table = table_of(X.reshape(count * width, *(channels or [1])))
    return Steps(table, None, SequenceForm("rows", not channels, width=width))


def _channels(X: Mapping[Any, Any], lengths: object, sequence: object) -> Steps:
    """Return the steps of a mapping of channels to frames or arrays of one sequence per row."""
    if lengths is not None or sequence is not None:
        raise DataError("a mapping of channels holds one sequence per row; leave lengths and sequence out")
    if not X or not all(isinstance(name, str) for name in X):
        raise DataError("a mapping of channels has names, and a frame of one sequence per row for each")
    names: tuple[str, ...] = ()
    for value in X.values():
        frame = frame_of(value)
        names = names or (tuple(map(str, frame.columns)) if frame is not None else ())
    width = table_of(next(iter(X.values()))).width
    return _rows(X, SequenceForm("channels", len(X) == 1, names=names, width=width), named=True)


def _rows(X: Mapping[str, Any], form: SequenceForm, named: bool) -> Steps:
    merged: dict[str, Cells] = {}
    shape: tuple[int, int] | None = None
    container = ARRAY
    for name, value in X.items():
        table = table_of(value)
        if shape is not None and shape != (table.count, table.width):
            raise DataError(
                f"the channel {name!r} has {table.count} rows and {table.width} columns, others have {shape[0]} "
                f"and {shape[1]}; all need the same sequences and steps"
            )
        shape, container = (table.count, table.width), table.container
        columns = [table.column(place, name) for place in range(table.width)]
        _require_alike(columns, table.names)
        merged[name] = _merged(columns, name)
    assert shape is not None
    names = tuple(merged) if named else None
    return Steps(ColumnTable(names, list(merged.values()), shape[0] * shape[1], container), None, form)


def _require_alike(columns: Sequence[Cells], names: Sequence[str] | None) -> None:
    """Raise `DataError` where a column of numbers stands among steps of text: it may be an id."""
    words = [place for place, column in enumerate(columns) if isinstance(column, Categorical) and column.labels]
    for place, column in enumerate(columns):
        if isinstance(column, Categorical) or not words or not ((column == column) & (column != -1)).any():
            continue
        wrong, other = (names[at] if names else f"x{at}" for at in (place, words[0]))
        raise DataError(
            f"each row is a sequence and each column a step, but {wrong!r} holds numbers and {other!r} does not; "
            f"drop columns that are no steps, or name the one that names the sequence of each row as sequence="
        )


def _merged(columns: Sequence[Cells], name: str) -> Cells:
    """Return the cells of several columns as those of one, row by row."""
    if all(isinstance(column, np.ndarray) for column in columns):
        kinds = {column.dtype.kind for column in columns if isinstance(column, np.ndarray)}
        if kinds == {"b"} or "b" not in kinds:
            return array_cells(np.stack(columns, axis=1).ravel(), name)  # type: ignore[arg-type]
    labels: dict[Label, int] = {}
    places = np.stack([_relabelled(column, labels, name) for column in columns], axis=1).ravel()
    held = [column for column in columns if isinstance(column, Categorical)]
    declared = len(held) == len(columns) and all(one.declared and one.labels == held[0].labels for one in held)
    return Categorical(places, tuple(labels), declared, declared and held[0].ordered)


def _relabelled(column: Cells, labels: dict[Label, int], name: str) -> Integers:
    """Return the places of a column's cells among labels of several columns, to which new ones are added."""
    if isinstance(column, Categorical):
        lookup = [labels.setdefault(label, len(labels)) for label in column.labels]
        return np.array([*lookup, -1], np.int64)[column.places]
    absent = column != column
    values, at = np.unique(column[~absent], return_inverse=True)
    lookup = [
        -1 if value == -1 else labels.setdefault(plain_label(value, name), len(labels)) for value in values.tolist()
    ]
    places = np.full(len(column), -1)
    places[~absent] = np.array([*lookup, -1], np.int64)[at]
    return places


FormKind: TypeAlias = Literal["words", "lists", "one", "lengths", "rows", "channels", "long"]


@dataclass(frozen=True)
class SequenceForm:
    """How sequences stood when they came.

    Attributes
    ----------
    kind : {"words", "lists", "one", "lengths", "rows", "channels", "long"}
        Words; a list of lists or arrays; one sequence alone; an array of all steps with `lengths`; one sequence per
        row of an array or frame; a mapping of channels to such frames; a frame of one step per row.
    flat : bool
        Whether a step is a cell, and not a row of cells.
    names : tuple of str
        The names of the steps, where each is a column of a frame; else empty.
    width : int
        How many steps a row has; 0 where sequences do not stand in rows.
    sequence, time : str, optional
        The columns of a long frame that name the sequence of each row and the order of its steps.
    """

    kind: FormKind
    flat: bool = True
    names: tuple[str, ...] = ()
    width: int = 0
    sequence: str | None = None
    time: str | None = None


RECORD = Record(
    "a form of sequences",
    {
        "kind": STRING,
        "flat": FLAG,
        "names": TEXTS,
        "width": WHOLE,
        "sequence": optional(STRING),
        "time": optional(STRING),
    },
)


def _form(reader: Reader, content: Any, _: At) -> SequenceForm:
    form = SequenceForm(**RECORD.read(reader, content))
    if form.kind not in get_args(FormKind) or (form.kind == "long" and form.sequence is None):
        raise FileError(f"this is no form of sequences: {quoted(form.kind)}")
    return form


FORM = Field(lambda writer, name, form: RECORD.write(writer, form), _form)
"""The form in which sequences came, in files."""
