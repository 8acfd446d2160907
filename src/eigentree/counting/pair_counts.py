"""Joint counts of all pairs of columns: what structures are learned from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.core.counting.group_counting import add_common_bits, count_pairs
from eigentree.counting.additive import (
    COUNTED,
    ROUNDING,
    StoredCounts,
    require_added,
    stored_rows,
    total_rows,
)
from eigentree.counting.counts import weighted_chunks
from eigentree.counting.mutual_information import mutual_information, tree_distances
from eigentree.data.streams.encoded_stream import Encoded, any_rows, any_rows_and_columns
from eigentree.data.tables.columns import Columns, columns_content, columns_of
from eigentree.data.tables.labels import Bins
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import MOST_WEIGHT, warn_of_few
from eigentree.errors import DataError, FileError
from eigentree.io.documents import Section, plain
from eigentree.messages import renamed_arguments
from eigentree.validation import check_cells, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.data.tables.state_rules import Categories, NumericRule, UnknownRule
    from eigentree.io.stores import Reader, Writer

__all__ = ["PairCounts", "coarse_pairs", "pairs_of_rows"]

MOST_NARROW = 12
"""States of a column up to which products of rows of bits count faster than a loop over rows, measured."""

PLANE_WORDS, ALL_WORDS = 256, 2**22
"""Most words of bits that the rows of one state take at a time, and those of all states together, 32 MB."""

BLOCK = 1024
"""States whose products are worked out at a time, which bounds memory however many columns there are."""

MOST_CELLS = 2**25
"""Most cells of a stream whose pairs are counted: of more every second, third … row is, by its number."""


@dataclass(frozen=True, eq=False)
class PairCounts(StoredCounts):
    """Additive joint counts of all pairs of columns; a row counts for a pair where it has both cells.

    Attributes
    ----------
    columns : Columns
    rows : float
        How many rows were counted, or the sum of their weights.
    matrix : array, shape (states of all columns, states of all columns)
        How often each state of a column came with each of another, column after column, and on the diagonal how
        often it came at all.

    Examples
    --------
    >>> import eigentree as et
    >>> pairs = et.PairCounts.of([[0, 1], [0, 1], [1, 0]]) + et.PairCounts.of([[1, 1], [0, 0], [-1, 1]])
    >>> pairs.table("x0", "x1").tolist()
    [[1, 2], [1, 1]]
    >>> pairs.rows
    6
    """

    columns: Columns
    rows: float
    matrix: NDArray[Any]

    _what = "pair counts"

    def __post_init__(self) -> None:
        self.matrix.flags.writeable = False

    @classmethod
    @renamed_arguments(unknown="handle_unknown")
    def of(
        cls,
        X: ArrayLike | Any,
        sample_weight: ArrayLike | str | None = None,
        *,
        categories: Categories | None = None,
        handle_unknown: UnknownRule = "error",
        numeric: NumericRule = "error",
    ) -> PairCounts:
        """Return the pair counts of rows.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, rows of letters, or a stream
            Labels or codes; None, NaN, null or -1 for a missing cell.
        sample_weight : array-like of shape (rows,), or the name of a column of a stream, optional
            How often each row counts; may be fractional.
        categories, handle_unknown, numeric
            As those of an estimator; counts add up only where their columns have the same labels, so give these
            where not all labels occur in all parts, or go on with `update`.

        Raises
        ------
        DataError
            When the table of all pairs would not fit into memory.
        """
        rows, columns = any_rows_and_columns(X, ReadOptions(categories, numeric, handle_unknown, sample_weight))
        return cls.empty(columns).update(rows, sample_weight)

    @classmethod
    def empty(cls, columns: Columns) -> PairCounts:
        """Return the counts of no rows."""
        columns.require_states()
        return cls(columns, 0, np.zeros((_size(columns),) * 2, np.int32))

    @our_arithmetic
    def update(self, X: ArrayLike | Any, sample_weight: ArrayLike | str | None = None) -> PairCounts:
        """Return these counts with more rows added; the arguments are those of `of`."""
        rows, weights = any_rows(X, self.columns, sample_weight)
        warn_of_few(weights)
        return self.count(rows, weights)

    def count(self, rows: Rows | Encoded, weights: NDArray[Any] | None) -> PairCounts:
        """Return these counts with rows of the same columns added, whose weights were checked."""
        if isinstance(rows, Encoded):
            added = rows.summed(_of_stream, self.columns)
        else:
            added = _counted(weighted_chunks(rows, weights), self.columns)
        return self + added if self.rows else added

    def _combined(self, other: PairCounts, sign: int) -> PairCounts:
        if self.columns != other.columns:
            raise DataError(
                "pair counts add up only when their columns have the same names and labels; give all labels as "
                "categories="
            )
        rows = total_rows(self.rows, other.rows, sign)
        one, two = self.matrix, other.matrix
        fractional = "f" in (one.dtype.kind, two.dtype.kind)
        # The counts that are added up and those that come out are no more than the most rows among them.
        wide = np.float64 if fractional else _count_type(max(rows, self.rows, other.rows))
        matrix = (np.add if sign > 0 else np.subtract)(one.astype(wide), two.astype(wide))
        matrix = matrix.astype(wide if fractional else _count_type(rows), copy=False)
        if sign < 0:
            require_added([matrix], self.rows, other.rows)
        return PairCounts(self.columns, rows, matrix)

    def __repr__(self) -> str:
        return f"<PairCounts of {self.rows:,g} rows: {len(self.columns.names)} columns>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.columns.names

    @property
    def states(self) -> tuple[int, ...]:
        """How many states each column has."""
        return self.columns.states

    @cached_property
    def information(self) -> Floats:
        """The mutual information of all pairs of columns, in nats."""
        return mutual_information(self)

    @cached_property
    def tree_distances(self) -> tuple[Floats, float]:
        """Distances that add up along trees, and the shortest that these rows distinguish from none."""
        return tree_distances(self)

    def margins(self, places: Sequence[int] | Integers) -> Floats:
        """Return how often each state came, of columns with equally many states, shape (states, columns)."""
        own = self._places(places)
        return np.asarray(self.matrix[own, own], np.float64)

    def tables(self, first: Sequence[int] | Integers, second: Sequence[int] | Integers) -> Floats:
        """Return the counts of each of some columns with each of others, shape (states, states, first, second).

        The columns of either have equally many states. They stand last, so that sums over the few states of many
        columns are fast.
        """
        own, their = self._places(first), self._places(second)
        return np.asarray(self.matrix[own[:, None, :, None], their[None, :, None, :]], np.float64)

    def _places(self, columns: Sequence[int] | Integers) -> Integers:
        """Return where the states of columns are, which have equally many, shape (states, columns)."""
        return _starts(self.columns)[columns] + np.arange(self.columns.states[columns[0]])[:, None]

    def table(self, first: str, second: str) -> NDArray[Any]:
        """Return the counts of two columns, shape (states of the first, states of the second).

        Those of a column with itself are on a diagonal.
        """
        places = [self.columns.position(name) for name in (first, second)]
        table = self.tables(places[:1], places[1:])[:, :, 0, 0]
        return np.asarray(table if self.matrix.dtype.kind == "f" else table.astype(np.int64))

    def _content(self, writer: Writer) -> dict[str, Any]:
        """Return the document of the counts, after putting their arrays into the file."""
        writer.array("matrix", self.matrix if self.matrix.dtype.kind == "f" else self.matrix.astype(np.int64))
        return {"columns": columns_content(self.columns), "rows": plain(self.rows, "the number of rows")}

    @classmethod
    def _read(cls, reader: Reader, content: Any) -> PairCounts:
        """Return the pair counts of a document and the arrays of a file; raise `FileError` where they are none."""
        entry = Section(content, "pair counts", ("columns", "rows"))
        columns, rows = columns_of(entry["columns"]), stored_rows(entry)
        size = _size(columns)
        matrix = reader.array("matrix", COUNTED, size, size)
        # No state came more often than there are rows, nor with another more often than at all.
        most = np.minimum(matrix.diagonal(), rows) * (1 + ROUNDING) + ROUNDING
        fits = rows <= MOST_WEIGHT and ((matrix >= -ROUNDING) & (matrix <= most)).all()
        if not fits or (matrix != matrix.T).any():
            raise FileError("these are no pair counts: their numbers do not fit their rows")
        return PairCounts(columns, rows, matrix if matrix.dtype.kind == "f" else matrix.astype(_count_type(rows)))


def _size(columns: Columns) -> int:
    """Return how many states all columns have, once the counts of all pairs of them fit into memory."""
    size = sum(columns.states)
    do = "leave out the columns with the most states, or join their rare ones"
    check_cells("the counts of all pairs of columns", size**2, do)
    return size


def _starts(columns: Columns) -> Integers:
    """Return where the states of each column begin."""
    return np.cumsum((0, *columns.states[:-1]))


def _count_type(rows: float) -> type[np.integer[Any]]:
    """Return the smallest whole numbers that hold every count, by how many rows there are."""
    return np.int32 if abs(rows) < 2**31 else np.int64


def _of_stream(rows: Encoded, columns: Columns) -> PairCounts:
    return _counted(rows.chunks(), columns)


def _counted(chunks: Iterable[tuple[Codes, NDArray[Any] | None]], columns: Columns) -> PairCounts:
    """Return the counts of rows, given as codes and weights or None."""
    start, states, size = _starts(columns), np.array(columns.states, np.int64), _size(columns)
    total: float = 0
    matrix: NDArray[Any] = np.zeros((size, size), np.int32)
    for codes, weights in chunks:
        counted = np.ones(len(codes), np.int64) if weights is None else weights
        total += counted.sum().item()
        whole = matrix.dtype.kind == "i" and counted.dtype.kind in "iub"
        matrix = matrix.astype(_count_type(total) if whole else np.float64, copy=False)
        # Bits have no weights.
        wide = states > (MOST_NARROW if whole and weights is None else 0)
        if not wide.all():
            _add_ones(codes, np.flatnonzero(~wide), start, states, matrix)
        if wide.any():
            counted = counted.astype(np.int64 if whole else np.float64)
            count_pairs(codes.T, counted, wide, states, start, states, matrix)
    _mirror(matrix)
    return PairCounts(columns, total, matrix)


def _add_ones(codes: Codes, columns: Integers, start: Integers, states: Integers, matrix: NDArray[Any]) -> None:
    """Add how many rows have each two states of some columns to the upper triangle, 64 rows to a word."""
    column = np.repeat(columns, states[columns])
    state = np.concatenate([np.arange(count) for count in states[columns]]).astype(codes.dtype)
    words = max(1, min(PLANE_WORDS, ALL_WORDS // max(1, len(column))))
    for begin in range(0, len(codes), 64 * words):
        part = codes[begin : begin + 64 * words].T
        planes = np.zeros((len(column), -(-part.shape[1] // 64) * 8), np.uint8)
        for first in range(0, len(column), BLOCK):
            block = slice(first, first + BLOCK)
            bits = np.packbits(part[column[block]] == state[block, None], axis=1)
            planes[block, : bits.shape[1]] = bits
        add_common_bits(planes.view(np.uint64), start[column] + state, matrix)


def _mirror(matrix: NDArray[Any]) -> None:
    """Write the upper triangle into the lower one, block by block."""
    for a in range(0, len(matrix), BLOCK):
        for b in range(a, len(matrix), BLOCK):
            one, two = slice(a, a + BLOCK), slice(b, b + BLOCK)
            upper = np.triu(matrix[one, two]) if a == b else matrix[one, two]
            matrix[two, one] = upper.T if a != b else upper + np.triu(upper, 1).T


def pairs_of_rows(rows: Rows | Encoded, weights: Floats | None) -> PairCounts:
    """Return the pair counts of rows, numbers in bins; streams know their weights, and with numbers are sampled."""
    columns = rows.columns
    if not columns.numbers:
        return PairCounts.empty(columns).count(rows, weights)
    if isinstance(rows, Encoded):
        codes, values, weights = _sampled(rows)
    else:
        codes, values = rows.encode(), rows.values()
    return coarse_pairs(columns.names, columns.states, codes, columns.numbers, values, weights)


def _sampled(rows: Encoded) -> tuple[Codes, Floats, Floats | None]:
    """Return codes, values and weights of all rows of a stream, or of every second, third … of them."""
    count = sum(len(codes) for codes, _ in rows.chunks())
    if not count:
        raise DataError("the data have no rows; give at least one")
    every = -(-count * len(rows.columns.names) // MOST_CELLS)
    first, taken = 0, []
    for codes, values, weights in rows.parts():
        # The numbers of rows, not of batches, decide.
        own = slice(-first % every, None, every)
        taken.append((codes[own], values[own], None if weights is None else weights[own]))
        first += len(codes)
    codes, values = (np.concatenate([part[place] for part in taken]) for place in (0, 1))
    known = [np.asarray(weights, np.float64) for _, _, weights in taken if weights is not None]
    return codes, values, np.concatenate(known) if known else None


def coarse_pairs(
    names: Sequence[str],
    states: Sequence[int],
    codes: Codes,
    numbers: Sequence[str],
    values: Floats,
    weights: Floats | None,
) -> PairCounts:
    """Return the pair counts of columns given as codes, of which those of some names have values in their place.

    A number is cut into bins that hold equally many rows: mutual information needs no more to find a tree, and no
    scale decides.
    """
    coarse = np.array(codes, np.int64)
    counts = list(states)
    for name, column in zip(numbers, values.T, strict=True):
        place, known = names.index(name), ~np.isnan(column)
        bins = Bins.of(column[known], None if weights is None else np.asarray(weights, np.float64)[known])
        counts[place] = len(bins.labels)
        coarse[:, place] = np.where(known, bins.encode(column), counts[place])
    columns = Columns(tuple(names), tuple(counts))
    small = np.asfortranarray(coarse.astype(columns.code_type))
    return PairCounts.empty(columns).count(Rows.of_codes(small, columns), weights)
