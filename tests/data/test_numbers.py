"""Columns of numbers: read from whatever holds them, and handed back as they were; errors name row and column."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from small_batches import read_in_small_batches

import eigentree as et
from eigentree.data.streams.encoded_stream import StreamSchema
from eigentree.data.streams.file_batches import read_table
from eigentree.data.streams.row_batches import Batch
from eigentree.data.streams.sources import stream_of
from eigentree.data.tables.columns import Columns, columns_content, columns_of
from eigentree.data.tables.numbers import Numbers, Span, iso_dates
from eigentree.data.tables.restore import arrow_rows, filled_rows, sampled_rows
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.io.table_files import write_table

NUMBERS = ReadOptions(numeric="emissions")
DAY = pd.Timestamp("2020-02-27").as_unit("us")


def durations(counts: np.ndarray, unit: str) -> pd.TimedeltaIndex:
    """Durations in microseconds, as Python's own objects have them, whichever version of pandas makes them."""
    return pd.to_timedelta(counts, unit).as_unit("us")


def table(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    """A table with a column of each kind, without missing cells."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.integers(18, 80, rows),
            "sex": random.choice(["f", "m"], rows),
            "visits": random.geometric(0.05, rows) - 1,
            "income": random.lognormal(10, 1, rows).round(2),
            "joined": DAY + durations(random.integers(0, 900, rows), "D"),
            "seen": DAY + durations(random.integers(0, 10**6, rows), "s"),
            "took": durations(random.integers(0, 10**6, rows), "us"),
            "smoker": random.random(rows) < 0.3,
        }
    )


def with_holes(frame: pd.DataFrame, share: float = 0.2, seed: int = 1) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    holed = frame.astype({"smoker": object})
    for name in frame:
        holed.loc[random.random(len(frame)) < share, name] = None
    return holed


def cells_of(rows: Rows) -> np.ndarray:
    """Codes as floats, and numbers in the columns of such."""
    cells = rows.encode().astype(float)
    cells[:, list(rows.columns.number_places)] = rows.values()
    return cells


def as_numpy(frame: pd.DataFrame) -> Any:
    return frame.to_numpy()


def as_list(frame: pd.DataFrame) -> Any:
    return [[None if cell is pd.NaT else cell for cell in row] for row in frame.to_numpy().tolist()]


def as_arrow(frame: pd.DataFrame) -> Any:
    return pa.Table.from_pandas(frame, preserve_index=False)


CONTAINERS: list[Callable[[pd.DataFrame], Any]] = [pd.DataFrame, pl.from_pandas, as_arrow, as_numpy, as_list]


def as_pandas(made: Any, like: pd.DataFrame) -> pd.DataFrame:
    if isinstance(made, np.ndarray):
        return pd.DataFrame(made, columns=like.columns).astype(like.dtypes)
    made = made if isinstance(made, pd.DataFrame) else made.to_pandas()
    return made.astype(like.dtypes)


@pytest.mark.parametrize("held", CONTAINERS)
def test_every_container_is_read_alike(held: Callable[[pd.DataFrame], Any]) -> None:
    frame = with_holes(table())
    expected = Columns.learned(frame, NUMBERS)
    found = Columns.learned(held(frame), NUMBERS)
    assert found.meanings == expected.meanings
    assert found.number_places == (0, 2, 3, 4, 5, 6)
    assert expected.numbers == ("age", "visits", "income", "joined", "seen", "took")
    assert found.states == (1, 2, 1, 1, 1, 1, 1, 2)
    assert_array_equal(Rows.of(held(frame), found).values(), Rows.of(frame, expected).values())
    assert_array_equal(Rows.of(held(frame), found).encode(), Rows.of(frame, expected).encode())


@pytest.mark.parametrize("held", CONTAINERS)
def test_filled_rows_are_those_that_the_holes_were_made_in(held: Callable[[pd.DataFrame], Any]) -> None:
    frame = table()
    columns = Columns.learned(held(frame), NUMBERS)
    cells = cells_of(Rows.of(held(frame), columns))
    holed = held(with_holes(frame))
    made = filled_rows(holed, Rows.of(holed, columns), columns, cells)
    pd.testing.assert_frame_equal(as_pandas(made, frame), frame)
    if not isinstance(holed, np.ndarray | list):
        assert type(made) is type(holed)


@pytest.mark.parametrize("held", CONTAINERS)
def test_sampled_rows_have_the_types_that_were_learned_from(held: Callable[[pd.DataFrame], Any]) -> None:
    frame = table()
    columns = Columns.learned(held(frame), NUMBERS)
    cells = cells_of(Rows.of(held(frame), columns))
    made = sampled_rows(columns, cells, np.random.default_rng(0))
    pd.testing.assert_frame_equal(as_pandas(made, frame), frame)
    if isinstance(made, pd.DataFrame):
        assert made.dtypes.tolist() == frame.dtypes.tolist()
    if isinstance(made, pl.DataFrame):
        assert made.schema == pl.from_pandas(frame).schema
    first = columns.names[0], columns.names[4]
    made = sampled_rows(columns, cells, np.random.default_rng(0), {first[0]: 21.5, first[1]: "2024-02-29"})
    found = as_pandas(made, frame.astype({"age": float}))
    assert (found["age"] == 21.5).all()
    assert (found["joined"] == pd.Timestamp("2024-02-29")).all()


def test_zones_and_types_of_dates_are_kept() -> None:
    frame = table()
    zoned = frame.assign(seen=frame["seen"].dt.tz_localize("Europe/Rome"))
    holed = with_holes(zoned)
    for held in (pd.DataFrame, pl.from_pandas, as_arrow):
        columns = Columns.learned(held(zoned), NUMBERS)
        cells = cells_of(Rows.of(held(zoned), columns))
        assert columns.described().endswith("seen: date; took: date; smoker: False, True")
        made = filled_rows(held(holed), Rows.of(held(holed), columns), columns, cells)
        pd.testing.assert_frame_equal(as_pandas(made, zoned), zoned)
    days = pl.from_pandas(frame).with_columns(pl.col("joined").cast(pl.Date))
    columns = Columns.learned(days, NUMBERS)
    assert columns.meanings[4].unit == "datetime64[D]"
    made = sampled_rows(columns, cells_of(Rows.of(days, columns)), np.random.default_rng(0))
    assert made.schema["joined"] == pl.Date
    assert made["joined"].to_list() == days["joined"].to_list()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_files_are_read_and_written_alike(tmp_path: Path, kind: str) -> None:
    frame = table()
    path = tmp_path / f"rows.{kind}"
    columns = Columns.learned(frame.drop(columns="took"), NUMBERS)
    write_table(str(path), [{name: frame[name].to_numpy() for name in columns.names}])
    rows = read_table(path)
    found = Columns.learned(rows, NUMBERS)
    assert found.described() == columns.described()
    assert_array_equal(Rows.of(rows, found).values(), Rows.of(frame.drop(columns="took"), columns).values())
    arrow = arrow_rows(Batch(rows, "rows", 0), found)
    if kind != "jsonl":
        assert pa.types.is_integer(arrow.schema.field("age").type)
        assert pa.types.is_floating(arrow.schema.field("income").type)
        assert not pa.types.is_string(arrow.schema.field("seen").type)
    again = Columns.learned(arrow, NUMBERS)
    assert again.described() == columns.described()
    assert_array_equal(Rows.of(arrow, again).values(), Rows.of(rows, found).values())


def test_filled_cells_of_files_keep_their_kinds(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 31, "b": 0.5}\n{"a": null, "b": 1.5}\n{"a": 57, "b": null}\n')
    rows = read_table(tmp_path / "rows.jsonl")
    columns = Columns.learned(rows, ReadOptions(numeric="emissions", kinds={"a": "continuous", "b": "continuous"}))
    filled = filled_rows(rows, Rows.of(rows, columns), columns, np.array([[0, 0], [40.2, 0], [0, 2.5]]))
    assert json.dumps(filled.tolist()) == "[[31, 0.5], [40, 1.5], [57, 2.5]]"


def test_filled_text_stays_text(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("when,how\n2024-02-29,1.5\n,2.25\n2024-03-01,\n")
    rows = read_table(tmp_path / "rows.csv")
    columns = Columns.learned(rows, NUMBERS)
    assert columns.described() == "when: date; how: 1.5, 2.25"
    filled = filled_rows(rows, Rows.of(rows, columns), columns, np.array([[0.0, 0.0], [19_783.4, 1], [0, 0]]))
    assert filled.tolist() == [["2024-02-29", "1.5"], ["2024-03-01", "2.25"], ["2024-03-01", 1.5]]
    frame = pd.read_csv(tmp_path / "rows.csv")
    made = filled_rows(frame, Rows.of(frame, columns), columns, np.array([[0.0, 0.0], [19_783.4, 1], [0, 0]]))
    assert made["when"].tolist() == ["2024-02-29", "2024-03-01", "2024-03-01"]


@pytest.mark.parametrize("size", [7, 64, 1000])
@pytest.mark.parametrize("again", [True, False])
def test_streams_yield_the_numbers_that_tables_have(size: int, again: bool) -> None:
    frame = with_holes(table())
    parts = [frame.iloc[start : start + size] for start in range(0, len(frame), size)]
    found = StreamSchema.of((lambda: iter(parts)) if again else iter(parts), NUMBERS, often=True)
    columns = Columns.learned(found.schema, NUMBERS)
    assert columns == Columns.learned(frame, NUMBERS)
    rows = Rows.of(frame, columns)
    for _ in range(2):
        codes, values, weights = zip(*found.rows(columns).parts(), strict=True)
        assert_array_equal(np.concatenate(codes), rows.encode())
        assert_array_equal(np.concatenate(values), rows.values())
        assert set(weights) == {None}
        if not again:
            break
    spooled = found.rows(columns)
    if again:
        chunks = list(spooled.chunks())
        assert_array_equal(np.concatenate([codes for codes, _ in chunks]), rows.encode())


def test_streams_of_text_know_their_numbers_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_in_small_batches(monkeypatch, 30, 512)
    frame = table().drop(columns="took")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    stream = stream_of(tmp_path / "rows.csv")
    found = StreamSchema.of(stream, NUMBERS)
    columns = Columns.learned(found.schema, NUMBERS)
    assert columns.meanings == Columns.learned(read_table(tmp_path / "rows.csv"), NUMBERS).meanings
    values = np.concatenate([values for _, values, _ in found.rows(columns).parts()])
    assert_array_equal(values, Rows.of(frame, Columns.learned(frame, NUMBERS)).values())


def test_weights_come_with_numbers() -> None:
    frame = table().assign(heavy=np.arange(200) % 3)
    options = ReadOptions(numeric="emissions", sample_weight="heavy")
    found = StreamSchema.of(iter([frame[:90], frame[90:]]), options, often=True)
    columns = Columns.learned(found.schema, options)
    parts = list(found.rows(columns).parts())
    assert_array_equal(np.concatenate([weights for *_, weights in parts]), frame["heavy"])
    assert_array_equal(np.concatenate([values[:, 0] for _, values, _ in parts]), frame["age"])


def test_files_keep_what_is_known_of_numbers() -> None:
    columns = Columns.learned(table(), NUMBERS)
    content = json.loads(json.dumps(columns_content(columns)))
    read = columns_of(content)
    assert read == columns
    assert read.number_places == columns.number_places
    assert pickle.loads(pickle.dumps(columns)) == columns
    for damage in (
        {"kind": "real"},
        {"step": -1.0},
        {"least": 90.0},
        {"unit": "datetime64[us]"},
        {"whole": 1},
        {"step": "NaN"},
        {"more": 1},
    ):
        broken = json.loads(json.dumps(content))
        broken["meanings"][0].update(damage)
        with pytest.raises(et.FileError):
            columns_of(broken)
    for unit in ("", "datetime64[Y]", "int64", "datetime64[us] "):
        broken = json.loads(json.dumps(content))
        broken["meanings"][4]["unit"] = unit
        with pytest.raises(et.FileError):
            columns_of(broken)
    broken = json.loads(json.dumps(content))
    broken["states"][0] = 2
    with pytest.raises(et.FileError):
        columns_of(broken)


def test_rows_hold_numbers_beside_codes() -> None:
    frame = with_holes(table())
    columns = Columns.learned(frame, NUMBERS)
    rows = Rows.of(frame, columns)
    for place, name in enumerate(frame):
        assert_array_equal(rows.missing(place), frame[name].isna())
        assert_array_equal(rows.encode()[:, place] == columns.states[place], frame[name].isna())
    own = np.array([5, 3, 3, 150])
    assert_array_equal(rows.taken(own).values(), rows.values()[own])
    assert_array_equal(rows.values(10, 20), rows.values()[10:20])
    assert rows.values(190, 999).shape == (10, 6)
    assert rows.whole is None
    again = Rows.of_codes(cells_of(rows), columns)
    assert_array_equal(again.values(), rows.values())
    assert_array_equal(again.encode(), rows.encode())
    marks = Rows.of_codes(rows.encode(), columns)
    assert all((marks.missing(place) == rows.missing(place)).all() for place in range(8))
    assert Rows.of(np.zeros((2, 3)), Columns(("a", "b", "c"), (2, 2, 2))).values().shape == (2, 0)


def test_unseen_numbers_are_numbers() -> None:
    columns = Columns.learned(table(), NUMBERS)
    row = pd.DataFrame(
        {
            "age": [130.5],
            "sex": ["f"],
            "visits": [10**6],
            "income": [-2.0],
            "joined": [pd.Timestamp("1850-01-01")],
            "seen": [pd.Timestamp("2200-01-01 12:00")],
            "took": [pd.Timedelta("-1 day")],
            "smoker": [True],
        }
    )
    assert Rows.of(row, columns).values().tolist() == [[130.5, 1e6, -2.0, -43829.0, 84006.5, -1.0]]


WRONG = [
    ("age", "old", r"row 1, column 'age' holds 'old', but 'age' has numbers, as from 18 to 79 .*handle_unknown"),
    ("income", np.inf, r"row 1, column 'income' holds inf; mark missing cells as NaN"),
    ("visits", -3, r"row 1, column 'visits' holds -3.*, but 'visits' has counts, as from 0 to"),
    ("joined", 7, r"row 1, column 'joined' holds 7, but 'joined' has dates, as from 2020-02-29 to 2022-08-13"),
    ("joined", "soon", r"row 1, column 'joined' holds 'soon'"),
    ("age", DAY, r"row 1, column 'age' holds "),
    ("took", DAY, r"row 1, column 'took' holds .* durations, as from"),
]


@pytest.mark.parametrize(("name", "cell", "message"), WRONG)
def test_cells_that_are_no_numbers_are_named(name: str, cell: Any, message: str) -> None:
    columns = Columns.learned(table(), NUMBERS)
    frame = table().head(3)
    if name == "joined" and isinstance(cell, str):
        frame[name] = ["2020-03-01", cell, "2020-03-02"]
    elif cell is DAY or name == "joined":
        # Dates where there are none, and the other way round, by the type of the column.
        frame[name] = [cell] * 3
        message = message.replace("row 1", "row 0")
    else:
        frame = frame.astype({name: object})
        frame.loc[1, name] = cell
    with pytest.raises(et.DataError, match=message):
        Rows.of(frame, columns)
    lenient = columns.reading("missing")
    if cell is np.inf:
        with pytest.raises(et.DataError, match=message):
            Rows.of(frame, lenient)
    else:
        rows = Rows.of(frame, lenient)
        place = columns.position(name)
        assert rows.missing(place)[1]
        assert rows.encode()[1, place] == 1


def test_text_that_is_no_number_in_a_file_is_named(tmp_path: Path) -> None:
    columns = Columns.learned(pd.DataFrame({"a": np.linspace(0, 1, 50)}), NUMBERS)
    (tmp_path / "rows.csv").write_text("a\n0.5\nmuch\n")
    with pytest.raises(et.DataError, match="row 1, column 'a' holds 'much'"):
        Rows.of(read_table(tmp_path / "rows.csv"), columns)
    assert_array_equal(
        Rows.of(read_table(tmp_path / "rows.csv"), columns.reading("missing")).values(), [[0.5], [np.nan]]
    )


def test_evidence_of_numbers_is_checked() -> None:
    columns = Columns.learned(table(), NUMBERS)
    given = {
        "age": 30,
        "joined": datetime.date(2020, 3, 1),
        "seen": pd.Timestamp("2020-03-01 06:00", tz="UTC"),
        "took": datetime.timedelta(hours=12),
        "sex": "m",
    }
    expected = {"age": 30.0, "joined": 18_322.0, "seen": 18_322.25, "took": 0.5}
    assert columns.given_values(given) == expected
    assert (
        columns.given_values({**given, "joined": "2020-03-01", "seen": np.datetime64("2020-03-01T06")}) == expected
    )
    assert columns.evidence(given).tolist() == [[0, 1, 1, 1, 0, 0, 0, 2]]
    with pytest.raises(et.DataError, match="given is a mapping"):
        columns.given_values([("age", 3)])  # type: ignore[arg-type]
    for name, value in (
        ("age", "30"),
        ("age", np.nan),
        ("age", np.inf),
        ("visits", -1),
        ("joined", 3),
        ("took", "x"),
    ):
        with pytest.raises(et.DataError, match=f"'{name}' is given as .*, but has .* leave a variable out"):
            columns.given_values({name: value})
        with pytest.raises(et.DataError, match=f"'{name}' is given as"):
            columns.evidence({name: value})
    with pytest.raises(et.DataError, match="there is no column 'agee'; did you mean 'age'"):
        columns.given_values({"agee": 1})


def test_whole_numbers_come_back_whole_and_counts_not_negative() -> None:
    ages = Numbers.of(Span.of(np.array([20.0, 31.0])))
    counts = Numbers.of(Span.of(np.array([0, 7])))
    heights = Numbers.of(Span.of(np.array([1.62, 1.7])))
    assert (ages.kind, counts.kind, heights.kind) == ("continuous", "count", "continuous")
    assert ages.restored(np.array([-1.6, 20.4])).tolist() == [-2, 20]
    assert counts.restored(np.array([-1.6, 2.6])).tolist() == [0, 3]
    assert counts.restored(np.array([1.0])).dtype == np.int64
    assert heights.restored(np.array([1.654])).tolist() == [1.654]
    assert (ages.labels, heights.step, ages.step) == ((), 0.01, 1.0)


def test_minus_one_marks_a_missing_cell_among_counts_alone() -> None:
    counts = np.array([-1, 0, 3, 9, 27, 81, 1000])[:, None]
    columns = Columns.learned(counts, NUMBERS)
    assert columns.described() == "x0: count"
    assert columns.meanings[0].least == 0
    assert np.isnan(Rows.of(counts, columns).values()[0, 0])
    assert Rows.of(counts, columns).encode()[:, 0].tolist() == [1, 0, 0, 0, 0, 0, 0]
    numbers = np.array([-1, 0.5, 3, 9, 27, 81, 1000])[:, None]
    assert Rows.of(numbers, Columns.learned(numbers, NUMBERS)).values()[0, 0] == -1


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(-(10**7), 10**7), min_size=1, max_size=20),
    st.integers(-4, 5),
    st.integers(1, 19),
)
@example([10, 5], 1, 1)
@example([5, 10], 1, 1)
def test_spans_of_parts_add_up(whole: list[int], decimals: int, cut: int) -> None:
    values = np.array([float(f"{number}e{-decimals}") for number in whole])
    span = Span.of(values)
    assert (span.least, span.most) == (values.min(), values.max())
    if 0 < cut < len(values):
        assert Span.of(values[:cut]) + Span.of(values[cut:]) == span
    assert span.step > 0
    multiples = values / span.step
    np.testing.assert_allclose(multiples, np.rint(multiples), atol=1e-6)
    assert span.whole == (values == np.rint(values)).all()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["D", "h", "m", "s", "ms", "us"]),
    st.sampled_from("mM"),
    st.lists(st.integers(-20_000, 20_000), min_size=1, max_size=10),
)
def test_dates_are_days_and_come_back(unit: str, letter: str, ticks: list[int]) -> None:
    cells = np.array(ticks).astype(f"{letter}8[{unit}]")
    numbers = Numbers.of(Span.of(cells))
    assert numbers.kind == "date"
    assert_array_equal(numbers.restored(numbers.values(cells)), cells)
    days = (cells - np.array(0, cells.dtype)) / np.timedelta64(1, "D")
    np.testing.assert_allclose(numbers.values(cells), days, rtol=1e-14)
    assert numbers.whole == (days == np.rint(days)).all()


def test_dates_of_our_time_are_exact_to_the_microsecond() -> None:
    cells = np.datetime64("2031-07-01T12:34:56.789012") + np.arange(1000) * np.timedelta64(999_983, "us")
    numbers = Numbers.of(Span.of(cells))
    assert_array_equal(numbers.restored(numbers.values(cells)), cells)


def test_iso_dates_are_dates_and_nothing_else_is() -> None:
    assert iso_dates(["2024-02-29", "2023-01-01"]).tolist() == [
        datetime.date(2024, 2, 29),
        datetime.date(2023, 1, 1),
    ]
    assert iso_dates(["2024-02-29 10:00", "2024-02-29T10:00:01.5"]).tolist() == [
        datetime.datetime(2024, 2, 29, 10),
        datetime.datetime(2024, 2, 29, 10, 0, 1, 500_000),
    ]
    assert iso_dates(["2024-02-29T10:00:00Z"]).tolist() == [datetime.datetime(2024, 2, 29, 10)]
    assert iso_dates(["2024-02-29T10:00:00Z", "2024-02-29T10:00:00"]) is None
    for text in ("2024-02-30", "29.02.2024", "20240229", "2024", "2024-02-29Z", "x2024-02-29", ""):
        assert iso_dates(["2024-02-29", text]) is None
    assert iso_dates([]) is None


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e300, 1e300) | st.just(np.nan)))
def test_any_floats_are_kept(cells: np.ndarray) -> None:
    numbers = Numbers("continuous", False, 0.0, 1.0, 0.0)
    assert_array_equal(numbers.values(cells), cells)
    assert_array_equal(numbers.encode(cells), np.where(np.isnan(cells), -1, 0))
    assert_array_equal(numbers.restored(numbers.values(cells)), cells)


def test_other_libraries_hold_numbers_too() -> None:
    """Decimals of databases, masked arrays, nullable columns, and numbers in columns of objects."""
    prices = np.linspace(1, 9, 40).round(2)
    expected = [[None if k % 7 == 0 else price] for k, price in enumerate(prices.tolist())]
    masked = np.ma.MaskedArray(prices[:, None], mask=(np.arange(40) % 7 == 0)[:, None])
    nullable = pd.DataFrame({"x0": pd.array([cell for (cell,) in expected], dtype="Float64")})
    objects = pd.DataFrame({"x0": pd.Series([cell for (cell,) in expected], dtype=object)})
    for held in (expected, masked, nullable, objects):
        columns = Columns.learned(held, NUMBERS)
        assert columns.described() == "x0: continuous"
        assert_array_equal(Rows.of(held, columns).values()[:, 0], np.where(np.arange(40) % 7 == 0, np.nan, prices))


@pytest.mark.parametrize(
    ("between", "clock"),
    [
        ("T", "12:30:05"),
        (" ", "12:30"),
        (" ", "12:30:05.250000"),
        ("T", "12:30:05Z"),
        ("T", "00:00:00Z"),
        (" ", "00:00:00"),
    ],
)
def test_dates_that_are_filled_in_are_written_as_the_others(between: str, clock: str) -> None:
    texts = [f"2024-02-{day}{between}{clock}" for day in range(10, 29)]
    frame = pd.DataFrame({"when": [*texts, None]})
    columns = Columns.learned(frame, NUMBERS)
    cells = cells_of(Rows.of(frame, columns))
    cells[-1] = cells[0]
    made = filled_rows(frame, Rows.of(frame, columns), columns, cells)["when"].tolist()
    assert made[:-1] == texts
    assert made[-1] == (texts[0] if clock != "12:30" else f"{texts[0]}:00")


def test_a_buffer_of_csv_shows_dates_as_dates() -> None:
    out = io.StringIO()
    table().drop(columns="took").to_csv(out, index=False)
    frame = pd.read_csv(io.StringIO(out.getvalue()))
    found = Columns.learned(frame, NUMBERS)
    assert "joined: date; seen: date" in found.described()
