"""The one rule that tells what a column is, what overrides it, and that it is the same however rows come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import eigentree as et
from eigentree.data.streams.encoded_stream import StreamSchema
from eigentree.data.tables import column_kinds, column_summary, state_rules
from eigentree.data.tables.column_summary import Schema
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.messages import kept_notices

NUMBERS = ReadOptions(numeric="emissions")
RANDOM = np.random.default_rng(0)
ROWS = 400


def drawn(values: Sequence[Any], rows: int = ROWS) -> np.ndarray:
    """Each of some values, and then any of them."""
    return np.concatenate([values, RANDOM.choice(values, rows - len(values))])


EXAMPLES: dict[str, tuple[Any, str]] = {
    "age": (drawn(np.arange(18, 71)), "continuous"),
    "age in years and months": (drawn(np.arange(18, 30, 0.25)), "continuous"),
    "visits": (drawn([*range(40), 55, 90]), "count"),
    "cigarettes, from one": (drawn([*range(1, 40), 60]), "count"),
    "temperature": (drawn(np.arange(-20, 30)), "continuous"),
    "seven fractions": (drawn([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]), "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, …"),
    "grades": (drawn([1.0, 1.5, 2.0]), "1, 1.5, 2"),
    "codes": (drawn(np.arange(5)), "0 … 4"),
    "codes and a missing mark": (drawn([-1, 0, 1, 2]), "0 … 2"),
    "codes of months": (drawn(np.arange(12)), "0 … 11"),
    "age from birth": (drawn(np.arange(90)), "count"),
    "years": (drawn([1990, 2000, 2010]), "1990, 2000, 2010"),
    "truths": (drawn([True, False]), "False, True"),
    "text": (drawn(["no", "yes"]), "'no', 'yes'"),
    "constant": (np.full(ROWS, 3.7), "3.7"),
    "two numbers": (np.array([3.5, 2.5]), "2.5, 3.5"),
    "days": (drawn(np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")), "date"),
    "durations": (drawn(np.arange(50).astype("m8[s]")), "date"),
    "days in text": (drawn(np.arange("2020-01-01", "2020-03-01", dtype="M8[D]").astype(str)), "date"),
    "almost days in text": (
        drawn(["2020-01-01", "2020-01-02", "unknown"]),
        "'2020-01-01', '2020-01-02', 'unknown'",
    ),
    "ordered": (pd.Categorical(drawn(["low", "high"]), ["low", "high"], ordered=True), "'low' < 'high'"),
    "unordered": (pd.Categorical(drawn(["low", "high"]), ["low", "high"]), "'low', 'high'"),
    "dates that are categories": (
        pd.Categorical(drawn(["2020-01-01", "2021-01-01"])),
        "'2020-01-01', '2021-01-01'",
    ),
    "measured": (RANDOM.normal(size=ROWS), "continuous"),
    "few rows": (np.array([1.5, 2.5, 3.5, 4.5]), "continuous"),
    "prices that are all different": (
        RANDOM.choice(np.arange(100_000, 900_000), ROWS, replace=False),
        "continuous",
    ),
    "rows of a small table": (np.arange(20), "count"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_rule_tells_what_columns_are(name: str) -> None:
    cells, expected = EXAMPLES[name]
    frame = pd.DataFrame({"x": cells})
    columns = Columns.learned(frame, NUMBERS)
    assert columns.described() == f"x: {expected}"
    holed = frame.reindex(range(len(frame) + 1))
    weighed = ReadOptions(numeric="emissions", sample_weight=np.arange(len(frame)) % 2)
    assert Columns.learned(holed, NUMBERS).described() == f"x: {expected}"
    assert Columns.learned(frame, weighed) == columns


def test_many_whole_numbers_are_a_count_where_they_have_a_name_and_codes_in_an_array() -> None:
    frame = pd.DataFrame({"age": drawn(np.arange(90), 900), "few": drawn(np.arange(12), 900)})
    assert Columns.learned(frame, NUMBERS).described() == "age: count; few: 0 … 11"
    kinds = {"age": "categorical"}
    assert Columns.learned(frame, ReadOptions(numeric="emissions", kinds=kinds)).states == (90, 12)
    assert Columns.learned(frame.to_numpy(), NUMBERS).described() == "x0: 0 … 89; x1: 0 … 11"
    assert Columns.learned(frame.to_numpy().tolist(), NUMBERS).states == (90, 12)
    graph = et.LatentGraph({"h": 2, "age": 90, "few": 12}, [("h", "age"), ("h", "few")], ["h"])
    assert Columns.of(graph).fitted_to(frame, NUMBERS).described() == "age: 0 … 89; few: 0 … 11"
    assert Columns.learned(frame, ReadOptions(numeric="error")).states == (90, 12)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("cuts", [(1,), (100, 101), tuple(range(13, 400, 13))])
def test_the_rule_is_the_same_however_rows_are_split(name: str, cuts: tuple[int, ...]) -> None:
    frame = pd.DataFrame({"x": EXAMPLES[name][0], "same": np.arange(len(EXAMPLES[name][0])) % 2})
    shuffled = frame.sample(frac=1, random_state=0)
    parts = [shuffled.iloc[a:b] for a, b in zip((0, *cuts), (*cuts, len(frame)), strict=True)]
    whole = Columns.learned(frame, NUMBERS)
    assert Columns.learned(reduce(add, map(Schema.of, parts)), NUMBERS) == whole
    found = StreamSchema.of(iter([part for part in parts if len(part)]), NUMBERS)
    assert Columns.learned(found.schema, NUMBERS) == whole


def test_more_numbers_than_are_kept_are_numbers_still(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(
        {
            "float": RANDOM.normal(size=ROWS).round(3),
            "count": [*range(150), *([10**6] * (ROWS - 150))],
            "marked": [-1, *range(200), *([10**6] * (ROWS - 201))],
            "whole": np.arange(ROWS) * 37 % 401 + 18,
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(ROWS), "min"),
            "mixed": [*range(200), *np.arange(0.5, 200, 1)],
        }
    )
    frame.loc[::7, "float"] = None
    frame["text"] = frame["when"].astype(str)
    kept = Columns.learned(frame, ReadOptions(numeric="emissions", kinds={"whole": "continuous"}))
    monkeypatch.setattr(column_summary, "MOST_DIFFERENT", 50)
    monkeypatch.setattr(column_kinds, "MOST_DIFFERENT", 50)
    options = ReadOptions(numeric="emissions")
    whole = Columns.learned(frame, options)
    assert whole.meanings == kept.meanings
    assert whole.described() == (
        "float: continuous; count: count; marked: count; whole: continuous; when: date; mixed: continuous; "
        "text: date"
    )
    for size in (20, 90, 333):
        parts = [Schema.of(frame.iloc[start : start + size]) for start in range(0, ROWS, size)]
        assert Columns.learned(reduce(add, parts), options) == whole
        assert Columns.learned(reduce(add, reversed(parts)), options) == whole
        csv = StreamSchema.of(
            (lambda size=size: (frame.iloc[start : start + size] for start in range(0, ROWS, size))), options
        )
        columns = Columns.learned(csv.schema, options)
        values = np.concatenate([values for _, values, _ in csv.rows(columns).parts()])
        np.testing.assert_array_equal(values, Rows.of(frame, whole).values())
    for numeric in ("error", "quantiles"):
        with pytest.raises(et.DataError, match="cannot be read"):
            Columns.learned(reduce(add, parts), ReadOptions(numeric=numeric))
    words = [Schema.of(pd.DataFrame({"x": [f"a{k}" for k in range(n, n + 40)]})) for n in (0, 40)]
    with pytest.raises(et.DataError, match="'x' holds more than 50 different cells"):
        Columns.learned(words[0] + words[1], options)
    both = words[0] + Schema.of(pd.DataFrame({"x": np.arange(60) / 3}))
    with pytest.raises(et.DataError, match="'x' holds more than 50 different cells"):
        Columns.learned(both, options)


IDENTIFIERS = {
    "numbers of rows": np.arange(1, 301),
    "numbers of some rows": RANDOM.choice(np.arange(1, 501), 300, replace=False),
    "years in a row": np.arange(1950, 2024),
    "numbers of customers": np.unique(RANDOM.integers(10**9, 9 * 10**9, 300)),
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_numbers_that_may_name_the_rows_are_warned_of_unless_the_user_says_what_they_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"id": IDENTIFIERS[name], "b": np.arange(len(IDENTIFIERS[name])) % 2})
    with pytest.warns(
        RuntimeWarning,
        match=r"column 'id' holds .* different whole numbers .* as an identifier does; drop the column",
    ):
        assert Columns.learned(frame, NUMBERS).described() in ("id: continuous; b: 0 … 1", "id: count; b: 0 … 1")
    told = ReadOptions(numeric="emissions", kinds={"id": "continuous"})
    assert Columns.learned(frame, told).described() == "id: continuous; b: 0 … 1"
    # Of rows in parts that are too many, no more than their range is kept.
    for module in (column_summary, column_kinds, state_rules):
        monkeypatch.setattr(module, "MOST_DIFFERENT", 50)
    parts = [Schema.of(part) for part in (frame[::2], frame[1::2])]
    if name in ("numbers of rows", "years in a row"):
        with pytest.warns(RuntimeWarning, match=r"column 'id' holds .* as an identifier does; drop the column"):
            Columns.learned(reduce(add, parts), NUMBERS)
    assert Columns.learned(reduce(add, parts), told).described() == "id: continuous; b: 0 … 1"
    # Twice the same is no name.
    twice = pd.concat([frame, frame])
    assert Columns.learned(twice, NUMBERS).described() in ("id: continuous; b: 0 … 1", "id: count; b: 0 … 1")


@pytest.mark.parametrize("others", [[0, 1], [0, 1, 2], range(60), [0.0, 1.0, np.nan]])
def test_minus_one_that_is_read_as_a_missing_cell_is_warned_of_in_named_columns(others: Sequence[float]) -> None:
    frame = pd.DataFrame({"tax": [-1, *others] * 9})
    with pytest.warns(RuntimeWarning, match="column 'tax' holds -1, which is read as a missing cell"):
        columns = Columns.learned(frame, NUMBERS)
    assert Rows.of(frame, columns).missing(0)[0]
    with kept_notices() as told:
        # Without a name these are codes; answers are those that the user gives; NaN is missing everywhere.
        Columns.learned(frame.to_numpy(), NUMBERS)
        Columns.learned(frame.replace(-1, np.nan), NUMBERS)
        given = Columns.learned(frame[["tax"]], ReadOptions(categories={"tax": sorted({-1, *others} - {np.nan})}))
    assert not told
    assert not Rows.of(frame, given).missing(0)[0]


def test_text_that_names_the_rows_is_noticed() -> None:
    with kept_notices() as told:
        Columns.learned(pd.DataFrame({"id": [f"row {k}" for k in range(100)], "b": 1}), NUMBERS)
    assert "column 'id' is an identifier" in told[0][0]


def test_the_other_rules_are_as_they_were() -> None:
    frame = pd.DataFrame({"age": EXAMPLES["age"][0], "b": 0})
    assert Columns.learned(frame).states == (53, 1)
    fractions = pd.DataFrame({"x": EXAMPLES["measured"][0]})
    assert Columns.learned(fractions, ReadOptions(numeric="quantiles")).states == (8,)
    with pytest.raises(et.DataError, match="column 'x' looks continuous"):
        Columns.learned(fractions)
    for numeric in ("error", "quantiles"):
        for name, held in (("days", "dates"), ("durations", "durations")):
            dates = pd.DataFrame({"x": EXAMPLES[name][0]})
            with pytest.raises(et.DataError, match=f"column 'x' holds {held}, which have no states"):
                Columns.learned(dates, ReadOptions(numeric=numeric))
            with pytest.raises(et.DataError, match=f"column 'x' holds {held}, which have no states"):
                Columns.learned(Schema.of(dates) + Schema.of(dates), ReadOptions(numeric=numeric))
        text = pd.DataFrame({"x": EXAMPLES["days in text"][0]})
        assert isinstance(Columns.learned(text, ReadOptions(numeric=numeric)).labels("x")[0], str)
    with pytest.raises(et.DataError, match="column 'x' holds dates, which have no states"):
        Rows.of(pd.DataFrame({"x": EXAMPLES["days"][0]}), Columns(("x",), (2,)))


def test_columns_can_be_told_one_by_one() -> None:
    frame = pd.DataFrame(
        {
            "grade": drawn([1, 2, 3, 4, 5]),
            "rooms": drawn([0, 1, 2, 3]),
            "size": drawn([1, 2, 3]),
            "age": drawn(np.arange(18, 70)),
            "when": drawn(["2020-01-01", "2020-05-01"]),
            "mood": drawn(["bad", "good"]),
        }
    )
    kinds: Any = {
        "grade": "ordinal",
        "rooms": "count",
        "size": "continuous",
        "age": "categorical",
        "when": "categorical",
        "mood": "ordinal",
    }
    columns = Columns.learned(frame, ReadOptions(numeric="emissions", kinds=kinds))
    assert columns.described() == (
        "grade: 1 < 2 < 3 < 4 < 5; rooms: count; size: continuous; age: 18, 19, 20, 21, 22, 23, …; "
        "when: '2020-01-01', '2020-05-01'; mood: 'bad' < 'good'"
    )
    assert columns.states == (5, 1, 1, 52, 2, 2)
    given = ReadOptions(numeric="emissions", kinds=kinds, categories={"mood": ["good", "bad"]})
    assert Columns.learned(frame, given).meanings[-1].values == ("good", "bad")
    assert Columns.learned(frame, given).meanings[-1].ordered
    # Codes stand for themselves, but keep that they are in an order.
    codes = Columns.learned(frame[["rooms"]], ReadOptions(kinds={"rooms": "ordinal"}))
    assert codes.described() == "rooms: 0 < 1 < 2 < 3"
    assert Columns.learned(frame[["size"]] / 7, ReadOptions(kinds={"size": "categorical"})).states == (3,)
    declared = pd.DataFrame({"x": pd.Categorical(drawn([3, 1, 2]), [1, 2, 3])})
    told = ReadOptions(numeric="emissions", kinds={"x": "continuous"})
    columns = Columns.learned(declared, told)
    assert (columns.meanings[0].least, columns.meanings[0].most) == (1, 3)
    np.testing.assert_array_equal(Rows.of(declared, columns).values()[:, 0], declared["x"].astype(float))
    dates = pd.DataFrame({"x": EXAMPLES["days"][0]})
    assert Columns.learned(dates, told) == Columns.learned(dates, NUMBERS)


IMPOSSIBLE = [
    (["a", "b"], "count", "column 'x' is no count: it holds 'a'; give whole numbers"),
    ([0.5, 1.5], "count", "column 'x' is no count: it holds fractions"),
    ([-4, 1], "count", "column 'x' is no count: it holds numbers such as -4"),
    (["a", 1], "continuous", "column 'x' is not continuous: it holds 'a'; give numbers"),
    ([True, False], "continuous", "column 'x' is not continuous: it holds False"),
    (pd.to_datetime(["2020-01-01", "2020-01-02"]), "count", "column 'x' is no count: it holds dates"),
    (
        [1, 2],
        "date",
        "column 'x' is no date: it holds numbers; give dates, durations, or text such as '2024-02-29'",
    ),
    (
        ["2020-01-01", "soon"],
        "date",
        "column 'x' is no date: it holds '2020-01-01'|column 'x' is no date: it holds 'soon'",
    ),
    (pd.to_datetime(["2020-01-01", "2020-01-02"]), "categorical", "column 'x' holds dates, which have no states"),
    ([None, None], "count", "column 'x' has no known cell"),
    ([np.inf, 1.0], "continuous", "column 'x' holds inf"),
]


@pytest.mark.parametrize(("cells", "kind", "message"), IMPOSSIBLE)
def test_kinds_that_cannot_be_are_named(cells: Any, kind: Any, message: str) -> None:
    with pytest.raises(et.DataError, match=message):
        Columns.learned(pd.DataFrame({"x": cells}), ReadOptions(numeric="emissions", kinds={"x": kind}))


def test_mistakes_in_kinds_are_named() -> None:
    frame = pd.DataFrame({"age": [1, 2], "b": ["x", "y"]})
    with pytest.raises(
        et.ParameterError, match=r"kinds\['age'\] is 'categorical', .* not 'counts'; did you mean 'count'"
    ):
        ReadOptions(numeric="emissions", kinds={"age": "counts"})  # type: ignore[dict-item]
    with pytest.raises(et.ParameterError, match="kinds is a mapping, such as"):
        ReadOptions(kinds=["age"])  # type: ignore[arg-type]
    with pytest.raises(
        et.ParameterError, match=r"column 'age' is to be count, but numeric='error' reads no columns of numbers"
    ):
        ReadOptions(kinds={"age": "count"})
    with pytest.raises(et.DataError, match="name 'agee', which is no column; did you mean 'age'"):
        Columns.learned(frame, ReadOptions(kinds={"agee": "ordinal"}))
    both = ReadOptions(numeric="emissions", kinds={"age": "count"}, categories={"age": [1, 2]})
    with pytest.raises(et.DataError, match="column 'age' has labels, as its categories say, and is count"):
        Columns.learned(frame, both)
    for cells in ([np.inf, 1.5, 2.5], [-np.inf, 1, 2]):
        with pytest.raises(et.DataError, match=r"column 'x0' holds -?inf"):
            Columns.learned([[cell] for cell in cells], NUMBERS)


def test_options_are_those_of_an_estimator() -> None:
    class Estimator:
        categories, numeric, handle_unknown = None, "emissions", "missing"

        @property
        def _column_kinds(self) -> dict[str, str]:
            return {"age": "count"}

    options = ReadOptions.of(Estimator())
    assert (options.numeric, options.kinds, options.handle_unknown) == ("emissions", {"age": "count"}, "missing")
    assert ReadOptions.of(et.OnlineEMJunctionTree("mixture")).kinds is None


def test_columns_of_a_graph_with_one_state_are_numbers() -> None:
    frame = pd.DataFrame(
        {
            "few": drawn([1.5, 2.5]),
            "code": drawn([0, 1, 2]),
            "one": np.zeros(ROWS, int),
            "age": drawn(np.arange(18, 60)),
            "when": drawn(np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")),
            "mood": drawn(["bad", "good"]),
            "many": drawn(np.arange(60)),
        }
    )
    states = {"h": 2, "few": 1, "code": 3, "one": 1, "age": 1, "when": 1, "mood": 2, "many": 60}
    graph = et.LatentGraph(states, [("h", name) for name in frame], ["h"])
    columns = Columns.of(graph).fitted_to(frame, NUMBERS)
    assert columns.numbers == ("few", "age", "when")
    assert columns.states == (1, 3, 1, 1, 1, 2, 60)
    kinds = dict(zip(columns.names, [getattr(meaning, "kind", None) for meaning in columns.meanings], strict=True))
    assert kinds == {"few": "continuous", "code": None, "one": None, "age": "continuous", "when": "date"} | {
        "mood": None,
        "many": None,
    }
    told = ReadOptions(numeric="emissions", kinds={"many": "count", "code": "ordinal"})
    found = Columns.of(graph).fitted_to(frame, told)
    assert found.numbers == ("few", "age", "when", "many")
    assert found.states == (1, 3, 1, 1, 1, 2, 1)
    assert "code: 0 < 1 < 2" in found.described()
    for options, expected in ((NUMBERS, columns), (told, found)):
        parts = [frame[:150], frame[150:]]
        schema = StreamSchema.of(iter(parts), options, graph, often=True)
        assert Columns.of(graph).fitted_to(schema.schema, options) == expected
        values = [values for _, values, _ in schema.rows(expected).parts()]
        np.testing.assert_array_equal(np.concatenate(values), Rows.of(frame, expected).values())
    with pytest.raises(et.DataError, match=r"column 'age' has 42 states .*but 1 in the"):
        Columns.of(graph).fitted_to(
            frame.drop(columns=["when", "few"]).assign(when="a", few=0).astype({"age": str})
        )


def test_polars_and_dask_tell_the_same() -> None:
    dask = pytest.importorskip("dask.dataframe")
    names = ["age", "visits", "seven fractions", "days", "measured", "text"]
    frame = pd.DataFrame({name: EXAMPLES[name][0] for name in names}).astype({"days": "datetime64[us]"})
    expected = Columns.learned(frame, NUMBERS)
    assert Columns.learned(pl.from_pandas(frame), NUMBERS) == expected
    assert Columns.learned(StreamSchema.of(pl.from_pandas(frame).lazy(), NUMBERS).schema, NUMBERS) == expected
    parted = dask.from_pandas(frame, npartitions=5)
    schema = StreamSchema.of(parted, NUMBERS)
    assert Columns.learned(schema.schema, NUMBERS) == expected
    values = np.concatenate([values for _, values, _ in schema.rows(expected).parts()])
    np.testing.assert_array_equal(values, Rows.of(frame, expected).values())


def test_what_columns_are_is_told_in_one_line() -> None:
    wide = Columns.learned(pd.DataFrame({f"c{k}": EXAMPLES["codes"][0] for k in range(50)}), NUMBERS)
    assert wide.described().endswith("c29: 0 … 4; …")
    assert wide.described(2) == "c0: 0 … 4; c1: 0 … 4; …"
    assert (
        repr(Columns.learned([["a", 0.5], ["b", 1.25], ["a", 7.5]], NUMBERS))
        == "Columns(x0: 'a', 'b'; x1: continuous)"
    )


def test_counts_that_may_be_frequencies_are_noticed() -> None:
    frame = pd.DataFrame({"a": np.arange(60) % 12, "b": np.arange(60) % 5, "freq": np.arange(60) ** 2})
    with kept_notices() as told:
        Columns.learned(frame, NUMBERS)
    assert "column 'freq' holds whole numbers, which are read as counts" in told[0][0]
    with kept_notices() as told:
        Columns.learned(frame, ReadOptions(numeric="emissions", kinds={"freq": "count"}))
    assert not told
