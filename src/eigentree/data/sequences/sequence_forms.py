"""The forms in which sequences come, and answers go back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from eigentree.errors import DataError

__all__ = ["FormKind", "SequenceForm"]

FormKind: TypeAlias = Literal["words", "lists", "one", "lengths", "rows", "channels", "long"]


@dataclass(frozen=True)
class SequenceForm:
    """How sequences stood when they came.

    Attributes
    ----------
    kind : {"words", "lists", "one", "lengths", "rows", "channels", "long"}
        Words; a list of lists or arrays; one sequence alone; an array of all steps with `lengths`; one sequence per
        row of an array or frame; a mapping of channels to such frames; a frame of one step per row.
    flat : bool
        Whether a step is a cell, and not a row of cells.
    names : tuple of str
        The names of the steps, where each is a column of a frame; else empty.
    width : int
        How many steps a row has; 0 where sequences do not stand in rows.
    sequence, time : str, optional
        The columns of a long frame that tell the sequence of each row, and the order of its steps.
    """

    kind: FormKind
    flat: bool = True
    names: tuple[str, ...] = ()
    width: int = 0
    sequence: str | None = None
    time: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the form as plain values that JSON can hold."""
        return {
            "kind": self.kind,
            "flat": self.flat,
            "names": list(self.names),
            "width": self.width,
            "sequence": self.sequence,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, document: Any) -> SequenceForm:
        """Return the form that `to_json` described; raise `DataError` where it did not."""
        try:
            made = cls(
                document["kind"],
                document["flat"],
                tuple(document["names"]),
                document["width"],
                document["sequence"],
                document["time"],
            )
            sound = (
                made.kind in get_args(FormKind)
                and isinstance(made.flat, bool)
                and all(isinstance(name, str) for name in made.names)
                and type(made.width) is int
                and made.width >= 0
                and all(name is None or isinstance(name, str) for name in (made.sequence, made.time))
                and (made.kind != "long" or made.sequence is not None)
            )
        except (KeyError, TypeError) as error:
            raise DataError(f"this is no form of sequences: {error!r}") from None
        if not sound:
            raise DataError("this is no form of sequences")
        return made
