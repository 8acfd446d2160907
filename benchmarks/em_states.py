"""One EM step of hidden Chow-Liu trees, from few hidden states to many, beside BLAS and another checkout.

What is counted as work: each edge between two hidden variables of k states takes, for every row, a product of a
k x k matrix with a message up, one with a message down, and one product of two messages for the counts. That is
3 · 2k² operations for a row and an edge; all else that a step does (leaves, products of siblings, scaling, the
M-step) counts as nothing.

Rows that agree below an edge are passed once there. The rest is reported as a share of all operations; a step
that does little of its work may be faster than dgemm would do all of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import shared
from benchmarks.measure import best_seconds, in_fresh_process, show_note, show_table, version_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = ("audio", "plants")
STATES = (2, 4, 8, 16, 32, 64)
MOST_REPEATS = 160
"""Repeats of a step times its hidden states: steps of few states are short, and want more."""

ROUNDS = 2
DGEMM_SIZE = 512
SMOOTHING = 0.5


def run(quick: bool, against: Path | None = None) -> None:
    """Print the time of a step for each number of states, its rate beside dgemm's, and the other version's time."""
    names = [name for name in NAMES if not shared.is_absent(f"em_states: {name}", shared.split_files(name))]
    environments = {"this": {}} | ({"other": version_of(against)} if against else {})
    for name in names:
        found: dict[str, dict[str, Any]] = {version: {} for version in environments}
        contenders = [(k, version) for k in ((2, 16) if quick else STATES) for version in environments]
        for k, version in contenders * ROUNDS:
            measured = in_fresh_process(
                "benchmarks.em_states",
                "step",
                name,
                k,
                3000 if quick else None,
                environment=environments[version],
            )
            before = found[version].get(str(k), measured)
            found[version][str(k)] = {
                "seconds": min(before["seconds"], measured["seconds"]),
                "operations": measured["operations"],
                "done": measured["done"],
                "dgemm": max(before["dgemm"], measured["dgemm"]),
            }
        _show(name, found)
    show_note(
        "processor time, 1 thread, best of alternating processes; GF/s counts 3 products of a k x k matrix per row "
        f"and edge between hidden variables, dgemm is of {DGEMM_SIZE} x {DGEMM_SIZE} matrices in the same processes"
        "; done: the share of these products that is left, as rows that agree below an edge are passed once there"
    )


def step(name: str, hidden_states: int, most_rows: int | None) -> dict[str, float]:
    """Return the time of a step, how many operations it has to make, and dgemm's operations in a second."""
    rows = shared.binary_split(name, most_rows).train.codes
    graph = hidden_chow_liu(rows, hidden_states)
    square = np.random.default_rng(0).random((DGEMM_SIZE, DGEMM_SIZE))
    one_step, done = _one_step(graph, rows)
    runs = {"step": one_step, "dgemm": lambda: square @ square}
    runs["step"]()
    best = best_seconds(runs, max(2, MOST_REPEATS // hidden_states), time.process_time)
    edges = sum(name in graph.hidden and other in graph.hidden for name, other in graph.edges)
    return {
        "seconds": best["step"],
        "operations": 6.0 * hidden_states**2 * edges * len(rows),
        "done": done,
        "dgemm": 2.0 * DGEMM_SIZE**3 / best["dgemm"],
    }


def _one_step(graph: Any, rows: np.ndarray) -> tuple[Callable[[], object], float]:
    """Return a call that makes one E-step and one M-step, in this version or in 0.1.0, and what share it does."""
    import eigentree as et
    from eigentree.em.estep import expectation as module

    if hasattr(module.Expectation, "of"):
        expectation = module.Expectation.of(graph, (), len(rows))
        layout = expectation.layout
    else:
        layout = module.TableLayout.of(graph)
        expectation = module.Expectation(layout, (), len(rows))
    parameters = layout.vector(et.LatentNetwork.random(graph, seed=0))
    # Rows that are passed again and again are prepared for that; 0.1.0 knew no such thing, 0.2.0 did so by thread.
    fields = getattr(module.CodedRows, "_fields", ())
    more = {"often": True} if "sectioned" in fields else {"often_by": 1} if "parts" in fields else {}
    coded = expectation.coded(rows.astype(np.uint8), np.ones(len(rows)), **more)
    done = _done(expectation, coded) if more else 1.0
    return lambda: layout.normalised(expectation(parameters, coded)[0], parameters), done


def _done(expectation: Any, rows: Any) -> float:
    """Return which share of the products of matrices is made in sections; all but the first pass up twice."""
    from eigentree.em.estep.cliques import Clique

    def cliques(nodes: Any) -> int:
        return sum(isinstance(node, Clique) for node in nodes)

    done = 0.0
    parts = rows.parts if hasattr(rows, "parts") else [part for part in [rows.sectioned] if part]
    for part in parts:
        for section, own in zip(part.tree.sectioning.sections, part.rows, strict=True):
            done += cliques(section.nodes) * len(own.weights) * (1 if section.numbers[0] == 0 else 4 / 3)
    return done / (cliques(expectation.nodes) * len(rows.weights)) if parts else 1.0


def hidden_chow_liu(rows: np.ndarray, hidden_states: int) -> Any:
    """Return hidden variables linked as the Chow-Liu tree of binary columns, leaves of it left out."""
    import eigentree as et

    count = rows.shape[1]
    links: list[set[Any]] = [set() for _ in range(count)]
    for i, j in _spanning_tree(_mutual_information(rows)):
        links[i].add(j)
        links[j].add(i)
    # A hidden variable with one column and one neighbour only hands on what its column says.
    columns = {i: [i] for i in range(count)}
    for i in range(count):
        if len(links[i]) + len(columns[i]) == 2 and len(columns) > 1:
            (other,) = links[i]
            links[other].remove(i)
            columns[other] += columns.pop(i)
    root = max(columns, key=lambda i: (len(links[i]), -i))
    states = {f"h{i}": hidden_states for i in columns} | {f"x{i}": 2 for i in range(count)}
    edges, waiting, seen = [], [root], {root}
    for here in waiting:
        edges += [(f"h{here}", f"x{column}") for column in columns[here]]
        new = sorted(links[here] - seen)
        edges += [(f"h{here}", f"h{other}") for other in new]
        seen.update(new)
        waiting += new
    return et.LatentGraph(states, edges, [f"h{i}" for i in columns])


def _mutual_information(rows: np.ndarray) -> np.ndarray:
    """Return the mutual information of all pairs of binary columns."""
    ones = rows.astype(float)
    sides = {0: 1.0 - ones, 1: ones}
    total = len(rows) + 4 * SMOOTHING
    alone = {a: (side.sum(axis=0) + 2 * SMOOTHING) / total for a, side in sides.items()}
    joint = {(a, b): (sides[a].T @ sides[b] + SMOOTHING) / total for a in sides for b in sides}
    return sum(table * np.log(table / np.outer(alone[a], alone[b])) for (a, b), table in joint.items())


def _spanning_tree(weight: np.ndarray) -> list[tuple[int, int]]:
    """Return the edges of the spanning tree of greatest weight (Prim)."""
    best, link = weight[0].copy(), np.zeros(len(weight), int)
    inside = np.arange(len(weight)) == 0
    edges = []
    while not inside.all():
        new = int(np.where(inside, -np.inf, best).argmax())
        edges.append((int(link[new]), new))
        inside[new] = True
        nearer = weight[new] > best
        best[nearer], link[nearer] = weight[new][nearer], new
    return edges


def _show(name: str, found: dict[str, dict[str, Any]]) -> None:
    header = ["hidden states", "this ms", "done", "GF/s", "of dgemm", "dgemm GF/s"]
    header += ["other ms", "ratio"] if "other" in found else []
    lines = []
    for k, here in found["this"].items():
        rate = here["operations"] / here["seconds"]
        line = [k, f"{1e3 * here['seconds']:.1f}", f"{here['done']:.2f}", f"{rate / 1e9:.1f}"]
        line.append(f"{rate / here['dgemm']:.2f}")
        line.append(f"{here['dgemm'] / 1e9:.1f}")
        if "other" in found:
            there = found["other"][k]["seconds"]
            line += [f"{1e3 * there:.1f}", f"{there / here['seconds']:.2f}"]
        lines.append(line)
    show_table(f"one EM step, hidden Chow-Liu tree of {name}", header, lines)
