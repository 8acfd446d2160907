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
def hash_rows(codes: Codes, hashes: NDArray[np.uint64]) -> None: ...

# counting
class GroupCounter:
    def __init__(
        self, group_start: Integers, columns: Integers, states: Integers, table_start: Integers
    ) -> None: ...
    def add(self, codes: Codes) -> None: ...
    def add_weighted(self, codes: Codes, weights: Integers) -> None: ...
    def add_to(self, tables: Integers) -> None: ...

def weigh_groups(
    codes: Codes,
    weights: Floats,
    group_start: Integers,
    columns: Integers,
    states: Integers,
    table_start: Integers,
    tables: Floats,
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
LANES: int

def sequence_log_prob(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    numbers: NDArray[np.int64],
    weights: NDArray[np.float64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    log_prob: NDArray[np.float64],
) -> None: ...
def sequence_counts(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    numbers: NDArray[np.int64],
    weights: NDArray[np.float64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    log_prob: NDArray[np.float64],
    link_counts: NDArray[np.float64],
    symbol_counts: NDArray[np.float64],
) -> None: ...

# state_posteriors
def filter_steps(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    proba: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> None: ...
def smooth_steps(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    proba: NDArray[np.float64],
) -> None: ...
def decode_steps(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    states: NDArray[np.int64],
    log_prob: NDArray[np.float64],
) -> None: ...
def sample_given_steps(
    symbols: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    emissions: NDArray[np.float64],
    links: NDArray[np.float64],
    order: int,
    uniform: NDArray[np.float64],
    states: NDArray[np.int64],
) -> None: ...
def sample_steps(
    starts: NDArray[np.int64],
    links: NDArray[np.float64],
    states_count: int,
    order: int,
    uniform: NDArray[np.float64],
    states: NDArray[np.int64],
) -> None: ...

# message_passing
MOST_CHILDREN: int

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

def tree_log_prob(
    tree: OperatorTree,
    codes: NDArray[np.unsignedinteger],
    log_size: NDArray[np.float64],
    sign: NDArray[np.int8],
) -> None: ...
def tree_tables(
    tree: OperatorTree,
    codes: NDArray[np.unsignedinteger],
    offset: NDArray[np.int64],
    tables: NDArray[np.float64],
) -> None: ...
def tree_draw(tree: OperatorTree, codes: NDArray[np.unsignedinteger], uniform: NDArray[np.float64]) -> None: ...

# sampling
def tree_decode(
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
CLIPPED: float

def chain_rule_constants(
    ports: NDArray[np.int64],
    first_value: NDArray[np.int64],
    states: NDArray[np.int64],
    constants: NDArray[np.int64],
    values: NDArray[np.float64],
    known: NDArray[np.float64],
) -> None: ...
def chain_rule_score(
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
def chain_rule_sample(
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
def score_sequences(
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
    clipping: NDArray[np.float64],
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
    clipping: NDArray[np.float64],
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
    clipping: NDArray[np.float64],
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
    clipping: NDArray[np.float64],
    share: float,
    marginals: NDArray[np.float64],
    first: NDArray[np.int64],
    codes: NDArray[np.unsignedinteger],
    starts: NDArray[np.int64],
    uniform: NDArray[np.float64],
) -> None: ...
def inside_probabilities(
    states: NDArray[np.int64],
    widths: NDArray[np.int64],
    rules: NDArray[np.int64],
    lexicon: NDArray[np.int64],
    values: NDArray[np.float64],
    unseen: NDArray[np.float64],
    children: NDArray[np.float64],
    words: NDArray[np.float64],
    labels: NDArray[np.int32],
    left: NDArray[np.int32],
    node_words: NDArray[np.int32],
    rule: NDArray[np.int32],
    offsets: NDArray[np.int64],
    mantissa: NDArray[np.float64],
    exponent: NDArray[np.int64],
) -> None: ...
def expected_rules(
    states: NDArray[np.int64],
    widths: NDArray[np.int64],
    rules: NDArray[np.int64],
    lexicon: NDArray[np.int64],
    values: NDArray[np.float64],
    unseen: NDArray[np.float64],
    children: NDArray[np.float64],
    words: NDArray[np.float64],
    labels: NDArray[np.int32],
    left: NDArray[np.int32],
    node_words: NDArray[np.int32],
    rule: NDArray[np.int32],
    offsets: NDArray[np.int64],
    weights: NDArray[np.float64],
    mantissa: NDArray[np.float64],
    exponent: NDArray[np.int64],
    counts: NDArray[np.float64],
    any: NDArray[np.float64],
) -> None: ...
def tree_messages(
    states: NDArray[np.int64],
    widths: NDArray[np.int64],
    rules: NDArray[np.int64],
    lexicon: NDArray[np.int64],
    values: NDArray[np.float64],
    unseen: NDArray[np.float64],
    children: NDArray[np.float64],
    words: NDArray[np.float64],
    labels: NDArray[np.int32],
    left: NDArray[np.int32],
    node_words: NDArray[np.int32],
    rule: NDArray[np.int32],
    offsets: NDArray[np.int64],
    mantissa: NDArray[np.float64],
    exponent: NDArray[np.int64],
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    node_exponent: NDArray[np.int64],
) -> None: ...
def decode_trees(
    states: NDArray[np.int64],
    widths: NDArray[np.int64],
    rules: NDArray[np.int64],
    lexicon: NDArray[np.int64],
    values: NDArray[np.float64],
    unseen: NDArray[np.float64],
    children: NDArray[np.float64],
    words: NDArray[np.float64],
    labels: NDArray[np.int32],
    left: NDArray[np.int32],
    node_words: NDArray[np.int32],
    rule: NDArray[np.int32],
    offsets: NDArray[np.int64],
    mantissa: NDArray[np.float64],
    exponent: NDArray[np.int64],
    decoded: NDArray[np.int32],
) -> None: ...

# parsing
class ChartGrammar:
    def __init__(
        self,
        states: NDArray[np.int64],
        rules: NDArray[np.int64],
        values: NDArray[np.float64],
        root: NDArray[np.float64],
        pair: NDArray[np.float64],
        children: NDArray[np.float64],
    ) -> None: ...

def fill_chart(
    grammar: ChartGrammar,
    emissions: NDArray[np.float64],
    first_cell: NDArray[np.int64],
    labels: NDArray[np.int32],
    posteriors: NDArray[np.float64],
) -> float: ...
