"""Spectral grammars in files: operators, and what the report says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import EigentreeError, FileError
from eigentree.inference.grammars.grammar import GrammarLayout
from eigentree.inference.grammars.stored_grammar import (
    put_backoff,
    read_backoff,
    read_states,
    read_symbols,
    symbols_content,
)
from eigentree.io.codec import NUMBER, VALUE, Field, Record, within
from eigentree.spectral.grammars.grammar_model import SpectralGrammar
from eigentree.spectral.grammars.grammar_operators import GrammarOperators
from eigentree.spectral.grammars.grammar_report import GrammarReport, LabelReport

if TYPE_CHECKING:
    from eigentree.io.codec import At
    from eigentree.io.stores import Reader, Writer

__all__ = ["FITTED_SPECTRA"]


def _model_content(writer: Writer, model: SpectralGrammar) -> dict[str, Any]:
    operators = model.operators
    writer.array("states", operators.ranks)
    writer.flat("operators", operators.rules)
    writer.array("words", operators.words)
    writer.array("starts", operators.starts)
    writer.array("roots", model.roots)
    put_backoff(writer, model.backoff)
    return symbols_content(writer, model.symbols)


def _read_model(reader: Reader, content: Any) -> SpectralGrammar:
    symbols = read_symbols(reader, content)
    ranks = read_states(reader, symbols)
    labels = len(symbols.labels)
    try:
        layout = GrammarLayout(symbols, np.ones(labels, np.int64))
    except EigentreeError as error:
        raise FileError(f"the grammar is none: {error}") from None
    if (ranks < 1).any():
        raise FileError("each label of a spectral grammar has rank 1 at least")
    known, most = ranks.tolist(), int(ranks.max())
    rules = reader.flat("operators", [(known[b], known[c], known[a]) for a, b, c in symbols.rules.tolist()])
    roots = reader.floats("roots", labels)
    if (roots < 0).any() or abs(roots.sum() - 1.0) > 1e-9:
        raise FileError("the labels of roots have no distribution")
    words, starts = reader.floats("words", len(symbols.lexicon), most), reader.floats("starts", labels, most)
    return SpectralGrammar(
        GrammarOperators(symbols, ranks, tuple(rules), words, starts), read_backoff(reader, layout), roots
    )


def _put_labels(writer: Writer, name: str, labels: tuple[LabelReport, ...]) -> Any:
    writer.flat(name, [each.singular_values for each in labels])
    writer.array(f"{name}.nodes", np.array([each.nodes for each in labels]))
    # Of exact moments there is none.
    noise = [each.noise if np.isfinite(each.noise) else -1.0 for each in labels]
    writer.array(f"{name}.noise", np.array(noise))
    return [len(each.singular_values) for each in labels]


def _read_labels(reader: Reader, content: Any, at: At) -> tuple[LabelReport, ...]:
    model: SpectralGrammar = at.known["model_"]
    names, ranks = model.symbols.labels, model.operators.ranks.tolist()
    if not isinstance(content, list) or [type(size) for size in content] != [int] * len(names):
        raise FileError("there are not the singular values of each label")
    if any(not 0 < size <= rank + 1 for size, rank in zip(content, ranks, strict=True)):
        raise FileError("a label has as many singular values as its rank, or one more")
    values = reader.flat(at.name, [(size,) for size in content])
    nodes, noise = (reader.floats(f"{at.name}.{name}", len(names)).tolist() for name in ("nodes", "noise"))
    each = zip(names, nodes, ranks, values, noise, strict=True)
    return tuple(
        LabelReport(name, count, rank, sizes, own if own >= 0 else np.inf) for name, count, rank, sizes, own in each
    )


def _read_tried(reader: Reader, content: Any, at: At) -> dict[tuple[float, float], float]:
    tried = VALUE.read(reader, content, at)
    if type(tried) is not dict or not all(
        type(pair) is tuple and [type(each) for each in (*pair, mean)] == [float] * 3 for pair, mean in tried.items()
    ):
        raise FileError("what was tried is no list of shrinkages and what they led to")
    return tried


REPORT = Record(
    "a report",
    {"labels": Field(_put_labels, _read_labels), "trees": NUMBER, "nodes": NUMBER, "shrinkage": NUMBER},
    {"tried": Field(lambda writer, name, tried: VALUE.write(writer, name, dict(tried)), _read_tried)},
)
