"""Classes of a stream of rows: a column holds them, and the rows of each are counted separately."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.structure_and_schema import graph_and_columns
from eigentree.data.streams.encoded_stream import Spool, StreamSchema
from eigentree.data.streams.sources import stream_of
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import NO_WEIGHT
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.estimators.classification.class_targets import class_shares, shown_label
from eigentree.graphs.graph import LatentGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

__all__ = ["class_stream"]


def class_stream(
    estimator: SpectralJunctionTree, X: Any, y: Any, sample_weight: Any
) -> tuple[LatentGraph, Columns, NDArray[Any], Floats, Callable[[int], Iterator[tuple[Codes, Any]]]]:
    """Return graph, columns, sorted classes and their shares by weight, and what yields the rows of one class.

    It takes one pass for the columns and one for the classes; rows are codes and weights, in batches.
    """
    stream = stream_of(X)
    names = stream.names or ()
    if not isinstance(y, str):
        raise DataError(
            f"the rows come in batches, so y is the name of the column that holds the classes, not {quoted(y)}"
        )
    if y not in names:
        hint = did_you_mean(y, names) or ("" if names else "; the columns have no names")
        raise DataError(f"y names {y!r}, which is no column{hint}")
    options = ReadOptions.of(estimator, sample_weight)
    summarised = StreamSchema.of(stream, options)
    own = estimator.structure
    others = [name for name in summarised.schema.names or () if name != y]
    if isinstance(own, LatentGraph):
        others = list(own.observed)
    graph, columns = graph_and_columns(own, summarised.schema.only(others), options)
    known_classes = Columns.learned(summarised.schema.only([y]))
    joint = replace(
        columns,
        names=(*columns.names, y),
        states=(*columns.states, *known_classes.states),
        meanings=(*columns.meanings, *known_classes.meanings),
    )
    rows = summarised.rows(joint)
    labels = np.array(known_classes.labels(y))
    order = np.argsort(labels, kind="stable")
    spool = rows if isinstance(rows, Spool) else Spool.of(joint, rows.chunks())
    classes = labels[order]

    def chunks(label: int) -> Iterator[tuple[Codes, Any]]:
        for codes, weights in spool.chunks():
            own = codes[:, -1] == order[label]
            if own.any():
                chosen = np.asfortranarray(codes[own, :-1].astype(columns.code_type, copy=False))
                yield chosen, None if weights is None else weights[own]

    return graph, columns, classes, _prior(spool, y, classes, order), chunks


def _prior(rows: Spool, y: str, classes: NDArray[Any], order: Integers) -> Floats:
    """Return the share of each class, by weight; raise `DataError` where there are too few, or a row has none."""
    count = len(classes)
    if count < 2:
        named = f"one class only, {shown_label(classes[0])}" if count else "no class at all"
        raise DataError(f"column {y!r} holds {named}; a classifier needs at least two")
    totals, first = np.zeros(count), 0
    for codes, weights in rows.chunks():
        own = codes[:, -1].astype(np.int64)
        if (absent := own == count).any():
            raise DataError(f"row {first + int(absent.argmax())} has no class in column {y!r}; leave such rows out")
        totals += np.bincount(own, weights, count)[order]
        first += len(own)
    if not totals.any():
        raise DataError(NO_WEIGHT)
    return class_shares(classes, totals)
