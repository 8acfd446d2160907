"""Data as scikit-learn's loaders hand them out: cells and classes by their labels, as arrays or as frames."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import EigentreeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Dataset", "LabeledCells"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and their classes; each attribute is an item too, as in scikit-learn's bunches.

    Attributes
    ----------
    data : array of object, shape (rows, columns), or a pandas frame of categories
        Labels; None, in a frame NaN, for a missing cell.
    target : array of str, shape (rows,), or a pandas series of categories
        The class of each row.
    frame : pandas frame or None
        Data and classes together, the latter as the last column, where frames were asked for.
    feature_names, target_names : tuple of str
        The columns, and the classes.
    DESCR : str
        What the data are, where they are from, and their licence.
    """

    data: Any
    target: Any
    frame: Any
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    DESCR: str

    def keys(self) -> list[str]:
        """Return the names of the attributes."""
        return [field.name for field in fields(self)]

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        return (
            f"<{type(self).__name__}: {rows:,} rows of {columns} columns, classes {', '.join(self.target_names)}>"
        )


class LabeledCells(NamedTuple):
    """Cells and classes by their labels, before it is known in which form they are wanted."""

    cells: NDArray[np.object_]
    classes: NDArray[np.str_]
    names: Sequence[str]

    def fields(self, as_frame: bool, description: str) -> dict[str, Any]:
        """Return what a `Dataset` is made of, as arrays or as frames."""
        data: Any = self.cells
        target: Any = self.classes
        frame = None
        if as_frame:
            pandas = _pandas()
            columns = {name: pandas.Categorical(own) for name, own in zip(self.names, self.cells.T, strict=True)}
            data = pandas.DataFrame(columns)
            target = pandas.Series(pandas.Categorical(self.classes), name="class")
            frame = data.assign(**{"class": target})
        return {
            "data": data,
            "target": target,
            "frame": frame,
            "feature_names": tuple(self.names),
            "target_names": tuple(np.unique(self.classes).tolist()),
            "DESCR": description,
        }


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise EigentreeError("as_frame=True needs pandas: pip install pandas") from None
    return pandas
