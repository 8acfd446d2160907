"""Valid small calls of charts of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from core.chart_problems import ChartProblem

from eigentree.core import _native


def examples(random: np.random.Generator) -> Iterator[tuple[Callable[..., object], tuple[object, ...]]]:
    """Yield functions and arguments, with fresh arrays each."""
    for states, words in (((1, 1, 1), 4), ((2, 1, 9), 3), ((3, 5), 1)):
        one = ChartProblem.of(random, states, words)
        yield _native.ChartGrammar, one.grammar
        cells = one.cells
        grammar = _native.ChartGrammar(*one.grammar)
        yield _native.fill_chart, (grammar, one.emissions, *cells, np.empty(len(cells.labels)))
