"""What a model knows of its columns: names and numbers of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.cells import cells_of, names_in, shape_of
from eigentree.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from eigentree.arrays import Codes
    from eigentree.structures.graph import LatentGraph

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """The columns of a model, in the order of ``graph.observed``.

    Inside the package a cell is a code 0 … states-1, and the code after the last one, `states`, says that it is
    missing. Every table of operators has a slot for it, so a missing cell costs nothing.

    Attributes
    ----------
    names : tuple of str
    states : tuple of int
        Number of states of each column.

    Examples
    --------
    >>> Columns.learned([[0, 2], [1, -1]])
    Columns(names=('x0', 'x1'), states=(2, 3))
    """

    names: tuple[str, ...]
    states: tuple[int, ...]

    @classmethod
    def of(cls, graph: LatentGraph) -> Columns:
        """Return the columns that hold the observed variables of a graph."""
        return cls(graph.observed, tuple(graph.states[name] for name in graph.observed))

    @classmethod
    def learned(cls, X: ArrayLike | Any) -> Columns:
        """Return the columns of some data: a column has as many states as its largest code says.

        The columns of a frame keep their names; those of an array are called x0, x1, ….
        """
        count = shape_of(X)[1]
        names = names_in(X) or [f"x{column}" for column in range(count)]
        states = []
        for name, cells in zip(names, cells_of(X, names), strict=True):
            known = cells[cells >= 0]
            if not len(known):
                raise DataError(f"column {name!r} has no known cell, so its states are unknown; give a LatentGraph")
            if not np.isfinite(known.max()):
                raise DataError(
                    f"column {name!r} holds {known.max()}, which is no code; mark missing cells as -1 or NaN"
                )
            states.append(int(known.max()) + 1)
        return cls(tuple(names), tuple(states))

    def to_json(self) -> dict[str, Any]:
        """Return what there is to know of the columns as plain JSON values, for `from_json`."""
        return {"names": list(self.names), "states": list(self.states)}

    @classmethod
    def from_json(cls, document: Any) -> Columns:
        """Return the columns whose `to_json` this is.

        Raises
        ------
        DataError
            When it is not.
        """
        if not isinstance(document, dict) or set(document) != {"names", "states"}:
            raise DataError("columns have names and states")
        names, states = document["names"], document["states"]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise DataError("the names of columns are non-empty strings")
        if not isinstance(states, list) or not all(type(count) is int and count > 0 for count in states):
            raise DataError("the numbers of states of columns are whole and positive")
        if not names or len(names) != len(states) or len(set(names)) != len(names):
            raise DataError("columns have different names, and each has a number of states")
        return cls(tuple(names), tuple(states))

    @cached_property
    def code_type(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds every code, the one for missing cells included."""
        return np.min_scalar_type(max(self.states))

    def position(self, name: str) -> int:
        """Return the place of a column; raise `DataError` where there is none of this name."""
        if name not in self.names:
            raise DataError(f"there is no column {name!r}{did_you_mean(name, self.names)}")
        return self.names.index(name)

    def missing(self, rows: int) -> Codes:
        """Return the codes of rows without any known cell, shape (rows, columns), column-major."""
        codes = np.empty((rows, len(self.states)), self.code_type, order="F")
        codes[:] = self.states
        return codes

    def evidence(self, given: Mapping[str, int]) -> Codes:
        """Return the codes of one row that holds what is given by name, all other cells missing.

        Raises
        ------
        DataError
            When a name is no column, or a value no code of its column.
        """
        if not isinstance(given, Mapping):
            raise DataError(
                f"given is a mapping of names to codes, such as {{{self.names[0]!r}: 0}}, not {given!r}"
            )
        codes = self.missing(1)
        for name, value in given.items():
            column = self.position(name)
            states = self.states[column]
            whole = isinstance(value, Integral) or (isinstance(value, float | np.floating) and value % 1 == 0)
            if not whole or not 0 <= value < states:
                raise DataError(
                    f"{name!r} is given as {value!r}, but has the codes 0 to {states - 1}; "
                    f"leave a variable out of given when it is not known"
                )
            codes[0, column] = value
        return codes
