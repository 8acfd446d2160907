"""The arguments and options that commands share, each worded once."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

from cyclopts import Group, Parameter

from eigentree.errors import EigentreeError, did_you_mean, what_there_is

__all__ = [
    "KINDS",
    "PIPE",
    "STRUCTURES",
    "BestOutput",
    "Data",
    "Densities",
    "Emissions",
    "Format",
    "HeldOut",
    "Json",
    "Kinds",
    "ModelFile",
    "Numeric",
    "Output",
    "Reading",
    "RowOptions",
    "RowsOutput",
    "Seed",
    "Shape",
    "Structure",
    "Target",
    "Unknown",
    "UsageError",
    "codec",
    "count",
    "each",
    "emission",
    "file_option",
    "fraction",
    "kind",
    "named",
    "one_of",
    "option",
    "seed",
    "separator",
]

KINDS = {
    "categorical": "categorical",
    "ordinal": "ordinal",
    "count": "negative_binomial",
    "continuous": "gaussian",
}
"""What a user can say that a column is, and the family that such columns have."""

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


def fraction(text: str) -> float:
    """Return a number between 0 and 1, neither included."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1:
        raise ValueError(f"{text!r} is not a number between 0 and 1, such as 0.2")
    return number


def separator(text: str) -> str:
    r"""Return the one character that separates cells; ``tab`` and ``\t`` stand for a tab."""
    found = "\t" if text in ("tab", r"\t") else text
    if len(found) != 1 or found in '"\r\n':
        raise ValueError(f"{text!r} is not one character that separates cells, such as ';' (tab for a tab)")
    return found


def codec(text: str) -> str:
    """Return the name of an encoding of text that Python knows."""
    try:
        known = codecs.lookup(text)
        "a".encode(text)
        return known.name
    except (LookupError, ValueError):
        hint = did_you_mean(
            text, ("utf-8", "utf-16", "latin-1", "cp1252", "cp1251", "shift_jis", "gb18030", "big5")
        )
        raise ValueError(f"there is no encoding {text!r}{hint or ', such as utf-8, cp1252 or utf-16'}") from None


def one_of(what: str, known: Sequence[str]) -> Callable[[str], str]:
    """Return a check that a name is known."""

    def check(text: str) -> str:
        if text not in known:
            raise ValueError(f"there is no {what} {text!r}{what_there_is(text, known)}")
        return text

    return check


def named(text: str) -> tuple[str, str]:
    """Return the name and the value of ``name=value``."""
    name, between, value = text.partition("=")
    if not (name and between):
        raise ValueError(f"{text!r} is not a column and its label, such as odor=none")
    return name, value


def names_of(text: str) -> list[str]:
    """Return the names between commas."""
    found = text.split(",")
    if not all(found) or len(set(found)) != len(found):
        raise ValueError(f"{text!r} are not columns, such as dose,group")
    return found


def emission(text: str) -> tuple[tuple[str, ...], str]:
    """Return columns and family of ``COLUMN=FAMILY`` or ``COLUMN+COLUMN=FAMILY``; no columns of a family alone."""
    names, _, family = text.rpartition("=")
    columns = tuple(names.split("+")) if names else ()
    if not family or not all(columns) or text.startswith("="):
        raise ValueError(f"{text!r} is not a family, nor columns and their family, such as height+weight=full")
    return columns, family


def kind(text: str) -> tuple[str, str]:
    """Return the column and the kind of ``COLUMN=KIND``."""
    name, _, found = text.rpartition("=")
    if not name:
        raise ValueError(f"{text!r} is not a column and its kind, such as age=count")
    if found not in KINDS:
        raise ValueError(f"there is no kind of columns {found!r}{what_there_is(found, KINDS)}")
    return name, found


def each(convert: Callable[[str], Any]) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """Return a converter of several values, as cyclopts calls it."""
    return lambda kind, tokens: [convert(token.value) for token in tokens]


def option(convert: Callable[[str], Any], metavar: str, text: str, several: bool = False) -> Parameter:
    """Return an option whose text a function converts, or raises `ValueError` with a sentence."""
    if several:
        more: Any = {"consume_multiple": (1, None), "negative": "", "metavar": f"{metavar}..."}
        return Parameter(converter=each(convert), allow_leading_hyphen=False, help=text, **more)
    one: Any = lambda kind, tokens: convert(tokens[0].value)  # noqa: E731
    return Parameter(converter=one, metavar=metavar, negative="", allow_leading_hyphen=True, help=text)


def file_option(text: str, *names: str) -> Parameter:
    """Return an option that is the name of a file, or ``-``."""
    return Parameter(name=list(names) or None, metavar="FILE", allow_leading_hyphen=True, help=text)


Format: TypeAlias = Literal["csv", "tsv", "jsonl", "parquet"]
"""The formats of tables."""

