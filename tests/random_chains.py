"""Random tables of chains, and sequences of different lengths with missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from eigentree.data.sequences.sequence_codes import Sequences
from eigentree.inference.sequences.hmm_chain import Chain


def distributions(random: np.random.Generator, *shape: int) -> Any:
    """Return distributions along the last axis, none of them near zero."""
    table = random.random(shape) + 0.05
    return table / table.sum(axis=-1, keepdims=True)


def ragged(chain: Chain, lengths: list[int], seed: int, missing: float = 0.2) -> Sequences:
    """Return sampled sequences of these lengths, with missing cells."""
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    codes = chain.drawn(starts, random)
    for channel, count in enumerate(chain.columns.states):
        codes[random.random(len(codes)) < missing, channel] = count
    return Sequences(chain.columns, codes, starts)
