"""The command line as tests run it: in this process, or as a process of the shell."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd

import eigentree as et
from eigentree.cli.main import main


def call(line: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Return the exit code of a command in this process, its standard output, and its standard error."""
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = main(shlex.split(line)[1:])
            out.flush()
    finally:
        sys.stdin = before
    return code, out.buffer.getvalue().decode(), errors.getvalue()  # type: ignore[attr-defined]


def answer(line: str, stdin: bytes = b"") -> str:
    """Return the standard output of a command that succeeds."""
    code, out, errors = call(line, stdin)
    assert code == 0, errors
    return out


def read_numbers(file: Any) -> pd.DataFrame:
    """Return a table of a file of CSV, each number as it was written; before version 3 pandas rounds them else."""
    exactly = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}
    return pd.read_csv(file, **exactly)


def read_answer(line: str) -> pd.DataFrame:
    """Return the table that a command writes."""
    return read_numbers(io.StringIO(answer(line)))


def in_shell(line: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which eigentree is the command of this checkout."""
    command = f'eigentree() {{ "{sys.executable}" -m eigentree "$@"; }}; set -o pipefail; {line}'
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(et.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.run(["bash", "-c", command], capture_output=True, env=environment, check=False, **options)  # type: ignore[call-overload, no-any-return]
