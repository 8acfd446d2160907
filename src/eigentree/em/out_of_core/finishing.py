"""From tables that are partly known to a network: the others found beside them, then all learned together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigentree.em.estep.unique_rows import columns_with_gaps
from eigentree.em.init.partial import completed
from eigentree.em.multistart import Candidate, multistart
from eigentree.em.optimize.stopping import Stopping
from eigentree.em.tree_fit import TreeFit
from eigentree.em.tree_objective import TreeObjective

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from eigentree.arrays import Floats
    from eigentree.em.estep.unique_rows import DistinctRows
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.networks.network import LatentNetwork
    from eigentree.inference.tensors.named_tables import TableKey

__all__ = ["finished"]


def finished(
    graph: LatentGraph,
    rows: DistinctRows,
    known: Mapping[TableKey, Floats],
    steps: int,
    random: np.random.Generator,
    pseudo_counts: float,
) -> LatentNetwork:
    """Return the network that EM makes of rows from tables that are partly known.

    The known tables are kept while the others are found on a sample of the rows. Then all are learned, on growing
    samples and, for `steps` accelerated iterations, on all rows. States of hidden variables come in canonical
    order.
    """
    gaps = columns_with_gaps(rows.codes, graph)
    fit = TreeFit(graph, rows, gaps, pseudo_counts, Stopping("paper", 0.0), steps)
    (first, _), *_ = samples = fit.samples(random)
    beside = TreeObjective.of(graph, first, gaps, pseudo_counts)
    candidate = Candidate("spectral", lambda: completed(beside, known, random))
    *_, state = multistart([sample for _, sample in samples], [candidate], fit.stopping, steps)
    return fit.whole.layout.network(state.best[1].parameters).ordered()
