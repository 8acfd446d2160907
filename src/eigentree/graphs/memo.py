"""Results that depend on an immutable object alone are kept on that object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Derived"]

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
D = TypeVar("D", bound="Derived")


class Derived:
    """An immutable object that keeps what was computed from it.

    A copy is the object itself, so that clones of an estimator share it. Pickles leave it out.
    """

    __slots__ = ("_kept",)

    _kept: dict[Any, Any]

    def derived(self: D, make: Callable[[D, *Arguments], T], *arguments: *Arguments) -> T:
        """Return ``make(self, *arguments)``, computed once for each function and its arguments."""
        if not hasattr(self, "_kept"):
            object.__setattr__(self, "_kept", {})
        key = make, arguments
        if key not in self._kept:
            self._kept[key] = make(self, *arguments)
        found: T = self._kept[key]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self
