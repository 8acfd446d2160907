"""Networks for other programs: BIF texts, and objects of pgmpy and pyagrum, which are imported when needed."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eigentree.data.tables.columns import Columns
from eigentree.data.tables.labels import Labels
from eigentree.data.tables.state_rules import without_codes
from eigentree.errors import FileError, NetworkError
from eigentree.graphs.elimination import check_families
from eigentree.graphs.graph import LatentGraph
from eigentree.inference.networks.bif import BifNetwork, bif_text
from eigentree.io.byte_files import checked_path, opened

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.inference.networks.network import LatentNetwork

    BifParts: TypeAlias = tuple[LatentGraph, dict[str, Floats], None, Columns, dict[str, tuple[Any, ...]]]

__all__ = ["as_bif", "as_pgmpy", "as_pyagrum", "bif_parts"]

WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def as_bif(network: LatentNetwork) -> str:
    """Return the BIF text of a network; see `LatentNetwork.to_bif`."""
    graph = _directed(network, "a BIF text")
    parents = {name: graph.parents(name) for name in graph.names}
    return bif_text(_state_names(network), parents, network.tables)


def bif_parts(source: str | os.PathLike[str], hidden: Sequence[str]) -> BifParts:
    """Return the arguments of a `LatentNetwork` from a BIF text, or a file of one; see `LatentNetwork.from_bif`."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return _parts(source, hidden)
    path = checked_path(source)
    with opened(path) as (file, _):
        content = file.read()
    try:
        return _parts(content.decode("utf-8-sig"), hidden)
    except UnicodeDecodeError:
        raise FileError(f"{path[:200]!r} is no text in UTF-8, and so no BIF file") from None
    except FileError as error:
        raise FileError(f"{path[:200]!r}, {error}") from None


def _parts(text: str, hidden: Sequence[str]) -> BifParts:
    found = BifNetwork(text)
    graph = LatentGraph({name: len(states) for name, states in found.states.items()}, found.edges, hidden)
    # Before tables are made: a few lines of text can describe very large ones.
    check_families(graph)
    meanings = [without_codes(_labels(found.states[name]))[1] for name in graph.observed]
    columns = replace(Columns.of(graph), meanings=tuple(meanings))
    labels = {name: _labels(found.states[name]).values for name in graph.hidden}
    hidden_labels = {name: own for name, own in labels.items() if own != tuple(range(len(own)))}
    return graph, {name: found.array(name) for name in graph.names}, None, columns, hidden_labels


def _labels(states: tuple[str, ...]) -> Labels:
    """Return the names of states as labels: whole numbers where all are, since a text has 1 for "1" too."""
    whole = all(WHOLE.fullmatch(state) for state in states)
    return Labels(tuple(int(state) for state in states) if whole else states)


def as_pgmpy(network: LatentNetwork) -> Any:
    """Return a network as pgmpy's; see `LatentNetwork.to_pgmpy`."""
    graph = _directed(network, "pgmpy's DiscreteBayesianNetwork")
    model = _imported("pgmpy", "pgmpy.models").DiscreteBayesianNetwork()
    table_of = _imported("pgmpy", "pgmpy.factors.discrete").TabularCPD
    model.add_nodes_from(graph.names)
    model.add_edges_from((parent, name) for name in graph.names for parent in graph.parents(name))
    model.latents = set(graph.hidden)
    for name, table in network.tables.items():
        parents = graph.parents(name)
        sizes = [graph.states[parent] for parent in parents]
        values = table.reshape(-1, graph.states[name]).T
        names = {each: list(network.labels(each)) for each in (name, *parents)}
        model.add_cpds(table_of(name, graph.states[name], values, parents or None, sizes or None, names))
    return model


def as_pyagrum(network: LatentNetwork) -> Any:
    """Return a network as pyagrum's; see `LatentNetwork.to_pyagrum`."""
    graph = _directed(network, "pyagrum's BayesNet")
    pyagrum = _imported("pyagrum", "pyagrum")
    net = pyagrum.BayesNet()
    for name, states in _state_names(network).items():
        net.add(pyagrum.LabelizedVariable(name, name, list(states)))
    for name in graph.names:
        for parent in graph.parents(name):
            net.addArc(parent, name)
    for name, table in network.tables.items():
        axes = [*graph.parents(name), name]
        # pyagrum lists the variables of a table from the fastest axis to the slowest.
        wanted = list(net.cpt(name).names)[::-1]
        net.cpt(name).fillWith(np.transpose(table, [axes.index(each) for each in wanted]).ravel().tolist())
    return net


def _directed(network: LatentNetwork, what: str) -> LatentGraph:
    if not network.graph.directed:
        raise NetworkError(f"{what} holds a Bayesian network, and this graph is undirected")
    return network.graph


def _state_names(network: LatentNetwork) -> dict[str, tuple[str, ...]]:
    """Return the labels of the states of each variable as text."""
    names = {}
    for name in network.graph.names:
        labels = network.labels(name)
        spelled = tuple(map(str, labels))
        # The label 1 and the label "1" of one column.
        names[name] = spelled if len(set(spelled)) == len(spelled) else tuple(map(repr, labels))
    return names


def _imported(package: str, module: str) -> Any:
    try:
        with warnings.catch_warnings():
            # What these packages warn of while they load is none of the user's doing.
            warnings.simplefilter("ignore")
            return import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(f"this needs {package}, which is not installed: pip install {package}") from error
