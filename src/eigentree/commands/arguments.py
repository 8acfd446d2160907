"""What commands share: a parser that answers a mistake with one sentence, and the kinds of arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from eigentree.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Parser", "count", "one_of", "positive"]


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake with one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments, and end with exit code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def positive(text: str) -> float:
    """Return a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def one_of(what: str, known: Sequence[str]) -> Callable[[str], Any]:
    """Return a check that a name is known."""

    def check(text: str) -> str:
        if text not in known:
            hint = did_you_mean(text, known) or f"; there are {', '.join(known)}"
            raise argparse.ArgumentTypeError(f"there is no {what} {text!r}{hint}")
        return text

    return check
