"""Structures by name, or in a file: ``graph.toml`` is a graph in a few lines, ``net.bif`` one of other programs."""

import os
import tomllib
from typing import TYPE_CHECKING, Any

from eigentree.cli.arguments import STRUCTURES, Shape, UsageError
from eigentree.cli.output import number_of
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.errors import DataError, FileError, GraphError, did_you_mean, what_there_is
from eigentree.io.byte_files import read_bytes, require_there

if TYPE_CHECKING:
    from eigentree.data.streams.file_batches import FileStream
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.text_cells import FileTable
    from eigentree.graphs.graph import LatentGraph

    AnyRows = FileTable | FileStream

__all__ = ["LEARNED", "learned_columns", "structure_of", "structure_words"]

LEARNED = ("auto", "tree")
"""The structures that are learned from rows."""

ENTRIES = ("states", "edges", "hidden", "directed")


def structure_of(shape: Shape, table: "AnyRows | None" = None) -> Any:
    """Return the template of a name, or the graph of a file.

    The rows determine the states of the columns of a graph, and which variables of a network are hidden.
    """
    name = str(shape.structure)
    if name not in STRUCTURES:
        if not shape.is_file:
            hint = (
                did_you_mean(name, STRUCTURES) or f"; there are {', '.join(STRUCTURES)}, and files .toml and .bif"
            )
            raise UsageError(f"there is no structure {name!r}{hint}")
        for option, value in (("--hidden", shape.hidden), ("--order", shape.order)):
            if value is not None:
                raise UsageError(f"{option} is not used with {name!r}, which determines it; leave it out")
        return _of_toml(name, table, shape.numeric) if name.lower().endswith(".toml") else _of_bif(name, table)
    if shape.order is not None and name not in ("hmm", "factorial"):
        raise UsageError(f"--order is of hmm and factorial, not of {name}; leave it out")
    from eigentree.graphs import zoo

    sizes = {} if shape.hidden is None else {"hidden_states": shape.hidden}
    order = {} if shape.order is None else {"order" if name == "hmm" else "levels": shape.order}
    if name == "auto":
        if shape.hidden is None:
            return "auto"
        return zoo.HiddenChowLiu(shape.hidden, trees="auto" if shape.method == "em" else 1)
    made = {"hmm": zoo.HMM, "mixture": zoo.Mixture, "tree": zoo.HiddenChowLiu, "factorial": zoo.FactorialHMM}
    return made[name](**sizes, **order)


def structure_words(shape: Shape) -> str:
    """Return a structure in a few words, such as ``"mixture, 4 states"``."""
    order = "" if shape.order is None else f", order {shape.order}"
    states = "" if shape.hidden is None else f", {number_of(shape.hidden, 'state')}"
    return f"{os.path.basename(str(shape.structure))}{order}{states}"


def _of_toml(path: str, table: "AnyRows | None", numeric: Any) -> "LatentGraph":
    from eigentree.data.tables.text_cells import require_names
    from eigentree.graphs.graph import LatentGraph

    with read_bytes(path) as file:
        try:
            document = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path!r} is no TOML: {error}") from None
    for entry in document:
        if entry not in ENTRIES:
            raise FileError(f"{path!r} has an entry {entry!r} that no graph has{what_there_is(entry, ENTRIES)}")
    given, edges, hidden = document.get("states", {}), document.get("edges", []), document.get("hidden", [])
    if not isinstance(given, dict):
        raise FileError(f"{path!r}: [states] holds names with their numbers of states, such as class = 3")
    if not isinstance(edges, list) or not all(isinstance(edge, list) and len(edge) == 2 for edge in edges):
        raise FileError(f'{path!r}: edges is a list of pairs of names, such as [["class", "odor"]]')
    ends = [name for edge in edges for name in edge]
    if not isinstance(hidden, list) or not all(isinstance(name, str) for name in [*hidden, *ends]):
        raise FileError(f'{path!r}: hidden is a list of names, such as ["class"], and so is each edge')
    states = dict.fromkeys([*given, *ends, *hidden]) | given
    if table is not None:
        observed = [name for name in states if name not in hidden]
        if not observed:
            raise FileError(f"{path!r} has no column that is not hidden")
        for name in observed:
            require_names([name], table.names, f"{name!r} is in {path!r} and not hidden, but {table.source}")
        columns = learned_columns(table.only(observed), numeric)
        states |= {name: columns.states[columns.position(name)] for name in observed if name not in given}
    for name, count in states.items():
        if count is None:
            raise FileError(f"no column shows the states of {name!r} of {path!r}; say them under [states]")
    try:
        return LatentGraph(states, [tuple(edge) for edge in edges], hidden, document.get("directed", True))
    except GraphError as error:
        raise FileError(f"{path!r}: {error}") from None


def learned_columns(table: "AnyRows", numeric: Any) -> "Columns":
    """Return the columns of rows; a large file is read once for them."""
    from eigentree.data.streams.encoded_stream import StreamSchema
    from eigentree.data.streams.sources import is_stream
    from eigentree.data.tables.columns import Columns

    found = StreamSchema.of(table, ReadOptions(numeric=numeric)).schema if is_stream(table) else table
    return Columns.learned(found, ReadOptions(numeric=numeric))


def _of_bif(path: str, table: "AnyRows | None") -> "LatentGraph":
    from eigentree.inference.networks.network import LatentNetwork

    # A path that is none would be taken for the text itself.
    require_there(path)
    graph = LatentNetwork.from_bif(path, hidden=[]).graph
    if table is None:
        return graph
    hidden = [name for name in graph.names if name not in table.names]
    if len(hidden) == len(graph.names):
        raise DataError(
            f"{table.source} has no column of the network {path!r}, whose variables are {graph.names[:6]}"
        )
    return LatentNetwork.from_bif(path, hidden=hidden).graph
