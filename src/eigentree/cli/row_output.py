"""Rows that a command writes, and the sentence or document that it reports beside them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eigentree.cli.arguments import PIPE, UsageError
from eigentree.cli.terminal_output import note, show_json
from eigentree.errors import DataError

__all__ = ["RowSink", "checked_output", "joined", "report_saved", "require_file"]


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


def joined(identified: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the column that identifies rows before those that were computed; two of one name are an error."""
    for name in identified:
        if name in found:
            raise DataError(f"the column {name!r} would stand in the output twice; take another --id, or rename it")
    return {**identified, **found}


@dataclass(frozen=True)
class RowSink:
    """Where rows are written; an output that cannot be written raises an error before any work is done.

    Attributes
    ----------
    output : str
        A file, or - for standard output.
    format : str or None
        The format of pipes.
    as_json : bool
        Rows on standard output as JSON lines; where rows go to a file, the facts as a document.
    """

    output: str
    format: str | None
    as_json: bool

    def __post_init__(self) -> None:
        from eigentree.cli.rows_read import format_of

        format_of(checked_output(self.output), self.format)

    def write(
        self, parts: Iterable[Mapping[str, Any]], report: Callable[[], tuple[Mapping[str, Any], str]]
    ) -> None:
        """Write rows in parts, then report what was done.

        Parameters
        ----------
        parts : iterable of mappings of str to sequences
            The cells of each column.
        report : callable
            Returns facts for programs and a sentence for people, once all rows are written.
        """
        from eigentree.cli.rows_read import format_of
        from eigentree.io.table_files import write_table

        piped = self.output == PIPE
        form = "jsonl" if self.as_json and piped else format_of(self.output, self.format)
        write_table(self.output, parts, form)
        facts, sentence = report()
        if piped:
            note(sentence)
        else:
            report_saved(self.output, self.as_json, facts, sentence)
