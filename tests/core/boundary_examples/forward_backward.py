"""Valid small calls of forward and backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.sequence_problems import SequenceProblem

from eigentree.core import _native
from eigentree.core.sequences.forward_backward import flat_links


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    for dtype, states, order, lengths in (
        (np.uint8, 2, 1, [3, 0, 5, 1, 9, 2, 4, 4, 1, 30]),
        (np.uint16, 3, 2, [7, 2, 1]),
        (np.uint32, 9, 1, [40, 50]),
        (np.uint8, 4, 1, [1003, 5]),
        (np.uint8, 2, 3, [1100]),
    ):
        for counted in (True, False):
            one = SequenceProblem.of(random, lengths, states, order, dtype=dtype)
            count, flat = len(lengths), flat_links(one.links)
            known = (one.symbols, one.starts, random.permutation(count), random.random(count))
            out = (np.empty(count), np.empty(len(flat)), np.empty(one.emissions.shape))
            function = _native.sequence_counts if counted else _native.sequence_log_prob
            yield function, (*known, one.emissions, flat, order, *out[: 3 if counted else 1])
