"""Types of the compiled extension; its modules of Python wrap it by phase."""

import numpy as np
from numpy.typing import NDArray

def instructions() -> str: ...
def all_instructions() -> list[str]: ...
def use_instructions(name: str) -> None: ...

# encoding
def hash_rows(codes: NDArray[np.unsignedinteger], hashes: NDArray[np.uint64]) -> None: ...

# counting

# windows

# estep
def expected_counts(
    nodes: NDArray[np.int64],
    edges: NDArray[np.int64],
    places: NDArray[np.int64],
    ones: int,
    down: int,
    share: int,
    sections: NDArray[np.int64],
    values: NDArray[np.floating],
    codes: NDArray[np.unsignedinteger],
    weights: NDArray[np.float64],
    sums: NDArray[np.float64],
    threads: int,
    block: int,
) -> tuple[float, int]: ...

# forward_backward

# state_posteriors

# message_passing

# sampling

# chain_rule

# operator_steps
