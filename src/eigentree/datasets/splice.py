"""Splice junctions of primate genes: 3,190 DNA sequences of 60 bases in three classes (section 9.2)."""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.errors import DataError, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AMBIGUOUS",
    "ATTRIBUTION_FILE",
    "CHECKSUM",
    "CLASS_NAMES",
    "FILE",
    "LETTERS",
    "Splice",
    "load_splice",
    "parsed",
]

LETTERS = "ACGT"
"""The bases in the order of their codes: A is 0, C is 1, G is 2, T is 3."""

CLASS_NAMES = ("EI", "IE", "N")
"""The classes in the order of their codes: exon to intron, intron to exon, neither."""

AMBIGUOUS = "DNRS"
"""Letters for a base that was not told for certain: D is A, G or T; N is any; R is A or G; S is C or G."""

FILE = "splice.txt.xz"
ATTRIBUTION_FILE = "splice-attribution.txt"

CHECKSUM = "acd4a4f88d476f390bfb8b1f7e7bced1a56f7e9295a30929ece45824aa5e9693"
"""SHA-256 of the uncompressed text, which every version of the compressor must give back."""


@dataclass(frozen=True, eq=False)
class Splice:
    """The splice-junction data.

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
    class_names: tuple[str, ...]
    attribution: str


def load_splice(ambiguous: Literal["missing", "drop"] = "missing") -> Splice:
    """Return the splice-junction data, with ambiguous letters as missing cells or their rows left out.

    Parameters
    ----------
    ambiguous : {"missing", "drop"}
        What to do with the 15 sequences that hold one of the letters D, N, R, S: keep them, with -1 in those cells,
        or drop them.

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
    """
    if ambiguous not in ("missing", "drop"):
        raise ParameterError(f"ambiguous is 'missing' or 'drop', not {ambiguous!r}")
    here = files("eigentree.datasets")
    labels, sequences = parsed(here.joinpath(FILE).read_bytes())
    code_of = np.full(256, -1, np.int8)
    for code, letter in enumerate(LETTERS):
        code_of[ord(letter)] = code
    letters = np.frombuffer("".join(sequences).encode("ascii"), np.uint8)
    codes = code_of[letters].reshape(len(sequences), -1)
    classes = np.array([CLASS_NAMES.index(label) for label in labels], np.int8)
    if ambiguous == "drop":
        clear = (codes >= 0).all(axis=1)
        codes, classes = codes[clear], classes[clear]
    return Splice(codes, classes, CLASS_NAMES, here.joinpath(ATTRIBUTION_FILE).read_text("utf-8"))


def parsed(compressed: bytes) -> tuple[list[str], list[str]]:
    """Return the class and the letters of each row of the packed file, once its checksum has been verified."""
    try:
        text = lzma.decompress(compressed)
    except (lzma.LZMAError, EOFError):
        text = b""
    if hashlib.sha256(text).hexdigest() != CHECKSUM:
        raise DataError(f"the file {FILE} of the package eigentree is damaged (wrong checksum); install it again")
    rows = [line.split(" ") for line in text.decode("ascii").splitlines()]
    return [label for label, _ in rows], [sequence for _, sequence in rows]
