"""Rows in the form in which they came: labels for codes, in an array, words, or a frame of the same library."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.cells import Categorical, are_dates, is_missing, object_array
from eigentree.data.tables.labels import Bins, Labels
from eigentree.data.tables.numbers import Numbers
from eigentree.data.tables.table import ARRAY, TEXT, Table, frame_of, table_of, warn_of_extra
from eigentree.data.tables.text_cells import FileTable, TextColumn, read_as
from eigentree.errors import DataError, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Floats, Integers
    from eigentree.data.streams.row_batches import Batch
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.labels import Meaning
    from eigentree.data.tables.rows import Rows

__all__ = ["arranged", "arrow_rows", "as_frame", "filled_rows", "frame_like", "row_labels", "sampled_rows"]


def filled_rows(
    X: Any, rows: Rows, columns: Columns, codes: Integers, random: np.random.Generator | None = None
) -> Any:
    """Return rows with their missing cells filled, in the form in which they came; known cells stay as they are.

    `X` is what the user gave, `rows` the same, read, and `codes` those of all cells, filled. Without `random`,
    which samples numbers inside their bins, a bin's typical number stands for it. Codes may be floats, among which
    the columns of numbers hold these.
    """
    frame = frame_of(X)
    if frame is None and columns.plain:
        return codes
    table = table_of(X)
    filled: dict[int, tuple[Booleans, NDArray[Any]]] = {}
    for place, at in enumerate(table.places(columns.names)):
        missing = rows.missing(place)
        if missing.any():
            meaning = columns.meanings[place]
            values = _decoded(meaning, codes[missing, place], random)
            known = table.column(at, "")
            if isinstance(meaning, Numbers) and are_dates(values) and isinstance(known, Categorical):
                values = object_array(meaning.written(values, known.labels))
            filled[at] = missing, values
    if frame is not None:
        return _filled_frame(frame, filled)
    cells = [_array_column(table, at, filled.get(at)) for at in range(table.width)]
    if table.container == TEXT and _are_letters(cells):
        words = ["".join(letters) for letters in zip(*cells, strict=True)]
        return np.array(words) if isinstance(X, np.ndarray) else words
    # Rows of a file have no one type: whole numbers stay such beside others.
    return _as_one_array([object_array(column.tolist()) for column in cells] if isinstance(X, FileTable) else cells)


def sampled_rows(
    columns: Columns, codes: Integers, random: np.random.Generator, given: Mapping[str, Any] | None = None
) -> Any:
    """Return codes as rows of labels, in what the columns were learned from.

    Numbers of a bin are sampled within it, unless they are given. Codes may be floats, among which the columns of
    numbers hold these.
    """
    if columns.container == ARRAY and columns.plain:
        return codes
    cells = [_decoded(meaning, codes[:, place], random) for place, meaning in enumerate(columns.meanings)]
    for name, value in (given or {}).items():
        place = columns.position(name)
        if isinstance(numbers := columns.meanings[place], Numbers):
            # A fraction that is given stays one.
            number = numbers.number(value)
            held = numbers.unit or number.is_integer()
            cells[place] = numbers.restored(np.full(len(codes), number)) if held else np.full(len(codes), number)
        if isinstance(meaning := columns.meanings[place], Bins) and not isinstance(value, str):
            if not meaning.least <= value <= meaning.most:
                raise DataError(
                    f"{name!r} is given as {quoted(value)}, but has {meaning.described()}; give one of these"
                )
            cells[place] = (
                np.full_like(cells[place], value) if float(value).is_integer() else np.full(len(codes), value)
            )
    if columns.container == TEXT and _are_letters(cells):
        return ["".join(letters) for letters in zip(*cells, strict=True)]
    if columns.container in (ARRAY, TEXT):
        return _as_one_array(cells)
    return _new_frame(columns, cells)


def frame_like(X: Any, columns: Mapping[str, NDArray[Any]]) -> Any | None:
    """Return columns of numbers as a frame of the library of X, with its index; None if X is no frame."""
    frame = frame_of(X)
    if frame is None:
        return None
    import narwhals as nw

    made = nw.from_dict(dict(columns), backend=frame.implementation).to_native()
    if frame.implementation.is_pandas_like():
        made.index = frame.to_native().index
    return made


def row_labels(X: Any, count: int) -> Sequence[Any]:
    """Return what rows are called: by the index of a pandas frame, else 0, 1, …."""
    frame = frame_of(X)
    if frame is None or not frame.implementation.is_pandas_like():
        return range(count)
    found: list[Any] = frame.to_native().index.tolist()
    return found if len(set(found)) == count else range(count)


def arranged(X: Any, columns: Columns) -> Any:
    """Return a frame with the columns of a model, in their order; anything else as it is."""
    frame = frame_of(X)
    if frame is None:
        return X
    table = table_of(X)
    places = list(table.places(columns.names))
    warn_of_extra(table, columns.names)
    return X if places == list(range(table.width)) else frame[:, places].to_native()


def as_frame(X: Any, names: Sequence[str], library: str) -> Any:
    """Return rows as a frame of pandas or polars, with these names of columns."""
    import narwhals as nw

    frame = frame_of(X)
    if frame is None:
        cells = np.asarray([list(word) for word in X] if table_of(X).container == TEXT else X)
        columns = {name: _column_for(library, column) for name, column in zip(names, cells.T, strict=True)}
        backend: Any = library
        return nw.from_dict(columns, backend=backend).to_native()
    if library == "pandas":
        return frame.to_pandas().set_axis(list(names), axis=1)
    made = frame.to_polars()
    return made.rename(dict(zip(made.columns, names, strict=True)))


def _column_for(library: str, column: NDArray[Any]) -> Any:
    """Return the cells of a column in a type that the library has."""
    if column.dtype.kind in "OU":
        # A list shows its library more of its cells than an array of objects.
        return column.tolist()
    if library == "polars" and column.dtype.kind in "mM" and column.dtype != "M8[D]":
        # Of numpy's units polars has days for dates alone, and nothing else that is coarser than milliseconds.
        unit = np.datetime_data(column.dtype)[0]
        return column if unit in ("ms", "us", "ns") else column.astype(f"{column.dtype.kind}8[ms]")
    return column


def _decoded(meaning: Meaning | None, codes: NDArray[Any], random: np.random.Generator | None) -> NDArray[Any]:
    """Return what codes, or the numbers of a column of such, stand for, as an array."""
    if isinstance(meaning, Numbers):
        return meaning.restored(np.asarray(codes, np.float64))
    codes = codes.astype(np.int64, copy=False)
    if meaning is None:
        return np.asarray(codes, np.int64)
    if isinstance(meaning, Bins):
        numbers = np.array(meaning.typical)[codes] if random is None else meaning.sampled(codes, random)
        return numbers.astype(np.int64) if meaning.whole else numbers
    return np.asarray(_label_array(meaning.values)[codes])


def _label_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Return labels as an array: of truth values or numbers where all are, else of objects."""
    kinds = {type(label) for label in labels}
    if kinds == {bool}:
        return np.array(labels, np.bool_)
    if kinds <= {int, float} and all(abs(label) < 2**63 for label in labels):
        return np.array(labels)
    return object_array(labels)


