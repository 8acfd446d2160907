"""What users ask of a tree of operators: probabilities, predictions, imputations, samples.

Each function takes the operators, the graph that names their columns, and data; models of every kind share them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.codes import Rows
from eigentree.errors import DataError, GraphError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.graph import LatentGraph
    from eigentree.operators import TreeOperators

MAX_TABLE = 2**24
"""Largest table that a user may ask for: 128 MiB."""


def log_prob(operators: TreeOperators, graph: LatentGraph, X: ArrayLike | Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the log absolute probability of each row, and its sign; missing cells are summed out.

    Parameters
    ----------
    operators : TreeOperators
    graph : LatentGraph
    X : array-like of shape (rows, columns), or a data frame

    Returns
    -------
    log_size : array, shape (rows,)
    sign : array, shape (rows,)
        1, 0 (an impossible row, log -inf) or, for learned operators, -1.
    """
    rows = Rows.of(X, graph)
    log_size, sign = np.empty(rows.count), np.empty(rows.count, np.int8)
    for start, codes in rows.chunks():
        part = slice(start, start + len(codes))
        log_size[part], sign[part] = operators.log_prob(codes)
    return log_size, sign


def joint(operators: TreeOperators, graph: LatentGraph, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the table of some observed variables, axes in the order of the names."""
    columns = _columns(graph, names)
    _check_size([graph.states[name] for name in names], names)
    return operators.joint(columns)


def conditional(
    operators: TreeOperators, graph: LatentGraph, names: Sequence[str], given: Mapping[str, int]
) -> NDArray[np.float64]:
    """Return the table P(names | given), axes in the order of the names.

    Raises
    ------
    DataError
        When the evidence has no positive probability.
    """
    columns = _columns(graph, names)
    if both := [name for name in names if name in given]:
        raise DataError(f"{both[0]!r} stands on both sides of the bar; leave it out of one")
    shape = [graph.states[name] for name in names]
    _check_size(shape, names)
    codes = np.repeat(_evidence(graph, given), math.prod(shape), axis=0)
    codes[:, columns] = np.indices(shape).reshape(len(shape), -1).T
    log_size, sign = operators.log_prob(np.asfortranarray(codes))
    table = _positive(np.where(sign > 0, _exp_shifted(log_size), 0.0)[None, :])
    if not table.any():
        raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
    normalised: NDArray[np.float64] = table[0] / table.sum()
    return normalised.reshape(shape)


def predict_proba(
    operators: TreeOperators, graph: LatentGraph, X: ArrayLike | Any, target: str
) -> tuple[NDArray[np.float64], int]:
    """Return P(target | the other cells) for each row, and for how many rows it was undefined.

    A row whose other cells have no positive probability gets the target's own distribution.

    Returns
    -------
    proba : array, shape (rows, states of the target)
    undefined : int
    """
    column = graph.column(target)
    rows = Rows.of(X, graph)
    proba = np.empty((rows.count, graph.states[target]))
    undefined = 0
    for start, codes in rows.chunks():
        part, lost = _distributions(operators, codes, [column])
        proba[start : start + len(codes)] = part[0]
        undefined += lost
    return proba, undefined


def impute(
    operators: TreeOperators,
    graph: LatentGraph,
    X: ArrayLike | Any,
    method: Literal["mode", "sample"] = "mode",
    seed: int | np.random.Generator | None = None,
) -> tuple[NDArray[np.int64], int]:
    """Return the rows as codes with their missing cells filled, and for how many cells that was undefined.

    Parameters
    ----------
    method : {"mode", "sample"}
        "mode" puts the likeliest state of each missing cell given the known cells of its row; "sample" draws
        all missing cells of a row together.
    seed : int or Generator, optional
        For "sample".
    """
    if method not in ("mode", "sample"):
        raise DataError(f"method is 'mode' or 'sample', not {method!r}")
    rows = Rows.of(X, graph)
    filled = np.empty((rows.count, len(rows.states)), np.int64)
    random = np.random.default_rng(seed)
    undefined = 0
    for start, codes in rows.chunks():
        if method == "sample":
            undefined += operators.draw(codes, random)
        else:
            missing = codes == np.asarray(rows.states)
            wanted = np.flatnonzero(missing.any(axis=0)).tolist()
            # Few columns at a time: the tables of all of them could be much larger than the data.
            for first in range(0, len(wanted), 16):
                columns = wanted[first : first + 16]
                tables, lost = _distributions(operators, codes, columns)
                undefined += lost
                for column, table in zip(columns, tables, strict=True):
                    best = table.argmax(axis=1).astype(codes.dtype)
                    # The tables ignore the cell that they are about, so filling it first changes no other.
                    filled[start : start + len(codes), column] = np.where(
                        missing[:, column], best, codes[:, column]
                    )
            known = [column for column in range(len(rows.states)) if column not in set(wanted)]
            filled[start : start + len(codes), known] = codes[:, known]
            continue
        filled[start : start + len(codes)] = codes
    return filled, undefined


def sample(
    operators: TreeOperators,
    graph: LatentGraph,
    n: int,
    given: Mapping[str, int],
    seed: int | np.random.Generator | None = None,
) -> tuple[NDArray[np.int64], int]:
    """Return rows drawn from P(other columns | given), and how many cells had to fall back on their column."""
    check_count(n)
    random = np.random.default_rng(seed)
    rows = np.empty((n, len(graph.observed)), np.int64)
    failures = 0
    evidence = _evidence(graph, given)
    for start in range(0, n, 16_384):
        codes = np.asfortranarray(np.repeat(evidence, min(16_384, n - start), axis=0))
        failures += operators.draw(codes, random)
        rows[start : start + len(codes)] = codes
    return rows, failures


def check_count(n: int) -> None:
    """Raise `DataError` unless n is a whole number of rows, at least one."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise DataError(f"the number of rows to sample is a whole number of at least 1, not {n!r}")


def _columns(graph: LatentGraph, names: Sequence[str]) -> list[int]:
    if isinstance(names, str):
        raise GraphError(f"names is a list of variables; write [{names!r}]")
    columns = [graph.column(name) for name in names]
    if len(set(columns)) < len(columns):
        raise GraphError(f"each variable may be named once, not as in {list(names)}")
    return columns


def _check_size(shape: Sequence[int], names: Sequence[str]) -> None:
    if math.prod(shape) > MAX_TABLE:
        raise DataError(
            f"a table of {len(names)} variables with {math.prod(shape):.3g} cells is too large; "
            f"ask for fewer variables at a time"
        )


def _evidence(graph: LatentGraph, given: Mapping[str, int]) -> NDArray[Any]:
    row = np.full((1, len(graph.observed)), -1, np.int64)
    for name, value in given.items():
        row[0, graph.column(name)] = value
    return Rows.of(row, graph).encode(0, 1)


def _exp_shifted(log_size: NDArray[np.float64]) -> NDArray[np.float64]:
    peak = log_size.max()
    return np.exp(log_size - peak) if np.isfinite(peak) else np.zeros_like(log_size)


def _positive(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a table whose negative entries, which noise leaves in learned operators, are zero."""
    return np.maximum(table, 0.0)


def _distributions(
    operators: TreeOperators, codes: NDArray[Any], columns: Sequence[int]
) -> tuple[list[NDArray[np.float64]], int]:
    """Return the distribution of each wanted column in each row, given the row's other cells."""
    undefined = 0
    tables = []
    for column, raw in zip(columns, operators.tables(codes, columns), strict=True):
        table = _positive(raw)
        total = table.sum(axis=1, keepdims=True)
        lost = ~(total[:, 0] > 0.0)
        if lost.any():
            alone = _positive(operators.joint((column,)))
            table[lost] = alone
            total[lost] = alone.sum()
            undefined += int(lost.sum())
        tables.append(table / total)
    return tables, undefined
