"""The labels of steps of sequences, as users give them, and back in the form of the sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.inputs import cells_of_steps, split_frame
from eigentree.data.sequences.sequence_codes import Sequences, per_step
from eigentree.data.sequences.steps import Steps
from eigentree.data.tables.cells import Categorical, object_array
from eigentree.data.tables.table import frame_of
from eigentree.errors import DataError, quoted, what_there_is

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Integers

__all__ = ["columns_of_frame", "labels_in_form", "labels_of_steps", "split_labels"]


def columns_of_frame(X: Any) -> list[Any]:
    """Return the names of the columns of a frame; none of anything else."""
    frame = None if isinstance(X, Mapping | Sequences | Steps) else frame_of(X)
    return list(getattr(frame, "columns", ()))


def split_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Return sequences and labels, where y may name a column of a frame that holds both."""
    if y is None:
        raise DataError("y is None; give the label of each step, in any form that sequences have")
    if not isinstance(y, str):
        return X, y
    if y not in (names := columns_of_frame(X)):
        raise DataError(f"y names {quoted(y)}, which is no column of the data{what_there_is(y, names)}")
    return split_frame(X, [y])


def labels_of_steps(y: Any, sequences: Sequences) -> NDArray[Any]:
    """Return the label of each step, None or NaN where it is missing."""
    cells = cells_of_steps(y, sequences, "labels")
    return object_array([*cells.labels, None])[cells.places] if isinstance(cells, Categorical) else cells


def labels_in_form(sequences: Sequences, codes: Integers, classes: NDArray[Any]) -> Any:
    """Return the labels of all steps in the form of the sequences; None beyond the ends of rows, and for -1."""
    found = per_step(sequences, codes)
    return [_labels(own, classes) for own in found] if isinstance(found, list) else _labels(found, classes)


def _labels(codes: Integers, classes: NDArray[Any]) -> NDArray[Any]:
    if (codes >= 0).all():
        return np.asarray(classes[codes])
    return object_array([*classes.tolist(), None])[codes]
