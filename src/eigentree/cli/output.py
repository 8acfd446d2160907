"""What a command writes: rows, tables and JSON on standard output or into files, notes on standard error."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eigentree.cli.arguments import PIPE, UsageError
from eigentree.errors import DataError

__all__ = [
    "RowSink",
    "checked_output",
    "escaped",
    "note",
    "number_of",
    "report_saved",
    "require_file",
    "show",
    "show_json",
    "show_table",
]


def escaped(text: str) -> str:
    r"""Return a text whose control and bidirectional characters, which terminals obey, are written as escapes.

    Names and labels come from files of anybody. The escapes are those of JSON, whose meaning stays the same.

    Examples
    --------
    >>> print(escaped("für \x1b[31m \u202e"))
    für \u001b[31m \u202e
    """

    def shown(letter: str) -> str:
        if letter.isprintable() or letter == "\n":
            return letter
        return "\\u" + letter.encode("utf-16-be", "surrogatepass").hex("_", 2).replace("_", "\\u")

    return "".join(map(shown, text))


def show(text: str) -> None:
    """Print a text for people, on standard output."""
    print(escaped(text))


def note(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(escaped(sentence), file=sys.stderr)


def show_json(document: Any) -> None:
    """Print a document as JSON; a number that is not finite is null."""
    show(json.dumps(_plain(document), ensure_ascii=False, indent=2))


def number_of(count: float, what: str) -> str:
    """Return a number with its noun, such as ``"1 row"`` or ``"8,124 rows"``."""
    return f"{count:,.0f} {what}{'' if count == 1 else 's'}"


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None, words: Sequence[int] = (0,)
) -> None:
    """Print a table, in which the columns `words` hold no numbers; on a terminal the best row is bold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(header):
        table.add_column(
            Text(escaped(name)), justify="left" if place in words else "right", no_wrap=place not in words
        )
    for place, row in enumerate(rows):
        table.add_row(*(Text(escaped(cell)) for cell in row), style="bold" if place == best else "")
    # Programs read whole lines, whatever their width.
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return value


def checked_output(output: str) -> str:
    """Return the name of a file to write, once it is none of an option and its folder exists."""
    from eigentree.io.byte_files import require_folder

    if output.startswith("-") and output != PIPE:
        raise UsageError(
            f"--output is followed by the name of a file, not by {output!r}; ./{output} is such a name"
        )
    if not output:
        raise UsageError("--output is the name of a file, not empty")
    require_folder(output)
    return output


def require_file(output: str) -> None:
    """Raise an error unless a model can be written there, before any work is done."""
    if checked_output(output) == PIPE:
        raise UsageError("a model is written to a file, not to standard output; as in -o model.eigentree")


def report_saved(output: str, as_json: bool, facts: Mapping[str, Any], sentence: str) -> None:
    """Report what was done once a file is written: a document for programs, a sentence for people."""
    if as_json:
        show_json({**facts, "output": output})
    else:
        note(f"{sentence}; written: {output}")


@dataclass(frozen=True)
class RowSink:
    """Where rows are written; an output that cannot be written raises an error before any work is done.

    With `as_json`, rows on standard output are JSON lines; where rows go to a file, the report is a document.
    """

    output: str
    format: str | None
    as_json: bool

    def __post_init__(self) -> None:
        checked_output(self.output)
        _ = self._form

    def write(self, *columns: Mapping[str, Any]) -> None:
        """Write columns of cells, such as those that identify rows and those that were computed."""
        self.write_parts([columns])

    def write_parts(self, parts: Iterable[Sequence[Mapping[str, Any]]]) -> None:
        """Write one part of the rows after the other, each as columns of cells."""
        from eigentree.io.table_files import write_table

        write_table(self.output, map(_joined, parts), self._form)

    def write_by(self, write: Callable[..., int], rows: Any, /, **options: Any) -> None:
        """Write what a method of an estimator whose name ends with ``_to`` computes for rows."""
        write(rows, self.output, form=self._form, **options)

    def report(self, facts: Mapping[str, Any], sentence: str) -> None:
        """Report what was done, once rows are written."""
        if self.output == PIPE:
            note(sentence)
        else:
            report_saved(self.output, self.as_json, facts, sentence)

    @property
    def _form(self) -> str:
        from eigentree.cli.rows_read import format_of

        return "jsonl" if self.as_json and self.output == PIPE else format_of(self.output, self.format)


def _joined(columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return all columns of cells, once no two have the same name."""
    part: dict[str, Any] = {}
    for name, cells in (item for each in columns for item in each.items()):
        if name in part:
            raise DataError(f"the column {name!r} would stand in the output twice; take another id, or rename it")
        part[name] = cells
    return part
