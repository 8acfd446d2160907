"""Networks in files: the graph, the tables end to end, and the junction tree where the tables hang on one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigentree.data.tables.columns import checked_columns, columns_content
from eigentree.graphs.elimination import check_families
from eigentree.inference.networks.network import LatentNetwork
from eigentree.inference.stored_tree import read_tree, tree_content
from eigentree.inference.tensors.named_tables import table_axes
from eigentree.io.documents import Section, plain
from eigentree.io.stores import Writer

if TYPE_CHECKING:
    import os

    from eigentree.io.stores import Reader

__all__ = ["KIND", "network_content", "read_network", "save_network"]

KIND = "LatentNetwork"


def save_network(network: LatentNetwork, path: str | os.PathLike[str]) -> None:
    """Write a network into a file, whole or not at all."""
    writer = Writer()
    writer.save(path, KIND, network_content(writer, network))


def network_content(writer: Writer, network: LatentNetwork) -> dict[str, Any]:
    """Return the document of a network, after putting its tables into the file."""
    tables = {(key,) if isinstance(key, str) else key: table for key, table in network.tables.items()}
    tree = network.given_tree
    writer.flat("tables", [tables[key] for key in table_axes(network.graph, tree)])
    content = {
        "graph": writer.graph(network.graph),
        "columns": columns_content(network.columns),
        "tree": None if tree is None else tree_content(tree),
    }
    # Files without it stay readable by older versions.
    labels = {"hidden_labels": plain(dict(network.hidden_labels), "hidden labels")} if network.hidden_labels else {}
    return content | labels


def read_network(reader: Reader, content: Any) -> LatentNetwork:
    """Return the network of a document and the tables of the file."""
    entry = Section(content, "a network", ("graph", "columns", "tree"), ("hidden_labels",))
    graph = reader.graph(entry["graph"])
    columns = checked_columns(entry["columns"], graph)
    check_families(graph)
    # A tree is not built before it is needed, but where tables hang on one it must be that of the file.
    tree = read_tree(entry["tree"], graph) if entry.has("tree") else None
    axes = table_axes(graph, tree)
    shapes = [tuple(graph.states[name] for name in names) for names in axes.values()]
    labels = entry.value("hidden_labels") if entry.has("hidden_labels") else None
    tables = dict(zip(axes, reader.flat("tables", shapes), strict=True))
    return LatentNetwork(graph, tables, tree, columns, labels)
