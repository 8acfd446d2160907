"""Inputs: what is known of each step beside its cells, and what its distribution depends on (covariates)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.data.sequences.steps import Steps, steps_of
from eigentree.data.tables.cells import Categorical
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.design import label_counts, terms_of
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.table import Table, as_array, frame_of, table_of
from eigentree.data.tables.text_cells import TextColumn, typed_texts
from eigentree.errors import DataError, did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.tables.cells import Cells

__all__ = [
    "InputSequences",
    "are_letters",
    "are_symbols",
    "cells_of_steps",
    "codes_of_steps",
    "design_of",
    "learned_inputs",
    "lengths_of",
    "split_frame",
]


@dataclass(frozen=True, eq=False)
class InputSequences(Sequences):
    """Sequences with inputs.

    Attributes
    ----------
    design : array, shape (different inputs, covariates)
        The inputs that differ, as `design_names` says.
    which : array of int, shape (steps,)
        The input of each step.
    ahead : array of int, shape (sequences, steps ahead)
        Those of steps after the ends.
    """

    design: Floats = None  # type: ignore[assignment]
    which: Integers = None  # type: ignore[assignment]
    ahead: Integers = None  # type: ignore[assignment]

    @classmethod
    def joined(
        cls, outputs: Sequences, inputs: Any, columns: Columns, ahead: int = 0, symbols: bool | None = None
    ) -> InputSequences:
        """Return sequences with their inputs, read by known columns, and those of so many steps after the ends.

        Parameters
        ----------
        outputs : Sequences
        inputs : sequences, or a table
            One row for each step of the sequences, in any form that these come in; or one row for each sequence,
            which holds at all its steps.
        columns : Columns
            Of the inputs.
        ahead : int
        symbols : bool, optional
            Whether each input has tables of its own; by default if `are_symbols`.
        """
        table, rows = _rows_of(inputs, outputs, ahead, are_letters(columns))
        read = Rows.of(table, columns, where=lambda row: f"row {row} of the inputs")
        codes, values = read.encode(), read.values()
        for place, name in enumerate(columns.names):
            # Rows beyond the ends of sequences are not used.
            if len(missing := np.intersect1d(np.flatnonzero(read.missing(place)), rows)):
                raise DataError(
                    f"row {missing[0]} of the inputs, column {name!r} is missing; inputs are known at each step: "
                    f"impute them first, or drop the sequence"
                )
        if are_symbols(columns) if symbols is None else symbols:
            # The tables of all symbols, also of those that do not occur here.
            design, which = np.eye(columns.states[0]), codes[rows, 0].astype(np.int64)
        else:
            design, which = np.unique(design_of(columns, codes, values, False)[rows], axis=0, return_inverse=True)
        within = np.arange(len(rows)) - np.repeat(
            np.cumsum(outputs.lengths + ahead) - outputs.lengths - ahead, outputs.lengths + ahead
        )
        later = within >= np.repeat(outputs.lengths, outputs.lengths + ahead)
        which = which.ravel()
        own = {each.name: getattr(outputs, each.name) for each in fields(Sequences)}
        return cls(**own, design=design, which=which[~later], ahead=which[later].reshape(outputs.count, ahead))

    def chosen(self, numbers: Any) -> InputSequences:
        """Return some of the sequences, by their numbers, in this order."""
        own = np.asarray(numbers, np.int64)
        kept = super().chosen(own)
        places = np.repeat(self.starts[own] - kept.starts[:-1], kept.lengths) + np.arange(kept.starts[-1])
        named = {each.name: getattr(kept, each.name) for each in fields(Sequences)}
        return InputSequences(**named, design=self.design, which=self.which[places], ahead=self.ahead[own])


def learned_inputs(inputs: Any, outputs: Sequences) -> Columns:
    """Return the columns of inputs, as of covariates: numbers are numbers, and anything else is labels.

    A single column of whole numbers is read as a column of a table is: they may be codes of symbols.
    """
    table, _ = _rows_of(inputs, outputs, 0, letters=True)
    kinds: dict[str, Any] = {}
    for place, name in enumerate(table.all_names):
        cells = table.column(place, name)
        array = typed_texts(list(map(str, cells.labels))) if isinstance(cells, TextColumn) else cells
        if isinstance(array, np.ndarray) and array.dtype.kind in ("f" if len(table.all_names) == 1 else "iuf"):
            kinds[name] = "continuous"
    return Columns.learned(table, ReadOptions(numeric="emissions", kinds=kinds))


def cells_of_steps(given: Any, outputs: Sequences, what: str) -> Cells:
    """Return the only cell of each step, in any form that sequences have."""
    table, rows = _rows_of(given, outputs, 0, True, what)
    if len(table.all_names) != 1:
        raise DataError(f"{what} are one cell for each step, not {len(table.all_names)}")
    cells = table.column(0, table.all_names[0])
    return replace(cells, places=cells.places[rows]) if isinstance(cells, Categorical) else cells[rows]


def codes_of_steps(given: Any, outputs: Sequences, count: int, what: str) -> Codes:
    """Return codes below a count, one for each step, in any form that sequences have; the count where missing."""
    table, rows = _rows_of(given, outputs, 0, True, what)
    if len(table.all_names) != 1:
        raise DataError(f"{what} are one cell for each step, not {len(table.all_names)}")
    read = Rows.of(table, Columns(tuple(table.all_names), (count,)), where=lambda row: f"row {row} of the {what}")
    codes: Codes = read.encode()[rows, 0]
    return codes


def are_symbols(columns: Columns) -> bool:
    """Return whether inputs are symbols: a single column of categories, each of which has tables of its own."""
    return len(columns.names) == 1 and not columns.number_places


def are_letters(columns: Columns) -> bool:
    """Return whether inputs are symbols of one letter each, so that those of a sequence may be a word."""
    return are_symbols(columns) and all(len(str(label)) == 1 for label in columns.labels(columns.names[0]))


def lengths_of(inputs: Any, words: bool) -> list[int] | None:
    """Return how long the items of a list are, where these are lists or arrays, or `words` is true and they are."""
    if not isinstance(inputs, list | tuple) or not inputs:
        return None
    for item in inputs:
        is_word = words and isinstance(item, str)
        if not (is_word or isinstance(item, list | tuple) or (isinstance(item, np.ndarray) and item.ndim)):
            return None
    return [len(item) for item in inputs]


def split_frame(X: Any, inputs: Any, names: Sequence[str] = ()) -> tuple[Any, Any]:
    """Return outputs and inputs, where inputs are named as columns of a frame that holds both.

    Where no inputs are given, and the frame has columns of all these names, they are the inputs.
    """
    if isinstance(X, Steps):
        return X, X.inputs if inputs is None else inputs
    frame = None if isinstance(X, Mapping | Sequences) else frame_of(X)
    wanted = list(names) if inputs is None else [inputs] if isinstance(inputs, str) else inputs
    if frame is None or not isinstance(wanted, list | tuple) or not wanted:
        return X, inputs
    if not all(isinstance(name, str) for name in wanted):
        return X, inputs
    if absent := [name for name in wanted if name not in frame.columns]:
        # A list of strings may also be the cells of all steps.
        if inputs is not None and (len(absent) < len(wanted) or len(wanted) == 1 < len(frame)):
            raise DataError(
                f"inputs name {absent[0]!r}, which is no column{did_you_mean(absent[0], frame.columns)}"
            )
        return X, inputs
    return frame.drop(list(wanted)).to_native(), frame.select(list(wanted)).to_native()


def design_of(columns: Columns, codes: Any, values: Floats, symbols: bool) -> Floats:
    """Return the design of inputs: of symbols a column for each, else the terms of a regression."""
    if symbols:
        return np.asarray(np.eye(columns.states[0])[codes[:, 0]])
    cells = codes.astype(np.float64)
    cells[:, list(columns.number_places)] = values
    return terms_of(cells, label_counts(columns, columns.names))


def _rows_of(
    inputs: Any, outputs: Sequences, ahead: int, letters: bool, what: str = "inputs"
) -> tuple[Table, Integers]:
    """Return inputs as a table, and the row of each step, those after the end of each sequence included.

    Inputs of words may be words, if inputs are `letters`.
    """
    needed = outputs.lengths + ahead
    total = int(needed.sum())
    width = outputs.form.width + ahead
    if isinstance(inputs, Mapping) or (outputs.form.width and _shape(inputs)[:2] == (outputs.count, width)):
        table = steps_of(inputs).table
        if table.count == outputs.count * width:
            return table, np.flatnonzero(np.arange(width) < needed[:, None])
    elif (lengths := lengths_of(inputs, letters and outputs.form.kind == "words")) is not None:
        if lengths == needed.tolist():
            return steps_of(inputs).table, np.arange(total)
        if len(lengths) == outputs.count and len(set(lengths)) > 1 and not isinstance(inputs[0], str):
            place = next(at for at, length in enumerate(lengths) if length != needed[at])
            raise DataError(
                f"the {what} of sequence {place} have {lengths[place]} steps, but need {needed[place]}"
                + (f" (its {outputs.lengths[place]}, and {ahead} after its end)" if ahead else "")
            )
        table = _table(inputs, what)
    else:
        table = _table(inputs, what)
    if table.count == total:
        return table, np.arange(total) if outputs.places is None or ahead else outputs.places
    if table.count == outputs.count:
        return table, np.repeat(np.arange(outputs.count), needed)
    steps = f"{total} steps" if not ahead else f"{total} steps ({ahead} after the end of each sequence included)"
    raise DataError(
        f"{what} have {table.count} rows, but the data have {outputs.count} sequences of {steps}; give one row for "
        f"each step, or one for each sequence"
    )


def _shape(inputs: Any) -> tuple[int, ...]:
    """Return the shape of an array or a frame; an empty one of anything else."""
    array = inputs if isinstance(inputs, np.ndarray) else frame_of(inputs)
    return () if array is None else tuple(array.shape)


def _table(inputs: Any, what: str) -> Table:
    """Return a table of one column or of several."""
    if isinstance(inputs, Table):
        return inputs
    if hasattr(inputs, "to_frame") and not hasattr(inputs, "columns"):
        inputs = inputs.to_frame()
    if frame_of(inputs) is not None:
        return table_of(inputs)
    if not isinstance(inputs, list | tuple | np.ndarray):
        raise DataError(f"{what} are an array, a list or a frame with a row for each step, not {quoted(inputs)}")
    array = as_array(inputs, f"the {what}", f"the rows of the {what} differ: each is one cell, or equally many")
    return table_of(array.reshape(-1, 1) if array.ndim == 1 else array)
