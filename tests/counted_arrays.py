"""What files hold of statistics, as plain arrays: to be compared, and to be damaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from eigentree.counting.additive import StoredCounts, read_stored, stored_content
from eigentree.errors import FileError
from eigentree.io.documents import parsed, written
from eigentree.io.stores import TYPES, Reader, Writer

Kind = TypeVar("Kind", bound=StoredCounts)


def arrays_of(held: StoredCounts) -> dict[str, np.ndarray]:
    """Return the arrays of statistics, and their documents as text in arrays of bytes."""
    writer = Writer()
    content = stored_content(writer, held)
    documents = {"columns": content.pop("columns"), "content": content}
    return {
        **{name: np.frombuffer(written(each).encode(), np.uint8) for name, each in documents.items()},
        **writer.arrays,
    }


def of_arrays(kind: type[Kind], arrays: Mapping[str, Any]) -> Kind:
    """Return the statistics that such arrays are of, as a file gives them."""

    def taken(name: str, kinds: Sequence[str], shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(arrays[name])
        if array.dtype not in [np.dtype(TYPES[each]) for each in kinds] or array.shape != shape:
            raise FileError(f"{name!r} is not an array of the right type and shape")
        return array

    columns, content = (parsed(bytes(arrays[name]).decode("ascii", "replace")) for name in ("columns", "content"))
    return read_stored(kind, Reader(taken, kind.__name__, content), {**content, "columns": columns})
