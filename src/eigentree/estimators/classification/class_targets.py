"""The classes of rows: what users give as y, or the column of a stream that holds them."""

from __future__ import annotations

from collections.abc import Sized
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.counting.structure_and_schema import graph_and_columns
from eigentree.data.streams.encoded_stream import Spool, StreamSchema
from eigentree.data.streams.sources import stream_of
from eigentree.data.tables.cells import is_marked_missing, object_array
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import FEW_ROWS_EACH
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.weights import NO_WEIGHT, NOT_A_NAME
from eigentree.errors import DataError, did_you_mean, quoted
from eigentree.graphs.graph import LatentGraph
from eigentree.messages import notice
from eigentree.validation import MOST_WHOLE, check_cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

__all__ = ["Targets", "class_shares", "class_stream", "label_array", "shown_label"]


class Targets(NamedTuple):
    """The sorted labels of classes, the place of each row's class among them (-1 if unknown), and the name of y.

    Numbers among which some were missing are whole if they can be.
    """

    classes: NDArray[Any]
    codes: Integers
    name: str | None = None

    @classmethod
    def of(cls, y: Any, rows: int, partly: bool = False) -> Targets:
        """Return the classes of labels; where `partly`, None, NaN and the like stand for unknown ones."""
        given = label_array(y, rows)
        absent = _absent(given)
        if absent.any() and not partly:
            raise DataError(
                f"row {absent.argmax()} has no label; leave out rows whose class is unknown, or learn from them "
                f"too with class_as='column'"
            )
        try:
            classes, found = np.unique(_as_numbers(given[~absent]) if absent.any() else given, return_inverse=True)
        except Exception:  # what comparisons of labels raise, those of arrays among them
            types = sorted({type(label).__name__ for label in given.tolist()})
            raise DataError(f"y mixes labels that have no common order: {', '.join(types)}; use one type") from None
        if classes.dtype.kind == "f" and (classes % 1 != 0).any() and FEW_ROWS_EACH * len(classes) > len(found):
            raise DataError(
                f"y looks continuous: {len(classes)} different numbers in {len(found)} rows; a classifier needs "
                f"classes, so cut y into bins, as with pandas.qcut, or turn it into text if these are labels"
            )
        if len(classes) < 2:
            named = f"one class only, {shown_label(classes[0])}" if len(classes) else "no class at all"
            raise DataError(f"y holds {named}; a classifier needs at least two")
        codes = np.full(rows, -1)
        codes[~absent] = found
        # A series calls itself something; what no column could be called is no name.
        name = getattr(y, "name", None)
        return cls(classes, codes, str(name) if isinstance(name, str) and name else None)

    def fitted(self, weights: NDArray[Any] | None) -> dict[str, Any]:
        """Return the classes and their shares of the rows whose class is known, by weight, as fitted attributes."""
        known = self.codes >= 0
        totals = np.bincount(self.codes[known], None if weights is None else weights[known], len(self.classes))
        return {"classes_": self.classes, "class_prior_": class_shares(self.classes, totals), "target_": self.name}


def class_shares(classes: NDArray[Any], totals: NDArray[Any]) -> Floats:
    """Return the shares of classes, once each has a weight."""
    if not totals.all():
        raise DataError(
            f"the weight of all rows of the class {shown_label(classes[totals == 0][0])} is zero; leave them out "
            f"or give one of them a weight"
        )
    return np.asarray(totals / totals.sum())


def label_array(y: Any, rows: int) -> NDArray[Any]:
    """Return labels as an array, shape (rows,), that keeps them apart, of whatever types; None or NaN for none."""
    if y is None:
        raise DataError("a classifier requires y to be passed, but the target y is None; give one label per row")
    if np.ma.is_masked(y):
        labels = np.ma.getdata(y).astype(object)
        labels[np.ma.getmaskarray(y)] = None
        y = labels
    if isinstance(y, Sized) and not isinstance(y, np.ndarray):
        check_cells("y", len(y), "give one label per row")
    try:
        given = np.asarray(y)
    except ValueError:
        raise DataError(f"y needs one label per row, shape ({rows},), not lists of different lengths") from None
    except Exception as error:  # what an object's own __array__ raises
        raise DataError(f"y cannot be read as labels: {type(error).__name__}: {error}") from None
    own = () if isinstance(y, np.ndarray) else ("to_pylist", "tolist", "to_list")
    listed = next((getattr(y, name) for name in own if hasattr(y, name)), None)
    if listed is not None and given.ndim == 1 and given.dtype.kind == "f" and np.isnan(given).any():
        # numpy was given floats only since some are missing.
        given = object_array(listed())
    if given.shape == (rows, 1):
        from sklearn.exceptions import DataConversionWarning

        notice(
            "A column-vector y was passed when a 1d array was expected; its one column is taken, as by y.ravel()",
            DataConversionWarning,
        )
        given = given[:, 0]
    if given.shape != (rows,):
        held = f"{quoted(y)}{NOT_A_NAME}" if isinstance(y, str) else given.shape
        raise DataError(f"y needs one label per row, shape ({rows},), not {held}")
    # numpy would turn the numbers of a mixed list into strings, and so merge 1 and "1".
    if given.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(each, str) for each in y):
        given = object_array(y)
    if given.dtype.kind == "O":
        # Comparisons with the marks that pandas has have no truth.
        given = object_array(None if is_marked_missing(label) else label for label in given)
    return given


def shown_label(label: Any) -> str:
    """Return a label as it stands in a message."""
    return quoted(label.item() if isinstance(label, np.generic) else label)


def _as_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as an array of numbers, of whole ones if they can be; as they are where some are no numbers."""
    if labels.dtype.kind == "O" and all(isinstance(label, Real | np.bool_) for label in labels):
        numbers = np.array(labels.tolist())
        # Floats would merge whole numbers of many digits.
        labels = numbers if (numbers == labels).all() else labels
    if labels.dtype.kind == "f" and (np.rint(labels) == labels).all() and (np.abs(labels) < MOST_WHOLE).all():
        return labels.astype(np.int64)
    return labels


def _differs_from_itself(label: Any) -> bool:
    """Return whether a label is NaN or the like; labels that cannot be compared are none of these."""
    try:
        return bool(label != label)
    except Exception:  # what an object's own comparison raises
        return False


def _absent(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels stand for a class that is not known."""
    if labels.dtype.kind == "O":
        return np.array([label is None or _differs_from_itself(label) for label in labels], np.bool_)
    return np.asarray(labels != labels)


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
    joint = columns.with_column(len(columns.names), y, known_classes.states[0], known_classes.meanings[0])
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
