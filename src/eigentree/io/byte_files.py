"""Bytes of files and pipes, compressed or not, and formats of tables by the names of their files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import sys
import zlib
from contextlib import contextmanager, nullcontext, suppress
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any

from eigentree.errors import FileError, did_you_mean, with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "ENDINGS",
    "PIPE",
    "checked_path",
    "named_format",
    "needs_arrow",
    "opened",
    "read_bytes",
    "require_folder",
    "require_there",
    "shown_path",
    "write_bytes",
    "write_whole",
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
        with opened(path) if os.path.isfile(path) else nullcontext((open(path, "rb"), 0)) as (file, _), file:
            yield _decompressed(file, shown)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{shown} cannot be read; it may have been cut short or damaged: {error}") from None


def write_bytes(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all, compressed as its name says; or to standard output."""
    if path == PIPE:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    write_whole(path, lambda file: _compressed(file, path, write))


def require_there(path: str) -> None:
    """Raise `FileError` unless there is a file, with a hint at one of nearly the same name."""
    if os.path.isdir(path):
        raise FileError(f"{_short(path)} is a folder; give the name of a file in it")
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        if folder and not os.path.isdir(folder):
            raise FileError(f"there is no file {_short(path)}, since there is no folder {folder!r}")
        # Endings, which many names share, do not make two names alike.
        stem, there = os.path.splitext(name)[0], sorted(os.listdir(folder or "."))
        near = [each for each in there if did_you_mean(stem, [os.path.splitext(each)[0]])]
        raise FileError(f"there is no file {_short(path)}{did_you_mean(name, near)}")


def require_folder(path: str) -> None:
    """Raise `FileError` unless a file of this name can be written, as far as is known beforehand."""
    if path == PIPE:
        return
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise FileError(f"{path!r} cannot be written: there is no folder {folder!r}; make it first")
    if os.path.isdir(path):
        raise FileError(f"{_short(path)} is a folder; give the name of a file in it")


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
        arrow = needs_arrow(f"{shown} is compressed by zstandard", "use gzip")
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
        arrow = needs_arrow(f"{path!r} is to be compressed by zstandard", "use gzip")
        # It would close the file below it.
        held = arrow.BufferOutputStream()
        with arrow.CompressedOutputStream(held, "zstd") as packed:
            write(packed)
        file.write(held.getvalue())
    else:
        write(file)


def needs_arrow(why: str, instead: str) -> Any:
    """Return pyarrow; raise `FileError` where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise FileError(f"{why}, which takes pyarrow: pip install pyarrow; or {instead}") from None
    return pyarrow


def checked_path(path: Any) -> str:
    """Return a path as a string; raise `FileError` where it is none."""
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"a path is a string or a pathlib.Path, not {with_article(type(path).__name__)}")
    try:
        text = os.fspath(path)
    except Exception as error:  # whatever a path of the user's own class raises
        raise FileError(f"the path cannot be used: {error}") from None
    if not isinstance(text, str):
        raise FileError(f"a path is a string or a pathlib.Path, not {with_article(type(text).__name__)}")
    if not text or "\0" in text:
        raise FileError(f"a path is a name without zero bytes, not {text[:80]!r}")
    return text


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file in one step, by a function of the open file: it is there whole afterwards, or all is as before.

    It is written beside its place, brought to the disk, and then put in place of what may have been there. A link
    stays a link, and a file that is replaced hands on who may read it.
    """
    given = checked_path(path)
    require_folder(given)
    try:
        target = os.path.realpath(given)
        mode = _mode_of(target, given)
        _write_beside(target, mode, write)
    except (OSError, UnicodeEncodeError) as error:
        raise FileError(f"{_short(given)} cannot be written: {_reason(error)}; nothing was changed") from None


def _write_beside(target: str, mode: int | None, write: Callable[[IO[bytes]], object]) -> None:
    folder = os.path.dirname(target)
    beside = os.path.join(folder, f".eigentree-{token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        # A signal may come at any time from here on.
        with open(os.open(beside, flags, 0o666), "wb") as file:
            if mode is not None:
                os.chmod(beside, mode)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    # The file is in place; that its folder knows, too, after a power cut is more than every system can promise.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode_of(target: str, given: str) -> int | None:
    """Return who may do what with a file that is to be replaced; None where there is none."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(f"{_short(given)} is no plain file, and is not replaced by one")
    if not os.access(target, os.W_OK):
        raise FileError(f"{_short(given)} may not be written to; change its permissions or give another name")
    return stat.S_IMODE(found.st_mode)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
    """Open a plain file for reading; yield it and its size."""
    given = checked_path(path)
    try:
        if not stat.S_ISREG(os.stat(given).st_mode):
            require_there(given)
            raise FileError(f"{_short(given)} is no plain file")
        with open(given, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, FileNotFoundError):
            require_there(given)
        raise FileError(f"{_short(given)} cannot be read: {_reason(error)}") from None


def _reason(error: OSError | UnicodeEncodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _short(path: str) -> str:
    """Return a path as it stands in a message."""
    return repr(path if len(path) <= 200 else f"{path[:100]}…{path[-99:]}")
