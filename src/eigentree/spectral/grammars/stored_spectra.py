"""Spectral grammars in files: operators, and what the report says of them."""

from __future__ import annotations

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
from eigentree.io.documents import Section, plain
from eigentree.spectral.grammars.grammar_model import SpectralGrammar
from eigentree.spectral.grammars.grammar_operators import GrammarOperators
from eigentree.spectral.grammars.grammar_report import GrammarReport, LabelReport
from eigentree.spectral.learn.stored_fit import read_tried, tried_content

if TYPE_CHECKING:
    from eigentree.io.stores import Reader, Writer

__all__ = ["read_spectra", "read_spectral", "spectra_content", "spectral_content"]


def spectral_content(writer: Writer, model: SpectralGrammar) -> dict[str, Any]:
    """Return the document of a model, after putting its arrays into the file."""
    operators = model.operators
    writer.array("states", operators.ranks)
    writer.flat("operators", operators.rules)
    writer.array("words", operators.words)
    writer.array("starts", operators.starts)
    writer.array("roots", model.roots)
    put_backoff(writer, model.backoff)
    return symbols_content(writer, model.symbols)


def read_spectral(reader: Reader, content: Any) -> SpectralGrammar:
    """Return the model of a document and the arrays of the file."""
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


def spectra_content(writer: Writer, report: GrammarReport) -> dict[str, Any]:
    """Return the document of a report, after putting its arrays into the file."""
    writer.flat("singular_values", [each.singular_values for each in report.labels])
    writer.array("nodes", np.array([each.nodes for each in report.labels]))
    writer.array("noise", np.array([each.noise for each in report.labels]))
    return {
        "sizes": [len(each.singular_values) for each in report.labels],
        "trees": plain(report.trees, "the number of trees"),
        "shrinkage": plain(report.shrinkage, "the shrinkage"),
        "tried": tried_content(report.tried),
    }


def read_spectra(reader: Reader, content: Any, model: SpectralGrammar) -> GrammarReport:
    """Return the report of a document on a model."""
    entry = Section(content, "a report", ("sizes", "trees", "shrinkage", "tried"))
    names, ranks = model.symbols.labels, model.operators.ranks.tolist()
    sizes = entry.wholes("sizes", 1)
    if len(sizes) != len(names) or any(size > rank + 1 for size, rank in zip(sizes, ranks, strict=True)):
        raise FileError("a label has as many singular values as its rank at most, or one more")
    values = reader.flat("singular_values", [(size,) for size in sizes])
    nodes, noise = (reader.floats(name, len(names)).tolist() for name in ("nodes", "noise"))
    tried = read_tried(entry)
    labels = map(LabelReport, names, nodes, ranks, values, noise)
    return GrammarReport(tuple(labels), entry.number("trees"), sum(nodes), entry.number("shrinkage"), tried)
