"""Rows with numbers as evidence: a discrete network in which the numbers of some rows are lines."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from eigentree.inference.mixed.number_leaves import LEAST, block_lines, line_graph, without_numbers
from eigentree.inference.networks.network import LatentNetwork

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from eigentree.arrays import Codes, Floats
    from eigentree.emissions.base import Emission
    from eigentree.graphs.graph import LatentGraph
    from eigentree.inference.mixed.number_leaves import Block

__all__ = ["Evidence", "evidence_of", "rows_of_evidence"]

MOST_LINES = 2**14
"""Most rows whose lines are made at a time, as many as are encoded at a time."""

FEW_LINES = 2**9
"""Most rows at a time where lines depend on other columns."""

MOST_VALUES = 2**21
"""Most likelihoods of lines at a time: 16 MiB."""


class Evidence(NamedTuple):
    """Some rows as rows of a discrete network.

    Attributes
    ----------
    network : LatentNetwork
        The categories, the lines of each block and, if wanted, copies of the states of their parents.
    codes : array, shape (rows, columns of that network)
    log_scale : array, shape (rows,)
        What is added to the log probability of each row there for its log density.
    """

    network: LatentNetwork
    codes: Codes
    log_scale: Floats


def rows_of_evidence(graph: LatentGraph, blocks: Sequence[Block], revealed: Collection[str] = ()) -> int:
    """Return how many rows are made evidence at a time, where some hidden variables will be columns too."""
    observed = {*graph.observed, *revealed}
    if any(not observed.isdisjoint(block.parents) for block in blocks):
        # A column that meets another one in a clique takes as many entries as it has states, squared.
        return FEW_LINES
    return max(1, min(MOST_LINES, MOST_VALUES // max(1, sum(block.states(graph) for block in blocks))))


def evidence_of(
    network: LatentNetwork,
    blocks: tuple[Block, ...],
    emissions: Mapping[tuple[str, ...], Emission],
    codes: Codes,
    values: Mapping[str, Floats],
    copies: bool = False,
) -> Evidence:
    """Return some rows, given as codes of all columns and values of number columns, as evidence."""
    graph, rows = network.graph, len(codes)
    # Few different sizes, so that what follows from a graph is computed a few times only.
    size = 1 << max(0, rows - 1).bit_length()
    made = line_graph(graph, blocks, (size + 1,) * len(blocks), copies)
    tables = {name: network.tables[name] for name in made.graph.names if name in network.tables}
    log_scale = np.full(rows, len(blocks) * math.log(size))
    for place, block in enumerate(blocks):
        with np.errstate(over="ignore"):
            log_prob = block_lines(block, emissions, values)
        peak = log_prob.max(axis=1)
        log_scale += peak
        # Numbers so far out that their density is zero in all states say nothing of the state.
        peak = np.where(np.isfinite(peak), peak, 0.0)
        table = np.zeros((log_prob.shape[1], size + 1))
        table[:, :rows] = np.maximum(np.exp(log_prob - peak[:, None]), LEAST).T / size
        # A distribution needs the rest; no row has this line.
        table[:, size] = 1.0 - table[:, :size].sum(axis=1)
        shape = [graph.states[name] for name in block.parents]
        tables[made.lines[place]] = table.reshape(*shape, size + 1)
        if copies:
            tables[made.copies[place]] = np.eye(len(table)).reshape(*shape, len(table))
    known = LatentNetwork(made.graph, tables)
    wide = known.columns.missing(rows)
    kept = without_numbers(graph, blocks)
    for name in kept:
        wide[:, made.graph.column(name)] = codes[:, graph.column(name)]
    for name in made.lines:
        wide[:, made.graph.column(name)] = np.arange(rows)
    return Evidence(known, wide, log_scale)
