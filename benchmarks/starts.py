"""Where EM starts, on real data: the multi-start against the best of ten random starts, and labels of crowds."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import ROOT, afresh, seconds, show_note, show_table
from eigentree import EMJunctionTree, zoo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from eigentree import LatentGraph

DATA = ROOT.parent / "shared" / "data"
RANDOM_STARTS = 10
STRUCTURES = {
    "mixture of 4": zoo.Mixture(4),
    "mixture of 8": zoo.Mixture(8),
    "mixture of 16": zoo.Mixture(16),
    "HMM of 4 states": zoo.HMM(order=1, hidden_states=4),
    "tree of 4 states": zoo.LatentTree(hidden_states=4),
}
DAWID_SKENE = {"bluebird": 0.1019, "rte": 0.0725}
"""The share of items that Dawid and Skene's EM, started from votes, gets wrong."""


def _rows(name: str, part: str) -> NDArray[np.uint8]:
    with gzip.open(DATA / f"{name}.{part}.data.gz", "rt") as file:
        return np.loadtxt(file, delimiter=",", dtype=np.uint8)


def _fitted(graph: LatentGraph, rows: NDArray[np.uint8], **settings: Any) -> tuple[EMJunctionTree, float]:
    """Return a model without a prior, and the processor time that its fit took."""
    model = EMJunctionTree(afresh(graph), pseudo_counts=0.0, random_state=0, **settings)
    return model, seconds(lambda: model.fit(rows), time.process_time)


def _show_multistarts(names: list[str], structures: list[str]) -> None:
    table = []
    for name in names:
        train, test = _rows(name, "train"), _rows(name, "test")
        for title in structures:
            graph = STRUCTURES[title].build([2] * train.shape[1])
            ours_fit, spent = _fitted(graph, train)
            best, others = _fitted(graph, train, init="random", n_init=RANDOM_STARTS)
            ours, theirs = (float(model.network_.log_prob(test).mean()) for model in (ours_fit, best))
            table.append(
                [
                    f"{name}, {title}",
                    ours_fit.start_.name,
                    f"{ours:.4f}",
                    f"{theirs:.4f}",
                    f"{ours - theirs:+.4f}",
                    f"{spent:.2f}",
                    f"{others:.2f}",
                    f"{spent / others:.2f}",
                ]
            )
    show_table(
        f"starts: mean test log-likelihood, multi-start beside best of {RANDOM_STARTS} random accelerated starts,\n"
        "no pseudo-counts, 1 thread, processor seconds with planning",
        ["data", "won", "multistart", "best random", "ahead", "multistart s", "random s", "ratio"],
        table,
    )


def crowd_error(name: str) -> float:
    """Return the share of items that a latent class of workers gets wrong; its classes are named by votes."""
    labels = np.loadtxt(DATA / "crowd" / f"{name}_crowd.txt", dtype=int)
    truth = np.loadtxt(DATA / "crowd" / f"{name}_truth.txt", dtype=int)
    items, workers = labels[:, 0].max(), labels[:, 1].max()
    cells = np.full((items, workers), -1)
    cells[labels[:, 0] - 1, labels[:, 1] - 1] = labels[:, 2] - 1
    graph = zoo.mixture(columns=int(workers), hidden_states=2, observed_states=2)
    model = EMJunctionTree(graph, random_state=0).fit(cells)
    (hidden,) = graph.hidden
    found = model.predict_proba(cells, target=hidden).argmax(axis=1)
    votes = (cells == 1).sum(axis=1) > (cells == 0).sum(axis=1)
    if np.mean(found == votes) < 0.5:
        found = 1 - found
    return float(np.mean(found[truth[:, 0] - 1] != truth[:, 1] - 1))


def run(quick: bool) -> None:
    """Print the tables."""
    if not DATA.exists():
        show_note("starts: the real data are not beside the repository; nothing was measured")
        return
    few = _rows("nltcs", "train")[:300]
    for structure in STRUCTURES.values():
        # Let all be compiled and loaded before any clock runs.
        _fitted(structure.build([2] * few.shape[1]), few, max_iter=3)
    _show_multistarts(["nltcs"] if quick else ["nltcs", "msnbc"], list(STRUCTURES)[: 2 if quick else None])
    show_table(
        "starts: items that a latent class of crowd workers gets wrong, default settings",
        ["data", "error", "Dawid-Skene"],
        [[name, f"{crowd_error(name):.2%}", f"{known:.2%}"] for name, known in DAWID_SKENE.items()],
    )
