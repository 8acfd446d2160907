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

# forward_backward

# state_posteriors

# message_passing

# sampling

# chain_rule
CLIPPED: float

def chain_rule_constants(
    ports: NDArray[np.int64],
    first_value: NDArray[np.int64],
    states: NDArray[np.int64],
    constants: NDArray[np.int64],
    values: NDArray[np.float64],
    known: NDArray[np.float64],
) -> None: ...
def score_rows(
    ports: NDArray[np.int64],
    first_value: NDArray[np.int64],
    states: NDArray[np.int64],
    constants: NDArray[np.int64],
    size: int,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    found: NDArray[np.float64],
) -> None: ...
def sample_rows(
    ports: NDArray[np.int64],
    first_value: NDArray[np.int64],
    states: NDArray[np.int64],
    constants: NDArray[np.int64],
    size: int,
    steps: NDArray[np.int64],
    values: NDArray[np.float64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    uniform: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None: ...

# operator_steps
