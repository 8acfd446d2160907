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
def walk_sequences(
    values: NDArray[np.float64],
    heads: NDArray[np.float64],
    first_value: NDArray[np.int64],
    first_head: NDArray[np.int64],
    ranks: NDArray[np.int64],
    states: NDArray[np.int64],
    start: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    first_pattern: NDArray[np.int64],
    first_match: NDArray[np.int64],
    matches: NDArray[np.int64],
    patterns: NDArray[np.int64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    begins: NDArray[np.bool_],
    found: NDArray[np.float64],
    each: NDArray[np.float64],
    messages: NDArray[np.float64],
    last: NDArray[np.float64],
) -> None: ...
def sample_sequences(
    values: NDArray[np.float64],
    heads: NDArray[np.float64],
    first_value: NDArray[np.int64],
    first_head: NDArray[np.int64],
    ranks: NDArray[np.int64],
    states: NDArray[np.int64],
    start: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    first_pattern: NDArray[np.int64],
    first_match: NDArray[np.int64],
    matches: NDArray[np.int64],
    patterns: NDArray[np.int64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    uniform: NDArray[np.float64],
) -> None: ...
def smooth_sequences(
    values: NDArray[np.float64],
    heads: NDArray[np.float64],
    first_value: NDArray[np.int64],
    first_head: NDArray[np.int64],
    ranks: NDArray[np.int64],
    states: NDArray[np.int64],
    start: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    first_pattern: NDArray[np.int64],
    first_match: NDArray[np.int64],
    matches: NDArray[np.int64],
    patterns: NDArray[np.int64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None: ...
def sample_unknown(
    values: NDArray[np.float64],
    heads: NDArray[np.float64],
    first_value: NDArray[np.int64],
    first_head: NDArray[np.int64],
    ranks: NDArray[np.int64],
    states: NDArray[np.int64],
    start: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    first_pattern: NDArray[np.int64],
    first_match: NDArray[np.int64],
    matches: NDArray[np.int64],
    patterns: NDArray[np.int64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    uniform: NDArray[np.float64],
) -> None: ...
