"""Rows on disk as the leaves of an E-step read them: written once, read in every step, never all in memory.

Leaves of small alphabets are joined (`em/estep/cliques`), so this takes about as much room as one byte for each
cell, and a step has nothing to do but to read. Stretches are read, not mapped: pages that are mapped count as
memory of the process, and copying them costs little beside what is then worked out from them.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.scratch import Scratch, kept_on_disk
from eigentree.em.estep.expectation import Stretch
from eigentree.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats
    from eigentree.em.estep.expectation import Expectation
    from eigentree.em.optimize.objective import ExpectedCounts

__all__ = ["STRETCH", "LeafFile"]

STRETCH = 65_536
"""How many rows are read at a time: enough that what a stretch costs beside its rows does not matter."""


class LeafFile:
    """Rows in a temporary file, which goes when this goes.

    Attributes
    ----------
    expectation : Expectation
    rows : int
    weight : float
        Of all rows together.
    threads : int
    line_weights : (lines,)
        Total weight of the rows that read each line of each leaf.
    """

    expectation: Expectation
    rows: int
    weight: float
    threads: int
    line_weights: Floats

    def __init__(
        self,
        expectation: Expectation,
        chunks: Iterable[tuple[Codes, NDArray[Any] | None]],
        threads: int = 1,
        weighted: bool = False,
    ) -> None:
        """Write rows, which come in chunks of any sizes.

        Parameters
        ----------
        expectation : Expectation
        chunks : iterable of (codes, weights)
            Of shapes (rows, columns) and (rows,); None weighs each row 1.
        threads : int
            How many count at a time.
        weighted : bool
            Whether any chunk has weights.

        Raises
        ------
        FileError
            When there is no room for them.
        """
        self.expectation, self.threads = expectation, threads
        self.rows, self.weight = 0, 0.0
        self.line_weights = np.zeros(expectation.line_count)
        self._leaves, self._type = expectation.leaf_count, expectation.code_type
        self._ones = None if weighted else np.ones(STRETCH)
        self._lock = Lock()
        with self._told():
            self._scratch = Scratch()
        self._file: Any = self._scratch.file
        for codes, weights in _stretches(expectation, chunks):
            with self._told():
                self._file.write(codes.tobytes())
                if weighted:
                    self._file.write(weights.tobytes())
            self.rows += len(weights)
            self.weight += float(weights.sum())
            self.line_weights += expectation.line_weights(codes, weights)
        with self._told():
            self._file.flush()

    def _told(self) -> AbstractContextManager[None]:
        """Say what cannot be written, in our words."""
        return kept_on_disk("the codes of rows", f", after {self.rows:,} rows", ", or give fewer finish_rows")

    def stretch(self, number: int) -> Stretch:
        """Return some of the rows."""
        first = number * STRETCH
        count = min(STRETCH, self.rows - first)
        # Arrays that can be written to, as all others: for any that cannot, the loops would be compiled again.
        codes: Codes = np.empty((self._leaves, count), self._type)
        weights = np.empty(count) if self._ones is None else self._ones[:count]
        held = [codes, weights] if self._ones is None else [codes]
        with self._lock:
            self._file.seek(first * (self._leaves * self._type.itemsize + 8 * (self._ones is None)))
            read = [self._file.readinto(array.data.cast("B")) for array in held]
        if read != [array.nbytes for array in held]:
            raise FileError(f"the codes of rows {first} and after cannot be read again: their file was cut short")
        return Stretch(codes, weights, first)

    def counted(self, parameters: Floats) -> ExpectedCounts:
        """Return what all rows say."""
        stretches = -(-self.rows // STRETCH)
        return self.expectation.over(parameters, self.stretch, stretches, self.line_weights, self.threads)


def _stretches(
    expectation: Expectation, chunks: Iterable[tuple[Codes, NDArray[Any] | None]]
) -> Iterator[tuple[Codes, Floats]]:
    """Yield what leaves read of `STRETCH` rows at a time, the last time of what is left, however rows come."""
    buffer, weighing = np.empty((expectation.leaf_count, STRETCH), expectation.code_type), np.empty(STRETCH)
    filled = 0
    for codes, weights in chunks:
        start = 0
        while start < len(codes):
            taken = min(len(codes) - start, STRETCH - filled)
            place = slice(filled, filled + taken)
            buffer[:, place] = expectation.leaf_codes(codes[start : start + taken])
            weighing[place] = 1.0 if weights is None else weights[start : start + taken]
            start, filled = start + taken, filled + taken
            if filled == STRETCH:
                yield buffer, weighing
                filled = 0
    if filled:
        yield buffer[:, :filled], weighing[:filled]
