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
class OperatorTree:
    def __init__(
        self,
        states: NDArray[np.int64],
        nodes: NDArray[np.int64],
        children: NDArray[np.int64],
        columns: NDArray[np.int64],
        index: NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None: ...

def score_rows(
    tree: OperatorTree,
    codes: NDArray[np.unsignedinteger],
    log_size: NDArray[np.float64],
    sign: NDArray[np.int8],
) -> None: ...
def column_tables(
    tree: OperatorTree,
    codes: NDArray[np.unsignedinteger],
    offset: NDArray[np.int64],
    tables: NDArray[np.float64],
) -> None: ...
def draw_rows(
    tree: OperatorTree, codes: NDArray[np.unsignedinteger], uniform: NDArray[np.float64]
) -> None: ...

# sampling
def decode_rows(
    tree: OperatorTree,
    codes: NDArray[np.unsignedinteger],
    decoded: NDArray[np.bool_],
    entries: NDArray[np.int64],
    log_prob: NDArray[np.float64],
) -> None: ...
def choose_states(
    cumulative: NDArray[np.float64],
    given: NDArray[np.int64],
    uniform: NDArray[np.float64],
    chosen: NDArray[np.int64],
) -> None: ...

# chain_rule

# operator_steps
