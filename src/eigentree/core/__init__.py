"""Compiled loops, by phase."""

try:
    from eigentree.core import _native
except ImportError as error:
    raise ImportError(
        "eigentree's compiled core is not here, or this Python cannot load it: `pip install .` builds it where g++ "
        "or clang is installed, and a wheel holds it"
    ) from error

__all__ = ["_native"]
