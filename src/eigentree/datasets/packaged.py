"""The texts that come with the package: compressed, and checked before anything is read from them."""

from __future__ import annotations

import hashlib
import lzma
from importlib.resources import files
from typing import NamedTuple

from eigentree.errors import DataError

__all__ = ["Packaged"]


class Packaged(NamedTuple):
    """A published text, and what says that it is still the one.

    Attributes
    ----------
    name : str
        Of the data set: its files are ``name.txt.xz`` and ``name-attribution.txt``.
    checksum : str
        SHA-256 of the uncompressed text, which every version of the compressor must give back.
    """

    name: str
    checksum: str

    @property
    def file(self) -> str:
        """The compressed file."""
        return f"{self.name}.txt.xz"

    @property
    def attribution(self) -> str:
        """What the data are, where they are from, and their licence."""
        return files("eigentree.datasets").joinpath(f"{self.name}-attribution.txt").read_text("utf-8")

    def lines(self) -> list[str]:
        """Return the lines of the text."""
        return self.opened(files("eigentree.datasets").joinpath(self.file).read_bytes())

    def opened(self, compressed: bytes) -> list[str]:
        """Return the lines of a compressed text; raise `DataError` unless it is the published one."""
        try:
            text = lzma.decompress(compressed)
        except (lzma.LZMAError, EOFError):
            text = b""
        if hashlib.sha256(text).hexdigest() != self.checksum:
            raise DataError(
                f"the file {self.file} of the package eigentree is damaged (wrong checksum); install it again"
            )
        return text.decode("ascii").splitlines()
