"""Warnings that point at the user's own line, however deep in the package their cause is, and signs of life."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import threading
import time
import warnings
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from eigentree.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

__all__ = [
    "kept_notices",
    "notice",
    "on_terminal",
    "refuse_foreign_names",
    "renamed",
    "renamed_arguments",
    "showing",
    "signs_of_life",
]

SIZES = ("the number of hidden states is", "n_classes", "hidden_states", "sizes")

EMISSIONS = ("densities of numbers are", "emissions")

FOREIGN = {
    **dict.fromkeys(("n_components", "n_clusters", "n_states", "nclass"), SIZES),
    **dict.fromkeys(("n_iter", "maxiter"), ("the largest number of iterations is", "max_iter")),
    **dict.fromkeys(("covariance_type", "measurement", "distributions"), EMISSIONS),
    "strategy": ("how missing cells are filled is", "method"),
    "nrep": ("the number of starts is", "n_init"),
}
"""What other libraries call an argument: what that is, and our names for it."""

STRUCTURE_SIZE = "hidden_states= of the structure, as in zoo.Mixture(hidden_states=3)"

PATIENCE = 30.0
"""Seconds after which, and then again and again, long work says that it is under way."""


P = ParamSpec("P")
R = TypeVar("R")

# numpy and contextlib wrap functions of ours.
_NOT_THE_USERS = (str(Path(__file__).parent), str(Path(np.__file__).parent), contextlib.__file__)

_KEPT: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("kept", default=None)

_AT_WORK: ContextVar[bool] = ContextVar("at_work", default=False)

_SHOWN: list[object] = []


def notice(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn as from the innermost line that is not the package's own, unless `kept_notices` keeps what is said."""
    if (kept := _KEPT.get()) is not None:
        kept.append((message, category))
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def kept_notices() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Yield a list that message and category of this thread's notices go to, instead of warnings."""
    kept: list[tuple[str, type[Warning]]] = []
    token = _KEPT.set(kept)
    try:
        yield kept
    finally:
        _KEPT.reset(token)


def renamed(old: str, new: str) -> None:
    """Warn that an old name still works; a `FutureWarning`, which users see wherever their call stands."""
    notice(f"{old} is called {new} now; the old name will go", FutureWarning)


def renamed_arguments(warn: bool = True, /, **names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that takes arguments under old names too (old="new"), with a warning where `warn`.

    Raises
    ------
    ParameterError
        By the decorated function, when an argument is given under both names.
    """

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        known = list(inspect.signature(function).parameters)

        @wraps(function)
        def taking_both(*arguments: P.args, **named: P.kwargs) -> R:
            given: dict[str, Any] = dict(named)
            refuse_foreign_names(given, known)
            for old in given.keys() & names.keys():
                new, value = names[old], given.pop(old)
                if new in (*given, *known[: len(arguments)]):
                    raise ParameterError(f"{old} is the old name of {new}, which is given too; leave {old} out")
                if warn:
                    renamed(f"the argument {old}", new)
                given[new] = value
            return function(*arguments, **given)

        return taking_both

    return decorated


def refuse_foreign_names(given: Iterable[str], known: Collection[str]) -> None:
    """Raise `ParameterError` where an argument is called as in another library, with the name that it has here."""
    for name in given:
        if name in FOREIGN and name not in known:
            what, *own = FOREIGN[name]
            word = next((f"{each}=" for each in own if each in known), "")
            if not word and FOREIGN[name] == SIZES:
                word = STRUCTURE_SIZE
            if word:
                raise ParameterError(f"there is no argument {name}; {what} {word}")


def on_terminal() -> bool:
    """Return whether somebody reads standard error as it is written; tests do not count."""
    return sys.stderr is not None and sys.stderr.isatty() and "PYTEST_CURRENT_TEST" not in os.environ


@contextlib.contextmanager
def showing() -> Iterator[None]:
    """Suppress signs of life in all threads while a progress bar is shown."""
    mark = object()
    _SHOWN.append(mark)
    try:
        yield
    finally:
        _SHOWN.remove(mark)


@contextlib.contextmanager
def signs_of_life(what: str, hint: str, patience: float | None = None) -> Iterator[None]:
    """Print on a terminal, every `patience` seconds, that work is under way; only the outermost call does."""
    if _AT_WORK.get() or not on_terminal():
        yield
        return
    over, start = threading.Event(), time.monotonic()

    def report() -> None:
        while not over.wait(PATIENCE if patience is None else patience):
            if _SHOWN:
                continue
            spent = time.monotonic() - start
            print(f"eigentree: {what} has been at work for {spent:.0f} s{hint}", file=sys.stderr, flush=True)

    reporter = threading.Thread(target=report, daemon=True)
    token = _AT_WORK.set(True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()
        _AT_WORK.reset(token)
