"""Rows handed out, and what is said beside them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eigentree.cli.arguments import PIPE, checked_output
from eigentree.cli.terminal_output import note, show_json

__all__ = ["check_rows_output", "hand_parts", "hand_rows", "hand_saved", "require_file"]


def check_rows_output(output: str, kind: str | None) -> None:
    """Raise an error for an output that will not do, before any work is done."""
    from eigentree.cli.pipes import require_folder
    from eigentree.cli.table_io import format_of

    format_of(checked_output(output), kind)
    require_folder(output)


def require_file(output: str) -> None:
    """Raise an error unless a model can be written there, before any work is done."""
    from eigentree.cli.arguments import UsageError
    from eigentree.cli.pipes import require_folder

    if checked_output(output) == PIPE:
        raise UsageError("a model is written to a file, not to standard output; as in -o model.eigentree")
    if not output:
        raise UsageError("--output is the name of a file, not empty; as in -o model.eigentree")
    require_folder(output)


def hand_rows(
    output: str,
    kind: str | None,
    as_json: bool,
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    facts: Mapping[str, Any],
    sentence: str,
) -> None:
    """Write rows, and say what was done.

    Parameters
    ----------
    output : str
        A file, or - for standard output.
    kind : str or None
        The format of pipes.
    as_json : bool
        Rows on standard output as JSON lines; where rows go to a file, the facts as a document.
    names, columns
        What `write_table` writes.
    facts : mapping
        What was done, for machines.
    sentence : str
        The same for people.
    """
    hand_parts(output, kind, as_json, names, [columns], lambda: (facts, sentence))


def hand_parts(
    output: str,
    kind: str | None,
    as_json: bool,
    names: Sequence[str],
    parts: Iterable[Sequence[Sequence[Any]]],
    told: Callable[[], tuple[Mapping[str, Any], str]],
) -> None:
    """Write rows, some after the other, and say what was done: `told` returns it once all are written."""
    from eigentree.cli.table_io import format_of, write_table

    piped = output == PIPE
    write_table(output, "jsonl" if as_json and piped else format_of(output, kind), names, parts)
    facts, sentence = told()
    if as_json and not piped:
        show_json({**facts, "output": output})
    else:
        note(sentence if piped else f"{sentence}; written: {output}")


def hand_saved(output: str, as_json: bool, facts: Mapping[str, Any], sentence: str) -> None:
    """Say what was done once a model is written."""
    if as_json:
        show_json({**facts, "output": output})
    else:
        note(f"{sentence}; written: {output}")
