"""Valid small calls of sequences through the operators of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.random_operators import random_steps

from eigentree.core import _native
from eigentree.inference.operators.normalised_scoring import floor_of


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    states, ranks = (4, 2), (3, 2)
    for dtype in (np.uint8, np.uint16, np.uint32):
        for function in (
            _native.score_sequences,
            _native.sample_sequences,
            _native.smooth_sequences,
            _native.sample_unknown,
        ):
            marginals = [random.dirichlet(np.ones(count)) for count in states]
            steps, floor = random_steps(random, states, ranks, marginals), floor_of(0.1, marginals)
            codes = np.array([random.integers(0, count + 2, 9) for count in states], dtype)
            starts = np.array([0, 4, 4, 9])
            more: tuple[object, ...] = (random.random(codes.shape),)
            if function is _native.score_sequences:
                found, messages, last = np.empty((3, 3)), np.empty((9, 3)), np.empty((3, 3))
                more = (np.array([True, False, True]), found, np.empty(9), messages, last)
            elif function is _native.smooth_sequences:
                # The pattern of even states of a channel of two is of one state only.
                more = (np.zeros((int((codes[0] >= 4).sum() + (codes[1] == 3).sum()), 4)),)
            yield function, (*steps, *floor, codes, starts, *more)
