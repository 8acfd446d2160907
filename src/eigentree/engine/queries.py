"""What users ask of a tree of operators: probabilities, predictions, imputations, samples.

Each function takes the operators, the graph that names their columns, and data; models of every kind share them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from eigentree.data.rows import Rows, rows_at_a_time
from eigentree.errors import DataError, GraphError, in_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from eigentree.engine.operators import TreeOperators
    from eigentree.structures.graph import LatentGraph

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
    _check_size([operators.states[column] for column in columns])
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
    if not columns:
        raise GraphError("the table of no variables at all is asked for; name at least one")
    evidence = _evidence(graph, given)
    if both := [column for column in columns if evidence[0, column] < operators.states[column]]:
        raise DataError(f"{graph.observed[both[0]]!r} stands on both sides of the bar; leave it out of one")
    shape = [operators.states[column] for column in columns]
    _check_size(shape)
    cells = math.prod(shape)
    log_size, sign = np.empty(cells), np.empty(cells, np.int8)
    step = rows_at_a_time(evidence.shape[1])
    for start in range(0, cells, step):
        part = np.arange(start, min(start + step, cells))
        codes = np.asfortranarray(np.repeat(evidence, len(part), axis=0))
        codes[:, columns] = np.stack(np.unravel_index(part, shape), axis=1)
        log_size[part], sign[part] = operators.log_prob(codes)
    table = np.where(sign > 0, _exp_shifted(log_size), 0.0)
    if not table.any():
        raise DataError(f"the evidence {dict(given)} has no positive probability under this model")
    normalised: NDArray[np.float64] = table / table.sum()
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
        ((table, lost),) = _distributions(operators, codes, [column])
        proba[start : start + len(codes)] = table
        undefined += int(lost.sum())
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
    # In each row, the tables of all columns may be asked for at once.
    for start, codes in rows.chunks(rows_at_a_time(sum(rows.states))):
        if method == "sample":
            undefined += operators.draw(codes, random)
        else:
            undefined += _fill_modes(operators, codes)
        filled[start : start + len(codes)] = codes
    return filled, undefined


def _fill_modes(operators: TreeOperators, codes: NDArray[Any]) -> int:
    """Put the likeliest state into each missing cell; return for how many that was undefined."""
    missing = codes == np.asarray(operators.states)
    wanted = np.flatnonzero(missing.any(axis=0)).tolist()
    if not wanted:
        return 0
    undefined = 0
    for column, (table, lost) in zip(wanted, _distributions(operators, codes, wanted), strict=True):
        holes = missing[:, column]
        codes[holes, column] = table[holes].argmax(axis=1)
        undefined += int((lost & holes).sum())
    return undefined


def sample(
    operators: TreeOperators,
    graph: LatentGraph,
    n: int,
    given: Mapping[str, int],
    seed: int | np.random.Generator | None = None,
) -> tuple[NDArray[np.int64], int]:
    """Return rows drawn from P(other columns | given), and how often that was undefined.

    A cell without any state of positive probability is drawn from its column alone and counts; so does evidence
    that has probability zero itself.
    """
    check_count(n)
    random = np.random.default_rng(seed)
    rows = np.empty((n, len(graph.observed)), np.int64)
    evidence = _evidence(graph, given)
    failures = int(operators.log_prob(evidence)[1][0] == 0)
    step = rows_at_a_time(evidence.shape[1])
    for start in range(0, n, step):
        codes = np.asfortranarray(np.repeat(evidence, min(step, n - start), axis=0))
        failures += operators.draw(codes, random)
        rows[start : start + len(codes)] = codes
    return rows, failures


def check_count(n: int) -> None:
    """Raise `DataError` unless n is a whole number of rows, at least one."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise DataError(f"the number of rows to sample is a whole number of at least 1, not {n!r}")


def _columns(graph: LatentGraph, names: Iterable[str]) -> list[int]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise GraphError(f"names is a list of variables, such as [{graph.observed[0]!r}], not {names!r}")
    columns = [graph.column(name) for name in names]
    if len(set(columns)) < len(columns):
        raise GraphError(f"each variable may be named once, not as in {[graph.observed[c] for c in columns]}")
    return columns


def _check_size(shape: Sequence[int]) -> None:
    if math.prod(shape) > MAX_TABLE:
        raise DataError(
            f"a table of {len(shape)} variables with {in_short(math.prod(shape))} cells is too large "
            f"(the limit is {in_short(MAX_TABLE)}); ask for fewer variables at a time"
        )


def _evidence(graph: LatentGraph, given: Mapping[str, int]) -> NDArray[Any]:
    """Return the codes of one row that holds what is given, all other cells missing."""
    if not isinstance(given, Mapping):
        raise DataError(
            f"given is a mapping of names to codes, such as {{{graph.observed[0]!r}: 0}}, not {given!r}"
        )
    row = np.full((1, len(graph.observed)), -1, np.int64)
    for name, value in given.items():
        column, states = graph.column(name), graph.states[name]
        whole = isinstance(value, Integral) or (isinstance(value, float | np.floating) and value % 1 == 0)
        if not whole or not 0 <= value < states:
            raise DataError(
                f"{name!r} is given as {value!r}, but has the codes 0 to {states - 1}; "
                f"leave a variable out of given when it is not known"
            )
        row[0, column] = value
    return Rows.of(row, graph).encode(0, 1)


def _exp_shifted(log_size: NDArray[np.float64]) -> NDArray[np.float64]:
    peak = log_size.max()
    return np.exp(log_size - peak) if np.isfinite(peak) else np.zeros_like(log_size)


def _distributions(
    operators: TreeOperators, codes: NDArray[Any], columns: Sequence[int]
) -> list[tuple[NDArray[np.float64], NDArray[np.bool_]]]:
    """Return the distribution of each wanted column in each row, given the row's other cells, and where it is lost.

    Where nothing is positive it is the column's own, and an even one where that has nothing positive either.
    """
    found = []
    for column, raw in zip(columns, operators.tables(codes, columns), strict=True):
        # Noise leaves negative entries in learned operators.
        table = np.maximum(raw, 0.0)
        lost = ~(table.sum(axis=1) > 0.0)
        if lost.any():
            alone = np.maximum(operators.joint((column,)), 0.0)
            table[lost] = alone if alone.any() else 1.0
        found.append((table / table.sum(axis=1, keepdims=True), lost))
    return found
