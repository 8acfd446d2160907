"""The graph of a model and its columns: given, or built by a template from the columns of the data."""

from __future__ import annotations

import numpy as np
import pytest

import eigentree as et
from eigentree.counting.structure_and_schema import resolved


def test_a_template_builds_its_graph_from_the_columns() -> None:
    import pandas as pd

    rows = np.array([[0, 2, 1], [1, 0, -1], [0, 1, 0]])
    graph, columns, _ = resolved(et.zoo.HMM(order=2), rows)
    assert [graph.states[name] for name in graph.observed] == [2, 3, 2]
    assert columns.plain
    graph_of_two, _, _ = resolved(et.zoo.HMM(order=2), rows[:, :2])
    assert [graph_of_two.states[name] for name in graph_of_two.observed] == [2, 3]
    frame = pd.DataFrame(rows, columns=["red", "green", "blue"])
    assert resolved(et.zoo.Mixture(2), frame)[0].observed == ("red", "green", "blue")
    assert resolved(graph, rows)[0] is graph
    with pytest.raises(et.DataError, match="column 'x1' has no known cell"):
        resolved(et.zoo.Mixture(2), [[0, -1], [1, -1]])
    with pytest.raises(et.DataError, match="shape"):
        resolved(et.zoo.Mixture(2), [0, 1])
    with pytest.raises(et.GraphError, match="a LatentGraph, a template such as"):
        resolved("chains", rows)
