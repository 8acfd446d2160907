"""What tests ask of plans."""

from __future__ import annotations

import numpy as np

from eigentree.planning.view_plan import PlanNode, ViewPlan


def below(plan: ViewPlan) -> list[frozenset[str]]:
    """The observed variables at or below each node of a plan, from its leaves alone."""
    inside = [frozenset() if node.observed is None else frozenset({node.observed}) for node in plan.nodes]
    for i in reversed(range(1, len(plan.nodes))):
        above = plan.nodes[i].parent
        inside[above] |= inside[i]
    return inside


def edges(plan: ViewPlan) -> list[tuple[PlanNode, frozenset[str]]]:
    """Every node with an edge above it, and the variables below that edge."""
    return [(node, inside) for node, inside in zip(plan.nodes, below(plan), strict=True) if node.parent >= 0]


def numeric_rank(matrix: np.ndarray) -> int | None:
    """The number of singular values, or None where one is neither clearly there nor clearly rounding."""
    sizes = np.linalg.svd(matrix, compute_uv=False)
    relative = sizes / sizes[0]
    if ((relative > 1e-13) & (relative < 1e-8)).any():
        return None
    return int((relative >= 1e-8).sum())


def check_nesting(plan: ViewPlan) -> None:
    """A node is learned from its children's inside views: what its own view has beyond them is not counted."""
    graph = plan.graph
    assert sorted(node.observed for node in plan.nodes if node.observed is not None) == sorted(graph.observed)
    for i, node in enumerate(plan.nodes):
        assert [k for k, other in enumerate(plan.nodes) if other.parent == i] == sorted(node.children)
        assert len(node.children) != 1, "a node that branches nowhere says nothing"
        if node.observed is not None:
            assert not node.children
            assert node.inside == ((node.observed,) if i else ())
        else:
            assert set(node.inside) <= {name for child in node.children for name in plan.nodes[child].inside}
    assert below(plan)[0] == frozenset(graph.observed)
