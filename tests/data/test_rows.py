"""Bad input gets an error that names the row, the column and what to do; good input of any type is the same."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

import eigentree as et
from eigentree.data.tables.columns import Columns
from eigentree.data.tables.rows import Rows, rows_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable

GRAPH = et.zoo.hmm(3, 1, 2, 4)
NETWORK = et.LatentNetwork.random(GRAPH, seed=0)
ROWS = np.array([[0, 1, 2], [3, -1, 0]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 2), int), r"X has 2 features, .* expecting 3 features as input, .* variable: x0, x1, x2"),
        ([[0, 1, 4]], r"row 0, column 'x2' holds 4, but 'x2' has the codes 0 to 3"),
        ([[0, 1, 2], [0, -2, 2]], r"row 1, column 'x1' holds -2"),
        ([[0, 1.5, 2]], r"row 0, column 'x1' holds 1.5"),
        ([[0, np.inf, 2]], r"row 0, column 'x1' holds inf"),
        ([["0", "1", "2"]], r"column 'x0' holds '0', but 'x0' has the integer codes 0 to 3; fit on labels"),
        (np.array([[0, "A", 1]], dtype=object), r"column 'x1' holds 'A'"),
        (np.zeros((0, 3), int), r"the data have no rows"),
        ([], r"data need the shape \(rows, columns\), not \(0,\)"),
        ([0, 1, 2], r"for one row, write X\[None, :\]"),
        ([{"x0": 0, "x1": 1, "x2": 2}], r"not \(1,\); make a frame of it, as with pandas.DataFrame\(X\)"),
        ([[0, 1, 2], [0, 1]], r"the rows have different lengths"),
        (pd.DataFrame({"x0": [0], "x1": [1], "x02": [2]}), r"the frame has no column 'x2'; did you mean 'x02'"),
        (
            pd.DataFrame({"x0": [0], "x1": ["A"], "x2": [2]}),
            r"row 0, column 'x1' holds 'A', but 'x1' has the",
        ),
        (
            pl.DataFrame({"x0": [0], "x1": ["A"], "x2": [2]}),
            r"row 0, column 'x1' holds 'A', but 'x1' has the",
        ),
        (np.array([[0, 10**400, 1]], dtype=object), r"column 'x1' holds a whole number of about 400 digits"),
        (np.array([[0, 1j, 1]]), r"column 'x0' holds complex numbers"),
        (pd.DataFrame(ROWS, columns=["x0", "x1", "x1"]), r"the frame has two columns 'x1'; drop or rename one"),
        (pd.DataFrame(ROWS, columns=["x0", "x1", 2]), r"the frame has no column 'x2'"),
        (
            pd.DataFrame(ROWS, columns=pd.MultiIndex.from_product([["a"], ["x0", "x1", "x2"]])),
            r"columns have several levels, such as \('a', 'x0'\)",
        ),
        (pl.DataFrame({"x0": [0], "x1": [1], "x2": [2]}).lazy(), r"lazy \(LazyFrame\), .* call .collect\(\) first"),
        (scipy.sparse.csr_matrix(ROWS), r"sparse \(csr_matrix\), .* call .toarray\(\) first"),
        ({"x0": [0], "x1": [1], "x2": [2]}, r"the data are a dict, .* make a frame of it"),
        ((row for row in ROWS), r"the data are a generator, .* write list\(X\)"),
        (None, r"the data are None, but an array, a list of rows or a data frame is expected"),
        ("rows.csv", r"the data are 'rows.csv', .* read a file first"),
        (["0123", "012"], r"row 1 has 3 letters and row 0 has 4"),
    ],
)
def test_bad_data_are_named(X: object, message: str) -> None:
    for ask in (NETWORK.log_prob, NETWORK.impute, lambda X: NETWORK.predict_proba(X, "x0")):
        with pytest.raises(et.DataError, match=message):
            ask(X)


def test_a_bad_cell_far_down_is_found_with_its_row() -> None:
    rows = np.zeros((50_000, 3), int)
    rows[40_123, 1] = 9
    with pytest.raises(et.DataError, match="row 40123, column 'x1' holds 9"):
        NETWORK.log_prob(rows)


@pytest.mark.parametrize(
    "X",
    [
        ROWS.astype(np.int8),
        np.asfortranarray(ROWS.astype(np.int32)),
        np.where(ROWS < 0, np.nan, ROWS),
        ROWS.tolist(),
        [[0, 1, 2], [3, None, 0]],
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS, columns=["x0", "x1", "x2"])[["x2", "x0", "x1"]],
        pd.DataFrame({"x0": [0, 3], "x1": [1, None], "x2": [2, 0]}),
        pd.DataFrame({"x0": [0, 3], "x1": pd.array([1, None], dtype="Int64"), "x2": [2, 0]}),
        pl.DataFrame({"x0": [0, 3], "x1": [1, None], "x2": [2, 0]}),
        pa.table({"x0": [0, 3], "x1": [1, None], "x2": [2, 0]}),
        pd.DataFrame({"x0": [0, 3], "x1": [1, pd.NA], "x2": [2, 0]}, dtype=object),
        np.array([[0, 1, 2], [3, pd.NaT, 0]], dtype=object),
        np.ma.array([[0, 1, 2], [3, 2, 0]], mask=ROWS < 0),
        np.ma.array([[0, 1, 2], [3, 2, 0]], mask=ROWS < 0, dtype=object),
        np.ma.array(ROWS),
        ROWS.astype(np.float16),
        ROWS.astype(np.longdouble),
        ROWS.astype(">i4"),
        np.where(ROWS < 0, np.nan, ROWS).astype(">f8"),
    ],
    ids=lambda X: type(X).__module__.split(".")[0],
)
def test_all_kinds_of_input_mean_the_same(X: object) -> None:
    assert_array_equal(NETWORK.log_prob(X), NETWORK.log_prob(ROWS))


@pytest.mark.parametrize("states", [2, 127, 128, 200, 300, 40_000])
def test_codes_are_rows_of_the_same_codes(states: int) -> None:
    columns = Columns(("x", "y"), (states, 2))
    codes = np.array([[0, 1], [states - 1, 2], [states, 0], [states // 2, 1]], columns.code_type, order="F")
    rows = Rows.of_codes(codes, columns)
    assert_array_equal(rows.encode(), codes)
    assert_array_equal(rows.missing(0), [False, False, True, False])


def test_booleans_are_codes() -> None:
    network = et.LatentNetwork.random(et.zoo.hmm(2, 1, 2, 2), seed=0)
    assert_array_equal(network.log_prob([[True, False]]), network.log_prob([[1, 0]]))


@pytest.mark.parametrize(("states", "size"), [(4, 1), (255, 1), (256, 2), (65_536, 4)])
def test_codes_take_the_smallest_type_that_also_holds_missing(states: int, size: int) -> None:
    graph = et.zoo.mixture(2, 2, states)
    rows = Rows.of(np.array([[0, states - 1], [-1, -1]]), Columns.of(graph))
    codes = rows.encode(0, 2)
    assert codes.dtype.itemsize == size
    assert codes.flags.f_contiguous
    assert_array_equal(codes, [[0, states - 1], [states, states]])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: NETWORK.joint(["x0", "h0"]), "'h0' is hidden, so no column holds it"),
        (lambda: NETWORK.predict_proba(ROWS, "x02"), "no variable 'x02'; did you mean"),
        (lambda: NETWORK.joint(["x0", "x0"]), "each variable may be named once"),
        (lambda: NETWORK.joint("x0"), r"names is a list of names; write names=\['x0'\]"),
        (lambda: NETWORK.joint(None), r"names is a list of names, not None"),
        (lambda: NETWORK.joint([["x0"]]), r"names is a list of names, and \['x0'\] is no string"),
        (lambda: NETWORK.predict_proba(ROWS, ["x0"]), r"no variable \['x0'\]"),
        (lambda: NETWORK.conditional([], {"x0": 1}), "name at least one"),
        (lambda: NETWORK.conditional(["x0"], ["x1"]), "given is a mapping of names to states"),
        (lambda: NETWORK.sample(3, given=["x1"]), "given is a mapping of names to states"),
        (lambda: NETWORK.conditional(["x0"], {"x0": 1}), "'x0' stands on both sides"),
        (lambda: NETWORK.sample(3, given={"h0": 1}), "'h0' is hidden, so no column holds it"),
        (lambda: NETWORK.sample(0), "at least 1, not 0"),
        (lambda: NETWORK.sample(2.5), "at least 1, not 2.5"),
        (lambda: NETWORK.impute(ROWS, method="most"), "method is 'mode', 'mean', 'median' or 'sample', not 'most'"),
    ],
)
def test_bad_questions_are_named(ask, message: str) -> None:
    with pytest.raises(et.EigentreeError, match=message):
        ask()


def test_a_table_too_large_is_refused() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(30, 2, 2), seed=0)
    with pytest.raises(et.DataError, match=r"30 variables with 1.07e.09 cells is too large"):
        network.joint(network.graph.observed)


@pytest.mark.parametrize("value", [7, -1, 1.5, "A", None, np.nan, np.inf, 10**30, [1, 2]])
def test_evidence_is_a_code(value: object) -> None:
    with pytest.raises(et.DataError, match=r"'x1' is given as .*, but has the codes 0 to 3"):
        NETWORK.conditional(["x0"], {"x1": value})
    with pytest.raises(et.DataError, match=r"'x1' is given as .*, but has the codes 0 to 3"):
        NETWORK.sample(3, given={"x1": value})


@pytest.mark.parametrize("value", [1, 1.0, True, np.int8(1), np.float32(1)])
def test_a_code_may_be_any_whole_number(value: object) -> None:
    assert_array_equal(NETWORK.conditional(["x0"], {"x1": value}), NETWORK.conditional(["x0"], {"x1": 1}))


def test_names_may_come_from_a_generator() -> None:
    names = ["x0", "x2"]
    assert_array_equal(NETWORK.joint(name for name in names), NETWORK.joint(names))
    given = {"x1": 0}
    assert_array_equal(NETWORK.conditional((name for name in names), given), NETWORK.conditional(names, given))


def test_a_number_beyond_all_floats_is_printed_in_short() -> None:
    network = et.LatentNetwork.random(et.zoo.mixture(1_000, 2, 4), seed=0)
    for ask in (network.joint, lambda names: network.conditional(names, {})):
        with pytest.raises(et.DataError, match=r"1000 variables with 1.15e\+602 cells is too large"):
            ask(network.graph.observed)


def test_wide_data_are_taken_in_smaller_chunks() -> None:
    assert rows_at_a_time(10) == 16_384
    assert rows_at_a_time(2_000) * 2_000 <= 2**22
    assert rows_at_a_time(10**9) == 1


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("cell", [3, 255])
def test_small_unsigned_codes_are_checked_in_any_order(order: str, cell: int) -> None:
    graph = et.zoo.mixture(4, 2, 3)
    cells = np.asarray(np.random.default_rng(0).integers(0, 3, (50, 4)), np.uint8, order=order)
    assert_array_equal(Rows.of(cells, Columns.of(graph)).encode(10, 30), cells[10:30])
    cells[17, 2] = cell
    with pytest.raises(et.DataError, match=rf"row 17, column 'x2' holds {cell}, but"):
        Rows.of(cells, Columns.of(graph)).encode(10, 30)


def test_further_columns_are_ignored_with_a_warning() -> None:
    columns = Columns.of(GRAPH)
    frame = pd.DataFrame({"z": ["?", "!"], "x0": [0, 1], "x1": [1, 0], "x2": [2, 1]})
    with pytest.warns(UserWarning, match="the model ignores column .z. of the frame"):
        rows = Rows.of(frame, columns)
    np.testing.assert_array_equal(rows.encode(), Rows.of(frame[["x0", "x1", "x2"]], columns).encode())
    with pytest.raises(et.DataError, match=r"the graph has no observed variable for column .z."):
        columns.fitted_to(frame)


class Rewritten(np.ndarray):
    """A mapped file that somebody else writes after its largest cell was looked at."""

    def max(self, *args: Any, **kwargs: Any) -> Any:
        found = super().max(*args, **kwargs)
        self[...] = 200
        return found


def test_cells_that_change_after_they_were_checked_never_become_codes() -> None:
    cells = np.zeros(5, np.int64).view(Rewritten)
    with pytest.raises(et.DataError, match="the data changed while they were read; give a copy"):
        Rows(Columns(("x0",), (3,)), (cells,)).encode()


@pytest.mark.parametrize(
    "of", [np.ascontiguousarray, np.asfortranarray, lambda cells: cells[:, ::-1]], ids=["rows", "columns", "apart"]
)
@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_another_thread_may_write_into_data_while_they_are_read(of: Callable[..., Any], kind: type) -> None:
    columns = Columns(("x0", "x1", "x2"), (3, 3, 3))
    cells = of(np.zeros((20_000, 3), kind))
    stop = threading.Event()

    def rewrite() -> None:
        while not stop.is_set():
            cells[::7, 1] = 200
            cells[::7, 1] = 0

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(20):
            with suppress(et.DataError):
                assert (Rows.of(cells, columns).encode() <= 2).all()
    finally:
        stop.set()
        writer.join()
