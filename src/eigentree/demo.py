"""The story of ``make demo``: build a latent graph, sample from it, and answer questions exactly."""

from __future__ import annotations

import time

import numpy as np

import eigentree as et


def main() -> None:
    """Print the story."""
    graph = et.zoo.hmm(length=40, order=2, hidden_states=2, observed_states=4)
    truth = et.LatentNetwork.random(graph, concentration=0.3, seed=0)
    print("1. A latent graph: a hidden Markov model of order 2, 40 steps, 2 hidden states, 4 symbols.")
    print(f"   {graph!r}")
    print(f"   Its junction tree has {len(truth.tree.nodes)} nodes and treewidth {truth.tree.width}.")

    rows = truth.sample(100_000, seed=1)
    print(f"\n2. Sample {len(rows):,} rows. The first one:")
    print("   " + "".join("ACGT"[cell] for cell in rows[0]))

    truth.log_prob(rows[:1])
    start = time.perf_counter()
    scores = truth.log_prob(rows)
    seconds = time.perf_counter() - start
    print(f"\n3. Score them exactly, all 2^40 hidden paths summed out: {len(rows) / seconds:,.0f} rows a second.")
    print(f"   Mean log probability {scores.mean():.2f} a row; guessing uniformly gives {40 * np.log(0.25):.2f}.")

    proba = truth.predict_proba(rows[:5_000], target="x20")
    right = (proba.argmax(axis=1) == rows[:5_000, 20]).mean()
    alone = truth.joint(["x20"]).max()
    print("\n4. Hide the cell x20 and predict it from the other 39:")
    print(f"   right in {right:.1%} of 5,000 rows; always naming its commonest symbol is right in {alone:.1%}.")

    holed = rows[:1].copy()
    holed[0, 10:20] = -1
    filled = truth.impute(holed)
    print("\n5. Lose ten cells of the first row and impute them:")
    print("   lost    " + "".join("ACGT"[cell] if cell >= 0 else "." for cell in holed[0]))
    print("   imputed " + "".join("ACGT"[cell] for cell in filled[0]))
    print(f"   {(filled[0, 10:20] == rows[0, 10:20]).sum()} of 10 agree with what was there.")


if __name__ == "__main__":
    main()
