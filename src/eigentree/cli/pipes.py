"""Bytes in and out: files and pipes, compressed or not, written whole or not at all."""

import bz2
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from eigentree.cli.arguments import PIPE
from eigentree.data.streams.atomic_write import opened, write_whole
from eigentree.errors import FileError, did_you_mean

__all__ = ["PACKED", "plain_name", "read_bytes", "require_folder", "require_there", "written"]

PACKED = (".gz", ".bz2", ".xz", ".zst")
"""Ends of names of compressed files."""

MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""How compressed files begin, whatever they are called."""


def plain_name(path: str) -> str:
    """Return the name of a file in small letters, without the end that says how it is compressed."""
    name = os.path.basename(path).lower()
    stem, end = os.path.splitext(name)
    return stem if end in PACKED else name


@contextmanager
def read_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file or standard input for reading, decompressed.

    Raises
    ------
    FileError
        When there is no such file, it cannot be read, or is cut short or damaged.
    """
    shown = "standard input" if path == PIPE else repr(path)
    try:
        if path == PIPE:
            if sys.stdin.isatty():
                print("eigentree: reading rows from the keyboard; Ctrl-D ends them", file=sys.stderr)
            yield _unpacked(sys.stdin.buffer, shown)
            return
        require_there(path)
        with open(path, "rb") if _is_pipe(path) else _plain(path) as file:
            yield _unpacked(file, shown)
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib_error()) as error:
        raise FileError(f"{shown} cannot be read; it may have been cut short or damaged: {error}") from None


def written(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all, compressed as its name says; or to standard output.

    Raises
    ------
    FileError
        When the file cannot be written; one that was there is as it was.
    """
    if path == PIPE:
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    require_folder(path)
    write_whole(path, lambda file: _packed(file, path, write))


def require_there(path: str) -> None:
    """Raise `FileError` unless there is a file, with a hint at one of nearly the same name."""
    if os.path.isdir(path):
        raise FileError(f"{path!r} is a folder; give the name of a file in it")
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        if folder and not os.path.isdir(folder):
            raise FileError(f"there is no file {path!r}, since there is no folder {folder!r}")
        # Endings, which many names share, do not make two names alike.
        stem = os.path.splitext(name)[0]
        there = sorted(os.listdir(folder or "."))
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


def zlib_error() -> type[Exception]:
    """Return what a damaged gzip file raises."""
    import zlib

    return zlib.error


def _is_pipe(path: str) -> bool:
    """Return whether a path is a pipe of the shell, such as /dev/fd/63, which can be read once."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextmanager
def _plain(path: str) -> Iterator[IO[bytes]]:
    with opened(path) as (file, _):
        yield file


def _unpacked(file: Any, shown: str) -> IO[bytes]:
    buffered = file if hasattr(file, "peek") else io.BufferedReader(file)
    begin = buffered.peek(6)[:6]
    kind = next((end for magic, end in MAGIC.items() if begin.startswith(magic)), None)
    if kind == ".gz":
        return gzip.open(buffered)  # type: ignore[return-value]
    if kind == ".bz2":
        return bz2.open(buffered)
    if kind == ".xz":
        return lzma.open(buffered)
    if kind == ".zst":
        arrow = _arrow(f"{shown} is compressed by zstandard")
        return io.BufferedReader(arrow.CompressedInputStream(buffered, "zstd"))
    return buffered


def _packed(file: IO[bytes], path: str, write: Callable[[IO[bytes]], object]) -> None:
    end = os.path.splitext(path.lower())[1]
    if end == ".gz":
        # Neither a name nor a time: the same rows are the same bytes.
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            write(packed)  # type: ignore[arg-type]
    elif end == ".bz2":
        with bz2.open(file, "wb") as packed:
            write(packed)
    elif end == ".xz":
        with lzma.open(file, "wb") as packed:
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
