"""Random latent graphs for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from eigentree.graphs.graph import LatentGraph


@st.composite
def latent_graphs(
    draw: st.DrawFn, most_variables: int = 7, most_states: int = 5, most_cells: int = 20_000, fewest_states: int = 1
) -> LatentGraph:
    """Directed or undirected; hidden roots, hidden leaves, observed parents of hidden variables, any parts."""
    count = draw(st.integers(1, most_variables))
    directed = draw(st.booleans())
    names = [f"v{i}" for i in range(count)]
    states: dict[str, int] = {}
    left = most_cells
    for name in names:
        states[name] = draw(st.integers(min(fewest_states, left), max(1, min(most_states, left))))
        left //= states[name]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=10)) if pairs else []
    hidden = draw(st.sets(st.sampled_from(names), max_size=count - 1)) if count > 1 else set()
    listed = draw(st.permutations(names))
    return LatentGraph({name: states[name] for name in listed}, edges, sorted(hidden), directed)
