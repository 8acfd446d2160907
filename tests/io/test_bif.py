"""Networks for other programs and from them: BIF texts, pgmpy, pyagrum."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from numpy.testing import assert_allclose, assert_array_equal
from pgmpy.readwrite import BIFReader, BIFWriter
from random_graphs import latent_graphs

import eigentree as et

with warnings.catch_warnings():
    # SWIG's builtin types warn while pyagrum loads; as an error that would crash the interpreter.
    warnings.simplefilter("ignore")
    import pyagrum

CHAIN = et.LatentNetwork.random(et.zoo.hmm(4, 2, 2, 3), seed=0)


def rows_of(network: et.LatentNetwork) -> np.ndarray:
    rows = network.sample(20, seed=1)
    rows[::3, 0] = -1
    return rows


@given(graph=latent_graphs())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_holds_every_bit(graph: et.LatentGraph, tmp_path: Path) -> None:
    network = et.LatentNetwork.random(graph, concentration=0.2, seed=1)
    if not graph.directed:
        with pytest.raises(
            et.NetworkError, match="a BIF text holds a Bayesian network, and this graph is undirected"
        ):
            network.to_bif()
        return
    text = network.to_bif(tmp_path / "network.bif")
    for source in (text, tmp_path / "network.bif", str(tmp_path / "network.bif")):
        again = et.LatentNetwork.from_bif(source, hidden=graph.hidden)
        assert again.graph.states == graph.states
        for name in graph.names:
            assert again.graph.parents(name) == graph.parents(name)
            assert_array_equal(again.tables[name], network.tables[name])


def test_names_of_every_kind() -> None:
    names = ["a b", "c,d", "{e}", "x(1)|2", "é", "a//b", "-", "1", "table", "x;y", "variable"]
    graph = et.LatentGraph(dict.fromkeys(names, 2), [(names[0], name) for name in names[1:]], [names[0]])
    network = et.LatentNetwork.random(graph, seed=0)
    again = et.LatentNetwork.from_bif(network.to_bif(), hidden=graph.hidden)
    assert_array_equal(again.log_prob(rows_of(network)), network.log_prob(rows_of(network)))
    quoted = et.LatentNetwork.random(et.LatentGraph({'"': 2}), seed=0)
    with pytest.raises(et.NetworkError, match="has quotes or ends of lines in it"):
        quoted.to_bif()


@pytest.mark.parametrize(
    "network", [CHAIN, et.LatentNetwork.random(et.zoo.mixture(4, 3, 2), concentration=0.1, seed=0)]
)
def test_pgmpy_reads_what_is_written_and_the_other_way(network: et.LatentNetwork, tmp_path: Path) -> None:
    hidden, rows = network.graph.hidden, rows_of(network)
    model = BIFReader(string=network.to_bif()).get_model()
    assert_allclose(et.LatentNetwork.from_pgmpy(model, hidden).log_prob(rows), network.log_prob(rows), rtol=1e-12)
    text = str(BIFWriter(network.to_pgmpy()))
    assert_allclose(et.LatentNetwork.from_bif(text, hidden).log_prob(rows), network.log_prob(rows), rtol=1e-12)
    ours = network.to_pgmpy()
    assert ours.check_model()
    back = et.LatentNetwork.from_pgmpy(ours)
    assert back.graph.hidden == hidden
    assert_array_equal(back.log_prob(rows), network.log_prob(rows))
    # Tables that come transposed are kept row by row: their order in memory decides the last bits of sums.
    back.save(tmp_path / "back")
    assert all(table.flags.c_contiguous for table in back.tables.values())
    assert_array_equal(et.load(tmp_path / "back").log_prob(rows), back.log_prob(rows))


def test_pyagrum_reads_what_is_written_and_the_other_way(tmp_path: Path) -> None:
    network, rows = CHAIN, rows_of(CHAIN)
    hidden = network.graph.hidden
    network.to_bif(tmp_path / "ours.bif")
    read = et.LatentNetwork.from_pyagrum(pyagrum.loadBN(str(tmp_path / "ours.bif")), hidden)
    # pyagrum reads numbers of single precision.
    assert_allclose(read.log_prob(rows), network.log_prob(rows), rtol=1e-5)
    pyagrum.saveBN(network.to_pyagrum(), str(tmp_path / "theirs.bif"))
    again = et.LatentNetwork.from_bif(tmp_path / "theirs.bif", hidden)
    assert_allclose(again.log_prob(rows), network.log_prob(rows), rtol=1e-12)
    back = et.LatentNetwork.from_pyagrum(network.to_pyagrum(), hidden)
    assert_array_equal(back.log_prob(rows), network.log_prob(rows))


def test_exports_refuse_undirected_graphs() -> None:
    graph = et.LatentGraph({"h": 2, "x": 2}, [("h", "x")], ["h"], directed=False)
    for export in ("to_pgmpy", "to_pyagrum", "to_bif"):
        with pytest.raises(et.NetworkError, match="this graph is undirected"):
            getattr(et.LatentNetwork.random(graph, seed=0), export)()


def test_other_packages_load_when_asked_for() -> None:
    script = (
        "import sys, eigentree as et; sys.modules['pgmpy'] = None\n"
        "n = et.LatentNetwork.random(et.zoo.mixture(3, 2, 2)); n.to_bif(); assert 'pyagrum' not in sys.modules\n"
        "try: n.to_pgmpy()\n"
        "except ImportError as error: print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "this needs pgmpy, which is not installed: pip install pgmpy"


TEXT = """// a comment
network "dogs" { property author = {'nobody', "x"} ; }
/* two
   lines */
