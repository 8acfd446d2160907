"""One file of a JSON document and arrays: safetensors, which other programs read too.

A file is the length of a header (eight bytes, the lowest first), the header (JSON, padded by spaces) and the bytes
of the arrays end to end. The header gives each array's type, shape and place; its ``__metadata__`` holds two
strings: ``eigentree``, a JSON document that says what the arrays are, and ``sha256``, the digest of document,
places and bytes.

Nothing in such a file can be executed. It is read with suspicion nevertheless: the header is read once its length
is known to fit the file, and an array once the digest is right and its type and shape are those that its reader
expects. The package safetensors is not needed for this: what remains of its work once a header is checked is to
copy bytes.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.errors import FileError
from eigentree.io.atomic_write import opened, write_whole
from eigentree.io.documents import Section, parsed, written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Archive", "opened_archive", "write_archive"]

TYPES = {"F64": "<f8", "I64": "<i8", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1"}
"""The types of arrays by safetensors' names for them."""

NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

MOST_HEADER = 100_000_000
"""The longest header that safetensors itself reads."""

BLOCK = 2**20
"""Bytes that are read at a time where not all are needed at once."""

METADATA = "__metadata__"


class _ArrayPlace(NamedTuple):
    """Where an array lies behind the header."""

    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int


def write_archive(
    path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a document and arrays into one file, whole or not at all."""
    # Wide types first: then every array begins at a multiple of its width.
    laid = {name: _laid(arrays[name]) for name in sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))}
    places: dict[str, _ArrayPlace] = {}
    end = 0
    for name, array in laid.items():
        places[name] = _ArrayPlace(NAMES[array.dtype], array.shape, end, end + array.nbytes)
        end += array.nbytes
    text = written(document)
    digest = _begun_digest(text, places)
    for array in laid.values():
        digest.update(array.data.cast("B") if array.size else b"")
    index: dict[str, Any] = {METADATA: {"eigentree": text, "sha256": digest.hexdigest()}}
    for name, place in places.items():
        index[name] = {"dtype": place.kind, "shape": place.shape, "data_offsets": (place.start, place.stop)}
    header = json.dumps(index, separators=(",", ":")).encode("ascii")
    header += b" " * (-len(header) % 8)
    if len(header) > MOST_HEADER:
        raise FileError(f"the header would have {len(header):,} bytes, and may have {MOST_HEADER:,}")

    def write(file: IO[bytes]) -> None:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in laid.values():
            file.write(array.data)

    write_whole(path, write)


def _laid(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it stands in a file: row by row, the lowest byte first."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _begun_digest(text: str, places: Mapping[str, _ArrayPlace]) -> Any:
    """Return the digest of all but the arrays' own bytes."""
    index = [[name, *place] for name, place in places.items()]
    return sha256(json.dumps([text, index], separators=(",", ":")).encode("ascii"))


class Archive:
    """A file that is open for reading: its document, and its arrays one by one.

    Attributes
    ----------
    document : object
    """

    document: Any

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._start, index = _header(file, size)
        metadata = index.pop(METADATA, None)
        if not isinstance(metadata, dict) or "eigentree" not in metadata:
            raise FileError("it is a safetensors file, but not one of eigentree's")
        kept = Section(metadata, "the metadata", ("eigentree", "sha256"))
        self._text = kept.text("eigentree")
        self._sha256 = kept.text("sha256")
        self._places = _checked_places(index, size - self._start)
        self._taken: set[str] = set()
        self.document = parsed(self._text)

    def check_digest(self) -> None:
        """Raise `FileError` unless the bytes are those that were written."""
        digest = _begun_digest(self._text, self._places)
        self._file.seek(self._start)
        while block := self._file.read(BLOCK):
            digest.update(block)
        if digest.hexdigest() != self._sha256:
            raise FileError("it is damaged: its contents are not what was written")

    def take(self, name: str, kinds: Sequence[str], shape: tuple[int, ...]) -> NDArray[Any]:
        """Return an array, read-only.

        Parameters
        ----------
        name : str
        kinds : sequence of str
            The types that it may have, by safetensors' names.
        shape : tuple of int
        """
        place = self._place(name)
        if place.kind not in kinds or place.shape != shape:
            raise FileError(
                f"the array {name!r} is {' or '.join(kinds)} of shape {shape}, "
                f"but here {place.kind} of {place.shape}"
            )
        if name in self._taken:
            raise FileError(f"the array {name!r} is read twice")
        self._taken.add(name)
        array = np.empty(shape, TYPES[place.kind])
        self._file.seek(self._start + place.start)
        if array.size and self._file.readinto(array.data.cast("B")) != array.nbytes:  # type: ignore[attr-defined]
            raise FileError("it is cut short")
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        native.flags.writeable = False
        return native

    def floats(self, name: str, *shape: int) -> NDArray[np.float64]:
        """Return an array of finite numbers, read-only."""
        array = self.take(name, ("F64",), shape)
        if not np.isfinite(array).all():
            raise FileError(f"the array {name!r} holds numbers that are not finite")
        return array

    def _place(self, name: str) -> _ArrayPlace:
        if name not in self._places:
            raise FileError(f"there is no array {name!r}")
        return self._places[name]

    def check_all_taken(self) -> None:
        """Raise `FileError` if there is an array that was not read."""
        if left := [name for name in self._places if name not in self._taken]:
            raise FileError(f"there is an array {left[0][:60]!r} that belongs to nothing")


@contextmanager
def opened_archive(path: str | os.PathLike[str]) -> Iterator[Archive]:
    """Open a file of a document and arrays."""
    with opened(path) as (file, size):
        try:
            yield Archive(file, size)
        except FileError as error:
            # What is said of a part of the file is said of the file.
            said = str(error) if str(error).startswith("it ") else f"it is damaged: {error}"
            raise FileError(f"{str(path)[:200]!r} cannot be loaded: {said}") from None
        except (MemoryError, RecursionError):
            raise FileError(f"{str(path)[:200]!r} cannot be loaded: it is larger than memory allows") from None


def _header(file: IO[bytes], size: int) -> tuple[int, dict[str, Any]]:
    """Return where the arrays begin, and the parsed header."""
    head = file.read(64)
    if not head:
        raise FileError("it is empty")
    length = int.from_bytes(head[:8], "little")
    if head[8:9] != b"{" or length > MOST_HEADER or length < 2:
        raise FileError(f"it is no file of eigentree's: it looks like {_looks(head)}")
    if length > size - 8:
        raise FileError("it is cut short: its header is longer than the file")
    file.seek(8)
    try:
        index = parsed(file.read(length).decode("utf-8"))
    except UnicodeDecodeError:
        raise FileError("it is no file of eigentree's, or damaged: its header is no text") from None
    if not isinstance(index, dict):
        raise FileError("it is no file of eigentree's: its header is no JSON object")
    return 8 + length, index


def _looks(head: bytes) -> str:
    """Return what a file looks like that is none of ours."""
    known = {
        b"PK\x03\x04": "a zip archive, such as numpy's .npz or torch's .pt",
        b"\x80": "a pickle, which would execute what it holds and is never loaded",
        b"\x93NUMPY": "an array of numpy's",
        b"\x89HDF": "an HDF5 file",
        b"\x1f\x8b": "a gzip file",
        b"PAR1": "a Parquet file",
        b"ARROW1": "an Arrow file",
    }
    for magic, what in known.items():
        if head.startswith(magic):
            return what
    if all(byte >= 32 or byte in b"\t\n\r\f" for byte in head):
        return "a text"
    return "something else, or damaged"


def _checked_places(index: dict[str, Any], size: int) -> dict[str, _ArrayPlace]:
    """Return where each array lies, in their order, once they lie end to end and fill the rest of the file."""
    found: dict[str, _ArrayPlace] = {}
    for name, content in index.items():
        where = f"the header's entry {name[:60]!r}"
        entry = Section(content, where, ("dtype", "shape", "data_offsets"))
        kind, shape = entry.text("dtype"), entry.wholes("shape")
        if kind not in TYPES:
            raise FileError(f"{where} has the type {kind[:20]!r}, which eigentree's files do not have")
        offsets = entry.wholes("data_offsets")
        if len(offsets) != 2 or len(shape) > 32:
            raise FileError(f"{where} has no place, or too many axes")
        if offsets[1] - offsets[0] != math.prod(shape) * np.dtype(TYPES[kind]).itemsize:
            raise FileError(f"{where} has another size than its shape says")
        found[name] = _ArrayPlace(kind, shape, *offsets)
    ordered = dict(sorted(found.items(), key=lambda item: (item[1].start, item[1].stop)))
    end = 0
    for name, place in ordered.items():
        if place.start != end:
            raise FileError(f"the array {name[:60]!r} does not begin where the one before it ends")
        end = place.stop
    if end > size:
        raise FileError("it is cut short: its arrays are longer than the file")
    if end < size:
        raise FileError("there is something after its end")
    return ordered
