"""Classes of a stream of rows: a column holds them, and the rows of each are counted separately."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

__all__ = ["ClassStream"]


@dataclass(frozen=True, eq=False)
class ClassStream:
    """Rows of a stream with the class of each: sorted labels, and their shares by weight."""

    graph: LatentGraph
    columns: Columns
    classes: NDArray[Any]
    prior: Floats
    _rows: Spool
    _codes: Integers

    @classmethod
    def of(cls, estimator: SpectralJunctionTree, X: Any, y: Any, sample_weight: Any) -> ClassStream:
        """Return the rows of a stream, after one pass for the columns and one for the classes."""
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
        others = own.observed if isinstance(own, LatentGraph) else _without(y, summarised.schema.names or ())
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
        return cls(graph, columns, classes, _prior(spool, y, classes, order), spool, order)

    def chunks(self, label: int) -> Iterator[tuple[Codes, NDArray[Any] | None]]:
        """Yield codes and weights of the rows of one class, by its place among the classes."""
        for codes, weights in self._rows.chunks():
            own = codes[:, -1] == self._codes[label]
            if own.any():
                chosen = np.asfortranarray(codes[own, :-1].astype(self.columns.code_type, copy=False))
                yield chosen, None if weights is None else weights[own]


def _without(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


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
