"""Queries that networks and fitted estimators share, under the same names and with the same arguments."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from eigentree.data.streams.partitions import is_dask_frame
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.cells import object_array
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.restore import filled_rows, row_labels, sampled_rows
from eigentree.data.tables.rows import Rows, rows_at_a_time
from eigentree.errors import DataError, GraphError, ParameterError, in_short, quoted
from eigentree.inference.dask_queries import drawn_lazily, filled_lazily, queried_lazily
from eigentree.inference.threads import in_stretches
from eigentree.messages import notice, renamed_arguments
from eigentree.validation import (
    FILL_METHODS,
    FillMethod,
    Seed,
    check_cells,
    checked_quantiles,
    different_names,
    generator,
    one_of,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.operators.tree_operators import TreeOperators

__all__ = ["Model", "Queries", "by_row", "checked_count", "require_categories", "warn_undefined"]


class Queries(ABC):
    """Queries of a network and of a fitted estimator alike."""

    @property
    @abstractmethod
    def _model(self) -> Model:
        """The model, in codes."""

    @property
    @abstractmethod
    def _columns(self) -> Columns:
        """The columns, which know what codes stand for."""

    def predict(self, X: ArrayLike | Any, target: str | None = None) -> Any:
        """Return the most probable state of the target given the other cells of each row, shape (rows,).

        Of a column its labels; of a hidden variable, such as the class of a mixture, the number of its state. Each
        row's is that of the largest entry of `predict_proba`, which has the same arguments. Of a number it is the
        mean given the other cells of the row, of a date the mean date.
        """
        name = self._target(target)
        if isinstance(name, str) and name in self._columns.numbers:
            return self._predicted_number(X, name)
        proba: Any = self.predict_proba(X, name)
        if is_dask_frame(X):
            return proba.idxmax(axis=1)
        best = proba.argmax(axis=1)
        return np.asarray(best) if name in self._model.graph.hidden else _array(self._columns.labels(name))[best]

    def predict_quantiles(
        self, X: ArrayLike | Any, target: str, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
    ) -> LabeledTable:
        """Return quantiles of a number given the other cells of each row, shape (rows, quantiles).

        Parameters
        ----------
        X : array-like of shape (rows, columns) or a data frame
        target : str
            The name of a column of numbers; its own cell is not read.
        quantiles : sequence of float
            Shares between 0 and 1: 0.05 and 0.95 enclose 90 %.
        """
        shares = checked_quantiles(quantiles)
        found: Any = self._predicted_number(X, target, shares)
        return found if is_dask_frame(X) else by_row(X, found, ["quantile"], [shares])

    def _predicted_number(
        self, X: ArrayLike | Any, target: str, quantiles: Sequence[float] | None = None
    ) -> Floats:
        model: Any = self._model
        if not isinstance(target, str) or target not in self._columns.numbers:
            raise DataError(f"{quoted(target)} is no column of numbers; predict_proba has its probabilities")
        meaning: Any = self._columns.meanings[self._columns.position(target)]
        if is_dask_frame(X):
            kind = meaning.unit or np.float64
            lazy: Floats = (
                queried_lazily(self, X, "predict", target, name=target, kind=kind)
                if quantiles is None
                else queried_lazily(
                    self, X, "predict_quantiles", target, quantiles, name="quantile", columns=quantiles, kind=kind
                )
            )
            return lazy
        if is_stream(X):
            raise DataError(
                f"numbers are predicted of rows in memory or of a Dask DataFrame, and these come in batches "
                f"({quoted(X)}); predict batch by batch, or leave the cells missing and call impute_to"
            )
        found: Floats = model.predict_number(Rows.of(X, self._columns, absent=target), target, quantiles)
        return meaning.restored(found) if meaning.unit else found

    def predict_proba(self, X: ArrayLike | Any, target: str | None = None) -> LabeledTable:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        The target's own cell is not read, and a frame need not have its column. A hidden target, where tables are
        known, gets its posterior given all cells of the row. It is always a distribution: where no state has a
        positive probability given the other cells, it is the target's marginal, and a warning says how often.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        target : str, optional
            The name of a variable; by default the only hidden one.
        """
        target = self._target(target)
        labels = self._state_labels(target)
        if is_dask_frame(X):
            lazy: LabeledTable = queried_lazily(self, X, "predict_proba", target, name=target, columns=labels)
            return lazy
        self._check_in_memory(X, "predict_proba")
        proba, undefined = self._proba(X, target)
        warn_undefined(undefined, f"rows {self._model.undefined}; the marginal of {target!r} was used")
        return by_row(X, proba, [target], [labels])

    def _state_labels(self, target: str) -> Sequence[Hashable]:
        """Return what the states of a variable that can be predicted are called."""
        self._model.graph.column(target)
        return self._columns.labels(target)

    def _proba(self, X: ArrayLike | Any, target: str) -> tuple[Floats, int]:
        """Return P(target | the other cells), and for how many rows it was undefined."""
        return self._model.predict(Rows.of(X, self._columns, absent=target), target)

    @renamed_arguments(False, seed="random_state")
    def impute(
        self,
        X: ArrayLike | Any,
        method: FillMethod = "mode",
        random_state: Seed = None,
    ) -> Any:
        """Return the rows with their missing cells filled, by the most probable state or by a joint sample.

        They come back in their form: a frame as a frame of the same library, words as words, anything else as
        an array. Known cells stay as they are; a number that was cut into bins is filled in by one inside its bin.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        method : {"mode", "mean", "median", "sample"}
            "mode" or "mean": the most probable state, and the mean of a number; "median": the median of a number;
            "sample": a joint sample of all missing cells of a row.
        random_state : int, Generator or None
            For "sample".
        """
        if is_dask_frame(X):
            return filled_lazily(self, X, method, random_state)
        self._check_in_memory(X, "impute")
        rows, random = self._rows(X), generator(random_state)
        filled, undefined = self._model.impute(rows, method, random)
        warn_undefined(undefined, f"missing cells {self._model.undefined}; their column's marginal was used")
        return filled_rows(X, rows, self._columns, filled, random if method == "sample" else None)

    @renamed_arguments(False, seed="random_state")
    def sample(
        self,
        n: int = 1,
        random_state: Seed = None,
        given: Mapping[str, Any] | None = None,
        *,
        partitions: int | None = None,
    ) -> Any:
        """Return rows sampled from the model, without hidden variables.

        Rows of labels come as the training data did: in a frame of the same library, as words, or in an
        array of shape (n, columns).

        Parameters
        ----------
        n : int
        random_state : int, Generator or None
        given : mapping of str to label, optional
            The states of some observed variables; the others are sampled given these.
        partitions : int, optional
            In how many partitions of a Dask DataFrame, each of which is sampled when it is computed.
        """
        known = None if given is None else self._codes(given)
        if partitions is not None:
            return drawn_lazily(self, self._columns, n, random_state, given, partitions)
        random = generator(random_state)
        codes = self._model.draw(n, random, known)[0]
        return sampled_rows(self._columns, codes, random, given)

    def joint(self, names: Sequence[str]) -> LabeledTable:
        """Return the table of some observed variables, axes in the order of the names; it is normalised."""
        wanted = different_names("names", names)
        return self._labeled(self._model.joint(wanted), wanted)

    def conditional(self, names: Sequence[str], given: Mapping[str, Any]) -> Any:
        """Return the table P(names | given), axes in the order of the names; of one number its density.

        A density has `pdf`, `cdf`, `quantile`, `mean`, `std`, `sample` and `plot`.
        """
        wanted = different_names("names", names)
        if len(wanted) == 1 and wanted[0] in self._columns.numbers:
            model: Any = self._model
            return model.density(wanted[0], self._codes(given))
        return self._labeled(self._model.conditional(wanted, self._codes(given)), wanted)

    def _target(self, target: str | None) -> str:
        """Return the variable to predict: the given one, or the hidden one where there is one only."""
        hidden = self._model.graph.hidden
        if target is not None or len(hidden) == 1:
            return hidden[0] if target is None else target
        named = [*hidden, *self._columns.names]
        shown = ", ".join(named[:8]) + (", …" if len(named) > 8 else "")
        raise ParameterError(
            f"target= names what to predict, and there are {len(hidden)} hidden variables: one of {shown}"
        )

    def _check_in_memory(self, X: Any, method: str) -> None:
        """Raise `DataError` for a stream, whose results another method writes batch by batch."""
        if hasattr(self, f"{method}_to") and is_stream(X):
            how = "X.collect()" if hasattr(X, "collect") else "pandas.read_csv"
            raise DataError(
                f"{method} takes rows in memory, and these come in batches ({quoted(X)}); {method}_to "
                f"writes the results into a file, or read the rows first, as with {how}"
            )

    def _rows(self, X: ArrayLike | Any) -> Rows:
        return Rows.of(X, self._columns)

    def _codes(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return evidence as codes, and numbers as they are."""
        # The graph knows hidden names too, and says so of one.
        for name in given if isinstance(given, Mapping) else ():
            self._model.graph.column(name)
        values = self._columns.given_values(given)
        return {**self._columns.given_codes({name: given[name] for name in given if name not in values}), **values}

    def _labeled(self, table: Floats, names: Sequence[str]) -> LabeledTable:
        return LabeledTable.answer(table, names, [self._columns.labels(name) for name in names])


def by_row(X: Any, proba: Floats, names: Sequence[str], labels: Sequence[Sequence[Hashable]]) -> LabeledTable:
    """Return distributions of variables, one per row of X and called as there, with their states named."""
    row = "row" if "row" not in names else "of row"
    rows = range(len(proba)) if isinstance(X, Rows) else row_labels(X, len(proba))
    return LabeledTable.answer(proba, (row, *names), (rows, *labels))


def _array(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Return labels as an array of their type, or of objects where they have several."""
    plain = len({type(label) for label in labels}) == 1 and isinstance(labels[0], str | int | float)
    return np.array(labels) if plain else object_array(labels)


def warn_undefined(count: int, what: str) -> None:
    """Warn how often something was undefined."""
    if count:
        notice(f"{count} {what}")


MAX_TABLE = 2**24
"""Most cells of a table: 128 MiB."""


@dataclass(frozen=True, eq=False)
class Model:
    """The observed columns of a latent graph with the operators of their distribution.

    Attributes
    ----------
    graph : LatentGraph
    operators : TreeOperators

    Notes
    -----
    `predict`, `impute` and `draw` return the result and how often it was undefined, `log_prob` the result and how
    many rows were given another. Subclasses change what happens then, and name it in `undefined`.
    """

    graph: LatentGraph
    operators: TreeOperators

    undefined: ClassVar[str] = "had no state of positive probability"
    """What rows or cells did for which the marginal of a column was used."""

    replaced: ClassVar[str] = "had no positive probability"
    """What rows did to which `log_prob` gave another probability than their own."""

    @cached_property
    def columns(self) -> Columns:
        """Names and states of the columns."""
        return Columns.of(self.graph)

    @our_arithmetic
    def log_prob(self, X: ArrayLike | Any) -> tuple[Floats, int]:
        """Return the log probability of each row, missing cells marginalised out, and how many were replaced."""
        rows = Rows.of(X, self.columns)
        log_prob = np.empty(rows.count)

        def part(start: int, stop: int) -> int:
            replaced = 0
            for first, codes in rows.chunks(None, start, stop):
                log_prob[first : first + len(codes)], count = self.score(codes)
                replaced += count
            return replaced

        return log_prob, sum(in_stretches(part, rows.count))

    @our_arithmetic
    def score(self, codes: Codes) -> tuple[Floats, int]:
        """Return the log probability of rows of codes, and for how many it was replaced: as it is, and for none."""
        return self.operators.log_prob(codes)[0], 0

    @our_arithmetic
    def joint(self, names: Sequence[str]) -> Floats:
        """Return the table of some observed variables, axes in the order of the names."""
        return np.asarray(np.exp(self._log_table(self._positions(names), self.columns.missing(1))))

    @our_arithmetic
    def conditional(self, names: Sequence[str], given: Mapping[str, int]) -> Floats:
        """Return the table P(names | given), axes in the order of the names; the evidence must be possible."""
        columns = self._positions(names)
        if not columns:
            raise GraphError("the table of no variables at all has no cells; name at least one")
        evidence = self._evidence(given)
        if both := [column for column in columns if evidence[0, column] < self.columns.states[column]]:
            raise DataError(f"{self.columns.names[both[0]]!r} stands on both sides of the bar; leave it out of one")
        log_table = self._log_table(columns, evidence)
        peak = log_table.max()
        if not np.isfinite(peak):
            raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
        table = np.exp(log_table - peak)
        return np.asarray(table / table.sum())

    def _log_table(self, columns: Sequence[int], evidence: Codes) -> Floats:
        """Return the score of each joint state of some columns beside the evidence, one axis per column."""
        shape = self._shape_of(columns)
        cells = math.prod(shape)
        log_prob = np.empty(cells)
        step = rows_at_a_time(evidence.shape[1])
        for start in range(0, cells, step):
            part = np.arange(start, min(start + step, cells))
            codes = np.asfortranarray(np.repeat(evidence, len(part), axis=0))
            if columns:
                codes[:, columns] = np.stack(np.unravel_index(part, shape), axis=1)
            log_prob[part], _ = self.score(codes)
        return log_prob.reshape(shape)

    @our_arithmetic
    def predict(self, X: ArrayLike | Any, target: str) -> tuple[Floats, int]:
        """Return P(target | the other cells), shape (rows, states), and for how many rows it was undefined.

        A row whose other cells have no positive probability gets the target's own distribution.
        """
        column = self.graph.column(target)
        rows = Rows.of(X, self.columns)
        proba = np.empty((rows.count, self.columns.states[column]))
        undefined = 0
        for start, codes in rows.chunks():
            ((table, lost),) = self.distributions(codes, [column])
            proba[start : start + len(codes)] = table
            undefined += int(lost.sum())
        return proba, undefined

    @our_arithmetic
    def impute(
        self,
        X: ArrayLike | Any,
        method: FillMethod = "mode",
        seed: Seed = None,
    ) -> tuple[Integers, int]:
        """Return the rows as codes with their missing cells filled, and for how many cells that was undefined.

        "mode" takes the most probable state of each missing cell given the known cells of its row; "sample" samples
        all missing cells of a row together.
        """
        one_of("method", method, FILL_METHODS)
        rows = Rows.of(X, self.columns)
        filled = np.empty((rows.count, len(self.columns.states)), np.int64)
        random = generator(seed)
        undefined = 0
        # In each row, the tables of all columns may be wanted at once.
        for start, codes in rows.chunks(rows_at_a_time(sum(self.columns.states))):
            if method == "sample":
                undefined += self._fill_draws(codes, random)
            else:
                undefined += self._fill_modes(codes)
            filled[start : start + len(codes)] = codes
        return filled, undefined

    @our_arithmetic
    def draw(
        self,
        n: int,
        seed: Seed = None,
        given: Mapping[str, int] | None = None,
    ) -> tuple[Integers, int]:
        """Return rows sampled from P(other columns | given), shape (n, columns), and how often that was undefined.

        A cell without any state of positive probability is sampled from its marginal and counts.

        Raises
        ------
        DataError
            When what is given has probability zero.
        """
        n = checked_count(n, len(self.columns.names))
        random = generator(seed)
        drawn = np.empty((n, len(self.columns.states)), np.int64)
        evidence = self._evidence({} if given is None else given)
        if given and np.isneginf(self.score(evidence)[0][0]):
            raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
        undefined = 0
        step = rows_at_a_time(evidence.shape[1])
        for start in range(0, n, step):
            codes = np.asfortranarray(np.repeat(evidence, min(step, n - start), axis=0))
            undefined += self._fill_draws(codes, random)
            drawn[start : start + len(codes)] = codes
        return drawn, undefined

    def _fill_draws(self, codes: Codes, random: np.random.Generator) -> int:
        """Sample all missing cells of each row together; return for how many cells that was undefined."""
        return self.operators.draw(codes, random)

    def _fill_modes(self, codes: Codes) -> int:
        """Put the most probable state into each missing cell; return for how many that was undefined."""
        missing = codes == np.asarray(self.columns.states)
        wanted = np.flatnonzero(missing.any(axis=0)).tolist()
        if not wanted:
            return 0
        undefined = 0
        for column, (table, lost) in zip(wanted, self.distributions(codes, wanted), strict=True):
            absent = missing[:, column]
            codes[absent, column] = table[absent].argmax(axis=1)
            undefined += int((lost & absent).sum())
        return undefined

    def distributions(self, codes: Codes, columns: Sequence[int]) -> list[tuple[Floats, Booleans]]:
        """Return each wanted column's distribution in each row, given the row's other cells, and where it is lost.

        Where nothing is positive it is the column's own, and uniform where that has nothing positive either.
        """
        found = []
        for column, raw in zip(columns, self.operators.tables(codes, columns), strict=True):
            # Noise leaves negative entries in learned operators.
            table = np.maximum(raw, 0.0)
            lost = ~(table.sum(axis=1) > 0.0)
            if lost.any():
                marginal = np.maximum(self.operators.joint((column,)), 0.0)
                table[lost] = marginal if marginal.any() else 1.0
            found.append((table / table.sum(axis=1, keepdims=True), lost))
        return found

    def extended(self, codes: Codes, names: Sequence[str]) -> Codes:
        """Return codes of some columns with a missing cell in each of the others."""
        wide = self.columns.missing(len(codes))
        wide[:, [self.columns.position(name) for name in names]] = codes
        return wide

    def _positions(self, names: Iterable[str]) -> list[int]:
        return [self.graph.column(name) for name in different_names("names", names)]

    def _shape_of(self, columns: Sequence[int]) -> list[int]:
        """Return the shape of the table of some columns, unless it is too large."""
        shape = [self.columns.states[column] for column in columns]
        if math.prod(shape) > MAX_TABLE:
            raise DataError(
                f"a table of {len(shape)} variables with {in_short(math.prod(shape))} cells is too large "
                f"(the limit is {in_short(MAX_TABLE)}); take fewer variables at a time"
            )
        return shape

    def _evidence(self, given: Mapping[str, int]) -> Codes:
        # The graph knows hidden names too, and says so of one.
        for name in given if isinstance(given, Mapping) else ():
            self.graph.column(name)
        return self.columns.evidence(given)


def checked_count(n: int, columns: int) -> int:
    """Return a whole number of rows to sample, at least one, that memory may hold; else raise `DataError`."""
    n = whole_number("the number of rows to sample", n, error=DataError)
    check_cells(f"a sample of {n:,} rows of {columns} columns", n * columns, "draw fewer rows at a time")
    return n


def require_categories(names: Sequence[str], numbers: Collection[str]) -> None:
    """Raise `DataError` where a table of some columns is wanted, and one of them is among the numbers."""
    for name in names:
        if name in numbers:
            others = [quoted(each) for each in names if each != name]
            alone = f", without {', '.join(others)} beside it" if others else ""
            raise DataError(
                f"{name!r} is a number and has a density, no probabilities of states; predict gives its mean, "
                f"predict_quantiles its quantiles, and conditional([{name!r}], given=…) its density{alone}"
            )
