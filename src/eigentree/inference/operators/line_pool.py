"""Lines of a message buffer, lent out and given back: a pass needs no more than are in use at once."""

from __future__ import annotations

__all__ = ["LinePool"]


class LinePool:
    """Consecutive lines from a start on; what is given back is lent again, lowest first.

    Attributes
    ----------
    end : int
        One after the highest line that was ever lent.
    """

    def __init__(self, start: int = 0) -> None:
        self.end = start
        self._free: list[tuple[int, int]] = []

    def lend(self, count: int) -> int:
        """Return the first of some lines that nobody has."""
        fitting = min((gap for gap in self._free if gap[1] >= count), default=None)
        if fitting is None:
            first = self.end
            self.end += count
            return first
        self._free.remove(fitting)
        first, length = fitting
        if length > count:
            self._free.append((first + count, length - count))
        return first

    def give_back(self, first: int, count: int) -> None:
        """Take some lines back."""
        self._free.append((first, count))
