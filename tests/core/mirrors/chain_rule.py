"""The chain rule over a tree of signed tables, the whole tree contracted anew for every entry."""

from __future__ import annotations

import numpy as np

CLIPPED = 4.0
LEAST = np.finfo(float).tiny


def contracted(tables: list[np.ndarray], nodes: list, messages: dict[int, np.ndarray]) -> float:
    """The whole tree, with a message in place of each leaf; a table has the axes children…, parent."""

    def up(i: int) -> np.ndarray:
        if nodes[i].column >= 0:
            return messages[nodes[i].column]
        table = tables[i]
        for child in nodes[i].children:
            table = np.tensordot(up(child), table, (0, 0))
        return table

    return float(up(0)[0])


def score(
    tables: list[np.ndarray],
    nodes: list,
    order: tuple[int, ...],
    row: np.ndarray,
    share: float,
    marginals: list[np.ndarray],
    uniform: np.ndarray | None = None,
) -> tuple[float, float, float, np.ndarray]:
    """A row's log probability, the share of marginals in it, its refused cells, and the row with cells sampled."""
    leaves = {node.column: table for node, table in zip(nodes, tables, strict=True) if node.column >= 0}
    messages = {column: table.sum(axis=1) for column, table in leaves.items()}
    row = row.copy()
    log_prob, clipped, refused = 0.0, 0.0, 0.0
    for column in order:
        own = marginals[column]
        table = np.array([contracted(tables, nodes, messages | {column: cell}) for cell in leaves[column].T])
        positive = np.maximum(table, 0.0)
        below = CLIPPED * np.maximum(-table, 0.0).sum()
        usable = LEAST < positive.sum() <= positive.sum() + below < np.inf
        trust = (1 - share) / (positive.sum() + below) if usable else 0.0
        q = trust * (positive + below * own) + share * own if usable else own
        missing = row[column] == len(own)
        if missing and uniform is not None:
            row[column] = np.flatnonzero(q > 0)[
                min((np.cumsum(q[q > 0]) <= uniform[column]).sum(), (q > 0).sum() - 1)
            ]
            missing = False
        weight, effect = 0.0, 0.0
        if not missing:
            x = row[column]
            with np.errstate(divide="ignore"):
                log_prob += np.log(q[x])
            if usable:
                clipped += below / (positive.sum() + below)
                refused += positive[x] <= 0
                weight = trust * positive[x] / q[x] if positive[x] > 0 else 0.0
                effect = leaves[column][:, x] * trust / q[x] if positive[x] > 0 else 0.0
        total = table.sum() if table.sum() > 0 else 1.0
        messages[column] = effect + (1 - weight) / total * messages[column]
    return log_prob, clipped, refused, row


def constants(tables: list[np.ndarray], nodes: list) -> float:
    """The sum of the operators over all rows."""
    return contracted(tables, nodes, {n.column: t.sum(axis=1) for n, t in zip(nodes, tables, strict=True)})