variable light-on { type discrete [ 2 ] { true, false }; property position = (1, 2); }
variable family {
  type discrete[3] { out at night, in, 1.5 };
}
probability ( family ) { table 0.25 0.5, .25 ; }
probability ( light-on | family ) {
  default 0.9, 1e-1;
  (in) 0.3 0.7;
}
"""


def test_what_a_text_says() -> None:
    network = et.LatentNetwork.from_bif(TEXT, hidden=["family"])
    assert network.graph.states == {"light-on": 2, "family": 3}
    assert network.tables["light-on"].tolist() == [[0.9, 0.1], [0.3, 0.7], [0.9, 0.1]]
    assert network.tables["family"].tolist() == [0.25, 0.5, 0.25]


def test_states_are_labels() -> None:
    network = et.LatentNetwork.from_bif(TEXT, hidden=[])
    assert network.labels("light-on") == ("true", "false")
    assert network.labels("family") == ("out at night", "in", "1.5")
    assert network.to_bif() == et.LatentNetwork.from_bif(network.to_bif(), hidden=[]).to_bif()
    assert "(out at night)" not in network.to_bif()
    assert network.conditional(["light-on"], given={"family": "in"}).tolist() == pytest.approx([0.3, 0.7])
    assert network.to_pgmpy().get_cpds("light-on").state_names["family"] == ["out at night", "in", "1.5"]
    assert network.to_pyagrum().variable("family").labels() == ("out at night", "in", "1.5")
    hidden = et.LatentNetwork.from_bif(TEXT, hidden=["family"])
    assert hidden.labels("family") == ("out at night", "in", "1.5")
    assert hidden.to_bif() == network.to_bif()
    numbers = et.LatentNetwork.from_bif(TEXT.replace("true, false", "9, -5"), hidden=[])
    assert numbers.labels("light-on") == (9, -5)
    codes = et.LatentNetwork.from_bif(TEXT.replace("true, false", "0, 1"), hidden=["family"])
    assert codes.columns.plain


def test_a_number_and_its_text_stay_apart() -> None:
    rows = np.array([[1, "a"], ["1", "b"], ["1", "a"], [1, "b"]] * 5, object)
    model = et.EMJunctionTree(et.zoo.Mixture(), max_iter=2, random_state=0).fit(rows)
    text = model.network_.to_bif()
    assert "{ 1, '1' }" in text
    again = et.LatentNetwork.from_bif(text, hidden=model.graph_.hidden)
    assert_array_equal(again.log_prob(np.array([["1", "a"]], object)), model.network_.log_prob(rows[:1]))


def test_a_table_given_whole_has_its_own_states_slowest() -> None:
    """As pgmpy and pyagrum read it."""
    whole = TEXT.replace("default 0.9, 1e-1;\n  (in) 0.3 0.7;", "table 0.1, 0.2, 0.3, 0.9, 0.8, 0.7;")
    table = et.LatentNetwork.from_bif(whole, hidden=[]).tables["light-on"]
    assert table.tolist() == [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]


def test_rounded_numbers_are_divided_by_their_sum() -> None:
    table = et.LatentNetwork.from_bif(TEXT.replace(".25 ;", ".2501 ;"), hidden=[]).tables["family"]
    assert_allclose(table.sum(), 1.0, rtol=1e-15)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (TEXT, "\n", "line 2: there is no variable; this is no BIF text"),
        (TEXT, "hello {\n", "line 1: network, variable or probability is expected, not 'hello'"),
        ("  (in) 0.3 0.7;\n}\n", "  (in) 0.3", "line 12: the text ends in the middle of a block"),
        ("two\n   lines */", "two", "line 3: a comment does not end"),
        ('"dogs"', '"dogs', "line 2: a quote does not end"),
        ("[ 2 ]", "[ 3 ]", "line 5: 'light-on' has 2 states, not '3'"),
        ("[ 2 ]", f"[ {10**30} ]", "line 5: 'light-on' has 2 states, not '1000"),
        ("[ 2 ]", "[ two ]", "line 5: 'light-on' has 2 states, not 'two'"),
        ("{ true, false }", "{ true, true }", "line 5: 'light-on' has no state, or two of one name"),
        ("{ true, false }", "{ true,, false }", "line 5: a name is missing between commas"),
        ("type discrete[3]", "type real[3]", "line 7: variables are discrete, but 'family' is 'real'"),
        ("type discrete[3]", "kind discrete[3]", "line 7: one type, or a property, is expected, not 'kind'"),
        ("variable family", "variable light-on", "line 6: the variable 'light-on' is declared twice"),
        (
            "( family )",
            "( famili )",
            "line 9: there is no variable 'famili' before this line; did you mean",
        ),
        (
            "( light-on | family )",
            "( light-on | light-on )",
            "line 10: 'light-on' has two tables, or a parent",
        ),
        ("( light-on | family )", "( family )", "line 10: 'family' has two tables"),
        ("0.25 0.5, .25 ;", "0.25 0.5;", "line 9: the table of 'family' has 3 numbers, but 2 are given"),
        ("0.25 0.5, .25 ;", "0.25 0.5 0.5;", "line 9: a distribution of 'family' adds up to 1.25, not to 1"),
        ("0.25 0.5, .25 ;", "0.25 -0.5 0.5;", "line 9: a probability is expected, not '-0.5'"),
        ("0.25 0.5, .25 ;", "nan nan nan;", "line 9: a probability is expected, not 'nan'"),
        ("0.25 0.5, .25 ;", "1e999 0 0;", "line 9: a probability is expected, not '1e999'"),
        ("0.25 0.5, .25 ;", "1_0 0 0;", "line 9: a probability is expected, not '1_0'"),
        ("(in) 0.3 0.7;", "(inn) 0.3 0.7;", "line 12: 'family' has no state 'inn'; did you mean 'in'"),
        ("(in) 0.3 0.7;", "(in, in) 0.3 0.7;", "line 12: 'light-on' has 1 parents, but 2 states are given"),
        ("(in) 0.3 0.7;", "(in) 0.3 0.7;(in) 1 0;", "line 12: these states of the parents are given twice"),
        ("(in) 0.3 0.7;", "(in) 0.3 0.3 0.4;", "line 12: 'light-on' has 2 states, but 3 numbers are given"),
        ("(in) 0.3 0.7;", "table 0.3 0.7;", "line 10: a table is given whole, or row by row, not both"),
        ("  default 0.9, 1e-1;\n", "", "line 10: the table of 'light-on' lacks a row"),
        ("probability ( family ) { table 0.25 0.5, .25 ; }", "", "line 6: 'family' has no probabilities"),
    ],
)
def test_malformed_texts_name_the_line(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(et.FileError) as caught:
        et.LatentNetwork.from_bif(TEXT.replace(old, new), hidden=[])
    assert str(caught.value).startswith(message)


def test_hostile_texts(tmp_path: Path) -> None:
    names = [f"x{k}" for k in range(40)]
    wide = "".join(f"variable {name} {{ type discrete [2] {{ a, b }}; }}\n" for name in names)
    wide += "".join(f"probability ( {name} ) {{ table 0.5, 0.5; }}\n" for name in names[1:])
    wide += f"probability ( x0 | {', '.join(names[1:])} ) {{ default 0.5, 0.5; }}\n"
    with pytest.raises(et.TreewidthError, match="the table of 'x0' given its 39 parents"):
        et.LatentNetwork.from_bif(wide, hidden=[])
    cycle = TEXT.replace("( family ) { table 0.25 0.5, .25 ; }", "( family | light-on ) { default 0.25 0.5 .25; }")
    with pytest.raises(et.GraphError, match="the edges form a cycle"):
        et.LatentNetwork.from_bif(cycle, hidden=[])
    with pytest.raises(et.GraphError, match="hidden names 'nobody'"):
        et.LatentNetwork.from_bif(TEXT, hidden=["nobody"])
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(et.FileError, match="is no text in UTF-8, and so no BIF file"):
        et.LatentNetwork.from_bif(tmp_path / "bytes", hidden=[])
    (tmp_path / "text").write_text("hello")
    with pytest.raises(et.FileError, match=r"text', line 1: network, variable or probability is expected"):
        et.LatentNetwork.from_bif(tmp_path / "text", hidden=[])
    for source in (None, 3, b"network", "nowhere.bif", tmp_path, ""):
        with pytest.raises(et.FileError):
            et.LatentNetwork.from_bif(source, hidden=[])


def test_texts_changed_at_random() -> None:
    """A network, or one of our errors."""
    text = et.LatentNetwork.random(et.zoo.hmm(3, 1, 2, 2), seed=0).to_bif()
    random = np.random.default_rng(0)
    pieces = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        "|",
        '"',
        "/*",
        "//",
        "x0",
        "9" * 50,
        "-1",
        "table",
        "\0",
        "\ud800",
    ]
    loaded = 0
    for _ in range(1_500):
        place = int(random.integers(len(text)))
        changed: Any = text[:place] + pieces[random.integers(len(pieces))] * int(random.integers(2))
        changed += text[place + int(random.integers(30)) :]
        try:
            et.LatentNetwork.from_bif(changed, hidden=["h1"])
            loaded += 1
        except et.EigentreeError:
            pass
    assert loaded
