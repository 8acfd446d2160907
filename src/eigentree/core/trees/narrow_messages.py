"""Messages up a tree of operators whose bonds are narrow, row by row.

Where operators hold columns, their values differ from row to row: in `message_passing` each of them is a look-up of
its own. Here all values that a row needs of an operator are contiguous, and the message of a row, padded to whole
vectors, stays in registers while they are added up: a look-up serves four values.

Sums have the order of `message_passing`, so both find bit-identical numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from eigentree.core.compiling import compiled, helper, inlined
from eigentree.core.trees.flat_tree import record
from eigentree.core.trees.message_passing import HUGE, LOWEST, TINY
from eigentree.core.vectors import add_product, largest, load_from, nothing, repeated, spread, store_at

if TYPE_CHECKING:
    from eigentree.arrays import Floats, Integers

__all__ = ["NARROW", "NarrowSpace", "NarrowTree", "narrow_upward"]

NARROW = record("slot reach first_child stop_child first_choice stop_choice first_value first_column stop_column")
"""The record of a node of a `NarrowTree`."""


class NarrowTree(NamedTuple):
    """A tree of operators whose values are contiguous; nodes in preorder, so that n-1 … 0 is leaves first.

    Attributes
    ----------
    nodes : (nodes,) of NARROW
        ``slot`` is where the message to the parent is kept; ``reach`` is as in `FlatTree`. Children, choices and
        own columns are those from ``first_…`` to before ``stop_…`` of the arrays below.
    child : (edges,)
    choice : (choices, 3)
        Indices on the bonds of the children that meet in at least one entry.
    columns : (own columns, 2)
        Where the codes are, and how far apart the values of two codes lie.
    values : (all values,)
        For each joint code of a node, for each of its choices, one value for each index of the bond to the parent,
        padded with zeros to the width of the tree.
    """

    nodes: Any
    child: Integers
    choice: Integers
    columns: Integers
    values: Floats


class NarrowSpace(NamedTuple):
    """What the pass writes on while it works on a block of rows.

    Attributes
    ----------
    messages : (slots · block · width,)
        The message of each row in each slot.
    place : (block,)
        Where the values of each row start at the node at hand.
    exponent : (block,)
        What was taken out of each row's messages, as a power of two.
    low : (nodes,)
        A bound on the log2 of the smallest non-zero entry of each node's message in any row, at most 0.
    """

    messages: Floats
    place: Integers
    exponent: Integers
    low: Floats


@helper
def _places(tree: NarrowTree, node: Any, codes: Any, start: int, count: int, place: Any) -> None:
    """Write where the values of each row of a block start, counted from the node's first."""
    # Slices and small numbers: with an offset in the index the loops do not vectorise.
    out = place[:count]
    for r in range(count):
        out[r] = np.int32(0)
    for k in range(node.first_column, node.stop_column):
        cells = codes[tree.columns[k, 0], start : start + count]
        stride = np.int32(tree.columns[k, 1])
        for r in range(count):
            out[r] = np.int32(out[r] + np.int32(np.int32(cells[r]) * stride))


@inlined
def _send_own(values: Any, start: int, place: Any, count: int, messages: Any, out: int) -> tuple[float, float]:
    """Do as `_send_four` for a node without children."""
    low, high = HUGE, TINY
    for r in range(count):
        total = load_from(values, start + place[r])
        store_at(messages, out + 4 * r, total)
        peak = largest(total)
        low, high = min(low, peak), max(high, peak)
    return low, high


@inlined
def _send_square(
    values: Any, start: int, place: Any, count: int, messages: Any, out: int, below: int
) -> tuple[float, float]:
    """Do as `_send_four` for a node with one child, all four of whose numbers it meets: a step of most chains."""
    low, high = HUGE, TINY
    for r in range(count):
        at, by = start + place[r], below + 4 * r
        total = add_product(nothing(), load_from(values, at), spread(messages, by))
        total = add_product(total, load_from(values, at + 4), spread(messages, by + 1))
        total = add_product(total, load_from(values, at + 8), spread(messages, by + 2))
        total = add_product(total, load_from(values, at + 12), spread(messages, by + 3))
        store_at(messages, out + 4 * r, total)
        peak = largest(total)
        low, high = min(low, peak), max(high, peak)
    return low, high


@inlined
def _below(tree: NarrowTree, node: Any, k: int, size: int) -> int:
    """Return where the messages of the k-th child start, or of the last if there are fewer."""
    child = tree.child[min(node.first_child + k, node.stop_child - 1)]
    start: int = tree.nodes[child].slot * size
    return start


@helper
def _send_four(tree: NarrowTree, node: Any, count: int, size: int, space: NarrowSpace) -> tuple[float, float]:
    """Write the messages of a node, of at most four numbers each; return the least and the most of their peaks."""
    # Read once: for all that the compiler knows, what the loops write could be these.
    messages, values, place, choice = space.messages, tree.values, space.place, tree.choice
    children, choices = node.stop_child - node.first_child, node.stop_choice - node.first_choice
    out, start, begin = node.slot * size, node.first_value, node.first_choice
    if children == 0:
        low, high = _send_own(values, start, place, count, messages, out)
        return low, high
    first, second, third = (_below(tree, node, 0, size), _below(tree, node, 1, size), _below(tree, node, 2, size))
    if children == 1 and choices == 4:
        low, high = _send_square(values, start, place, count, messages, out, first)
        return low, high
    low, high = HUGE, TINY
    for r in range(count):
        at = start + place[r]
        total = nothing()
        for k in range(choices):
            met = messages[first + 4 * r + choice[begin + k, 0]]
            if children > 1:
                met *= messages[second + 4 * r + choice[begin + k, 1]]
            if children > 2:
                met *= messages[third + 4 * r + choice[begin + k, 2]]
            total = add_product(total, load_from(values, at + 4 * k), repeated(met))
        store_at(messages, out + 4 * r, total)
        peak = largest(total)
        low, high = min(low, peak), max(high, peak)
    return low, high


