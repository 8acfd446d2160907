"""Temporary files that rows wait in: gone when nobody holds them, however the process ends."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from eigentree.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Scratch", "kept_on_disk"]


class Scratch:
    """A temporary file without a name, open for as long as this is.

    Attributes
    ----------
    file : binary file
    """

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(prefix="eigentree-")  # noqa: SIM115 (it goes with this)

    def __del__(self) -> None:
        if "file" in vars(self):
            self.file.close()


@contextmanager
def kept_on_disk(what: str = "rows", so_far: str = "", also: str = "") -> Iterator[None]:
    """Raise `FileError` where something cannot be written, with how far it came and what else may help."""
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{what} cannot be kept in {tempfile.gettempdir()!r} meanwhile: {error.strerror or error}{so_far}; set "
            f"TMPDIR to a folder on a disk with more room{also}"
        ) from None
