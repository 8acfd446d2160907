"""Schemas of columns: parts add up to the whole, whatever the cells, the containers and the splits."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eigentree as et
from eigentree.data.tables.column_summary import MOST_DIFFERENT, Schema
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.messages import kept_notices

CODES = st.integers(0, 3)
BIG = 2**53 + 1
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "codes": CODES,
    "codes and -1": st.integers(-1, 3),
    "labels": st.sampled_from([5, 7, -1, 1000]),
    "text": st.sampled_from(["a", "b", "c", ""]),
    "text and None": st.sampled_from(["a", "b", None]),
    "truths": st.booleans(),
    "truths and None": st.sampled_from([True, False, None]),
    "floats": st.sampled_from([0.0, 1.0, 2.0, math.nan]),
    "measured": st.floats(-2, 2).map(lambda number: round(number, 2)),
    "many whole": st.integers(0, 500),
    "large": st.sampled_from([BIG, BIG + 1, 0]),
    "any": st.sampled_from(["a", 1, -1, 2.5, True, None, math.nan, BIG]),
    "days": st.dates(date(1990, 1, 1), date(2030, 1, 1)),
    "times": st.datetimes(datetime(1990, 1, 1), datetime(2030, 1, 1)),
    "days in text": st.dates(date(1990, 1, 1), date(2030, 1, 1)).map(str),
    "numbers and truths": st.sampled_from([True, 2, 0.0, None]),
}


def learned(X: Any, numeric: Any = "error", weights: Any = None) -> object:
    """What is learned of columns and warned of, or what is wrong with them but for the figures that are quoted."""
    with kept_notices() as warned:
        try:
            found = Columns.learned(X, ReadOptions(numeric=numeric, sample_weight=weights))
        except et.DataError as error:
            return str(error).split(",")[0]
    return found, found.named, found.container, [meaning and type(meaning) for meaning in found.meanings], warned


def parts(count: int, cuts: Sequence[int]) -> list[slice]:
    ends = sorted({0, count, *(cut % (count + 1) for cut in cuts)})
    return [slice(a, b) for a, b in pairwise(ends)] or [slice(0, count)]


@st.composite
def columns_of_cells(draw: st.DrawFn) -> dict[str, list[Any]]:
    count = draw(st.integers(1, 40))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    return {f"c{k}": draw(st.lists(KINDS[kind], min_size=count, max_size=count)) for k, kind in enumerate(kinds)}


def pandas_frame(cells: dict[str, list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in cells.items()}).infer_objects()


def pandas_categories(cells: dict[str, list[Any]]) -> Any:
    return pd.DataFrame({name: pd.Categorical([str(cell) for cell in column]) for name, column in cells.items()})


def object_array(cells: dict[str, list[Any]]) -> Any:
    made = np.empty((len(next(iter(cells.values()))), len(cells)), object)
    for place, column in enumerate(cells.values()):
        made[:, place] = column
    return made


@settings(max_examples=100, deadline=None)
@given(
    cells=columns_of_cells(),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    made=st.sampled_from([pandas_frame, pandas_categories, object_array]),
    numeric=st.sampled_from(["error", "quantiles", "emissions"]),
    weighted=st.booleans(),
)
def test_schemas_of_parts_add_up_to_what_is_learned_of_all(
    cells: dict[str, list[Any]],
    cuts: list[int],
    made: Callable[[dict[str, list[Any]]], Any],
    numeric: str,
    weighted: bool,
) -> None:
    table = made(cells)
    weights = np.arange(len(table)) % 3 if weighted else None
    pieces = [table.iloc[each] if hasattr(table, "iloc") else table[each] for each in parts(len(table), cuts)]
    heavy = [None if weights is None else weights[each] for each in parts(len(table), cuts)]
    schemas = [Schema.of(piece, weight) for piece, weight in zip(pieces, heavy, strict=True)]
    whole = pickle.loads(pickle.dumps(reduce(add, schemas)))
    assert learned(whole, numeric) == learned(table, numeric, weights)
    assert whole.rows == len(table)


@settings(max_examples=60, deadline=None)
@given(
    column=st.sampled_from(sorted(set(KINDS) - {"any", "numbers and truths"})).flatmap(
        lambda kind: st.lists(KINDS[kind] | st.none(), min_size=2, max_size=30)
    ),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    dictionary=st.booleans(),
)
def test_schemas_of_arrow_batches_are_those_of_the_table(
    column: list[Any], cuts: list[int], dictionary: bool
) -> None:
    held = pa.array([None if cell != cell else cell for cell in column])
    held = held.cast(pa.string()) if pa.types.is_null(held.type) else held
    table = pa.table({"c": held.dictionary_encode() if dictionary else held})
    batches = [table.slice(each.start, each.stop - each.start) for each in parts(len(table), cuts)]
    if dictionary:
        # As files have it: each batch has a dictionary of its own.
        batches = [pa.table({"c": batch["c"].cast(held.type).dictionary_encode()}) for batch in batches]
        table = pa.concat_tables(batches)
    for numeric in ("error", "quantiles", "emissions"):
        assert learned(reduce(add, map(Schema.of, batches)), numeric) == learned(table, numeric)


def test_the_rule_of_minus_one_is_of_the_whole_column() -> None:
    codes, labels = Schema.of([[0], [1]]) + Schema.of([[-1]]), Schema.of([[1], [2]]) + Schema.of([[-1]])
    assert Columns.learned(codes).states == (2,)
    assert Columns.learned(labels).labels("x0") == (-1, 1, 2)
    mixed = Schema.of(np.array([[-1], [2]], object)) + Schema.of([["a"]])
    assert Columns.learned(mixed).labels("x0") == (2, "a")


def test_the_columns_of_parts_are_matched_by_name() -> None:
    both = Schema.of(pd.DataFrame({"a": [0], "b": ["x"]})) + Schema.of(pd.DataFrame({"b": ["y"], "a": [1]}))
    assert Columns.learned(both) == Columns.learned(pd.DataFrame({"a": [0, 1], "b": ["x", "y"]}))
    with pytest.raises(et.DataError, match="some rows have a column 'b' and others do not"):
        Schema.of(pd.DataFrame({"a": [0], "b": [0]})) + Schema.of(pd.DataFrame({"a": [0]}))
    with pytest.raises(et.DataError, match="with names, and others without"):
        Schema.of(pd.DataFrame({"a": [0]})) + Schema.of([[0]])
    with pytest.raises(et.DataError, match="some rows have 2 letters and others 3"):
        Schema.of(["AC"]) + Schema.of(["ACG"])


def test_words_share_their_alphabet() -> None:
    assert Columns.learned(Schema.of(["AC", "CA"]) + Schema.of(["GG"])) == Columns.learned(["AC", "CA", "GG"])


@pytest.mark.parametrize(
    ("table", "settled", "with_codes"),
    [
        (pd.DataFrame({"a": pd.Categorical([], ["x", "y"]), "b": np.zeros(0, bool)}), True, True),
        (pd.DataFrame({"a": pd.Categorical([], ["x", "y"]), "b": np.zeros(0, np.int8)}), False, True),
        (pd.DataFrame({"a": np.zeros(0, object)}), False, False),
        (pl.DataFrame(schema={"a": pl.Enum(["x", "y"]), "b": pl.Boolean}), True, True),
        (pl.DataFrame(schema={"a": pl.String}), False, False),
        (pa.schema([("a", pa.bool_()), ("b", pa.float64())]).empty_table(), False, True),
        (pa.schema([("a", pa.dictionary(pa.int8(), pa.string()))]).empty_table(), False, False),
    ],
)
def test_types_alone_tell_what_they_can(table: Any, settled: bool, with_codes: bool) -> None:
    schema = Schema.of(table)
    assert (schema.settles(), schema.settles(codes=schema.names or ())) == (settled, with_codes)
    assert schema.settles(given=schema.names or ())
    if settled:
        assert Columns.learned(schema).states == (2, 2)


def test_too_many_different_cells_are_refused_by_name() -> None:
    half = 3 * MOST_DIFFERENT // 4
    numbers = [Schema.of(np.arange(k, k + half).reshape(-1, 1) / 7) for k in (0, half)]
    with pytest.raises(et.DataError, match=r"column 'x0' holds more than .* different cells, such as .*round"):
        Columns.learned(numbers[0] + numbers[1], ReadOptions(numeric="quantiles"))
    texts = [Schema.of(pd.DataFrame({"id": [f"row {k}" for k in range(k, k + half)]})) for k in (0, half)]
    schema = texts[0] + texts[1]
    with pytest.raises(et.DataError, match="column 'id' holds more than"):
        Columns.learned(schema)
    assert Columns.learned(schema, ReadOptions({"id": ["row 1", "row 2"]})).states == (2,)
    assert len(pickle.dumps(schema)) < 5_000
