"""Trees, rows and values for the pass of expected counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import eigentree as et
from eigentree.em.estep.expectation import Expectation
from eigentree.em.estep.row_passes import Passage, SectionedRows
from eigentree.em.estep.row_sharing import Sectioning

if TYPE_CHECKING:
    from eigentree.arrays import Floats


def random_graph(random: np.random.Generator) -> et.LatentGraph:
    """Hidden variables of one to ten states that depend on one or two earlier ones, and columns that do."""
    hidden = {f"h{i}": int(random.integers(1, 11)) for i in range(int(random.integers(1, 6)))}
    names = list(hidden)
    edges = [(names[int(random.integers(i))], names[i]) for i in range(1, len(names))]
    if len(names) > 2 and random.random() < 0.5:
        # A clique of three, which makes blocks.
        edges = [*dict.fromkeys([*edges, (names[0], names[1]), (names[0], names[2]), (names[1], names[2])])]
        hidden |= dict.fromkeys(names[:3], int(random.integers(1, 5)))
    columns = {f"x{j}": int(random.integers(2, 6)) for j in range(int(random.integers(1, 9)))}
    edges += [(names[int(random.integers(len(names)))], column) for column in columns]
    return et.LatentGraph(hidden | columns, edges, names)


def random_problem(
    random: np.random.Generator,
    rows: int,
    unscaled: int = 8,
    graph: et.LatentGraph | None = None,
    sections: bool = True,
) -> tuple[Passage, Floats]:
    """Rows with missing cells and the values of a random network, in sections where cutting the tree pays."""
    graph = graph or random_graph(random)
    # Two leaves of a variable are one, or not.
    expectation = Expectation.of(graph, graph.observed, int(random.choice([1, 1_000_000])))
    states = np.array([graph.states[name] for name in graph.observed])
    codes = random.integers(0, states + 1, (rows, len(states)))
    coded = expectation.coded(codes, random.choice([0.0, 0.5, 1.0, 2.0], rows))
    network = et.LatentNetwork.random(graph, seed=int(random.integers(1000)))
    values = expectation._values.filled(expectation.layout.vector(network)).scaled
    sectioning = Sectioning.of(
        expectation.nodes, tuple(expectation._values.line_counts.tolist()), graph.states, coded.codes
    )
    if sectioning is None or not sections:
        return expectation._passage(unscaled, coded), values
    (sectioned,) = SectionedRows.parts(
        expectation.nodes, expectation._values, graph.states, coded.codes, coded.weights, [0, rows]
    )
    return sectioned.passage(unscaled), values
