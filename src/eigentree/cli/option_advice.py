"""The advice of error messages, which is about arguments in Python, in options."""

import re

__all__ = ["in_options"]

REPLACEMENTS = (
    (
        r"cut it into bins with numeric='quantiles'.*if they are labels",
        "cut it into bins with --numeric quantiles, or leave it out with --drop",
    ),
    (
        r"fit with all of them as categories=, or take what is unknown as missing with handle_unknown='missing'",
        "take what is unknown as missing with --unknown missing, or say what marks a missing cell, as in "
        "--missing '?'",
    ),
    (r"so its states are unknown; drop it.*", "so its states are unknown; leave it out with --drop"),
    (r"; give all of them as categories=\{.*", "; say as many under [states], or leave it to the columns"),
    (r": drop the column, or join labels", "; leave it out with --drop"),
    (r"; raise max_iter, or tol if less will do", ""),
    (r"; finish_rows=.*", ""),
    (r"often encoding='latin-1' or 'cp1252'", "often --encoding cp1252 or latin-1"),
    (r"delimiter is given as delimiter=", "delimiter is given as --delimiter"),
    (r"\b(structure|encoding|decimal|thousands|numeric)='([^']+)'", r"--\1 \2"),
)
"""The advice of the library, and that of the command line."""


def in_options(sentence: str) -> str:
    """Return an error message of the library with its advice in options.

    Examples
    --------
    >>> in_options("column 'a' has no known cell, so its states are unknown; drop it, or …")
    "column 'a' has no known cell, so its states are unknown; leave it out with --drop"
    """
    for theirs, ours in REPLACEMENTS:
        sentence = re.sub(theirs, ours, sentence, flags=re.DOTALL)
    return sentence
