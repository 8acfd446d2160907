"""What goes into a file and comes out of it, piece by piece: documents, arrays, and what several pieces share.

The format has a version of two numbers. A file with a higher first number is refused; one with a higher second
number is read as far as it holds nothing that this version does not know.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from eigentree import __version__
from eigentree.errors import EigentreeError, FileError, with_article
from eigentree.graphs.graph import LatentGraph
from eigentree.io.archive import Archive, opened_archive, write_archive
from eigentree.io.documents import Section, UnknownEntryError, texts, whole

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from eigentree.arrays import Floats

__all__ = ["FORMAT", "Reader", "Writer", "loaded", "opened_store"]

FORMAT = 1, 0
"""The version of the format that is written."""

SHARED = ("graphs", "plans")
"""What several pieces of a file may share."""

T = TypeVar("T")


@dataclass(frozen=True)
class Writer:
    """What goes into a file, while it is being collected.

    Attributes
    ----------
    prefix : str
        What the names of the arrays of this piece begin with.
    arrays : dict of str to array
    shared : dict
        For each kind of thing that pieces share, the documents of those met so far.
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
        write_archive(path, document, self.arrays)


@dataclass(frozen=True)
class Reader:
    """What comes out of a file.

    Attributes
    ----------
    archive : Archive
    kind : str
        What the file holds.
    content : object
        The document of it.
    prefix : str
        What the names of the arrays of this piece begin with.
    shared : dict
        The documents of what pieces share.
    made : dict
        What was made of these.
    """

    archive: Archive
    kind: str
    content: Any
    prefix: str = ""
    shared: dict[str, list[Any]] = field(default_factory=dict)
    made: dict[tuple[str, int], Any] = field(default_factory=dict)

    def within(self, name: str) -> Reader:
        """Return the reader of a piece, from the same file."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def floats(self, name: str, *shape: int) -> Floats:
        """Return an array of finite numbers, read-only."""
        return self.archive.floats(f"{self.prefix}{name}", *shape)

    def array(self, name: str, kinds: Sequence[str], *shape: int) -> NDArray[Any]:
        """Return an array of one of some types, by safetensors' names, read-only."""
        return self.archive.take(f"{self.prefix}{name}", kinds, shape)

    def flat(self, name: str, shapes: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Return several arrays of finite numbers that were put into the file as one, read-only."""
        # Python's whole numbers, since the shapes of a hostile file overflow numpy's.
        ends = [0]
        for shape in shapes:
            size = 1
            for length in shape:
                size *= length
            ends.append(ends[-1] + size)
        whole_array = self.floats(name, ends[-1])
        parts = zip(ends[:-1], ends[1:], shapes, strict=True)
        return [whole_array[start:stop].reshape(shape) for start, stop, shape in parts]

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
    with opened_archive(path) as archive:
        newer = _newer(archive.document)
        try:
            archive.check_digest()
            entry = Section(archive.document, "the document", ("format", "eigentree", "kind", "content"), SHARED)
            shared = {name: entry.items(name) for name in SHARED if entry.has(name)}
            yield Reader(archive, entry.text("kind"), entry["content"], shared=shared)
            archive.check_all_taken()
        except UnknownEntryError as error:
            raise FileError(f"{newer}: {error}" if newer else str(error)) from None
        except FileError:
            raise
        except EigentreeError as error:
            raise FileError(str(error)) from None


def loaded(path: str | os.PathLike[str], kind: str, what: str, read: Callable[[Reader, Any], T]) -> T:
    """Return what a file of one kind holds; messages call it `what`."""
    with opened_store(path) as reader:
        if reader.kind != kind:
            raise FileError(f"it holds {with_article(reader.kind[:60])}, not {what}; eigentree.load loads it")
        return read(reader, reader.content)


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
