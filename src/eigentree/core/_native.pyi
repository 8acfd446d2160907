"""Types of the compiled extension; its modules of Python wrap it by phase."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentree.arrays import Booleans, Codes, Floats, Integers

def instructions() -> str: ...
def all_instructions() -> list[str]: ...
def use_instructions(name: str) -> None: ...

# encoding
def encode_column(cells: NDArray[Any], states: int, codes: Codes) -> int: ...
def encode_rows(cells: NDArray[Any], start: int, states: Integers, codes: Codes, wrong: Booleans) -> None: ...
def copy_codes(cells: Codes, start: int, codes: Codes, largest: Codes) -> None: ...
def hash_rows(codes: Codes, hashes: NDArray[np.uint64]) -> None: ...

# counting
class GroupCounter:
    def __init__(
        self, group_start: Integers, columns: Integers, states: Integers, table_start: Integers
    ) -> None: ...
    def add(self, codes: Codes, missing: Booleans) -> None: ...
    def add_to(self, tables: Integers) -> None: ...

def weigh_groups(
    codes: Codes,
    weights: NDArray[Any],
    group_start: Integers,
    columns: Integers,
    states: Integers,
    table_start: Integers,
    tables: NDArray[Any],
    missing: Booleans,
) -> None: ...
def count_pairs(
    codes: Codes,
    weights: NDArray[Any],
    wide: Booleans,
    states: Integers,
    start: Integers,
    kept: Integers,
    matrix: NDArray[Any],
) -> None: ...
def add_common_bits(planes: NDArray[np.uint64], places: Integers, matrix: NDArray[Any]) -> None: ...
def feature_sums(
    dense: NDArray[Any],
    start: Integers,
    states: Integers,
    widths: Integers,
    whole: Booleans,
    matrices: Floats,
    sums: Floats,
) -> None: ...

# windows
def cut_windows(
    codes: Codes,
    starts: Integers,
    own: Integers,
    reach: int,
    lags: Integers,
    channels: Integers,
    missing: Codes,
    cursor: Integers,
    found: Codes,
    of: Integers,
) -> int: ...
def hash_pieces(
    codes: Codes,
    starts: Integers,
    length: int,
    context: int,
    reach: int,
    hashes: NDArray[np.uint64],
    places: Integers,
) -> None: ...
def fingerprints(symbols: Codes, starts: Integers, prints: NDArray[np.uint64]) -> None: ...
def repeats(symbols: Codes, starts: Integers, order: Integers, same: Booleans) -> None: ...

# estep

# forward_backward

# state_posteriors

# message_passing

# sampling

# chain_rule

# operator_steps
