"""Valid small calls of filtering, smoothing, decoding and sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.sequence_problems import SequenceProblem

from eigentree.core import _native
from eigentree.core.sequences.forward_backward import flat_links


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    lengths = [3, 0, 5, 1, 9]
    for dtype, states, order in ((np.uint8, 2, 1), (np.uint16, 3, 2), (np.uint32, 9, 1), (np.uint8, 2, 3)):
        for name in ("filter_steps", "smooth_steps", "decode_steps", "sample_given_steps", "sample_steps"):
            one = SequenceProblem.of(random, lengths, states, order, dtype=dtype)
            flat, steps = flat_links(one.links), sum(lengths)
            proba, found, uniform = np.empty((steps, states)), np.empty(steps, np.int64), random.random(steps)
            out = {
                "filter_steps": (proba, np.empty((len(lengths), states**order))),
                "smooth_steps": (proba,),
                "decode_steps": (found, np.empty(len(lengths))),
                "sample_given_steps": (uniform, found),
                "sample_steps": (uniform, found),
            }[name]
            if name == "sample_steps":
                yield _native.sample_steps, (one.starts, flat, states, order, *out)
            else:
                yield getattr(_native, name), (one.symbols, one.starts, one.emissions, flat, order, *out)
