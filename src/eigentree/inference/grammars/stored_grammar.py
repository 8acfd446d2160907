"""Latent-variable grammars in files: symbols, states and parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.treebanks.tree_rows import GrammarSymbols
from eigentree.data.treebanks.word_classes import UNKNOWN, WordClasses
from eigentree.errors import EigentreeError, FileError
from eigentree.inference.grammars.grammar import Backoff, Grammar, GrammarLayout
from eigentree.io.documents import Section

if TYPE_CHECKING:
    from eigentree.arrays import Integers
    from eigentree.io.stores import Reader, Writer

__all__ = [
    "grammar_content",
    "put_backoff",
    "read_backoff",
    "read_grammar",
    "read_states",
    "read_symbols",
    "symbols_content",
]

MOST = 2**30
"""Most rules, pairs of the lexicon, states or parameters."""


def symbols_content(writer: Writer, symbols: GrammarSymbols) -> dict[str, Any]:
    """Return the document of symbols, after putting their arrays into the file."""
    for name in ("rules", "lexicon", "rule_counts", "lexicon_counts"):
        writer.array(name, getattr(symbols, name))
    return {
        "labels": list(symbols.labels),
        "vocabulary": list(symbols.words.vocabulary),
        "classes": list(symbols.words.classes),
        "rules": len(symbols.rules),
        "lexicon": len(symbols.lexicon),
    }


def read_symbols(reader: Reader, content: Any) -> GrammarSymbols:
    """Return the symbols of a document and the arrays of the file."""
    entry = Section(content, "a grammar", ("labels", "vocabulary", "classes", "rules", "lexicon"))
    labels = entry.texts("labels")
    words = WordClasses(entry.texts("vocabulary"), entry.texts("classes"))
    if len({*labels}) < len(labels) or len({*words.vocabulary}) < len(words.vocabulary):
        raise FileError("a label or a word of the grammar is named twice")
    if words.classes[:1] != (UNKNOWN,):
        raise FileError(f"the first class of words is {UNKNOWN}")
    counts = entry.whole("rules", 0, MOST), entry.whole("lexicon", 0, MOST)
    rules = _codes(reader, "rules", (counts[0], 3), (len(labels),) * 3)
    lexicon = _codes(reader, "lexicon", (counts[1], 2), (len(labels), len(words.names)))
    occurrences = [
        _codes(reader, f"{name}_counts", (count,), (MOST**2,))
        for name, count in zip(("rule", "lexicon"), counts, strict=True)
    ]
    return GrammarSymbols(labels, words, rules, lexicon, *occurrences)


def put_backoff(writer: Writer, backoff: Backoff) -> None:
    """Put what is expected of unseen rules and words into the file."""
    writer.flat("backoff", [backoff.pair, backoff.word, backoff.children, backoff.words])


def read_backoff(reader: Reader, layout: GrammarLayout) -> Backoff:
    """Return what is expected of rules and words that a layout does not have."""
    labels, words = len(layout.states), len(layout.symbols.words.names)
    parts = reader.flat("backoff", [(labels,), (labels,), (int(layout.state_at[-1]),), (words,)])
    backoff = Backoff(*parts)
    sums = np.array([backoff.children.sum(), backoff.words.sum()])
    if min(*(part.min() for part in parts), backoff.kept.min()) < 0 or not np.allclose(sums, 1.0, atol=1e-6):
        raise FileError("what a grammar expects of unseen rules is no distribution")
    return backoff


def grammar_content(writer: Writer, grammar: Grammar) -> dict[str, Any]:
    """Return the document of a grammar, after putting its arrays into the file."""
    writer.array("states", grammar.states)
    writer.array("values", grammar.values)
    put_backoff(writer, grammar.backoff)
    return symbols_content(writer, grammar.symbols)


def read_grammar(reader: Reader, content: Any) -> Grammar:
    """Return the grammar of a document and the arrays of the file."""
    symbols = read_symbols(reader, content)
    states = read_states(reader, symbols)
    try:
        layout = GrammarLayout(symbols, states)
        return Grammar(layout, reader.floats("values", layout.size), read_backoff(reader, layout))
    except FileError:
        raise
    except EigentreeError as error:
        raise FileError(f"the grammar is none: {error}") from None


def read_states(reader: Reader, symbols: GrammarSymbols) -> Integers:
    """Return the number of states of each label."""
    return _codes(reader, "states", (len(symbols.labels),), (2**15,))


def _codes(reader: Reader, name: str, shape: tuple[int, ...], bounds: tuple[int, ...]) -> Integers:
    """Return an array of whole numbers below some bounds, in order where it has several columns."""
    codes = reader.array(name, ("I64",), *shape)
    if ((codes < 0) | (codes >= np.array(bounds))).any():
        raise FileError(f"the array {name!r} of a grammar leads to what there is not")
    if codes.ndim == 2 and len(codes) > 1:
        ordered = np.lexsort(codes.T[::-1])
        if not np.array_equal(ordered, np.arange(len(codes))) or (np.diff(codes, axis=0) == 0).all(axis=1).any():
            raise FileError(f"the array {name!r} of a grammar is not in order, or has something twice")
    return codes