def _array_column(table: Table, place: int, filled: tuple[Booleans, NDArray[Any]] | None) -> NDArray[Any]:
    """Return a column of an array with its missing cells filled."""
    column = table.column(place, "")
    objects = table.array is not None and table.array.dtype.kind == "O"
    if isinstance(column, Categorical) or (objects and are_dates(column)):
        column = object_array(table.cells(place))
    if filled is None:
        return column
    missing, values = filled
    if column.dtype.kind == "O":
        values = object_array(_plain_cells(values))
    known = column[~missing]
    kind = np.result_type(values.dtype, known.dtype) if len(known) else values.dtype
    if values.dtype.kind == "i" and known.dtype.kind == "f" and (known == np.rint(known)).all():
        # Whole numbers were floats only to have NaN among them.
        kind = values.dtype
    made = np.empty(len(column), kind)
    made[~missing] = known
    made[missing] = values
    return made


def _plain_cells(values: NDArray[Any]) -> list[Any]:
    """Return cells as Python has them; it has no dates finer than microseconds."""
    fine = are_dates(values) and np.datetime_data(values.dtype)[0] == "ns"
    found: list[Any] = (values.astype(f"{values.dtype.kind}8[us]") if fine else values).tolist()
    return found


def _are_letters(cells: Sequence[NDArray[Any]]) -> bool:
    """Return whether columns are letters, as those of words are unless the user gave other categories."""
    return all(isinstance(cell, str) and len(cell) == 1 for column in cells for cell in column.tolist())


