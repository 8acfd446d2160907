"""The chain rule over a tree of learned operators: each cell of a row given those before it.

It begins at a leaf and visits every other one. The cells so far are a message; those still to come are marginalised
out, and so are constants of the model. At each leaf there is the table of the next column given the cells before,
from operators that may be negative, and a distribution is made of it.

All messages are divided by the probability of the cells so far, so none of them can underflow.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.compiling import compiled, helper, inlined

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["CLIPPED", "LEAST_PRODUCT", "ChainRulePlan", "ChainRuleSpace", "Floor", "chain_rule", "constants"]

CLIPPED = 4.0
"""How much of a column's own distribution is added to its table for each unit of probability below zero."""

LEAST_PRODUCT = 1e-200
"""A product of probabilities is turned into its logarithm before it gets as small as this."""


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


class ChainRuleSpace(NamedTuple):
    """What the chain rule writes on for a block of rows.

    Attributes
    ----------
    lines : (lines, block)
        Messages, and from line ``spare`` on products and tables.
    spare : int
    matrix : (largest node,)
        The values of the node at hand, one line per entry of what goes out.
    product, positive, total : (block,)
        The probability of the cells so far; the positive part and all of the table at hand.
    model, alone : (block,)
        How much of the onward message of a leaf is that of the cell, and how much that of a missing one.
    """

    lines: Floats
    spare: int
    matrix: Floats
    product: Floats
    positive: Floats
    total: Floats
    model: Floats
    alone: Floats


@compiled
def constants(plan: ChainRulePlan, values: Any, found: Any) -> None:
    """Write the messages over every edge, both ways, when all cells are missing.

    `values` (values,); `found` (1 + constants,): the first is 1.
    """
    found[0] = 1.0
    for m in range(plan.constants.shape[0]):
        n, out = plan.constants[m, 0], plan.constants[m, 1]
        one, two = (out + 1) % 3, (out + 2) % 3
        first = plan.first_value[n] + plan.states[n]
        for o in range(plan.ports[n, out, 0]):
            total = 0.0
            for i in range(plan.ports[n, one, 0]):
                for j in range(plan.ports[n, two, 0]):
                    at = o * plan.ports[n, out, 1] + i * plan.ports[n, one, 1] + j * plan.ports[n, two, 1]
                    by = found[plan.ports[n, one, 2] + i] * found[plan.ports[n, two, 2] + j]
                    total += values[first + at] * by
            found[plan.ports[n, out, 3] + o] = total


@inlined
def _combine(lines: Any, out: int, matrix: Any, at: int, first: int, size: int, count: int) -> None:
    """Write line `out`: a row of the matrix times some consecutive lines."""
    rest = size % 4
    # Four at a time, so that the line is read and written once for four products.
    if rest == 1:
        one = matrix[at]
        for r in range(count):
            lines[out, r] = one * lines[first, r]
    elif rest == 2:
        one, two = matrix[at], matrix[at + 1]
        for r in range(count):
            lines[out, r] = one * lines[first, r] + two * lines[first + 1, r]
    elif rest == 3:
        one, two, three = matrix[at], matrix[at + 1], matrix[at + 2]
        for r in range(count):
            lines[out, r] = one * lines[first, r] + two * lines[first + 1, r] + three * lines[first + 2, r]
    else:
        for r in range(count):
            lines[out, r] = 0.0
    for k in range(rest, size, 4):
        one, two, three, four = matrix[at + k], matrix[at + k + 1], matrix[at + k + 2], matrix[at + k + 3]
        for r in range(count):
            lines[out, r] += (
                one * lines[first + k, r]
                + two * lines[first + k + 1, r]
                + three * lines[first + k + 2, r]
                + four * lines[first + k + 3, r]
            )


@helper
def _send(plan: ChainRulePlan, step: Any, values: Any, known: Any, space: ChainRuleSpace, count: int) -> None:
    """Write the message that goes out of an inner node, from those that come in."""
    n, out, one, two = step[0], step[1], step[2], step[3]
    first, matrix, lines = plan.first_value[n], space.matrix, space.lines
    leaving, sizes, others = plan.ports[n, out, 0], plan.ports[n, one, 0], plan.ports[n, two, 0]
    source = step[4]
    if step[5] < 0:
        for o in range(leaving):
            for i in range(sizes):
                total = 0.0
                for j in range(others):
                    at = o * plan.ports[n, out, 1] + i * plan.ports[n, one, 1] + j * plan.ports[n, two, 1]
                    total += values[first + at] * known[plan.ports[n, two, 2] + j]
                matrix[o * sizes + i] = total
    else:
        for o in range(leaving):
            for i in range(sizes):
                for j in range(others):
                    at = o * plan.ports[n, out, 1] + i * plan.ports[n, one, 1] + j * plan.ports[n, two, 1]
                    matrix[(o * sizes + i) * others + j] = values[first + at]
        for i in range(sizes):
            for j in range(others):
                for r in range(count):
                    lines[space.spare + i * others + j, r] = lines[source + i, r] * lines[step[5] + j, r]
        source, sizes = space.spare, sizes * others
    for o in range(leaving):
        _combine(lines, step[6] + o, matrix, o * sizes, source, sizes, count)