Data: TypeAlias = Annotated[
    str,
    Parameter(
        allow_leading_hyphen=True,
        help="Rows: a file of CSV, TSV, JSON lines or Parquet, compressed or not; - for standard input.",
    ),
]
ModelFile: TypeAlias = Annotated[str, Parameter(help="A file that eigentree fit, or model.save in Python, wrote.")]
Output: TypeAlias = Annotated[str, file_option("The file to write.", "--output", "-o")]
BestOutput: TypeAlias = Annotated[
    str | None, file_option("Where the best model is written, fitted to all rows.", "--output", "-o")
]
RowsOutput: TypeAlias = Annotated[
    str,
    file_option(
        "Where rows are written: a file whose name shows the format, or - for standard output.", "--output", "-o"
    ),
]
Json: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False, help="Output as JSON, for programs.")]
Seed: TypeAlias = Annotated[int, option(seed, "NUMBER", "The seed of all random numbers.")]
Target: TypeAlias = Annotated[
    str, Parameter(name=["--target", "-t"], metavar="COLUMN", help="The column to predict.")
]
Unknown: TypeAlias = Annotated[
    Literal["error", "missing"],
    Parameter(help="A label that was not in the training data is an error, or a missing cell."),
]
HeldOut: TypeAlias = Annotated[float, option(fraction, "SHARE", "The share of the rows that is held out.")]
Numeric: TypeAlias = Annotated[
    Literal["emissions", "quantiles", "error"] | None,
    Parameter(
        help="A column of numbers has a density in each hidden state (emissions, the usual), is cut into bins at "
        "its quantiles, or is an error."
    ),
]
Emissions: TypeAlias = Annotated[
    list[str] | None,
    option(
        emission,
        "FAMILY",
        "The family of all numbers, such as gaussian or student, or those of some: COLUMN=FAMILY, and "
        "COLUMN+COLUMN=FAMILY of numbers with covariances, as height+weight=full (auto).",
        several=True,
    ),
]
Kinds: TypeAlias = Annotated[
    list[str] | None,
    option(
        kind,
        "COLUMN=KIND",
        "What a column is, where it looks otherwise: categorical, ordinal, count or continuous.",
        several=True,
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class RowOptions:
    """The options of commands that compute something for each row."""

    output: RowsOutput = PIPE
    id: Annotated[
        str | None,
        Parameter(
            metavar="COLUMN",
            help="The column that identifies rows, written first (by default row, their number from 0).",
        ),
    ] = None
    unknown: Unknown = "error"
    json: Json = False


@Parameter(name="*", group=Group("Reading", sort_key=2))
@dataclass(frozen=True)
class Reading:
    """How rows are read."""

    missing: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            metavar="MARK",
            allow_leading_hyphen=True,
            help="A marker of missing cells, such as '?'; may be repeated. Empty cells, NA, NaN, null and the like "
            "are always missing.",
        ),
    ] = None
    format: Annotated[
        Format | None,
        Parameter(help="The format where no name of a file shows it: of pipes, in and out (csv)."),
    ] = None
    delimiter: Annotated[
        str | None,
        option(separator, "CHARACTER", "The character between cells, such as ';' (found in the first lines)."),
    ] = None
    encoding: Annotated[str | None, option(codec, "NAME", "The encoding of the text, such as cp1252 (utf-8).")] = (
        None
    )
    decimal: Annotated[Literal[".", ","], Parameter(help="The decimal sign of numbers in the text.")] = "."
    thousands: Annotated[
        str | None,
        option(separator, "CHARACTER", "The character between thousands, such as the comma of 125,000 (none)."),
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
            help="Rows are steps of sequences, and this column names the sequence of each.",
        ),
    ] = None


STRUCTURES = ("auto", "hmm", "mixture", "tree", "factorial")
"""The structures that have a name."""


@Parameter(name="*", group=Group("Model", sort_key=1))
@dataclass(frozen=True)
class Structure:
    """The structure of a model."""

    structure: Annotated[
        str | None,
        Parameter(
            metavar="NAME",
            help="auto (a tree of hidden variables or a mixture, chosen with its size on held-out rows), tree (one "
            "tree of hidden variables, learned from the rows), mixture (latent classes), hmm (columns are time "
            "steps), factorial (a factorial HMM), or a file: graph.toml, net.bif.",
        ),
    ] = None
    hidden: Annotated[
        int | None,
        option(
            count,
            "NUMBER",
            "Classes, or states of each hidden variable (2; of tree 8; of auto chosen on held-out rows).",
        ),
    ] = None
    order: Annotated[
        int | None,
        option(count, "NUMBER", "Of hmm, its order (1); of factorial, the number of its chains (2)."),
    ] = None
    numeric: Numeric = None

    def or_else(self, structure: str) -> Self:
        """Return the same with a structure where none was named."""
        return replace(self, structure=self.structure or structure)

    @property
    def is_file(self) -> bool:
        """Whether the structure is a file, which can only be understood beside the rows."""
        return str(self.structure).lower().endswith((".toml", ".bif"))


@Parameter(name="*", group=Group("Model", sort_key=1))
@dataclass(frozen=True)
class Densities(Structure):
    """The structure of a model, and the distributions of its numbers."""

    emissions: Emissions = None
    kind: Kinds = None


@Parameter(name="*", group=Group("Model", sort_key=1))
@dataclass(frozen=True)
class Shape(Densities):
    """The structure of a model, and how it is fitted."""

    method: Annotated[
        Literal["em", "spectral"],
        Parameter(help="em gives tables and hidden states; spectral takes one pass without random starts."),
    ] = "em"
    inputs: Annotated[
        list[str] | None,
        option(
            names_of,
            "COLUMN,...",
            "Columns of sequences that transitions and first states depend on; with spectral one column, "
            "whose symbols are the inputs of a transducer.",
        ),
    ] = None
    clusters: Annotated[
        int | None,
        option(
            count,
            "NUMBER",
            "Of sequences: a mixture of so many hidden Markov models; --inputs are covariates of the cluster.",
        ),
    ] = None
    durations: Annotated[
        Literal["explicit", "negative_binomial", "geometric"] | None,
        Parameter(help="Of sequences: how many steps hidden states last (as in a Markov chain)."),
    ] = None
    max_duration: Annotated[
        int | None, option(count, "NUMBER", "Of --durations, the longest (the length of the longest sequence).")
    ] = None
