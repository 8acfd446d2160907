"""The forms in which sequences come, and results go back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from eigentree.errors import FileError, quoted
from eigentree.io.codec import FLAG, TEXT, TEXTS, WHOLE, Field, Record, optional

if TYPE_CHECKING:
    from eigentree.io.codec import At
    from eigentree.io.stores import Reader

__all__ = ["FORM", "FormKind", "SequenceForm"]

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
        The columns of a long frame that name the sequence of each row and the order of its steps.
    """

    kind: FormKind
    flat: bool = True
    names: tuple[str, ...] = ()
    width: int = 0
    sequence: str | None = None
    time: str | None = None


RECORD = Record(
    "a form of sequences",
    {
        "kind": TEXT,
        "flat": FLAG,
        "names": TEXTS,
        "width": WHOLE,
        "sequence": optional(TEXT),
        "time": optional(TEXT),
    },
)


def _form(reader: Reader, content: Any, _: At) -> SequenceForm:
    form = SequenceForm(**RECORD.read(reader, content))
    if form.kind not in get_args(FormKind) or (form.kind == "long" and form.sequence is None):
        raise FileError(f"this is no form of sequences: {quoted(form.kind)}")
    return form


FORM = Field(lambda writer, name, form: RECORD.write(writer, form), _form)
"""The form in which sequences came, in files."""
