"""Warnings that point at the user's own line, however deep in the package their cause is."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["kept_notices", "notice", "renamed", "renamed_argument"]

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = str(Path(__file__).parent)

_KEPT: ContextVar[list[str] | None] = ContextVar("kept", default=None)


def notice(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn as from the innermost line that is not the package's own, unless `kept_notices` keeps what is said."""
    if (kept := _KEPT.get()) is not None:
        kept.append(message)
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextlib.contextmanager
def kept_notices() -> Iterator[list[str]]:
    """Yield a list that all notices go to meanwhile, in this thread, so that they can be said in other words.

    Recording warnings would change what all threads are warned of.
    """
    kept: list[str] = []
    token = _KEPT.set(kept)
    try:
        yield kept
    finally:
        _KEPT.reset(token)


def renamed(old: str, new: str) -> None:
    """Warn that an old name still works; a `FutureWarning`, which users see wherever their call stands."""
    notice(f"{old} is called {new} since 0.2.0; the old name will go", FutureWarning)


def renamed_argument(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that takes an argument under its old name too, and says what it is called now."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def taking_both(*arguments: P.args, **named: P.kwargs) -> R:
            if old in named:
                renamed(f"the argument {old}", new)
                given: dict[str, Any] = {new: named.pop(old)}
                # Both at once are refused by the function itself, as any argument that is given twice.
                return function(*arguments, **given, **named)
            return function(*arguments, **named)

        return taking_both

    return decorated
