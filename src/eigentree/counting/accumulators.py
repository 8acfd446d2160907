"""Counts while they are being made, chunk by chunk of codes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.compiling import thread_count
from eigentree.core.counting.encoding import largest_codes
from eigentree.core.counting.group_counting import count_groups, weigh_groups
from eigentree.counting.joint_table import JointTable, collected
from eigentree.data.tables.weights import MOST_WEIGHT
from eigentree.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.counting.count_layout import CountLayout
    from eigentree.counting.merged_groups import Carriers

__all__ = ["Accumulator", "Tally"]

SHARED_FROM = 300_000
"""Rows times groups from which starting threads pays."""

CARRIED_FROM = 16_384
"""Rows from which groups that come later are counted together: what that saves has to pay for summing out."""

CARRIED_ROWS = 2_048
"""Fewest rows at a time that are counted so, or else the tables would come and go in the caches too often."""

MOST_PARTS = 32
"""Parts of a sparse table that are kept apart before they are merged: memory stays in proportion to what occurs."""


@dataclass(frozen=True, eq=False)
class Tally:
    """What was counted so far of the groups of a layout.

    Attributes
    ----------
    dense : array
        The tables that are kept as arrays, end to end.
    sparse : dict of int to JointTable
        The others, by the number of their group.
    residual : array or None
        The rows that a covered group has and its holder has not; None where no row had a hole.
    rows : float
        How many rows, or the sum of their weights.
    """

    dense: NDArray[Any]
    sparse: dict[int, JointTable]
    residual: NDArray[Any] | None
    rows: float

    def plus(self, other: Tally, sign: int) -> Tally:
        """Return the sum (sign 1) or the difference (sign -1) of two tallies of the same layout."""
        rows = self.rows + sign * other.rows
        # No cell holds more than all rows, so none wraps around.
        if abs(rows) > MOST_WEIGHT:
            raise DataError(
                f"these counts add up to {rows:.3g} rows, more than the {MOST_WEIGHT:.3g} that can be told"
            )
        residual = self.residual
        if other.residual is not None:
            residual = sign * other.residual if residual is None else residual + sign * other.residual
        return Tally(
            self.dense + other.dense if sign > 0 else self.dense - other.dense,
            {g: table.plus(other.sparse[g], sign) for g, table in self.sparse.items()},
            residual,
            rows,
        )


class Accumulator:
    """Counts while they are being made.

    Parameters
    ----------
    layout : CountLayout
    threads : int, optional
        How many threads share the groups; as many as numba may use by default.
    shared_from, carried_from : int
        Rows times groups from which threads share the work, and rows after which groups are counted together.
    """

    def __init__(
        self,
        layout: CountLayout,
        threads: int | None = None,
        shared_from: int = SHARED_FROM,
        carried_from: int = CARRIED_FROM,
    ) -> None:
        self.layout = layout
        self.threads = thread_count() if threads is None else threads
        self.shared_from, self.carried_from = shared_from, carried_from
        self.rows: float = 0
        self.whole = np.zeros(int(layout.table_start[-1]), np.int64)
        self.weighted: Floats | None = None
        self.residual: NDArray[Any] | None = None
        self.empty = layout.empty_sparse()
        self.parts: dict[int, list[tuple[Integers, NDArray[Any]]]] = {g: [] for g in self.empty}
        self.carried: NDArray[np.int64] | None = None
        self.found: tuple[bytes | None, list[tuple[NDArray[np.int64], CountLayout | Carriers, Integers]]] | None = (
            None
        )
        self.pool: ThreadPoolExecutor | None = None
        self.pending: list[Future[None]] = []

    def add(self, codes: Codes, weights: NDArray[Any] | None) -> None:
        """Count rows of codes, each as often as its weight says; the codes stay as they are until the next call."""
        # Threads of the rows before have counted while these were encoded, but no table has two writers.
        self._wait()
        if not (codes.flags.f_contiguous or codes.flags.c_contiguous):
            # The last part of a longer buffer: a copy of it spares every loop one more compiled form.
            codes = np.asfortranarray(codes)
        layout = self.layout
        groups = (layout.group_start, layout.columns, layout.states, layout.table_start)
        holes = np.zeros(codes.shape[1], np.bool_)
        largest = np.zeros(codes.shape[1], codes.dtype)
        if len(codes):
            largest_codes(codes.T, largest)
        holes[layout.columns] = largest[layout.columns] == layout.states
        if weights is None:
            self._add_ones(codes, holes)
            self.rows += len(codes)
        elif weights.dtype.kind in "iub":
            weights = weights.astype(np.int64)
            weigh_groups(codes.T, weights, *groups, self.whole)
            self.rows += int(weights.sum())
        else:
            weights = weights.astype(np.float64)
            if self.weighted is None:
                self.weighted = np.zeros(len(self.whole))
            weigh_groups(codes.T, weights, *groups, self.weighted)
            self.rows += float(weights.sum())
        for g in self.empty:
            self._add_sparse(g, codes, weights)
        if holes.any():
            self._add_residual(codes, weights, set(np.flatnonzero(holes).tolist()))

    def _add_ones(self, codes: Codes, holes: Booleans) -> None:
        """Count rows once each, in threads that may go on while the next rows are encoded."""
        together = (
            self.rows >= self.carried_from and len(codes) >= CARRIED_ROWS and bool(self.layout.carriers.carried)
        )
        which = self._counted(holes if together else None)

        def count(part: int, parts: int) -> None:
            for tables, arrays, numbers in which:
                count_groups(
                    codes.T,
                    np.ascontiguousarray(numbers[part::parts]),
                    arrays.group_start,
                    arrays.columns,
                    arrays.states,
                    arrays.table_start,
                    tables,
                    holes,
                )

        groups = sum(len(numbers) for _, _, numbers in which)
        threads = min(self.threads, groups) if groups * len(codes) > self.shared_from else 1
        if threads <= 1:
            count(0, 1)
            return
        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.threads)
        # Every group has a table of its own, so nothing depends on who counts it.
        self.pending = [self.pool.submit(count, part, threads) for part in range(threads)]

    def _counted(self, holes: Booleans | None) -> list[tuple[NDArray[np.int64], CountLayout | Carriers, Integers]]:
        """Return tables, and which of them are counted: those of carriers, given the columns with holes."""
        # Chunks mostly have holes in the same columns, and to find out anew takes as long as to count a few groups.
        key = None if holes is None else holes.tobytes()
        if self.found is not None and self.found[0] == key:
            return self.found[1]
        layout = self.layout
        which: list[tuple[NDArray[np.int64], CountLayout | Carriers, Integers]]
        which = [(self.whole, layout, np.arange(len(layout.dense)))]
        if holes is not None:
            carriers = layout.carriers
            if self.carried is None:
                self.carried = np.zeros(int(carriers.table_start[-1]), np.int64)
            whole = carriers.whole(holes)
            which = [
                (self.carried, carriers, np.flatnonzero(whole)),
                (self.whole, layout, carriers.directly(whole)),
            ]
        which = [each for each in which if len(each[2])]
        self.found = key, which
        return which

    def _wait(self) -> None:
        """Return when no thread counts any more."""
        for counting in self.pending:
            counting.result()
        self.pending = []

    def _add_residual(self, codes: Codes, weights: NDArray[Any] | None, holed: set[int]) -> None:
        """Count the rows that a covered group has and its holder has not, for want of a cell."""
        layout = self.layout
        size = {int(c): int(n) for c, n in zip(layout.columns, layout.states, strict=True)}
        absent: dict[tuple[int, ...], Booleans] = {}
        for group, covered in layout.covered.items():
            if holed.isdisjoint(covered.holder):
                continue
            if covered.holder not in absent:
                gone = [codes[:, column] == size[column] for column in covered.holder]
                absent[covered.holder] = np.logical_or.reduce(gone)
            chosen = absent[covered.holder]
            kind = np.int64 if weights is None else weights.dtype
            if self.residual is None:
                self.residual = np.zeros(layout.residual_size, kind)
            elif self.residual.dtype != kind:
                self.residual = self.residual.astype(np.float64)
            counted = np.ones(int(chosen.sum()), kind) if weights is None else weights[chosen]
            weigh_groups(
                np.asfortranarray(codes[chosen]).T,
                counted,
                np.array([0, len(group)]),
                np.array(group),
                np.array(covered.shape),
                np.array([0, covered.part.stop - covered.part.start]),
                self.residual[covered.part],
            )

    def _add_sparse(self, g: int, codes: Codes, weights: NDArray[Any] | None) -> None:
        table = self.empty[g]
        keys = np.zeros(len(codes), np.int64)
        present = np.ones(len(codes), np.bool_)
        for column, states in zip(table.columns, table.shape, strict=True):
            keys = keys * states + codes[:, column]
            present &= codes[:, column] != states
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        parts = self.parts[g]
        parts.append(collected(keys[present], counted[present]))
        if len(parts) == MOST_PARTS:
            parts[:] = [_merged(parts)]

    def tally(self) -> Tally:
        """Return what was counted; nothing can be added any more."""
        self._wait()
        if self.pool is not None:
            self.pool.shutdown()
        if self.carried is not None:
            self.layout.carriers.add_to(self.whole, self.carried)
            self.carried = None
        dense: NDArray[Any] = self.whole if self.weighted is None else self.whole + self.weighted
        sparse = dict(self.empty)
        for g, parts in self.parts.items():
            if parts:
                sparse[g] = JointTable(self.empty[g].columns, self.empty[g].shape, *_merged(parts))
        return Tally(dense, sparse, self.residual, self.rows)


def _merged(
    parts: Sequence[tuple[Integers, NDArray[Any]]],
) -> tuple[Integers, NDArray[Any]]:
    return collected(np.concatenate([keys for keys, _ in parts]), np.concatenate([values for _, values in parts]))
