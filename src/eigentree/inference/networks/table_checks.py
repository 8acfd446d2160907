"""Tables as users give them, checked: one per distribution of a graph, each normalised."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.columns import Columns
from eigentree.errors import NetworkError, quoted
from eigentree.graphs.elimination import check_families
from eigentree.graphs.graph import check_graph
from eigentree.graphs.junction_tree import JunctionTree
from eigentree.validation import a_mapping, an_array

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import ArrayLike

    from eigentree.arrays import Floats, Integers
    from eigentree.graphs.graph import LatentGraph

__all__ = [
    "check_own_tree",
    "checked_columns",
    "checked_keys",
    "checked_labels",
    "checked_order",
    "checked_tables",
    "checked_tree",
    "dirichlet",
    "shown",
]

ROW_SUM_TOLERANCE = 1e-6
"""How far from 1 a distribution may sum to and still be taken for one; it is then divided by its sum."""

ROUNDING = 1e-12
"""How far from 1 rounding may put the sum of a distribution: such tables stay as they are, bit by bit."""


def check_own_tree(graph: LatentGraph, tree: JunctionTree) -> None:
    """Raise `NetworkError` unless the tree was built from this graph."""
    if not isinstance(tree, JunctionTree):
        raise NetworkError(f"a tree is a JunctionTree, made by JunctionTree.build(graph), not {quoted(tree)}")
    if tree.graph != graph:
        raise NetworkError("the junction tree belongs to another graph; build it from network.graph")


def checked_tree(graph: LatentGraph, tree: JunctionTree | None) -> JunctionTree | None:
    """Return the tree given, or one that the tables need, once it is sure that no table is too large."""
    check_graph(graph, NetworkError)
    if tree is not None:
        check_own_tree(graph, tree)
        return tree
    if not graph.directed:
        return JunctionTree.of(graph)
    check_families(graph)
    return None


def checked_columns(graph: LatentGraph, columns: Columns | None) -> Columns:
    """Return the columns given, once they are those of the graph; plain codes where none are given."""
    check_graph(graph, NetworkError)
    plain = Columns.of(graph)
    if columns is None:
        return plain
    if not isinstance(columns, Columns) or not columns.are_of(graph):
        raise NetworkError(f"columns are those of the graph's observed variables, {plain}, not {quoted(columns)}")
    return columns


def checked_keys(tables: Mapping[Any, ArrayLike], graph: LatentGraph) -> dict[tuple[str, ...], ArrayLike]:
    """Return the tables by tuples of names."""
    if not isinstance(tables, Mapping):
        raise NetworkError(
            f"tables is a mapping of names to arrays, such as {{{graph.names[0]!r}: [...]}}, "
            f"not a {type(tables).__name__}"
        )
    given: dict[tuple[str, ...], ArrayLike] = {}
    for key, table in tables.items():
        names = (key,) if isinstance(key, str) else key
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            raise NetworkError(f"a table is given for {quoted(key)}; tables go by names or by tuples of names")
        given[names] = table
    return given


def checked_tables(
    all_axes: Mapping[tuple[str, ...], tuple[str, ...]],
    given: Mapping[tuple[str, ...], ArrayLike],
    graph: LatentGraph,
) -> dict[tuple[str, ...], Floats]:
    """Return tables as read-only arrays, once their shapes, their numbers and their sums are what they must be."""
    arrays = {}
    for key, axes in all_axes.items():
        if key not in given:
            raise NetworkError(f"there is no table for {shown(key)}; it needs the axes {axes}")
        arrays[key] = _shaped(key, axes, given[key], graph)
    if not _are_normalised(arrays):
        for key, array in arrays.items():
            _normalise(key, all_axes[key], array)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _shaped(key: tuple[str, ...], axes: tuple[str, ...], table: ArrayLike, graph: LatentGraph) -> Floats:
    """Return a table as an array of its own, once it is one of numbers and of its shape."""
    given = an_array(f"the table of {shown(key)}", table, NetworkError)
    try:
        if np.iscomplexobj(given):
            raise TypeError
        # Row by row: the last bits of sums depend on the order in memory, which files do not keep.
        array = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise NetworkError(f"the table of {shown(key)} is not an array of numbers") from None
    shape = tuple(graph.states[name] for name in axes)
    if array.shape != shape:
        raise NetworkError(
            f"the table of {shown(key)} needs the shape {shape}, one axis for each of {axes}, not {array.shape}"
        )
    return array


def _are_normalised(arrays: Mapping[tuple[str, ...], Floats]) -> bool:
    """Return whether all tables are distributions up to rounding: at once, since tables are many and small."""
    sizes = [math.prod(array.shape[array.ndim - len(key) :]) for key, array in arrays.items()]
    counts = [array.size // size for array, size in zip(arrays.values(), sizes, strict=True)]
    each = np.repeat(sizes, counts)
    every = np.concatenate([array.ravel() for array in arrays.values()])
    return bool((every >= 0).all() and (abs(np.add.reduceat(every, each.cumsum() - each) - 1) <= ROUNDING).all())


def _normalise(key: tuple[str, ...], axes: tuple[str, ...], array: Floats) -> None:
    """Divide the distributions of a table by their sums where these are not 1 up to rounding."""
    if not np.isfinite(array).all() or (array < 0).any():
        raise NetworkError(f"the table of {shown(key)} holds negative, infinite or missing numbers")
    summed = tuple(range(len(axes) - len(key), len(axes)))
    totals = array.sum(axis=summed)
    worst = np.unravel_index(np.abs(totals - 1).argmax(), totals.shape) if totals.ndim else ()
    if abs(totals[worst] - 1) > ROW_SUM_TOLERANCE:
        where = dict(zip(axes, map(int, worst), strict=False))
        raise NetworkError(
            f"the table of {shown(key)} must sum to 1 over its last {len(key)} axis"
            f"{'' if len(key) == 1 else 'es'}, but sums to {totals[worst]:.6g} where {where or 'given'}"
        )
    if abs(totals[worst] - 1) > ROUNDING:
        array /= array.sum(axis=summed, keepdims=True)


def checked_order(name: str, order: ArrayLike, graph: LatentGraph) -> Integers:
    """Return the states of a hidden variable in a new order, once each is named and named once."""
    graph.require(name)
    if name not in graph.hidden:
        raise NetworkError(f"{name!r} is observed: its states are those of the data; relabel hidden variables only")
    states = graph.states[name]
    found = an_array(f"the order of {name!r}", order, NetworkError)
    if found.dtype.kind not in "iu" or sorted(found.ravel().tolist()) != list(range(states)) or found.ndim != 1:
        raise NetworkError(
            f"the order of {name!r} lists the states 0 to {states - 1}, each once, not {quoted(order)}"
        )
    return found.astype(np.int64)


def checked_labels(labels: Any, graph: LatentGraph) -> dict[str, tuple[Hashable, ...]]:
    """Return the names of the states of some hidden variables, once they are as many as states, and differ."""
    given = a_mapping("hidden_labels", labels, "{'h': ['low', 'high']}", NetworkError)
    found: dict[str, tuple[Hashable, ...]] = {}
    for name, own in given.items():
        graph.require(name)
        named = isinstance(own, list | tuple) and all(isinstance(label, str | int) for label in own)
        if name not in graph.hidden or not named or not len(own) == len(set(own)) == graph.states[name]:
            raise NetworkError(
                f"hidden_labels names the states of {quoted(name)}, which takes {graph.states[name]} different "
                f"strings or whole numbers of a hidden variable, not {quoted(own)}"
            )
        found[name] = tuple(own)
    return found


def shown(key: tuple[str, ...]) -> str:
    """Return the names that a table distributes, as they stand in a message."""
    return repr(key[0]) if len(key) == 1 else repr(key)


def dirichlet(random: np.random.Generator, rows: int, states: int, concentration: float) -> Floats:
    """Return rows sampled from a symmetric Dirichlet, shape (rows, states)."""
    # Logarithms of gamma samples: with a small concentration, plain ones can all underflow to zero.
    uniform = random.random((rows, states))
    logs = np.log(random.gamma(concentration + 1.0, size=(rows, states))) + np.log1p(-uniform) / concentration
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
