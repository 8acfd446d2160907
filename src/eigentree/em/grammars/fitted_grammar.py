"""A grammar that EM has learned, in a file."""

from __future__ import annotations

from eigentree.em.stored_learning import COURSE, ITERATIONS, start_per
from eigentree.inference.grammars.stored_grammar import grammar_content, read_grammar
from eigentree.io.codec import WHOLE, Record, within

__all__ = ["FITTED_GRAMMAR"]

FITTED_GRAMMAR = Record(
    "LatentGrammar",
    {
        "grammar": within(grammar_content, lambda reader, content, _: read_grammar(reader, content)),
        "n_parameters": WHOLE,
        **ITERATIONS,
        "start": start_per("node"),
        **COURSE,
    },
    suffix="_",
)
