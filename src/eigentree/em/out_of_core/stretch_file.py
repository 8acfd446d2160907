"""`StretchFile`: rows of several arrays in a temporary file, written once and read a stretch at a time."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.encoded_stream import Scratch, kept_on_disk
from eigentree.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

__all__ = ["StretchFile"]


class StretchFile:
    """Stretches of rows, all of one length but the last; the file goes when this goes."""

    def __init__(self, stretches: Iterable[Sequence[NDArray[Any]]], size: int, what: str) -> None:
        """Write arrays whose first axis is that of rows, `size` of them at a time; `what` they are in errors."""
        self._size, self._what, self.rows = size, what, 0
        self._kinds: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._lock = Lock()
        with self._writing():
            self._scratch = Scratch()
        self._file: Any = self._scratch.file
        for arrays in stretches:
            self._kinds = [(each.dtype, each.shape[1:]) for each in arrays]
            with self._writing():
                for each in arrays:
                    self._file.write(each.tobytes("F"))
            self.rows += len(arrays[0])
        with self._writing():
            self._file.flush()

    @property
    def stretches(self) -> int:
        """How many there are."""
        return -(-self.rows // self._size)

    def _writing(self) -> AbstractContextManager[None]:
        """Raise `FileError` where there is no room."""
        return kept_on_disk(self._what, f", after {self.rows:,} rows", ", or give fewer finish_rows")

    def read(self, number: int) -> list[NDArray[Any]]:
        """Return the arrays of a stretch, column by column in memory."""
        first = number * self._size
        count = min(self._size, self.rows - first)
        every = [np.empty((count, *shape), kind, order="F") for kind, shape in self._kinds]
        a_row = sum(each.nbytes for each in every) // count
        with self._lock:
            self._file.seek(first * a_row)
            read = [self._file.readinto(each.T.data.cast("B")) for each in every]
        if read != [each.nbytes for each in every]:
            raise FileError(f"{self._what} from row {first} on cannot be read again: their file was cut short")
        return every
