"""The chain rule over a tree of learned operators: each cell of a row given those before it.

It begins at a leaf and visits every other one. The cells so far are a message; those still to come are marginalised
out, and so are constants of the model. At each leaf there is the table of the next column given the cells before,
from operators that may be negative, and a distribution is made of it.

All messages are divided by the probability of the cells so far, so none of them can underflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.core import _native

if TYPE_CHECKING:
    from eigentree.arrays import Codes, Floats, Integers

__all__ = ["CLIPPED", "ChainRulePlan", "Floor", "constants", "sample_rows", "score_rows"]

CLIPPED = _native.CLIPPED
"""How much of a column's own distribution is added to its table for each unit of probability below zero."""


class ChainRulePlan(NamedTuple):
    """The order of the chain rule in a tree: nodes have up to three neighbours, and each leaf holds a column.

    A port is a node's side of an edge. A node's values are a dense table, one axis per port; that of a leaf has one
    axis for its port and one for its column, whose last entry is the sum over states.

    Attributes
    ----------
    ports : (nodes, 3, 4)
        For each port of each node: size of the edge; stride of its axis; where the constant that comes in stands,
        and where the one that goes out does. An absent port has size 1, and the constant 1 comes in.
    first_value, states : (nodes,)
        Where a node's values begin; states of the column of a leaf, 0 elsewhere.
    constants : (messages, 2)
        Node and port of each constant that goes out, those first that others are made from.
    size : int
        How many numbers all constants are.
    steps : (steps, 8)
        Node; the port that goes out; the ports that come in, and their lines, -1 for a constant; the line that goes
        out, -1 for none; the column of a leaf, else -1.
    """

    ports: Integers
    first_value: Integers
    states: Integers
    constants: Integers
    size: int
    steps: Integers


class Floor(NamedTuple):
    """What cells have at least: a share of their column's own distribution.

    Attributes
    ----------
    share : float
    marginals : (states of all columns,)
    first : (columns,)
        Where each column's distribution begins.
    """

    share: float
    marginals: Floats
    first: Integers


def constants(plan: ChainRulePlan, values: Floats) -> Floats:
    """Return the messages over every edge, both ways, when all cells are missing, shape (1 + constants,).

    The first is 1. `values` (values,): those of all nodes.
    """
    known = np.zeros(plan.size)
    _native.chain_rule_constants(plan.ports, plan.first_value, plan.states, plan.constants, values, known)
    return known


def score_rows(plan: ChainRulePlan, values: Floats, floor: Floor, codes: Codes) -> Floats:
    """Return the log probability of each row, cell after cell, and what was clipped.

    Parameters
    ----------
    values : (values,)
    codes : (columns, rows)
        A missing cell is skipped.

    Returns
    -------
    array, shape (3, rows)
        Log probability; the share of marginals that was added for what was negative, summed over cells; cells whose
        own probability was not positive.
    """
    found = np.empty((3, codes.shape[1]))
    _native.chain_rule_score(*plan, values, *floor, codes, found)
    return found


def sample_rows(plan: ChainRulePlan, values: Floats, floor: Floor, codes: Codes, uniform: Floats) -> Floats:
    """Return what `score_rows` does, after a state was sampled into each missing cell of the codes.

    `uniform` (columns, rows): a random number for each cell.
    """
    found = np.empty((3, codes.shape[1]))
    _native.chain_rule_sample(*plan, values, *floor, codes, uniform, found)
    return found
