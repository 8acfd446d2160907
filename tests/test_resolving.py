"""The graph of a model: given, or built by a template from the columns of the data."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et
from eigentree.data import resolving as structure


def test_a_template_builds_its_graph_from_the_columns() -> None:
    import pandas as pd

    rows = np.array([[0, 2, 1], [1, 0, -1], [0, 1, 3]])
    graph = structure.resolve_structure(et.zoo.HMM(order=2), rows)
    assert [graph.states[name] for name in graph.observed] == [2, 3, 4]
    frame = pd.DataFrame(rows, columns=["red", "green", "blue"])
    assert structure.resolve_structure(et.zoo.Mixture(2), frame).observed == ("red", "green", "blue")
    assert structure.resolve_structure(graph, rows) is graph
    with pytest.raises(et.DataError, match="column 'x1' has no known cell"):
        structure.resolve_structure(et.zoo.Mixture(2), [[0, -1], [1, -1]])
    with pytest.raises(et.DataError, match="shape"):
        structure.resolve_structure(et.zoo.Mixture(2), [0, 1])
    with pytest.raises(et.GraphError, match="a LatentGraph, a template such as"):
        structure.resolve_structure("hmm", rows)
