"""What is computed from an immutable object alone is kept on that object, and goes when it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Derived"]

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
D = TypeVar("D", bound="Derived")


class Derived:
    """An immutable object that remembers what was computed from it.

    A copy, shallow or deep, is the object itself: clones of an estimator share what their structure remembers. A
    pickle leaves it out, since it can be computed again.
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
