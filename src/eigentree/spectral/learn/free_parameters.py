r"""How many free parameters a tree of operators has, beside those of its graph.

Both are fitted to the same rows, so the error of a spectral model is about :math:`\sqrt{\text{its parameters} /
\text{those of the graph}}` times that of maximum likelihood.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from eigentree.inference.tensors.named_tables import table_axes

if TYPE_CHECKING:
    from eigentree.graphs.graph import LatentGraph
    from eigentree.planning.hub_plan import Hub
    from eigentree.planning.view_plan import ViewPlan

__all__ = ["graph_parameters", "operator_parameters"]


def graph_parameters(graph: LatentGraph) -> int:
    """Return the number of free entries of the tables of a graph.

    Examples
    --------
    >>> from eigentree.graphs.zoo import mixture
    >>> graph_parameters(mixture(12, 3, 3))
    74
    """
    count = 0
    for names, axes in table_axes(graph).items():
        own = math.prod(graph.states[name] for name in names)
        count += math.prod(graph.states[name] for name in axes) // own * (own - 1)
    return count


def operator_parameters(plan: ViewPlan, together: bool) -> int:
    """Return the number of free entries of the operators of a plan, its hubs learned together or apart.

    Operators are known up to a change of basis of each bond, which is not counted, and add up to 1.
    """
    hubs = plan.hubs if together else ()
    home = {position: h for h, hub in enumerate(hubs) for position in hub.nodes}
    count = sum(_of_hub(plan, hub) for hub in hubs) - 1
    for position, node in enumerate(plan.nodes):
        if position not in home:
            own = [plan.graph.states[node.observed]] if node.observed is not None else []
            count += math.prod([*own, *(plan.nodes[child].rank for child in node.children), node.rank])
        if node.parent >= 0 and (position not in home or home.get(node.parent) != home[position]):
            count -= node.rank**2
    return count


def _of_hub(plan: ViewPlan, hub: Hub) -> int:
    """Return how many entries a hub has: what its branches say of each state, and the multiplication.

    A symmetric multiplication that need not be that of states has more entries than the states' probabilities, up
    to a rotation of its basis.
    """
    states = hub.states
    said = sum(plan.nodes[branch.position].rank * states for branch in hub.branches)
    multiplication = math.comb(states + 1, 3) - math.comb(states - 1, 2)
    return said - states * (len(hub.branches) - 1) + multiplication - (states - 1)
