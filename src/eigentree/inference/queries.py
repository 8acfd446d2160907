"""Queries that networks and fitted estimators share, under the same names and with the same arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.data.streams.partitions import is_dask_frame
from eigentree.data.streams.sources import is_stream
from eigentree.data.tables.cells import object_array
from eigentree.data.tables.labeled_table import LabeledTable
from eigentree.data.tables.restore import filled_rows, row_labels, sampled_rows
from eigentree.data.tables.rows import Rows
from eigentree.errors import DataError, ParameterError, quoted
from eigentree.inference.dask_queries import drawn_lazily, filled_lazily, predicted_lazily
from eigentree.messages import notice, renamed_arguments
from eigentree.validation import different_names, generator

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns
    from eigentree.inference.model import Model
    from eigentree.validation import Seed

__all__ = ["Queries", "by_row", "warn_undefined"]


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
        row's is that of the largest entry of `predict_proba`, which has the same arguments.
        """
        name = self._target(target)
        proba: Any = self.predict_proba(X, name)
        if is_dask_frame(X):
            return proba.idxmax(axis=1)
        best = proba.argmax(axis=1)
        return np.asarray(best) if name in self._model.graph.hidden else _array(self._columns.labels(name))[best]

    def predict_proba(self, X: ArrayLike | Any, target: str | None = None) -> LabeledTable:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        The target's own cell is not read, and a frame need not have its column. It is always a distribution:
        where no state has a positive probability given the other cells, it is the target's marginal, and a warning
        says how often.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        target : str, optional
            The name of a column. By default the hidden variable, where there is one only.
        """
        target = self._target(target)
        self._model.graph.column(target)
        if is_dask_frame(X):
            lazy: LabeledTable = predicted_lazily(self, X, target, self._columns.labels(target))
            return lazy
        self._check_in_memory(X, "predict_proba")
        rows = Rows.of(X, self._columns, absent=target)
        proba, undefined = self._model.predict(rows, target)
        warn_undefined(undefined, f"rows {self._model.undefined}; their column's marginal was used")
        return by_row(X, proba, [target], [self._columns.labels(target)])

    @renamed_arguments(False, seed="random_state")
    def impute(
        self,
        X: ArrayLike | Any,
        method: Literal["mode", "sample"] = "mode",
        random_state: Seed = None,
    ) -> Any:
        """Return the rows with their missing cells filled, by the most probable state or by a joint sample.

        They come back in their form: a frame as a frame of the same library, words as words, anything else as
        an array. Known cells stay as they are; a number that was cut into bins is filled in by one inside its bin.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        method : {"mode", "sample"}
            "mode" takes the most probable state of each missing cell given the known cells of its row; "sample"
            samples all missing cells of a row together.
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

    def conditional(self, names: Sequence[str], given: Mapping[str, Any]) -> LabeledTable:
        """Return the table P(names | given), axes in the order of the names."""
        wanted = different_names("names", names)
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

    def _codes(self, given: Mapping[str, Any]) -> Mapping[str, int]:
        """Return evidence as codes."""
        # The graph knows hidden names too, and says so of one.
        for name in given if isinstance(given, Mapping) else ():
            self._model.graph.column(name)
        return self._columns.given_codes(given)

    def _labeled(self, table: Floats, names: Sequence[str]) -> LabeledTable:
        return LabeledTable.answer(table, names, [self._columns.labels(name) for name in names])


def by_row(X: Any, proba: Floats, names: Sequence[str], labels: Sequence[Sequence[Hashable]]) -> LabeledTable:
    """Return distributions of variables, one per row of X and called as there, with their states named."""
    row = "row" if "row" not in names else "of row"
    return LabeledTable.answer(proba, (row, *names), (row_labels(X, len(proba)), *labels))


def _array(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Return labels as an array of their type, or of objects where they have several."""
    plain = len({type(label) for label in labels}) == 1 and isinstance(labels[0], str | int | float)
    return np.array(labels) if plain else object_array(labels)


def warn_undefined(count: int, what: str) -> None:
    """Warn how often something was undefined."""
    if count:
        notice(f"{count} {what}")
