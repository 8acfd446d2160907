"""Sets of hidden variables whose states cannot be identified: the reason names the variable that nothing shows."""

from __future__ import annotations

import pytest

import eigentree as et

# In each graph all legs that identify a pair of hidden variables depend on one of them alone.
ALIKE = {
    ("h0", "h1"): et.LatentGraph(
        dict.fromkeys(["h0", "h1", "h2", "h3"], 2) | {"x0": 2, "x1": 3, "x2": 2, "x3": 6},
        [
            *[("h0", "h2"), ("h0", "h3"), ("h1", "h2"), ("h1", "h3"), ("h0", "x0"), ("h1", "x1")],
            *[("h3", "x2"), ("h1", "x2"), ("h1", "x3"), ("h0", "x3")],
        ],
        ["h0", "h1", "h2", "h3"],
    ),
    ("h1", "h2"): et.LatentGraph(
        {"h0": 2, "h1": 2, "h2": 2, "x0": 3, "x1": 6, "x2": 3, "x3": 3, "x4": 6, "x5": 2},
        [
            *[("h0", "h1"), ("h1", "x0"), ("h0", "x1"), ("h1", "x1"), ("h2", "x2"), ("h2", "x3")],
            *[("h0", "x3"), ("h1", "x4"), ("h1", "x5"), ("h2", "x5")],
        ],
        ["h0", "h1", "h2"],
    ),
}


@pytest.mark.parametrize(("pair", "unseen"), [(("h0", "h1"), "h0"), (("h1", "h2"), "h2")])
def test_states_that_look_the_same_are_not_identified(pair: tuple[str, str], unseen: str) -> None:
    graph = ALIKE[pair]
    network = et.LatentNetwork.random(graph, 0.5, seed=0)
    model = et.SpectralJunctionTree(graph, shrinkage=0).fit_moments(network)
    reason = f"{{{', '.join(pair)}}} has states that look the same, since nothing distinguishes those of {unseen!r}"
    assert reason in model.recover().unresolved.values()