def _as_one_array(cells: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns as one array, of objects where their kinds differ."""
    kinds = {column.dtype.kind for column in cells}
    numeric = kinds in ({"b"}, {"M"}, {"m"}) or kinds <= {"i", "u", "f"}
    made = np.empty((len(cells[0]), len(cells)), np.result_type(*cells) if numeric else object)
    for place, column in enumerate(cells):
        made[:, place] = column if numeric else _plain_cells(column)
    return made


def _filled_frame(frame: Any, filled: Mapping[int, tuple[Booleans, NDArray[Any]]]) -> Any:
    """Return a frame with the missing cells of some columns filled."""
    native = frame.to_native()
    if frame.implementation.is_pandas_like():
        # By position, because names need not be strings.
        made = native.copy()
        for place, (missing, values) in filled.items():
            made.isetitem(place, _filled_pandas(native.iloc[:, place], missing, values))
        return made
    columns = []
    for place, name in enumerate(frame.columns):
        series = frame[:, place]
        columns.append(_filled_series(series, name, *filled[place]) if place in filled else series)
    return frame.with_columns(*columns).to_native() if filled else native


def _filled_pandas(column: Any, missing: Booleans, values: NDArray[Any]) -> Any:
    """Return a pandas column with its missing cells filled, of the same type where that can hold the labels."""
    filled = column.copy()
    if hasattr(column, "cat"):
        categories = column.cat.categories.tolist()
        # Categories of any kind are known by their text, but 1 and "1" are two.
        by_text = {str(label): label for label in reversed(categories)}
        known = set(categories)
        wanted = [value if value in known else by_text.get(str(value), value) for value in values.tolist()]
        filled = filled.cat.add_categories([value for value in dict.fromkeys(wanted) if value not in known])
        filled[missing] = wanted
        return filled
    new: Any = _plain_cells(values)
    if are_dates(values) and column.dtype != object:
        dates = type(column)(values)
        zone = getattr(column.dtype, "tz", None)
        new = (dates if zone is None else dates.dt.tz_localize("UTC").dt.tz_convert(zone)).tolist()
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "f" and values.dtype.kind in "iuf":
        new = values.astype(column.dtype)
    try:
        with warnings.catch_warnings():
            # What pandas 3 refuses, pandas 2 warns of.
            warnings.simplefilter("error", FutureWarning)
            filled[missing] = new
    except (TypeError, ValueError, FutureWarning):
        filled = column.astype(object)
        filled[missing] = new
        return filled.infer_objects()
    return filled


def _filled_series(series: Any, name: str, missing: Booleans, values: NDArray[Any]) -> Any:
    """Return a narwhals series with its missing cells filled, of the same type where that can hold the labels."""
    import narwhals as nw

    if are_dates(values):
        return _filled_dates(series, name, missing, values)
    cells = series.to_list()
    whole_as_float = series.dtype.is_float() and values.dtype.kind in "iu"
    for row, value in zip(np.flatnonzero(missing).tolist(), values.tolist(), strict=True):
        cells[row] = float(value) if whole_as_float else value
    try:
        if series.implementation.is_pyarrow():
            # narwhals has one kind of dictionary, pyarrow many.
            held = _arrow_column(series.to_native(), cells)
            made = nw.from_native(held, series_only=True).alias(name)
        else:
            made = nw.new_series(name, cells, series.dtype, backend=series.implementation)
        # Some cut off what does not fit.
        if made.to_list() == cells or series.dtype.is_float():
            return made
    except Exception:  # whatever the library of the frame raises where a label does not fit its type
        pass
    return _new_series(name, cells, series.implementation)


def _filled_dates(series: Any, name: str, missing: Booleans, values: NDArray[Any]) -> Any:
    """Return a narwhals series of dates or durations with its missing cells filled, of the same type."""
    import narwhals as nw

    whole = np.full(len(missing), "NaT", values.dtype)
    whole[missing] = values
    dates = _new_dates(name, whole, series.implementation)
    if (zone := getattr(series.dtype, "time_zone", None)) is not None:
        dates = dates.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    known = nw.new_series(name, (~missing).tolist(), nw.Boolean, backend=series.implementation)
    return series.zip_with(known, dates.cast(series.dtype))


def _new_dates(name: str, values: NDArray[Any], library: Any) -> Any:
    """Return dates or durations as a narwhals series."""
    import narwhals as nw

    if np.datetime_data(values.dtype)[0] in ("h", "m", "s"):
        # The coarsest that all libraries have beside days.
        values = values.astype(f"{values.dtype.kind}8[ms]")
    return nw.Series.from_numpy(name, values, backend=library)


def _arrow_column(column: Any, cells: list[Any]) -> Any:
    """Return cells as an Arrow column of the type of another; a dictionary keeps its values and their order."""
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return pyarrow.chunked_array([pyarrow.array(cells, column.type)])
    whole = column.unify_dictionaries()
    declared = whole.chunk(0).dictionary.to_pylist() if whole.num_chunks else []
    labels = list(dict.fromkeys([*declared, *(cell for cell in cells if cell is not None)]))
    return _dictionary(cells, labels, column.type)


def _dictionary(cells: Sequence[Any], labels: Sequence[Any], kind: Any) -> Any:
    """Return cells as an Arrow column of a dictionary type, whose values are labels in their order."""
    import pyarrow

    places = {label: place for place, label in enumerate(labels)}
    indices = pyarrow.array([places.get(cell) for cell in cells], kind.index_type)
    values = pyarrow.array(labels, kind.value_type)
    return pyarrow.chunked_array([pyarrow.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)])


def _new_series(name: str, cells: list[Any], library: Any) -> Any:
    """Return cells as a narwhals series: of numbers or truth values where all are of a kind, else of text."""
    import narwhals as nw

    known = [cell for cell in cells if not is_missing(cell)]
    kinds = {type(cell) for cell in known}
    if kinds == {int, float}:
        return nw.new_series(name, [None if is_missing(cell) else float(cell) for cell in cells], backend=library)
    if len(kinds) > 1:
        cells = [None if is_missing(cell) else str(cell) for cell in cells]
    return nw.new_series(name, cells, backend=library)


def _new_frame(columns: Columns, cells: Sequence[NDArray[Any]]) -> Any:
    """Return a new frame of the library that the columns were learned from."""
    import narwhals as nw

    library: Any = nw.Implementation.from_string(columns.container)
    try:
        native = library.to_native_namespace()
    except (ImportError, AssertionError):
        raise DataError(
            f"the model was fitted on a {columns.container} frame, and hands out such; install {columns.container}"
        ) from None
    made = {}
    for name, values, meaning in zip(columns.names, cells, columns.meanings, strict=True):
        series = (
            _new_dates(name, values, library) if are_dates(values) else _new_series(name, values.tolist(), library)
        )
        if isinstance(meaning, Labels) and meaning.declared and len({type(label) for label in meaning.values}) == 1:
            series = nw.from_native(_categorical(native, name, values, meaning, library), series_only=True)
        made[name] = series
    return nw.from_dict(made).to_native()


def _categorical(native: Any, name: str, values: NDArray[Any], meaning: Labels, library: Any) -> Any:
    """Return a column of labels with all its categories declared."""
    labels = list(meaning.values)
    if library.is_pandas_like():
        return native.Series(native.Categorical(values.tolist(), labels, meaning.ordered), name=name)
    if library.is_polars() and all(isinstance(label, str) for label in labels):
        return native.Series(name, values.tolist(), dtype=native.Enum(labels))
    if library.is_pyarrow():
        kind = native.dictionary(native.int32(), native.array(labels).type, meaning.ordered)
        return _dictionary(values.tolist(), labels, kind)
    return native.Series(name, values.tolist())


def arrow_rows(batch: Batch, columns: Columns) -> Any:
    """Return the rows of a batch as an Arrow table, with all the columns that they have.

    Text of a file is turned into what the columns of a model hold: text, numbers, or truth values.
    """
    if isinstance(batch.data, FileTable):
        return _typed(batch.data, columns)
    with batch.named():
        frame = frame_of(batch.data)
        if frame is None:
            frame = frame_of(as_frame(batch.data, columns.names, "pyarrow"))
        assert frame is not None
        return frame.to_arrow()


def _typed(table: FileTable, columns: Columns) -> Any:
    import pyarrow

    types = {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64(), bool: pyarrow.bool_()}
    made = {}
    for place, name in enumerate(table.names):
        cells = table.held[place]
        if not isinstance(cells, TextColumn) or name not in columns.names:
            made[name] = pyarrow.array(table.cells(place)) if isinstance(cells, Categorical | np.ndarray) else cells
            continue
        meaning = columns.meanings[columns.position(name)]
        read = read_as(cells, meaning)
        if isinstance(meaning, Numbers):
            made[name] = _arrow_numbers(meaning, meaning.values(read))
            continue
        kind = _kind(meaning)
        if isinstance(read, Categorical):
            # What is no label of the column is a missing cell there, or an error by now.
            labels = [*(label if type(label) is kind else None for label in read.labels), None]
            values = [labels[place] for place in read.places]
        else:
            values = [None if cell != cell else kind(cell) for cell in read.tolist()]
        made[name] = pyarrow.array(values, types[kind])
    return pyarrow.table(made)


def _arrow_numbers(meaning: Numbers, values: Floats) -> Any:
    """Return numbers as an Arrow column, null where one is missing: whole numbers where all are."""
    import pyarrow

    if meaning.unit:
        dates = np.full(len(values), "NaT", meaning.unit)
        dates[values == values] = meaning.restored(values[values == values])
        return pyarrow.array(dates)
    whole = meaning.whole and not (values % 1 > 0).any()
    return pyarrow.array(values, pyarrow.int64() if whole else pyarrow.float64(), from_pandas=True)


def _kind(meaning: Meaning | None) -> type:
    """Return what the cells of a column are."""
    if meaning is None:
        return int
    if isinstance(meaning, Bins):
        return int if meaning.whole else float
    assert isinstance(meaning, Labels)
    kinds = {type(value) for value in meaning.values}
    return next((kind for kind in (str, float, int) if kind in kinds), bool)
