"""The command ``eigentree``: one file per command, gathered here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import eigentree
from eigentree.commands import reproduce, warm_up
from eigentree.commands.arguments import Parser
from eigentree.errors import EigentreeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code of the command: 0, 1 when something failed, 2 for a mistake in the arguments."""
    asked = _parser().parse_args(arguments)
    try:
        code: int = asked.run(asked)
    except (EigentreeError, OSError) as error:
        print(f"eigentree: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return code


def _parser() -> Parser:
    parser = Parser(prog="eigentree", description=(eigentree.__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"eigentree {eigentree.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (reproduce, warm_up):
        command.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
