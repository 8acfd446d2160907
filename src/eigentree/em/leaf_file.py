"""Rows on disk as the leaves of an E-step read them: written once, read in every step, never all in memory.

Leaves of small alphabets are joined (`em/cliques`), so this takes about as much room as one byte for each cell, and
a step has nothing to do but to read. Stretches are read, not mapped: pages that are mapped count as memory of the
process, and copying them costs little beside what is then worked out from them.
"""

from __future__ import annotations

import tempfile
import weakref
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.em.expectation import Stretch
from eigentree.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from eigentree.arrays import Codes, Floats
    from eigentree.em.expectation import Expectation, ExpectedCounts

__all__ = ["STRETCH", "LeafFile"]

STRETCH = 65_536
"""How many rows are read at a time: enough that what a stretch costs beside its rows does not matter."""


class LeafFile:
    """Rows in a temporary file, which goes when this goes.

    Attributes
    ----------
    expectation : Expectation
    rows : int
    threads : int
    line_weights : (lines,)
        How many rows read each line of each leaf.
    """

    expectation: Expectation
    rows: int
    threads: int
    line_weights: Floats

    def __init__(self, expectation: Expectation, chunks: Iterable[Codes], threads: int = 1) -> None:
        """Write rows of codes, which come in chunks of any sizes, each of shape (rows, columns).

        Raises
        ------
        FileError
            When there is no room for them.
        """
        self.expectation = expectation
        self.threads = threads
        self.rows = 0
        self.line_weights = np.zeros(expectation.line_count)
        self._leaves, self._type = expectation.leaf_count, expectation.code_type
        self._ones = np.ones(STRETCH)
        self._lock = Lock()
        with self._told():
            self._file: Any = tempfile.TemporaryFile(prefix="eigentree-")  # noqa: SIM115 (it goes with this)
        weakref.finalize(self, self._file.close)
        for stretch in _stretches(expectation, chunks):
            with self._told():
                self._file.write(stretch.tobytes())
            self.rows += stretch.shape[1]
            self.line_weights += expectation.line_weights(stretch, self._ones[: stretch.shape[1]])
        with self._told():
            self._file.flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say what cannot be written, in our words."""
        try:
            yield
        except OSError as error:
            raise FileError(
                f"the codes of the rows cannot be kept in {tempfile.gettempdir()}: {error.strerror} after "
                f"{self.rows:,} rows; make room there, let TMPDIR name another folder, or give fewer finish_rows"
            ) from None

    @property
    def weight(self) -> float:
        """The number of rows."""
        return float(self.rows)

    def stretch(self, number: int) -> Stretch:
        """Return some of the rows."""
        first = number * STRETCH
        count = min(STRETCH, self.rows - first)
        # An array that can be written to, as all others: for one that cannot, the loops would be compiled again.
        codes: Codes = np.empty((self._leaves, count), self._type)
        with self._lock:
            self._file.seek(self._leaves * first * self._type.itemsize)
            read = self._file.readinto(codes.data.cast("B"))
        if read < codes.nbytes:
            raise FileError(f"the codes of rows {first} and after cannot be read again: their file was cut short")
        return Stretch(codes, self._ones[:count], first)

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say."""
        return self.expectation.over(
            parameters, self.stretch, -(-self.rows // STRETCH), self.line_weights, self.threads
        )


def _stretches(expectation: Expectation, chunks: Iterable[Codes]) -> Iterator[Any]:
    """Yield what leaves read of `STRETCH` rows at a time, the last time of what is left, however rows come."""
    buffer = np.empty((expectation.leaf_count, STRETCH), expectation.code_type)
    filled = 0
    for codes in chunks:
        start = 0
        while start < len(codes):
            taken = min(len(codes) - start, STRETCH - filled)
            buffer[:, filled : filled + taken] = expectation.leaf_codes(codes[start : start + taken])
            start, filled = start + taken, filled + taken
            if filled == STRETCH:
                yield buffer
                filled = 0
    if filled:
        yield buffer[:, :filled]
