"""Data that come with the package, as scikit-learn's loaders return them: labels, as arrays or as frames."""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import DataError, EigentreeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Dataset", "Packaged", "labeled_fields"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and their classes; each attribute is an item too, as in scikit-learn's bunches.

    Attributes
    ----------
    data : array of object, shape (rows, columns), or a pandas frame of categories and whole numbers
        Labels and whole numbers; None, in a frame NaN, for a missing cell.
    target : array of str, shape (rows,), or a pandas series of categories
        The class of each row.
    frame : pandas frame or None
        Data and classes together, the latter as the last column, with ``as_frame=True``.
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


class Packaged(NamedTuple):
    """A published text that comes with the package, compressed as ``name.txt.xz``, and its SHA-256 checksum."""

    name: str
    checksum: str

    @property
    def file(self) -> str:
        """The compressed file."""
        return f"{self.name}.txt.xz"

    @property
    def attribution(self) -> str:
        """The description of the data, their source and their licence."""
        return files("eigentree.datasets").joinpath(f"{self.name}-attribution.txt").read_text("utf-8")

    def lines(self) -> list[str]:
        """Return the lines of the text."""
        return self.opened(files("eigentree.datasets").joinpath(self.file).read_bytes())

    def opened(self, compressed: bytes) -> list[str]:
        """Return the lines of a compressed text; raise `DataError` unless it is the published one."""
        try:
            text = lzma.decompress(compressed)
        except (lzma.LZMAError, EOFError):
            text = b""
        if hashlib.sha256(text).hexdigest() != self.checksum:
            raise DataError(
                f"the file {self.file} of the package eigentree is damaged (wrong checksum); install it again"
            )
        return text.decode("ascii").splitlines()


def labeled_fields(
    cells: NDArray[np.object_], classes: NDArray[np.str_], names: Sequence[str], as_frame: bool, description: str
) -> dict[str, Any]:
    """Return the fields of a `Dataset` of labels and whole numbers, as arrays or as frames."""
    data: Any = cells
    target: Any = classes
    frame = None
    if as_frame:
        try:
            import pandas
        except ImportError:
            raise EigentreeError("as_frame=True needs pandas: pip install pandas") from None
        columns = {
            name: own.astype(np.int64) if isinstance(own[0], int) else pandas.Categorical(own)
            for name, own in zip(names, cells.T, strict=True)
        }
        data = pandas.DataFrame(columns)
        target = pandas.Series(pandas.Categorical(classes), name="class")
        frame = data.assign(**{"class": target})
    return {
        "data": data,
        "target": target,
        "frame": frame,
        "feature_names": tuple(names),
        "target_names": tuple(np.unique(classes).tolist()),
        "DESCR": description,
    }
