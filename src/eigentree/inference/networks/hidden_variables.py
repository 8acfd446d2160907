"""Posteriors, most probable states and samples of hidden variables given rows.

A hidden variable that is wanted becomes a column whose cells are all missing, and then inference is as for columns.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.streams.partitions import is_dask_frame
from eigentree.data.tables.restore import frame_like
from eigentree.data.tables.rows import rows_at_a_time
from eigentree.errors import DataError, GraphError
from eigentree.inference.dask_queries import predicted_lazily
from eigentree.inference.networks.network_model import Decoded
from eigentree.inference.queries import Queries, by_row, warn_undefined
from eigentree.messages import renamed_arguments
from eigentree.validation import Seed, different_names, generator, our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from eigentree.arrays import Booleans, Floats
    from eigentree.data.tables.labeled_table import LabeledTable
    from eigentree.inference.networks.network import LatentNetwork

__all__ = ["HiddenQueries"]

MOST_POSTERIOR_STATES = 4096
"""Largest number of joint states of a joint posterior."""


class HiddenQueries(Queries):
    """Queries of hidden variables, wherever tables are known."""

    @property
    @abstractmethod
    def _tables(self) -> LatentNetwork:
        """The network whose tables are known."""

    def predict_proba(self, X: ArrayLike | Any, target: str | None = None) -> LabeledTable:
        """Return P(target | the other cells) of each row, shape (rows, states of the target).

        The target's own cell is not read. A hidden target gets its posterior given all cells of the row. It is
        always a distribution: where a row is impossible, it is the target's marginal, and a warning says how often.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        target : str, optional
            The name of a variable, observed or hidden. By default the hidden one, where there is one only.
        """
        target = self._target(target)
        self._model.graph.require(target)
        if target not in self._model.graph.hidden:
            return super().predict_proba(X, target)
        if is_dask_frame(X):
            lazy: LabeledTable = predicted_lazily(self, X, target, range(self._model.graph.states[target]))
            return lazy
        found, lost = self._marginals(X, (target,))
        warn_undefined(lost, f"rows {self._model.undefined}; the marginal of {target!r} was used")
        return _by_row(X, found[target], (target,))

    @our_arithmetic
    def posterior(
        self, X: ArrayLike | Any, names: Sequence[str] | None = None
    ) -> dict[str, LabeledTable] | LabeledTable:
        """Return the posterior of hidden variables given each row.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        names : sequence of str, optional
            Hidden variables whose joint posterior is wanted, shape (rows, states of each…). By default the
            posterior of each hidden variable by itself, as a dict of name to array of shape (rows, states).
        """
        if names is None:
            found, lost = self._marginals(X, self._model.graph.hidden)
            warn_undefined(lost, f"rows {self._model.undefined}; the marginals of the hidden variables were used")
            return {name: _by_row(X, proba, (name,)) for name, proba in found.items()}
        asked = self._hidden_names(names)
        revealed = self._tables.reveal(asked)
        places = [revealed.columns.position(name) for name in asked]
        shape = [revealed.columns.states[place] for place in places]
        if math.prod(shape) > MOST_POSTERIOR_STATES:
            raise DataError(
                f"the joint posterior of {list(asked)} has {math.prod(shape):,} states (the limit is "
                f"{MOST_POSTERIOR_STATES:,}); take fewer variables at a time, or each by itself"
            )
        rows = self._rows(X)
        log_joint = np.empty((rows.count, math.prod(shape)))
        for start, codes in rows.chunks(rows_at_a_time(len(revealed.columns.names))):
            wide = revealed.extended(codes, self._columns.names)
            for cell, states in enumerate(np.ndindex(*shape)):
                wide[:, places] = states
                log_joint[start : start + len(codes), cell] = revealed.score(wide)[0]
        impossible = ~np.isfinite(log_joint).any(axis=1)
        if impossible.any():
            with np.errstate(divide="ignore"):
                log_joint[impossible] = np.log(revealed.joint(asked)).ravel()
        count = int(impossible.sum())
        warn_undefined(count, f"rows {self._model.undefined}; the hidden variables' own distribution was used")
        joint = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        joint = (joint / joint.sum(axis=1, keepdims=True)).reshape(-1, *shape)
        return _by_row(X, joint, asked)

    @our_arithmetic
    def decode(self, X: ArrayLike | Any) -> Decoded:
        """Return the jointly most probable hidden states given each row, and their log probability.

        A missing cell is marginalised out; but where others depend on its column, its most probable state is found
        together with the hidden ones. For a frame the states are a frame of the same library, one column per hidden
        variable.

        Parameters
        ----------
        X : array-like of shape (rows, columns), a data frame, or rows of letters
            Labels, or codes where the columns have none; None, NaN, null or -1 for a missing cell.
        """
        hidden = self._hidden_names(self._model.graph.hidden)
        decoder = self._tables.decoder
        rows = self._rows(X)
        states = np.empty((rows.count, len(hidden)), np.int64)
        log_prob = np.empty(rows.count)
        for start, codes in rows.chunks(rows_at_a_time(len(decoder.tree.nodes))):
            part = slice(start, start + len(codes))
            states[part], log_prob[part] = decoder.decode(codes, hidden)
        impossible = int(np.isneginf(log_prob).sum())
        warn_undefined(impossible, "rows are impossible under this model; their hidden states are -1")
        framed = frame_like(X, dict(zip(hidden, states.T, strict=True)))
        return Decoded(states if framed is None else framed, log_prob)

    @renamed_arguments(False, seed="random_state")
    @our_arithmetic
    def sample_hidden(self, X: ArrayLike | Any, random_state: Seed = None) -> Any:
        """Return one joint sample of all hidden variables given each row, shape (rows, hidden variables).

        For a frame it is a frame of the same library.
        """
        hidden = self._hidden_names(self._model.graph.hidden)
        revealed = self._tables.reveal(hidden)
        places = [revealed.columns.position(name) for name in hidden]
        rows = self._rows(X)
        random = generator(random_state)
        sampled = np.empty((rows.count, len(hidden)), np.int64)
        undefined = 0
        for start, codes in rows.chunks(rows_at_a_time(len(revealed.columns.names))):
            wide = revealed.extended(codes, self._columns.names)
            undefined += revealed.operators.draw(wide, random)
            sampled[start : start + len(codes)] = wide[:, places]
        warn_undefined(undefined, f"cells {self._model.undefined}; they were sampled from their marginal")
        framed = frame_like(X, dict(zip(hidden, sampled.T, strict=True)))
        return sampled if framed is None else framed

    @our_arithmetic
    def _marginals(self, X: ArrayLike | Any, names: tuple[str, ...]) -> tuple[dict[str, Floats], int]:
        """Return the posterior of each variable by itself, and how many rows are impossible."""
        revealed = self._tables.reveal(self._hidden_names(names))
        rows = self._rows(X)
        places = [revealed.columns.position(name) for name in names]
        found = {name: np.empty((rows.count, self._model.graph.states[name])) for name in names}
        lost: Booleans = np.zeros(rows.count, np.bool_)
        for start, codes in rows.chunks(rows_at_a_time(sum(revealed.columns.states))):
            part = slice(start, start + len(codes))
            tables = revealed.distributions(revealed.extended(codes, self._columns.names), places)
            for name, (table, gone) in zip(names, tables, strict=True):
                found[name][part] = table
                lost[part] |= gone
        return found, int(lost.sum())

    def _hidden_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names, once each is that of a hidden variable and there is at least one."""
        graph = self._model.graph
        asked = different_names("names", names)
        for name in asked:
            graph.require(name)
            if name not in graph.hidden:
                raise GraphError(f"{name!r} is observed; the hidden variables are {', '.join(graph.hidden)}")
        if not asked:
            raise GraphError(
                f"name each hidden variable once, and at least one; the graph has {list(graph.hidden)}"
            )
        return asked


def _by_row(X: ArrayLike | Any, proba: Floats, names: tuple[str, ...]) -> LabeledTable:
    """Return posteriors of hidden variables, one per row, whose states are numbers."""
    return by_row(X, proba, names, [range(size) for size in proba.shape[1:]])
