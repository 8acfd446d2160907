"""Random trees and steps of signed operators, for the tests of the chain rule and of sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from eigentree.core.sequences.operator_steps import StepOperators
from eigentree.core.trees.chain_rule import Floor
from eigentree.inference.operators.normalised_scoring import ChainRule, ChainRuleNode, floor_of


class TreeProblem(NamedTuple):
    """A tree of signed tables: axes children…, parent; of a leaf, axes parent, states."""

    nodes: list[ChainRuleNode]
    tables: list[np.ndarray]
    states: tuple[int, ...]
    marginals: list[np.ndarray]
    rule: ChainRule

    @property
    def values(self) -> np.ndarray:
        pairs = zip(self.tables, self.nodes, strict=True)
        return np.concatenate([(np.c_[t, t.sum(axis=1)] if node.column >= 0 else t).ravel() for t, node in pairs])

    def floor(self, share: float) -> Floor:
        return floor_of(share, self.marginals)

    def rows(self, count: int, random: np.random.Generator, dtype: type = np.uint8) -> np.ndarray:
        return np.asfortranarray(random.integers(0, np.array(self.states) + 1, (count, len(self.states))), dtype)


def random_nodes(random: np.random.Generator, leaves: int, most_bond: int) -> list[ChainRuleNode]:
    """Return a random tree in preorder, with two or three children at the root and one or two elsewhere."""
    nodes: list[ChainRuleNode] = []
    columns = iter(random.permutation(leaves).tolist())
    stack = [(-1, leaves)]
    while stack:
        parent, below = stack.pop()
        own = len(nodes)
        if parent >= 0:
            nodes[parent] = nodes[parent]._replace(children=(*nodes[parent].children, own))
        bond = 1 if parent < 0 else int(random.integers(1, most_bond + 1))
        if below == 1 and (parent < 0 or random.random() < 0.8):
            nodes.append(ChainRuleNode(parent, (), bond, next(columns)))
            continue
        nodes.append(ChainRuleNode(parent, (), bond, -1))
        children = min(below, int(random.integers(2, 4) if parent < 0 else random.integers(1, 3)))
        cuts = np.sort(random.choice(np.arange(1, below), children - 1, replace=False)) if children > 1 else []
        stack += [(own, int(size)) for size in np.diff([0, *cuts, below])]
    return nodes


def tree_problem(
    random: np.random.Generator,
    nodes: list[ChainRuleNode] | None = None,
    most_bond: int = 5,
    states: tuple[int, ...] | None = None,
) -> TreeProblem:
    """Return random tables for a tree, by default a random one, that sum to 1."""
    if nodes is None:
        nodes = random_nodes(random, int(random.integers(1, 7)), most_bond)
    if states is None:
        states = tuple(random.integers(1, 6, max(node.column for node in nodes) + 1).tolist())
    tables = []
    for node in nodes:
        shape = [nodes[child].bond for child in node.children] + [node.bond]
        if node.column >= 0:
            shape = [node.bond, states[node.column]]
        tables.append(random.normal(0.4, 0.5, shape))
    marginals = [random.dirichlet(np.ones(count)) for count in states]
    rule = ChainRule.of(nodes, states)
    found = TreeProblem(nodes, tables, states, marginals, rule)
    tables[0] /= rule.total(found.values)
    return found


def random_steps(
    random: np.random.Generator, states: tuple[int, ...], ranks: tuple[int, ...], marginals: list[np.ndarray]
) -> StepOperators:
    """Return operators of a step like learned ones: near independence, with noise that leaves some negative.

    Each channel has one pattern per state, one for its even states, and the last for any.
    """
    every = (*ranks, ranks[0])
    values, heads, matches, patterns = [], [], [], []
    for c, count in enumerate(states):
        table = random.normal(0.0, 0.25, (count, every[c], every[c + 1]))
        table[:, 0, 0] = marginals[c]
        total = table.sum(axis=0, keepdims=True)
        total[0, :, 0] = np.eye(every[c])[0]
        table[:, :, 0] += (total[0, :, 0] - table[:, :, 0].sum(axis=0)) / count
        values.append(np.concatenate([table, table.sum(axis=0, keepdims=True)]).ravel())
        heads.append(table[:, :, 0].T.ravel())
        matches.append([[s] for s in range(count)] + [list(range(0, count, 2)), list(range(count))])
        patterns.append(np.arange(count))
    start = random.normal(0.0, 0.4, ranks[0])
    start[0] = 1.0
    low = -random.uniform(0.2, 1.0, (len(states), max(ranks)))
    return StepOperators(
        np.concatenate(values),
        np.concatenate(heads),
        np.cumsum([0, *(len(part) for part in values[:-1])]),
        np.cumsum([0, *(len(part) for part in heads[:-1])]),
        np.array(every),
        np.array(states),
        start,
        low,
        low + random.uniform(0.5, 1.5, low.shape),
        np.cumsum([0, *(len(part) for part in matches)]),
        np.cumsum([0, *(len(pattern) for part in matches for pattern in part)]),
        np.array([s for part in matches for pattern in part for s in pattern]),
        np.concatenate(patterns),
        random.choice([0.0, 0.25, 4.0], len(states)),
    )
