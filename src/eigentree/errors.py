"""The errors that a user can meet, each a `ValueError` that says what to change."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DataError",
    "EigentreeError",
    "FileError",
    "GraphError",
    "NetworkError",
    "ParameterError",
    "RankError",
    "TensorError",
    "TreewidthError",
    "UnknownNameError",
    "did_you_mean",
    "in_short",
    "named_failures",
    "naming",
    "quoted",
    "what_there_is",
    "with_article",
]

MOST_QUOTED = 120
"""Characters of a user's value that stand in a message."""

MOST_NAMES = 6
"""Names that a message lists."""

CLOSE = 0.65
"""How similar a name is that may be meant: as "fti" and "fit", and more than "kmeans" and "moments"."""


class EigentreeError(ValueError):
    """Base of all errors that this package raises on purpose."""


class GraphError(EigentreeError):
    """A latent graph is malformed."""


class TreewidthError(EigentreeError):
    """A clique of the junction tree is too large for memory."""


class NetworkError(EigentreeError):
    """A probability table does not fit its graph or is not a distribution."""


class TensorError(EigentreeError):
    """Labels or sizes of labelled tensors do not match."""


class DataError(EigentreeError):
    """Rows do not fit the columns of a model."""


class ParameterError(EigentreeError):
    """An argument of an estimator is out of its range."""


class FileError(EigentreeError):
    """A file cannot be written or read, or does not hold what it should."""


class RankError(EigentreeError):
    """The views of a separator cannot reach the rank that the model needs."""


class UnknownNameError(EigentreeError, KeyError):
    """There is nothing of the given name."""

    def __str__(self) -> str:
        # A KeyError would put its sentence in quotes.
        return str(self.args[0]) if self.args else ""


def did_you_mean(name: object, candidates: Iterable[str]) -> str:
    """Return a hint such as ``"; did you mean 'x1'?"``, or an empty string when nothing is close."""
    known = list(map(str, candidates))
    if not isinstance(name, str):
        # Columns that are numbered, as by years, are called by the text of their numbers.
        same = [each for each in known if isinstance(name, Integral) and each == quoted(int(name))]
        return f"; did you mean {same[0]!r}?" if same else ""
    folded = name.casefold()
    close = [each for each in known if each.casefold() == folded]
    # What is much longer than any name is like none, and would take long to compare.
    close = close or get_close_matches(name[:MOST_QUOTED], known, n=1, cutoff=CLOSE)
    return f"; did you mean {close[0]!r}?" if close else ""


def what_there_is(name: object, candidates: Iterable[str]) -> str:
    """Return a hint at the name that is meant, or where none is close at those that there are, the nearest first.

    Examples
    --------
    >>> what_there_is("odour", ["habitat", "odor"])
    "; did you mean 'odor'?"
    >>> what_there_is("root", ["class", "odor", "stalk-root"])
    "; there are 'stalk-root', 'odor', 'class'"
    """
    known = list(map(str, candidates))
    if (hint := did_you_mean(name, known)) or not known:
        return hint
    asked = str(name)[:MOST_QUOTED].casefold() if isinstance(name, str) else ""
    around = [each for each in known if asked and (asked in each.casefold() or each.casefold() in asked)]
    near = get_close_matches(asked, known, n=MOST_NAMES, cutoff=0.0) if asked else []
    named = list(dict.fromkeys([*around, *near, *known]))
    more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    return f"; there are {', '.join(map(quoted, named[:MOST_NAMES]))}{more}"


def quoted(value: object) -> str:
    """Return a user's value as it stands in a message: in short, whatever it is.

    Examples
    --------
    >>> quoted("x"), quoted(10**5000), quoted(list(range(1000)))
    ("'x'", 'a whole number of about 5000 digits', 'a list of 1000')
    """
    if isinstance(value, int) and abs(value) >= 10**100:
        # Python itself refuses to write a number of more than 4,300 digits.
        return f"a whole number of about {math.floor(math.log10(abs(value)))} digits"
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        with suppress(Exception):
            if len(value) > MOST_QUOTED:
                return f"{_kind(value)} of {len(value)}"
    try:
        text = " ".join(repr(value[:MOST_QUOTED] if isinstance(value, str | bytes) else value).split())
    except Exception:
        # Objects of others may fail in any way when asked how they look.
        return _kind(value)
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


@contextmanager
def named_failures(what: str, error: type[EigentreeError] = DataError) -> Iterator[None]:
    """Raise an error that says what failed, where code of others does; our errors stay as they are."""
    try:
        yield
    except (EigentreeError, MemoryError):
        raise
    except Exception as failure:
        reason = (str(failure).strip() or type(failure).__name__).splitlines()[0]
        raise error(f"{what} failed: {type(failure).__name__}: {reason}") from failure


@contextmanager
def naming(columns: Iterable[str]) -> Iterator[None]:
    """Say in a `DataError` which columns it is about."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{', '.join(map(repr, columns))}: {error}") from None


def with_article(name: str) -> str:
    """Return what something is called with its article, such as ``"an EMHMM"``."""
    return f"{'an' if name[:1] in tuple('AEIOUaeiou') else 'a'} {name}"


def _kind(value: object) -> str:
    return with_article(type(value).__name__)


def in_short(count: int) -> str:
    """Return a whole number to three digits, such as ``"1.07e+09"``, also where no float holds it."""
    if count < 10**300:
        return f"{count:.3g}"
    log = math.log10(count)
    return f"{10 ** (log % 1):.2f}e+{math.floor(log)}"
