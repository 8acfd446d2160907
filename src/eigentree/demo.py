"""The story of ``make demo``: a latent graph, data, and a model learned from the data alone."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

import eigentree as et

if TYPE_CHECKING:
    from collections.abc import Iterator

LETTERS = "ACGT"


def main() -> None:
    """Print the story."""
    graph = et.zoo.hmm(length=40, order=2, hidden_states=2, observed_states=4)
    truth = et.LatentNetwork.random(graph, concentration=0.3, seed=0)
    print("1. A latent graph: a hidden Markov model of order 2, 40 steps, 2 hidden states, 4 symbols.")
    print(f"   {graph!r}")
    print(f"   Its junction tree has {len(truth.tree.nodes)} nodes and treewidth {truth.tree.width}.")

    rows = truth.sample(100_000, seed=1)
    tests = truth.sample(1_000, seed=2)
    print(f"\n2. A true model draws {len(rows):,} rows; the first one:")
    print("   " + _text(rows[0]))

    print("\n3. Learn from rows alone: counts, singular vectors and linear solves, no restarts, no local minima.")
    print("   Error is |learned - true| / true probability, the mean over 1,000 new rows.\n")
    print(f"   {'rows':>9}  {'learned':>8}  {'independent columns':>20}  {'seconds':>8}")
    et.SpectralJunctionTree(graph).fit(rows[:100])  # compiles the kernels, which are then kept on disk
    for count in (1_000, 10_000, 100_000):
        start = time.perf_counter()
        model = et.SpectralJunctionTree(graph).fit(rows[:count])
        seconds = time.perf_counter() - start
        apart = et.SpectralJunctionTree(graph, shrinkage=np.inf).fit(rows[:count])
        print(
            f"   {count:>9,}  {_error(model, truth, tests):>8.3f}  {_error(apart, truth, tests):>20.3f}"
            f"  {seconds:>8.2f}"
        )

    with _quiet():
        model.score_samples(rows)  # compiles what rare rows need
        start = time.perf_counter()
        scores = model.score_samples(rows)
        seconds = time.perf_counter() - start
    print(f"\n4. Score {len(rows):,} rows with the learned model: {len(rows) / seconds:,.0f} rows a second.")
    print(f"   Mean log probability {scores.mean():.3f}; the true model's is {truth.log_prob(rows).mean():.3f}.")

    hidden_cell = tests.copy()
    hidden_cell[:, 25] = -1
    with _quiet():
        named = model.predict_proba(hidden_cell, target="x25").argmax(axis=1)
    best = truth.predict_proba(hidden_cell, target="x25").argmax(axis=1)
    right = (named == tests[:, 25]).mean()
    print("\n5. Hide the cell x25, which its neighbours say much about, and predict it from the other 39:")
    print(f"   right in {right:.1%}; the true model is right in {(best == tests[:, 25]).mean():.1%},")
    print(f"   and always naming the commonest symbol in {truth.joint(['x25']).max():.1%}.")

    holed = tests[:1].copy()
    holed[0, 10:20] = -1
    print("\n6. Lose ten cells of a row and impute them:")
    print("   lost      " + _text(holed[0]))
    print("   imputed   " + _text(model.impute(holed)[0]))
    print("   was       " + _text(tests[0]))

    print("\n7. What the fit says of itself (print(model.report_)):")
    print("\n".join("   " + line for line in str(model.report_).splitlines()))


def _text(row: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    return "".join(LETTERS[cell] if cell >= 0 else "." for cell in row)


def _error(model: et.SpectralJunctionTree, truth: et.LatentNetwork, rows: object) -> float:
    with _quiet():
        return float(np.abs(np.exp(model.score_samples(rows) - truth.log_prob(rows)) - 1).mean())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings about rows without positive probability out of the story, which tells of them itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


if __name__ == "__main__":
    main()