@helper
def _tabulate(plan: ChainRulePlan, step: Any, values: Any, known: Any, space: ChainRuleSpace, count: int) -> None:
    """Write the table of a leaf's column given the cells before it, one line per state, and its sums."""
    n, port = step[0], step[1]
    first, states, bond = plan.first_value[n], plan.states[n], plan.ports[n, port, 0]
    lines, matrix, spare = space.lines, space.matrix, space.spare
    for r in range(count):
        space.positive[r] = 0.0
        space.total[r] = 0.0
    for s in range(states):
        for k in range(bond):
            matrix[k] = values[first + k * (states + 1) + s]
        if step[4] < 0:
            cell = 0.0
            for k in range(bond):
                cell += matrix[k] * known[plan.ports[n, port, 2] + k]
            for r in range(count):
                lines[spare + s, r] = cell
        else:
            _combine(lines, spare + s, matrix, 0, step[4], bond, count)
        for r in range(count):
            space.positive[r] += max(lines[spare + s, r], 0.0)
            space.total[r] += lines[spare + s, r]


@helper
def _sample(
    step: Any, floor: Floor, states: int, codes: Any, start: int, count: int, uniform: Any, space: Any
) -> None:
    """Put a state into each missing cell of a column, sampled from its distribution."""
    column, spare = step[7], space.spare
    for r in range(count):
        if codes[column, start + r] == states:
            positive = space.positive[r]
            clipped = CLIPPED * (positive - space.total[r])
            usable = positive > 0.0 and positive < math.inf
            left = uniform[column, start + r]
            for s in range(states):
                marginal = floor.marginals[floor.first[column] + s]
                q = marginal
                if usable:
                    table = (max(space.lines[spare + s, r], 0.0) + clipped * marginal) / (positive + clipped)
                    q = (1.0 - floor.share) * table + floor.share * marginal
                if q > 0.0:
                    # Rounding may leave a little over: the last state that is possible gets it.
                    codes[column, start + r] = s
                    left -= q
                    if left < 0.0:
                        break


@helper
def _observe(
    step: Any, floor: Floor, states: int, codes: Any, start: int, count: int, space: Any, found: Any
) -> None:
    """Multiply each row's probability by that of its cell, and find the effect of the cell on those after it.

    With the probability that the cell came from its column's marginal, it has none.
    """
    column, spare = step[7], space.spare
    first, share = floor.first[column], floor.share
    for r in range(count):
        x = int(codes[column, start + r])
        positive, total = space.positive[r], space.total[r]
        model, weight = 0.0, 0.0
        if x < states:
            marginal = floor.marginals[first + x]
            q = marginal
            if positive > 0.0 and positive < math.inf:
                cell = max(space.lines[spare + x, r], 0.0)
                clipped = CLIPPED * (positive - total)
                trust = (1.0 - share) / (positive + clipped)
                q = trust * (cell + clipped * marginal) + share * marginal
                if clipped > 0.0:
                    found[1, start + r] += clipped / (positive + clipped)
                if cell > 0.0:
                    model = trust / q
                    weight = model * cell
                else:
                    found[2, start + r] += 1.0
            space.product[r] *= q
            if space.product[r] < LEAST_PRODUCT:
                found[0, start + r] += np.log(space.product[r])
                space.product[r] = 1.0
        space.model[r] = model
        space.alone[r] = (1.0 - weight) / total if total > 0.0 else 1.0 - weight


@helper
def _go_on(
    plan: ChainRulePlan, step: Any, values: Any, codes: Any, start: int, count: int, space: ChainRuleSpace
) -> None:
    """Write the message of a leaf to the cells after it."""
    n, column = step[0], step[7]
    states, lines = plan.states[n], space.lines
    for k in range(plan.ports[n, step[1], 0]):
        first = plan.first_value[n] + k * (states + 1)
        missing = values[first + states]
        for r in range(count):
            cell = values[first + codes[column, start + r]]
            lines[step[6] + k, r] = space.model[r] * cell + space.alone[r] * missing


@compiled
def chain_rule(
    plan: ChainRulePlan,
    values: Any,
    known: Any,
    floor: Floor,
    codes: Any,
    uniform: Any,
    space: ChainRuleSpace,
    found: Any,
) -> None:
    """Write the log probability of each row, cell after cell, and what was clipped.

    Parameters
    ----------
    values : (values,)
    known : (1 + constants,)
        As `constants` writes them.
    codes : (columns, rows)
        A missing cell is skipped, unless cells are sampled: then it gets a state.
    uniform : (columns, rows), or (columns, 0) where nothing is sampled
    found : (3, rows)
        Of zeros: log probability; the share of marginals that was added for what was negative, summed over cells;
        cells whose own probability was not positive.
    """
    block = space.lines.shape[1]
    rows = codes.shape[1]
    for start in range(0, rows, block):
        count = min(block, rows - start)
        for r in range(count):
            space.product[r] = 1.0
        for s in range(plan.steps.shape[0]):
            step = plan.steps[s]
            if step[7] < 0:
                _send(plan, step, values, known, space, count)
                continue
            states = plan.states[step[0]]
            _tabulate(plan, step, values, known, space, count)
            if uniform.shape[1] > 0:
                _sample(step, floor, states, codes, start, count, uniform, space)
            _observe(step, floor, states, codes, start, count, space, found)
            if step[6] >= 0:
                _go_on(plan, step, values, codes, start, count, space)
        for r in range(count):
            found[0, start + r] += np.log(space.product[r])
