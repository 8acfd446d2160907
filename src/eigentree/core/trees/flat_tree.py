"""Records of whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["record"]


def record(fields: str) -> np.dtype[Any]:
    """Return the type of a record of whole numbers, but for its reach."""
    return np.dtype([(each, np.float64 if each == "reach" else np.int64) for each in fields.split()], align=True)
