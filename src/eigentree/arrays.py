"""Types of arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Booleans", "Codes", "Floats", "Integers"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

Codes: TypeAlias = NDArray[Any]
"""Rows of codes, of the smallest unsigned type that holds every column's states and one more."""
