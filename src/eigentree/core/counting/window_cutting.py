"""Windows cut from sequences that lie end to end, hashes of their pieces, and which sequences are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Integers

__all__ = ["cut_windows", "fingerprints", "hash_pieces", "repeats"]


def cut_windows(
    codes: Codes,
    starts: Integers,
    own: Integers,
    reach: int,
    lags: Integers,
    channels: Integers,
    missing: Codes,
    cursor: Integers,
    found: Codes,
    of: Integers,
) -> int:
    """Return how many windows were written, from where the cursor stands on; it is moved behind them.

    Parameters
    ----------
    codes : (channels, steps)
    starts : (sequences + 1,)
    own : (sequences, 2)
        From which step of each sequence on, and up to which, there is a window; counted from its own start.
    reach : int
        Steps with fewer than so many after them in their sequence have no window.
    lags, channels, missing : (columns,)
        Which cell each column of a window holds, and the code that marks one that is missing.
    cursor : (2,)
        The sequence and its step that come next.
    found : (columns, most windows)
    of : (most windows,)
        The sequence of each window.
    """
    return _native.cut_windows(
        np.ascontiguousarray(codes), starts, own, reach, lags, channels, missing, cursor, found, of
    )


def hash_pieces(
    codes: Codes,
    starts: Integers,
    length: int,
    context: int,
    reach: int,
    hashes: NDArray[np.uint64],
    places: Integers,
) -> None:
    """Write a 64-bit hash of each piece of each sequence, and where it is.

    `codes` (channels, steps); `starts` (sequences + 1,); `length`, `context`, `reach`: how many steps a piece has,
    and how many before and after it belong to it; `hashes` (pieces,); `places` (pieces, 2): the sequence, and the
    step of it that a piece begins with.
    """
    _native.hash_pieces(np.ascontiguousarray(codes), starts, length, context, reach, hashes, places)


def fingerprints(symbols: Codes, starts: Integers, prints: NDArray[np.uint64]) -> None:
    """Write a number for each sequence that depends on its symbols alone."""
    _native.fingerprints(np.ascontiguousarray(symbols), starts, prints)


def repeats(symbols: Codes, starts: Integers, order: Integers, same: Booleans) -> None:
    """Write, for each sequence in an order but the first, whether it is the same as the one before."""
    _native.repeats(np.ascontiguousarray(symbols), starts, order, same)
