"""What a command prints: tables and JSON on standard output, notes on standard error."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["note", "number_of", "show", "show_json", "show_table"]


def note(sentence: str) -> None:
    """Print a sentence on standard error."""
    print(sentence, file=sys.stderr)


def show(text: str) -> None:
    """Print a text on standard output."""
    sys.stdout.write(f"{text}\n")


def show_json(document: Any) -> None:
    """Print a document as JSON; a number that is not finite is null."""
    sys.stdout.write(json.dumps(_plain(document), ensure_ascii=False, indent=2) + "\n")


def number_of(count: float, what: str) -> str:
    """Return a number with its noun, such as ``"1 row"`` or ``"8,124 rows"``."""
    return f"{count:,.0f} {what}{'' if count == 1 else 's'}"


def show_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], best: int | None = None, words: Sequence[int] = (0,)
) -> None:
    """Print a table, in which the columns `words` hold no numbers; on a terminal the best row is bold."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, *rows):
            cells = [
                cell.ljust(width) if place in words else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            show("  ".join(cells).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="left" if place in words else "right", no_wrap=place not in words)
    for place, row in enumerate(rows):
        table.add_row(*map(Text, row), style="bold" if place == best else "")
    Console().print(table)


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
