"""What commands share: the kinds of their arguments, and options that stand together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from eigentree.errors import EigentreeError, did_you_mean

__all__ = [
    "PIPE",
    "STRUCTURES",
    "Data",
    "Format",
    "Json",
    "ModelFile",
    "Output",
    "Reading",
    "RowsOutput",
    "Seed",
    "Shape",
    "Target",
    "UsageError",
    "checked_output",
    "command_line",
    "count",
    "each",
    "fraction",
    "named",
    "one_of",
    "positive",
    "seed",
]


PIPE = "-"
"""What stands for standard input and output."""


class UsageError(EigentreeError):
    """A command was called in a way that cannot be meant; its exit code is 2."""


def count(text: str) -> int:
    """Return a whole number of at least 1."""
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return number


def seed(text: str) -> int:
    """Return a whole number of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def positive(text: str) -> float:
    """Return a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"{text!r} is not a number above 0")
    return number


def fraction(text: str) -> float:
    """Return a number between 0 and 1, neither included."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise ValueError(f"{text!r} is not a number between 0 and 1, such as 0.2")
    return number


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return a check that a name is known."""

    def check(text: str) -> str:
        if text not in known:
            hint = did_you_mean(text, known) or f"; there are {', '.join(known)}"
            raise ValueError(f"there is no {what} {text!r}{hint}")
        return text

    return check


def named(text: str) -> tuple[str, str]:
    """Return the name and the value of ``name=value``."""
    name, between, value = text.partition("=")
    if not (name and between):
        raise ValueError(f"{text!r} is not a column and its label, such as odor=none")
    return name, value


def each(convert: Callable[[str], Any]) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """Return how the library asks for several values at once."""
    return lambda kind, tokens: [convert(token.value) for token in tokens]


def only(convert: Callable[[str], Any]) -> Callable[[Any, Sequence[Any]], Any]:
    """Return how the library asks for one value."""
    return lambda kind, tokens: convert(tokens[0].value)


def command_line(convert: Callable[[str], Any], metavar: str, text: str, several: bool = False) -> Parameter:
    """Return an option whose values are made by a function that says what is wrong with them.

    Parameters
    ----------
    convert : callable
        Makes a value of a text, or raises `ValueError` with a sentence.
    metavar : str
    text : str
        What ``--help`` says.
    several : bool
        Whether there may be several values after it.
    """
    if several:
        return Parameter(
            converter=each(convert),
            consume_multiple=(1, None),
            allow_leading_hyphen=False,
            negative="",
            metavar=f"{metavar}...",
            help=text,
        )
    return Parameter(converter=only(convert), metavar=metavar, allow_leading_hyphen=True, help=text)


Format: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet"]
"""How a table is written."""

Data: TypeAlias = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,
        help="Rows: a file of CSV, TSV, JSON lines or Parquet, compressed or not; - for standard input.",
    ),
]
ModelFile: TypeAlias = Annotated[str, Parameter(help="What eigentree fit, or model.save in Python, wrote.")]
Output: TypeAlias = Annotated[
    str,
    Parameter(name=["--output", "-o"], metavar="FILE", allow_leading_hyphen=True, help="The file to write."),
]
RowsOutput: TypeAlias = Annotated[
    str,
    Parameter(
        name=["--output", "-o"],
        metavar="FILE",
        allow_leading_hyphen=True,
        help="Where rows go: a file whose name tells the format, or - for standard output.",
    ),
]
Json: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False, help="Answer in JSON, for machines.")]
Seed: TypeAlias = Annotated[int, command_line(seed, "NUMBER", "Whatever is drawn at random follows from it.")]
Target: TypeAlias = Annotated[str, Parameter(name=["--target", "-t"], metavar="COLUMN", help="The column.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Reading:
    """How rows are read."""

    missing: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            metavar="MARK",
            allow_leading_hyphen=True,
            help="What a missing cell is written as, such as '?'; may be repeated. Empty cells, NA, NaN, null and "
            "their like are always missing.",
        ),
    ] = None
    format: Annotated[
        Format | None, Parameter(help="The format where no name of a file tells it: of pipes, in and out (csv).")
    ] = None
    drop: Annotated[
        list[str] | None,
        Parameter(
            consume_multiple=(1, None),
            negative="",
            metavar="COLUMN...",
            help="Columns that are left out, such as an id.",
        ),
    ] = None
    sequence: Annotated[
        str | None,
        Parameter(
            metavar="COLUMN",
            help="Rows are steps of sequences, and this column tells which each belongs to.",
        ),
    ] = None


STRUCTURES = ("auto", "hmm", "mixture", "tree", "factorial")
"""The structures that have a name."""


@Parameter(name="*")
@dataclass(frozen=True)
class Shape:
    """Which model is learned."""

    structure: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="auto (a tree of hidden variables learned from the rows, as large as held-out rows ask for), tree "
            "(the same, of a given size), mixture (latent classes), hmm (columns are steps of time), factorial "
            "(several chains), or a file: graph.toml, net.bif.",
        ),
    ] = None
    hidden: Annotated[
        int | None,
        command_line(count, "NUMBER", "States of each hidden variable (2; of tree 8; of auto by held-out rows)."),
    ] = None
    order: Annotated[
        int | None,
        command_line(count, "NUMBER", "Of hmm, how many steps back it looks (1); of factorial, its chains (2)."),
    ] = None
    method: Annotated[
        Literal["em", "spectral"] | None,
        Parameter(help="em (the usual) leaves tables and hidden states; spectral takes one pass and no luck."),
    ] = None
    numeric: Annotated[
        Literal["error", "quantiles"],
        Parameter(help="What a column of measurements is: a mistake, or cut into bins."),
    ] = "error"

    def or_else(self, structure: str, method: Literal["em", "spectral"] = "em") -> "Shape":
        """Return the same with a structure and a method where none was named."""
        return replace(self, structure=self.structure or structure, method=self.method or method)

    @property
    def is_file(self) -> bool:
        """Whether the structure is a file, which can only be understood beside the rows."""
        return str(self.structure).lower().endswith((".toml", ".bif"))


def checked_output(output: str) -> str:
    """Return the name of a file to write; an option in its place is a mistake."""
    if output.startswith("-") and output != "-":
        raise UsageError(
            f"--output is followed by the name of a file, not by {output!r}; ./{output} is such a name"
        )
    return output
