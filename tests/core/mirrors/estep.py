"""Expected counts of a `BlockTree` as its equations say, with no lines, blocks, copies or powers of two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.core.trees.estep import BlockEdge, BlockNode, BlockSection

if TYPE_CHECKING:
    from eigentree.arrays import Codes, Floats, Integers
    from eigentree.core.trees.estep import BlockTree


def expected(
    tree: BlockTree, sections: Integers, values: Floats, codes: Codes, weights: Floats
) -> tuple[Floats, float]:
    """Return what all rows add up to, and their weighted log-likelihood."""
    nodes = [BlockNode(*line) for line in tree.nodes.tolist()]
    own = [BlockSection(*line) for line in sections.tolist()]
    sums, messages, products, outside = np.zeros(len(values)), {}, {}, {}
    codes_of, tables, children = {}, {}, {}

    # Up, the last sections first.
    for section in reversed(own):
        for i in reversed(range(section.first, section.end)):
            node = nodes[i]
            if node.leaf >= 0:
                start = section.codes + node.leaf * section.rows
                codes_of[i] = codes[start : start + section.rows].astype(int)
                stop = node.value + (codes_of[i].max(initial=-1) + 1) * node.bond
                table = values[node.value : stop].reshape(-1, node.bond)
                messages[i] = (table if node.section < 0 else messages[own[node.section].first])[codes_of[i]]
                continue
            edges = [BlockEdge(*line) for line in tree.edges[node.first_edge : node.last_edge].tolist()]
            children[i] = [(edge.child, tree.places[edge.pick :][: node.terms]) for edge in edges]
            tables[i] = matrix(tree, node, values)
            products[i] = np.ones((section.rows, node.terms))
            for child, pick in children[i]:
                products[i] *= messages[child][:, pick]
            messages[i] = products[i] @ tables[i].T

    # Down, the first section first.
    probability = messages[0][:, 0]
    outside[0] = (weights[: own[0].rows] / probability)[:, None]
    for section in own:
        for i in range(section.first, section.end):
            node = nodes[i]
            if node.section >= 0:
                root = own[node.section].first
                outside[root] = np.zeros_like(messages[root])
                np.add.at(outside[root], codes_of[i], outside[i])
            elif node.leaf >= 0:
                cells = node.value + codes_of[i][:, None] * node.bond + np.arange(node.bond)
                np.add.at(sums, cells, outside[i] * messages[i])
            else:
                add_to_matrix(tree, node, sums, outside[i].T @ products[i])
                down = outside[i] @ tables[i]
                for child, pick in children[i]:
                    others = np.prod([messages[c][:, p] for c, p in children[i] if c != child], axis=0)
                    outside[child] = np.zeros_like(messages[child])
                    np.add.at(outside[child].T, pick, (down * others).T)
    return sums, float(weights[: own[0].rows] @ np.log(probability))


def matrix(tree: BlockTree, node: BlockNode, values: Floats) -> Floats:
    """The matrix of an inner node, (bond, products), zero outside its blocks."""
    found = np.zeros((node.bond, node.terms))
    found[cells(tree, node)] = values[node.value :][: node.rows * node.terms].reshape(node.blocks, node.rows, -1)
    return found


def add_to_matrix(tree: BlockTree, node: BlockNode, sums: Floats, counts: Floats) -> None:
    """Add what blocks of a matrix have to their sums."""
    sums[node.value :][: node.rows * node.terms] += counts[cells(tree, node)].ravel()


def cells(tree: BlockTree, node: BlockNode) -> tuple[Integers, Integers]:
    """The rows and columns of all values of an inner node, (blocks, rows, columns)."""
    row = tree.places[node.row :][: node.bond].reshape(node.blocks, node.rows, 1)
    return row, tree.places[node.column :][: node.terms].reshape(node.blocks, 1, node.columns)
