"""Splice junctions of primate genes: 3,190 DNA sequences of 60 bases in three classes (section 9.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from eigentree import validation as checks
from eigentree.datasets.packaged import Dataset, Packaged, labeled_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AMBIGUOUS", "CLASS_NAMES", "LETTERS", "SPLICE", "Splice", "load_splice", "parsed"]

LETTERS = "ACGT"
"""The bases in the order of their codes: A is 0, C is 1, G is 2, T is 3."""

CLASS_NAMES = ("EI", "IE", "N")
"""The classes in the order of their codes: exon to intron, intron to exon, neither."""

AMBIGUOUS = "DNRS"
"""Letters for an ambiguous base: D is A, G or T; N is any; R is A or G; S is C or G."""

SPLICE = Packaged("splice", "acd4a4f88d476f390bfb8b1f7e7bced1a56f7e9295a30929ece45824aa5e9693")

HALF = 30
"""Bases on either side of the place that may be a junction."""


@dataclass(frozen=True, eq=False, repr=False)
class Splice(Dataset):
    """The splice-junction data, by letters as any `Dataset`, and by codes.

    Attributes
    ----------
    codes : array of int8, shape (rows, 60)
        Bases by their place in `LETTERS`; -1 for an ambiguous letter.
    classes : array of int8, shape (rows,)
        Classes by their place in `class_names`.
    class_names : tuple of str
    attribution : str
        Where the data are from, and their licence.
    """

    codes: NDArray[np.int8]
    classes: NDArray[np.int8]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes in the order of their codes; `target_names` by another name."""
        return self.target_names

    @property
    def attribution(self) -> str:
        """Where the data are from, and their licence; `DESCR` by another name."""
        return self.DESCR


@overload
def load_splice(
    ambiguous: Literal["missing", "drop"] = "missing", *, return_X_y: Literal[False] = False, as_frame: bool = False
) -> Splice: ...
@overload
def load_splice(
    ambiguous: Literal["missing", "drop"] = "missing", *, return_X_y: Literal[True], as_frame: bool = False
) -> tuple[Any, Any]: ...
def load_splice(
    ambiguous: Literal["missing", "drop"] = "missing", *, return_X_y: bool = False, as_frame: bool = False
) -> Splice | tuple[Any, Any]:
    """Return the splice-junction data, with ambiguous letters as missing cells or their rows left out.

    Parameters
    ----------
    ambiguous : {"missing", "drop"}
        What to do with the 15 sequences that hold one of the letters D, N, R, S: keep them, with missing cells in
        those places, or drop them.
    return_X_y : bool
        Whether to return only ``(data, target)``.
    as_frame : bool
        Whether data and target are a pandas frame and series, of categories, with columns base-30 to base-1 before
        the place that may be a junction, and base+1 to base+30 after it.

    Raises
    ------
    DataError
        When the file of the package is damaged.

    Examples
    --------
    >>> splice = load_splice()
    >>> splice.codes.shape, splice.class_names
    ((3190, 60), ('EI', 'IE', 'N'))
    >>> load_splice(ambiguous="drop").codes.shape
    (3175, 60)
    >>> X, y = load_splice(return_X_y=True)
    >>> "".join(X[0]), str(y[0])
    ('AGACCCGCCGGGAGGCGGAGGACCTGCAGGGTGAGCCCCACCGCCCCTCCGTGCCCCCGC', 'EI')
    """
    checks.one_of("ambiguous", ambiguous, ("missing", "drop"))
    checks.flag("return_X_y", return_X_y)
    checks.flag("as_frame", as_frame)
    labels, sequences = parsed(SPLICE.lines())
    code_of = np.full(256, -1, np.int8)
    for code, letter in enumerate(LETTERS):
        code_of[ord(letter)] = code
    letters = np.frombuffer("".join(sequences).encode("ascii"), np.uint8)
    codes = code_of[letters].reshape(len(sequences), -1)
    classes = np.array([CLASS_NAMES.index(label) for label in labels], np.int8)
    if ambiguous == "drop":
        clear = (codes >= 0).all(axis=1)
        codes, classes = codes[clear], classes[clear]
    # The code -1 picks the last one.
    cells = np.array([*LETTERS, None], object)[codes]
    names = [f"base{place:+d}" for place in range(-HALF, HALF + 1) if place]
    fields = labeled_fields(cells, np.array(CLASS_NAMES)[classes], names, as_frame, SPLICE.attribution)
    found = Splice(**fields, codes=codes, classes=classes)
    return (found.data, found.target) if return_X_y else found


def parsed(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the class and the letters of each line of the packed text."""
    rows = [line.split(" ") for line in lines]
    return [label for label, _ in rows], [sequence for _, sequence in rows]
