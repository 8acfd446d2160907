"""Arrays that a user says are counts, looked at one by one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.columns import Columns
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["GivenArrays", "columns_array"]


@dataclass(frozen=True)
class GivenArrays:
    """Arrays by name, and what a user says that they are."""

    arrays: Mapping[str, Any]
    what: str

    def one(self, name: str, kinds: str, axes: int = 1) -> NDArray[Any]:
        """Return a read-only copy of an array, once it holds one of some kinds of numbers and has so many axes."""
        if name not in self.arrays:
            raise DataError(f"these arrays are no {self.what}: {name!r} is missing")
        array = self.arrays[name]
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds or array.ndim != axes:
            raise DataError(
                f"these arrays are no {self.what}: {name!r} is not an array of the right kind and shape"
            )
        # What the caller does with the array later is no matter.
        copy = np.array(array)
        copy.flags.writeable = False
        return copy

    def columns(self) -> Columns:
        """Return the columns that were counted."""
        try:
            return Columns.from_json(json.loads(bytes(self.one("columns", "u"))))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise DataError(f"these arrays are no {self.what}: 'columns' does not describe any") from None


def columns_array(columns: Columns) -> NDArray[Any]:
    """Return columns as an array of bytes, from which `GivenArrays.columns` makes the same."""
    return np.frombuffer(json.dumps(columns.to_json()).encode(), np.uint8)
