"""One EM step of hidden Chow-Liu trees, from few hidden states to many, beside BLAS.

What is counted as work: each edge between two hidden variables of k states takes, for every row, a product of a
k x k matrix with a message up, one with a message down, and one product of two messages for the counts. That is
3 · 2k² operations for a row and an edge; all else that a step does (leaves, products of siblings, scaling, the
M-step) counts as nothing.

Rows that agree below an edge are passed once there. The rest is reported as a share of all operations; a step
that does little of its work may be faster than dgemm would do all of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

import eigentree as et
from benchmarks import shared
from benchmarks.measure import best_seconds, show_note, show_table
from eigentree.em.estep.cliques import Clique
from eigentree.em.estep.expectation import CodedRows, Expectation

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("audio", "plants")
STATES = (2, 4, 8, 16, 32, 64)
MOST_REPEATS = 160
"""Repeats of a step times its hidden states: steps of few states are short, and want more."""

DGEMM_SIZE = 512


def step(rows: NDArray[np.int8], hidden_states: int) -> list[str]:
    """Return a line of the table: the time of an E-step and an M-step, and their rate beside dgemm's."""
    graph = et.learn_structure(rows, hidden_states=hidden_states, categories=(0, 1))
    expectation = Expectation.of(graph, (), len(rows))
    layout = expectation.layout
    parameters = layout.vector(et.LatentNetwork.random(graph, seed=0))
    coded = expectation.coded(rows.astype(np.uint8), np.ones(len(rows)), often=True)
    square = np.random.default_rng(0).random((DGEMM_SIZE, DGEMM_SIZE))
    runs = {
        "step": lambda: layout.normalised(expectation(parameters, coded)[0], parameters),
        "dgemm": lambda: square @ square,
    }
    runs["step"]()
    best = best_seconds(runs, max(2, MOST_REPEATS // hidden_states), time.process_time)
    edges = sum(name in graph.hidden and other in graph.hidden for name, other in graph.edges)
    rate = 6.0 * hidden_states**2 * edges * len(rows) / best["step"]
    dgemm = 2.0 * DGEMM_SIZE**3 / best["dgemm"]
    figures = (f"{1e3 * best['step']:.1f}", f"{share_done(expectation, coded):.2f}", f"{rate / 1e9:.1f}")
    return [f"{hidden_states}", *figures, f"{rate / dgemm:.2f}", f"{dgemm / 1e9:.1f}"]


def share_done(expectation: Expectation, rows: CodedRows) -> float:
    """Return which share of the products of matrices is made in sections; all but the first pass up twice."""
    if rows.sectioned is None:
        return 1.0

    def cliques(nodes: object) -> int:
        return sum(isinstance(node, Clique) for node in nodes)  # type: ignore[attr-defined]

    part = rows.sectioned
    done = sum(
        cliques(section.nodes) * len(own.weights) * (1 if section.numbers[0] == 0 else 4 / 3)
        for section, own in zip(part.tree.sectioning.sections, part.rows, strict=True)
    )
    return float(done / (cliques(expectation.nodes) * len(rows.weights)))


def run(quick: bool) -> None:
    """Print the time of a step for each number of states, and its rate beside dgemm's."""
    for name in NAMES:
        if shared.is_absent(f"em_states: {name}", shared.split_files(name)):
            continue
        rows = shared.binary_part(name, "train", 3_000 if quick else None)
        show_table(
            f"one EM step, hidden Chow-Liu tree of {name}",
            ["hidden states", "ms", "done", "GF/s", "of dgemm", "dgemm GF/s"],
            [step(rows, states) for states in ((2, 16) if quick else STATES)],
        )
    show_note(
        "processor time, 1 thread; GF/s counts 3 products of a k x k matrix per row and edge between hidden"
        f" variables, dgemm is of {DGEMM_SIZE} x {DGEMM_SIZE} matrices in the same process; done: the share of"
        " these products that is left, as rows that agree below an edge are passed once there"
    )
