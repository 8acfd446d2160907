"""Bytes of files and pipes, compressed or not, and formats of tables by the names of their files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from eigentree.errors import FileError, did_you_mean
from eigentree.io.atomic_write import opened, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "ENDINGS",
    "PIPE",
    "named_format",
    "read_bytes",
    "require_folder",
    "require_there",
    "shown_path",
    "write_bytes",
]

PIPE = "-"
"""The path of standard input and output."""

COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
"""Ends of names of compressed files."""

FORMATS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FORMATS |= {".parquet": "parquet", ".pq": "parquet"}
"""Formats of tables by the ends of names."""

ENDINGS = f"{', '.join(FORMATS)} (and {', '.join(COMPRESSED)})"
"""The ends of names that show a format, for messages."""

MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""The first bytes of compressed files, whatever they are called."""


def named_format(path: str) -> str | None:
    """Return the format of a table by the name of its file: "csv", "tsv", "jsonl", "parquet", or None."""
    name = os.path.basename(path).lower()
    stem, end = os.path.splitext(name)
    name = stem if end in COMPRESSED else name
    return next((form for end, form in FORMATS.items() if name.endswith(end) and name != end), None)


def shown_path(path: str) -> str:
    """Return the name of a file, or of standard input, for messages."""
    return "standard input" if path == PIPE else repr(path)


@contextmanager
def read_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file or standard input for reading, decompressed."""
    shown = shown_path(path)
    try:
        if path == PIPE:
            if sys.stdin.isatty():
                print("eigentree: reading rows from the keyboard; Ctrl-D ends them", file=sys.stderr)
            yield _decompressed(sys.stdin.buffer, shown)
            return
        require_there(path)
        # A pipe of the shell, such as /dev/fd/63, is no plain file.
        if not os.path.isfile(path):
            with open(path, "rb") as pipe:
                yield _decompressed(pipe, shown)
            return
        with opened(path) as (file, _):
            yield _decompressed(file, shown)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{shown} cannot be read; it may have been cut short or damaged: {error}") from None


def write_bytes(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all, compressed as its name says; or to standard output."""
    if path == PIPE:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    require_folder(path)
    write_whole(path, lambda file: _compressed(file, path, write))


def require_there(path: str) -> None:
    """Raise `FileError` unless there is a file, with a hint at one of nearly the same name."""
    if os.path.isdir(path):
        raise FileError(f"{path!r} is a folder; give the name of a file in it")
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        if folder and not os.path.isdir(folder):
            raise FileError(f"there is no file {path!r}, since there is no folder {folder!r}")
        # Endings, which many names share, do not make two names alike.
        stem, there = os.path.splitext(name)[0], sorted(os.listdir(folder or "."))
        near = [each for each in there if did_you_mean(stem, [os.path.splitext(each)[0]])]
        raise FileError(f"there is no file {path!r}{did_you_mean(name, near)}")


def require_folder(path: str) -> None:
    """Raise `FileError` unless a file of this name can be written, as far as is known beforehand."""
    if path == PIPE:
        return
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileError(f"{path!r} cannot be written: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise FileError(f"{path!r} is a folder; give the name of a file in it")


def _decompressed(file: Any, shown: str) -> IO[bytes]:
    buffered = file if hasattr(file, "peek") else io.BufferedReader(file)
    begin = buffered.peek(6)[:6]
    end = next((end for magic, end in MAGIC.items() if begin.startswith(magic)), None)
    if end == ".gz":
        return gzip.open(buffered)  # type: ignore[return-value]
    if end == ".bz2":
        return bz2.open(buffered)
    if end == ".xz":
        return lzma.open(buffered)
    if end == ".zst":
        arrow = _arrow(f"{shown} is compressed by zstandard")
        return io.BufferedReader(arrow.CompressedInputStream(buffered, "zstd"))
    return buffered


def _compressed(file: IO[bytes], path: str, write: Callable[[IO[bytes]], object]) -> None:
    end = os.path.splitext(path.lower())[1]
    if end == ".gz":
        # Neither a name nor a time: the same rows are the same bytes.
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            write(packed)  # type: ignore[arg-type]
    elif end in (".bz2", ".xz"):
        with (bz2 if end == ".bz2" else lzma).open(file, "wb") as packed:
            write(packed)
    elif end == ".zst":
        arrow = _arrow(f"{path!r} is to be compressed by zstandard")
        # It would close the file below it.
        held = arrow.BufferOutputStream()
        with arrow.CompressedOutputStream(held, "zstd") as packed:
            write(packed)
        file.write(held.getvalue())
    else:
        write(file)


def _arrow(why: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise FileError(f"{why}, which takes pyarrow: pip install pyarrow; or use gzip") from None
    return pyarrow
