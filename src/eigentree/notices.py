"""Warnings that point at the user's own line, however deep in the package their cause is."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from pathlib import Path

__all__ = ["notice"]

_PACKAGE = str(Path(__file__).parent)


def notice(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn as from the innermost line that is not the package's own."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, contextlib.__file__)):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
