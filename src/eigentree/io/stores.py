"""What goes into a file and comes out of it, piece by piece: documents, arrays, and what several pieces share.

The format has a version of two numbers. A file with a higher first number is refused; one with a higher second
number is read as far as it holds nothing that this version does not know.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from eigentree import __version__
from eigentree.errors import EigentreeError, FileError
from eigentree.graphs.graph import LatentGraph
from eigentree.io.byte_files import opened, write_whole
from eigentree.io.documents import Section, UnknownEntryError, parsed, texts, whole, written

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats

__all__ = ["FORMAT", "TYPES", "Reader", "Writer", "opened_store"]

FORMAT = 1, 1
"""The version of the format that is written."""

SHARED = ("graphs", "plans")
"""What several pieces of a file may share."""

T = TypeVar("T")


@dataclass(frozen=True)
class Writer:
    """What goes into a file, while it is being collected: arrays, and documents of what pieces share.

    The names of the arrays of a piece begin with its `prefix`.
    """

    prefix: str = ""
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    shared: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def within(self, name: str) -> Writer:
        """Return the writer of a piece, into the same file."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def array(self, name: str, array: NDArray[Any]) -> None:
        """Put an array into the file."""
        self.arrays[f"{self.prefix}{name}"] = array

    def flat(self, name: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Put several arrays into the file as one, end to end."""
        self.array(name, np.concatenate([np.zeros(0), *(np.ravel(array) for array in arrays)]))

    def share(self, kind: str, thing: T, describe: Callable[[T], Any]) -> int:
        """Return the number of a thing that several pieces may share; it is described once."""
        known = self.shared.setdefault(kind, {})
        if thing not in known:
            described = describe(thing)
            known[thing] = len(known), described
        return int(known[thing][0])

    def graph(self, graph: LatentGraph) -> int:
        """Return the number of a graph."""
        return self.share("graphs", graph, _graph_content)

    def save(self, path: str | os.PathLike[str], kind: str, content: Any) -> None:
        """Write the file, whole or not at all."""
        document = {"format": list(FORMAT), "eigentree": __version__, "kind": kind, "content": content}
        for name, things in self.shared.items():
            document[name] = [described for _, described in things.values()]
        _write_archive(path, document, self.arrays)


@dataclass(frozen=True)
class Reader:
    """What comes out of a file that holds something of a `kind`: the document of it, and its arrays.

    The names of the arrays of a piece begin with its `prefix`; `take` gives them by name, types and shape, and
    `left` are those not taken yet. What pieces share is `made` once from the `shared` documents.
    """

    take: Callable[[str, Sequence[str], tuple[int, ...]], NDArray[Any]]
    kind: str
    content: Any
    prefix: str = ""
    left: dict[str, ArrayPlace] = field(default_factory=dict)
    shared: dict[str, list[Any]] = field(default_factory=dict)
    made: dict[tuple[str, int], Any] = field(default_factory=dict)

    def within(self, name: str) -> Reader:
        """Return the reader of a piece, from the same file."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def floats(self, name: str, *shape: int) -> Floats:
        """Return an array of finite numbers, read-only."""
        array = self.array(name, ("F64",), *shape)
        if not np.isfinite(array).all():
            raise FileError(f"the array {f'{self.prefix}{name}'!r} holds numbers that are not finite")
        return array

    def array(self, name: str, kinds: Sequence[str], *shape: int) -> NDArray[Any]:
        """Return an array of one of some types, by safetensors' names, read-only."""
        return self.take(f"{self.prefix}{name}", kinds, shape)

    def skip(self, *names: str) -> None:
        """Leave out some arrays, where they are, which earlier formats had and nothing needs."""
        for name in names:
            self.left.pop(f"{self.prefix}{name}", None)

    def flat(self, name: str, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Return several arrays of finite numbers that were put into the file as one, read-only."""
        if any(len(shape) > MOST_AXES for shape in shapes):
            raise FileError(f"a table has more than {MOST_AXES} axes")
        # Python's whole numbers, since the shapes of a hostile file overflow numpy's.
        ends = list(accumulate(map(math.prod, shapes), initial=0))
        whole_array = self.floats(name, ends[-1])
        return [whole_array[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]

    def share(self, kind: str, number: Any, make: Callable[[Any], T]) -> T:
        """Return the thing of a number that several pieces may share; it is made once."""
        things = self.shared.get(kind, [])
        k = whole(number, f"a number among {kind}", 0, len(things) - 1)
        if (kind, k) not in self.made:
            self.made[kind, k] = make(things[k])
        found: T = self.made[kind, k]
        return found

    def graph(self, number: Any) -> LatentGraph:
        """Return the graph of a number."""
        return self.share("graphs", number, _graph_of)


def _graph_content(graph: LatentGraph) -> dict[str, Any]:
    return {
        "states": [list(pair) for pair in graph.states.items()],
        "edges": [list(edge) for edge in graph.edges],
        "hidden": list(graph.hidden),
        "directed": graph.directed,
    }


def _graph_of(content: Any) -> LatentGraph:
    entry = Section(content, "a graph", ("states", "edges", "hidden", "directed"))
    states = [(pair[0], pair[1]) for pair in _pairs(entry, "states")]
    edges = [texts(pair, entry.at("edges")) for pair in _pairs(entry, "edges")]
    return LatentGraph(states, [(a, b) for a, b in edges], entry.texts("hidden"), entry.flag("directed"))


def _pairs(entry: Section, name: str) -> list[list[Any]]:
    pairs = entry.items(name)
    if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
        raise FileError(f"{entry.at(name)} is a list of pairs")
    return pairs


@contextmanager
def opened_store(path: str | os.PathLike[str]) -> Iterator[Reader]:
    """Open a file for reading what it holds."""
    newer, shown = "", repr(str(path)[:200])
    with opened(path) as (file, size):
        try:
            start, index = _header(file, size)
            metadata = index.pop(METADATA, None)
            if not isinstance(metadata, dict) or "eigentree" not in metadata:
                raise FileError("it is a safetensors file, but not one of eigentree's")
            kept = Section(metadata, "the metadata", ("eigentree", "sha256"))
            text, places = kept.text("eigentree"), _checked_places(index, size - start)
            document = parsed(text)
            newer = _newer(document)
            file.seek(start)
            if _digest(text, places, iter(lambda: file.read(BLOCK), b"")) != kept.text("sha256"):
                raise FileError("it is damaged: its contents are not what was written")
            entry = Section(document, "the document", ("format", "eigentree", "kind", "content"), SHARED)
            shared = {name: entry.items(name) for name in SHARED if entry.has(name)}
            take = partial(_take, file, start, places)
            yield Reader(take, entry.text("kind"), entry["content"], left=places, shared=shared)
            if places:
                raise FileError(f"there is an array {next(iter(places))[:60]!r} that belongs to nothing")
        except EigentreeError as error:
            said = f"{newer}: {error}" if newer and isinstance(error, UnknownEntryError) else str(error)
            # What is said of a part of the file is said of the file.
            said = said if said.startswith("it ") else f"it is damaged: {said}"
            raise FileError(f"{shown} cannot be loaded: {said}") from None
        except (MemoryError, RecursionError):
            raise FileError(f"{shown} cannot be loaded: it is larger than memory allows") from None
        except OSError:
            raise
        except Exception as error:
            # What a hostile file holds can meet any check of ours or of numpy's.
            raise FileError(f"{shown} cannot be loaded: it is damaged: its parts do not fit together") from error


def _newer(document: Any) -> str:
    """Return what to say of unknown entries if a newer version may have written them, or an empty string."""
    given = document.get("format") if isinstance(document, dict) else None
    if type(given) is not list or len(given) != 2 or not all(type(part) is int and part >= 0 for part in given):
        raise FileError("the version of its format is missing")
    by = str(document.get("eigentree"))[:40]
    said = f"it was written by a newer eigentree ({by}, this is {__version__}); update eigentree to load it"
    if given[0] > FORMAT[0]:
        raise FileError(said)
    if given[0] < 1:
        raise FileError("there is no such version of the format")
    return said if tuple(given) > FORMAT else ""


TYPES = {"F64": "<f8", "I64": "<i8", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1"}
"""The types of arrays by safetensors' names for them."""

NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

MOST_HEADER = 100_000_000
"""The longest header that safetensors itself reads."""

MOST_AXES = 32

BLOCK = 2**20
"""Bytes that are read at a time where not all are needed at once."""

METADATA = "__metadata__"

ArrayPlace: TypeAlias = tuple[str, tuple[int, ...], int, int]
"""The type and shape of an array, and where it starts and stops behind the header."""


def _write_archive(
    path: str | os.PathLike[str], document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a document and arrays into one file, whole or not at all."""
    # Wide types first: then every array begins at a multiple of its width.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    # Row by row, the lowest byte first.
    laid = {
        name: np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("<")).reshape(arrays[name].shape)
        for name in order
    }
    places: dict[str, ArrayPlace] = {}
    end = 0
    for name, array in laid.items():
        places[name] = NAMES[array.dtype], array.shape, end, end + array.nbytes
        end += array.nbytes
    text = written(document)
    digest = _digest(text, places, (array.data.cast("B") for array in laid.values() if array.size))
    index: dict[str, Any] = {METADATA: {"eigentree": text, "sha256": digest}}
    for name, (kind, shape, start, stop) in places.items():
        index[name] = {"dtype": kind, "shape": shape, "data_offsets": (start, stop)}
    header = json.dumps(index, separators=(",", ":")).encode("ascii")
    header += b" " * (-len(header) % 8)
    if len(header) > MOST_HEADER:
        raise FileError(f"the header would have {len(header):,} bytes, and may have {MOST_HEADER:,}")

    def write(file: IO[bytes]) -> None:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in laid.values():
            file.write(array.data)

    write_whole(path, write)


def _digest(text: str, places: Mapping[str, ArrayPlace], blocks: Iterable[Any]) -> str:
    """Return the digest of a document, of where its arrays lie, and of their bytes."""
    index = [[name, *place] for name, place in places.items()]
    digest = sha256(json.dumps([text, index], separators=(",", ":")).encode("ascii"))
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def _take(
    file: IO[bytes],
    start: int,
    left: dict[str, ArrayPlace],
    name: str,
    kinds: Sequence[str],
    shape: tuple[int, ...],
) -> NDArray[Any]:
    """Return an array of one of some types, by safetensors' names, and of a shape; read-only, and left no more."""
    if name not in left:
        raise FileError(f"there is no array {name!r}, or it is read twice")
    kind, found, begin, _ = left.pop(name)
    if kind not in kinds or found != shape:
        raise FileError(f"the array {name!r} is {' or '.join(kinds)} of shape {shape}, but here {kind} of {found}")
    array = np.empty(shape, TYPES[kind])
    file.seek(start + begin)
    if array.size and file.readinto(array.data.cast("B")) != array.nbytes:  # type: ignore[attr-defined]
        raise FileError("it is cut short")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    native.flags.writeable = False
    return native


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


def _checked_places(index: dict[str, Any], size: int) -> dict[str, ArrayPlace]:
    """Return where each array lies, in their order, once they lie end to end and fill the rest of the file."""
    found: dict[str, ArrayPlace] = {}
    for name, content in index.items():
        where = f"the header's entry {name[:60]!r}"
        entry = Section(content, where, ("dtype", "shape", "data_offsets"))
        kind, shape = entry.text("dtype"), entry.wholes("shape")
        if kind not in TYPES:
            raise FileError(f"{where} has the type {kind[:20]!r}, which eigentree's files do not have")
        offsets = entry.wholes("data_offsets")
        if len(offsets) != 2 or len(shape) > MOST_AXES:
            raise FileError(f"{where} has no place, or too many axes")
        if offsets[1] - offsets[0] != math.prod(shape) * np.dtype(TYPES[kind]).itemsize:
            raise FileError(f"{where} has another size than its shape says")
        found[name] = kind, shape, offsets[0], offsets[1]
    ordered = dict(sorted(found.items(), key=lambda item: item[1][2:]))
    end = 0
    for name, (_, _, start, stop) in ordered.items():
        if start != end:
            raise FileError(f"the array {name[:60]!r} does not begin where the one before it ends")
        end = stop
    if end > size:
        raise FileError("it is cut short: its arrays are longer than the file")
    if end < size:
        raise FileError("there is something after its end")
    return ordered
