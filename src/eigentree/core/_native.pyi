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

# operator_steps
