"""Files that are written whole or not at all, and opened only once it is sure what they are."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any

from eigentree.errors import FileError, with_article

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["checked_path", "opened", "write_whole"]


def checked_path(path: Any) -> str:
    """Return a path as a string; raise `FileError` where it is none."""
    if not isinstance(path, str | os.PathLike):
        raise FileError(f"a path is a string or a pathlib.Path, not {_kind(path)}")
    try:
        text = os.fspath(path)
    except Exception as error:  # whatever a path of the user's own class raises
        raise FileError(f"the path cannot be used: {error}") from None
    if not isinstance(text, str):
        raise FileError(f"a path is a string or a pathlib.Path, not {_kind(text)}")
    if not text or "\0" in text:
        raise FileError(f"a path is a name without zero bytes, not {text[:80]!r}")
    return text


def write_whole(path: str | os.PathLike[str], write: Callable[[IO[bytes]], object]) -> None:
    """Write a file in one step: it is there whole afterwards, or all is as before.

    It is written beside its place, brought to the disk, and then put in place of what may have been there. A link
    stays a link, and a file that is replaced hands on who may read it.

    Parameters
    ----------
    path : str or PathLike
    write : callable
        Takes the open file.
    """
    given = checked_path(path)
    try:
        target = os.path.realpath(given)
        mode = _mode_of(target, given)
        _write_beside(target, mode, write)
    except (OSError, UnicodeEncodeError) as error:
        raise FileError(f"{_short(given)} cannot be written: {_reason(error)}; nothing was changed") from None


def _write_beside(target: str, mode: int | None, write: Callable[[IO[bytes]], object]) -> None:
    folder = os.path.dirname(target)
    beside = os.path.join(folder, f".eigentree-{token_hex(8)}.tmp")
    if not os.path.isdir(folder):
        raise FileError(
            f"there is no folder {_short(folder)}; make it first, since the file cannot be written without it"
        )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(beside, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:
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
        _sync_folder(folder)


def _sync_folder(folder: str) -> None:
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
    if stat.S_ISDIR(found.st_mode):
        raise FileError(f"{_short(given)} is a folder; give the name of a file in it")
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
        found = os.stat(given)
        if stat.S_ISDIR(found.st_mode):
            raise FileError(f"{_short(given)} is a folder; give the name of a file in it")
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{_short(given)} is no plain file")
        with open(given, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise FileError(f"there is no file {_short(given)}") from None
    except (OSError, UnicodeEncodeError) as error:
        raise FileError(f"{_short(given)} cannot be read: {_reason(error)}") from None


def _reason(error: OSError | UnicodeEncodeError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _short(path: str) -> str:
    """Return a path as it stands in a message."""
    return repr(path if len(path) <= 200 else f"{path[:100]}…{path[-99:]}")


def _kind(value: object) -> str:
    return with_article(type(value).__name__)