@helper
def _send_eight(tree: NarrowTree, node: Any, count: int, size: int, space: NarrowSpace) -> tuple[float, float]:
    """Do as `_send_four` with messages of at most eight numbers."""
    messages, values, place, choice = space.messages, tree.values, space.place, tree.choice
    children, choices = node.stop_child - node.first_child, node.stop_choice - node.first_choice
    out, start, begin = node.slot * size, node.first_value, node.first_choice
    first = second = third = out
    if children > 0:
        first, second, third = (
            _below(tree, node, 0, size),
            _below(tree, node, 1, size),
            _below(tree, node, 2, size),
        )
    low, high = HUGE, TINY
    for r in range(count):
        at = start + place[r]
        left, right = nothing(), nothing()
        if children == 0:
            left, right = load_from(values, at), load_from(values, at + 4)
        else:
            for k in range(choices):
                met = messages[first + 8 * r + choice[begin + k, 0]]
                if children > 1:
                    met *= messages[second + 8 * r + choice[begin + k, 1]]
                if children > 2:
                    met *= messages[third + 8 * r + choice[begin + k, 2]]
                left = add_product(left, load_from(values, at + 8 * k), repeated(met))
                right = add_product(right, load_from(values, at + 8 * k + 4), repeated(met))
        store_at(messages, out + 8 * r, left)
        store_at(messages, out + 8 * r + 4, right)
        peak = max(largest(left), largest(right))
        low, high = min(low, peak), max(high, peak)
    return low, high


@helper
def _rescale(messages: Any, out: int, width: int, count: int, exponent: Any) -> int:
    """Bring each row's message back into range, add what was taken out to its exponent, return the largest."""
    most = 0
    for r in range(count):
        size = 0.0
        for k in range(out + r * width, out + (r + 1) * width):
            size = max(size, abs(messages[k]))
        if (size < TINY or size > HUGE) and size > 0.0:
            shift = math.floor(np.log2(size))
            # Two steps, because the inverse of a subnormal number overflows.
            half, rest = math.ldexp(1.0, -(shift // 2)), math.ldexp(1.0, -(shift - shift // 2))
            for k in range(out + r * width, out + (r + 1) * width):
                messages[k] = messages[k] * half * rest
            exponent[r] += shift
            most = max(most, shift)
    return most


@helper
def _lowest(tree: NarrowTree, node: Any, count: int, size: int, width: int, space: NarrowSpace) -> float:
    """Return a bound on the log2 of the smallest product at a node: from what is known, or else as measured."""
    lowest: float = node.reach
    for k in range(node.first_child, node.stop_child):
        lowest += space.low[tree.child[k]]
    if lowest < LOWEST:
        lowest = node.reach
        for k in range(node.first_child, node.stop_child):
            child = tree.child[k]
            first = tree.nodes[child].slot * size
            least = 1.0
            for at in range(first, first + count * width):
                number = abs(space.messages[at])
                if number > 0.0:
                    least = min(least, number)
            space.low[child] = np.log2(least)
            lowest += space.low[child]
    return lowest


@compiled
def narrow_upward(
    tree: NarrowTree, width: int, codes: Any, start: int, stop: int, space: NarrowSpace, log_size: Any, sign: Any
) -> int:
    """Write the log absolute probability of each row and its sign (Eq. 13), until underflow could change one.

    `width`: numbers of a message with its padding: 4 or 8; `codes` (columns, rows); `start`, `stop`: which rows to
    pass through the tree; `log_size`, `sign` (rows,). Returned is the first row of the block in which something can
    be lost, which is `upward`'s; or `stop`.
    """
    block = space.place.shape[0]
    size = block * width
    for begin in range(start, stop, block):
        count = min(block, stop - begin)
        for r in range(count):
            space.exponent[r] = 0
        for n in range(tree.nodes.shape[0] - 1, -1, -1):
            node = tree.nodes[n]
            lowest = _lowest(tree, node, count, size, width, space)
            if lowest < LOWEST:
                return begin
            _places(tree, node, codes, begin, count, space.place)
            if width == 4:
                low, high = _send_four(tree, node, count, size, space)
            else:
                low, high = _send_eight(tree, node, count, size, space)
            shift = 0
            if low < TINY or high > HUGE:
                shift = _rescale(space.messages, node.slot * size, width, count, space.exponent)
            space.low[n] = min(lowest - shift, 0.0)
        root = tree.nodes[0].slot * size
        for r in range(count):
            found = space.messages[root + r * width]
            sign[begin + r] = np.sign(found)
            log_size[begin + r] = np.log(abs(found)) + space.exponent[r] * np.log(2.0)
    return stop
