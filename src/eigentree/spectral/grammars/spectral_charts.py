"""Learned operators as charts of sentences read them (Cohen et al. 2013)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from eigentree.inference.grammars.chart_parser import ChartParser
from eigentree.inference.grammars.chart_tables import ChartTables, coarse_grammar
from eigentree.inference.grammars.grammar import Backoff
from eigentree.spectral.grammars.grammar_operators import scaled

if TYPE_CHECKING:
    from eigentree.spectral.grammars.grammar_model import SpectralGrammar

__all__ = ["spectral_parser"]


def spectral_parser(model: SpectralGrammar, pruning: float) -> ChartParser:
    """Return what parses sentences by learned operators.

    The first unit vector is the inside vector of what is certain, and the outside vector of a child that does not
    depend on its parent.
    """
    operators, backoff, ranks = model.operators, model.backoff, model.operators.ranks
    kept = np.arange(operators.words.shape[1]) < ranks[:, None]
    certain = (np.arange(operators.words.shape[1]) == 0) & kept
    units = certain[kept].astype(float)
    tables = ChartTables(
        operators.symbols,
        ranks,
        (model.roots[:, None] * scaled(operators.starts))[kept],
        [rule.transpose(2, 0, 1) for rule in operators.rules],
        operators.words[kept[operators.symbols.lexicon[:, 0]]],
        units,
        Backoff(backoff.pair, backoff.word, units * np.repeat(backoff.children, ranks), backoff.words),
    )
    plain = coarse_grammar(operators.symbols, model.roots, backoff)
    return ChartParser(tables, ChartTables.of(plain), pruning)
