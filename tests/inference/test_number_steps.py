"""Steps with numbers, sequence by sequence."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eigentree.inference.sequences.sequence_passes import sums_of_sequences


@given(st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6))
def test_sums_are_of_each_sequence_by_itself(sequences: list[list[int]]) -> None:
    """Empty ones, wherever they stand, have the sum 0."""
    values = np.array([value for each in sequences for value in each], np.float64)
    starts = np.cumsum([0, *map(len, sequences)])
    assert sums_of_sequences(values, starts).tolist() == [sum(each) for each in sequences]
