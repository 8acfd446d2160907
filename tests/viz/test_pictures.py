"""Pictures of trees, spectra, profiles and fits: what is drawn is what the model says, on axes that are given."""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from random_graphs import latent_graphs
from sklearn.exceptions import NotFittedError

import eigentree as et
from benchmarks.planted import random_tree
from eigentree.graphs.structure_learning import mixture_of_trees

MIXTURE = et.LatentNetwork.random(et.zoo.mixture(14, 3, [2, 3, 9] + [2] * 11), concentration=0.4, seed=0)
ROWS = MIXTURE.sample(400, seed=0)
WORDS = ["AABBBA", "ABBBC", "BBBAAAA", "AAACABB", "ABBA", "CCAB"] * 3
SPECTRAL = et.SpectralJunctionTree(MIXTURE.graph).fit(ROWS)
MULTISTART = et.EMJunctionTree(MIXTURE.graph, random_state=0, max_iter=8, n_init=2, validation_fraction=0.2).fit(
    ROWS
)
HMM = et.EMHMM(3, init="random", n_init=1, max_iter=8, random_state=0).fit(WORDS)


def drawn_by_id(artists: Any) -> dict[str, Any]:
    return {each.get_gid(): each for each in artists if each.get_gid()}


def rendered(ax: Any) -> None:
    """Everything is drawn, with letters that the font has."""
    figure = ax.figure
    figure.draw(FigureCanvasAgg(figure).get_renderer())


@settings(max_examples=30, deadline=None)
@given(latent_graphs(most_variables=7, most_states=3, most_cells=2_000))
def test_the_tree_that_is_drawn_is_the_junction_tree(graph: et.LatentGraph) -> None:
    tree = et.JunctionTree.of(graph)
    ax = et.plot.tree(tree)
    texts = drawn_by_id(ax.texts)
    boxes = {name: text for name, text in texts.items() if not name.startswith("separator ")}
    separators = {name: text for name, text in texts.items() if name.startswith("separator ")}
    columns = {name for name in boxes if not name.startswith("clique ")}
    assert columns == set(graph.observed)
    assert len(ax.patches) == len(separators) == len(boxes) - 1
    assert {type(boxes[name].get_bbox_patch().get_boxstyle()).__name__ for name in columns} == {"Square"}
    cliques = {frozenset(node.clique) for node in tree.nodes if node.observed is None}
    shown = {frozenset(boxes[name].get_text().split(", ")) - {"∅"} for name in set(boxes) - columns}
    assert shown == cliques
    told = {text.get_text() for text in separators.values()}
    known = {node.separator for node in tree.nodes if node.parent >= 0}
    for text in told - {"independent"}:
        names, count = re.fullmatch(r"(.*): (\d+) states?", text).groups()  # type: ignore[union-attr]
        assert tuple(names.split(", ")) in known
        assert int(count) == np.prod([graph.states[name] for name in names.split(", ")])


@pytest.mark.parametrize("graph", [et.zoo.hmm(6, 2, 2, 3), MIXTURE.graph, et.zoo.factorial_hmm(4, 2)])
def test_trees_of_spectral_models_tell_ranks(graph: et.LatentGraph) -> None:
    model = et.SpectralJunctionTree(graph).fit(et.LatentNetwork.random(graph, seed=0).sample(300, seed=0))
    ax = et.plot.tree(model)
    texts = drawn_by_id(ax.texts)
    lines = drawn_by_id(ax.patches)
    leaves = {node.observed: node for node in model.plan_.nodes if node.observed is not None}
    reports = dict(zip((n for n in model.plan_.nodes if n.parent >= 0), model.report_.separators, strict=True))
    for name, text in texts.items():
        if name.startswith("separator "):
            column = name.split()[-1]
            if column in leaves:
                report = reports[leaves[column]]
                # Edges that neither branch nor end in between are learned as one.
                passed = leaves[column].passed
                sizes = [np.prod([graph.states[each] for each in names]) for names in passed]
                assert text.get_text() in {
                    f"{', '.join(names)}: rank {report.rank} of {size}"
                    for names, size in zip(passed, sizes, strict=True)
                }
                line = lines[name.replace("separator", "edge")]
                assert (line.get_linestyle() != "-") == report.weak
    plain = et.plot.tree(model.graph_)
    assert all("rank" not in text.get_text() for text in plain.texts)
    assert len(plain.texts) == len(ax.texts)


def test_names_in_trees_stand_apart() -> None:
    for graph in (et.zoo.hmm(7, 2), random_tree(20, 2, 2, seed=0), et.zoo.mixture(12, 2)):
        ax = et.plot.tree(graph)
        renderer = FigureCanvasAgg(ax.figure).get_renderer()
        ax.figure.draw(renderer)
        extents = [text.get_window_extent(renderer) for text in ax.texts]
        for place, one in enumerate(extents):
            assert not any(one.overlaps(other) for other in extents[place + 1 :])


def test_spectra_are_those_of_the_report() -> None:
    ax = et.plot.spectra(SPECTRAL)
    found = drawn_by_id(ax.lines)
    names = [label.get_text() for label in ax.get_yticklabels()]
    reports = sorted(
        SPECTRAL.report_.separators, key=lambda each: each.smallest / each.noise if each.rank > 1 else np.inf
    )[: len(names)]
    least = 1e-4 * max(each.singular_values.max() for each in reports)
    for row, report in enumerate(reports):
        assert names[row].startswith(f"{report.separator[0]} above {report.inside[0]}"[:30])
        for place, value in enumerate(report.singular_values):
            dot = found[f"value {row} {place}"]
            assert dot.get_xdata()[0] == pytest.approx(max(value, least))
            assert (dot.get_markerfacecolor() == "white") == (place >= report.rank)
            assert dot.get_marker() == ("<" if value < least else "o")
        assert list(found[f"noise {row}"].get_xdata()) == [report.noise] * 2
    assert [name.split(": ")[1] for name in names] == [f"rank {each.rank} of {each.states}" for each in reports]
    weak = sum(each.weak for each in SPECTRAL.report_.separators)
    assert f", {weak or 'none'} with a rank" in ax.get_title()
    few = et.plot.spectra(SPECTRAL, most=5)
    count = len(SPECTRAL.report_.separators)
    assert (
        f"singular value; the 5 nearest to the noise of {count} separators; {count - 5} are left out"
        in few.get_xlabel()
    )
    sequences = et.SpectralHMM(2).fit(WORDS)
    (name,) = et.plot.spectra(sequences).get_yticklabels()
    assert name.get_text().endswith(": rank 2")


def numbers(ax: Any) -> np.ndarray:
    mesh = ax.collections[0].get_array()
    return np.asarray(mesh)


def test_profiles_are_drawn_as_they_are() -> None:
    (profile,) = et.profiles(MIXTURE).values()
    ax = et.plot.profiles(MIXTURE)
    lines = [label.get_text() for label in ax.get_yticklabels()]
    table = numbers(ax)
    assert table.shape == (len(lines), 3)
    row = 0
    for column in profile.columns[:10]:
        told = profile.table(column).array
        assert lines[row].startswith(f"{column} = ")
        if told.shape[1] == 2:
            np.testing.assert_allclose(table[row], told[:, 1])
            row += 1
        elif told.shape[1] == 3:
            np.testing.assert_allclose(table[row : row + 3], told.T)
            row += 3
        else:
            np.testing.assert_allclose(table[row : row + 6].sum(axis=0), 1)
            assert lines[row + 5] == "4 others"
            likely = np.sort(np.argsort(-told.max(axis=0))[:5])
            np.testing.assert_allclose(table[row : row + 5], told[:, likely].T)
            row += 6
    assert row == len(lines)
    assert len(ax.texts) == table.size
    for text, share in zip(ax.texts, table.ravel(), strict=True):
        assert float(text.get_text()) == pytest.approx(share, abs=0.0051)
    heads = [label.get_text() for label in ax.get_xticklabels()]
    assert heads == [f"{state}\n{share:.0%}" for state, share in enumerate(profile.shares)]
    assert "the 10 most informative of 14 columns; 4 are left out" in ax.get_xlabel()
    assert "left out" not in et.plot.profiles(profile, most=14).get_xlabel()
    rendered(ax)


def test_of_several_hidden_variables_one_is_drawn_and_many_states_are_left_out() -> None:
    tree = random_tree(8, 3, 2, seed=0)
    network = et.LatentNetwork.random(mixture_of_trees(tree, 5), concentration=0.4, seed=0)
    found = et.profiles(network)
    best = max(found.values(), key=lambda each: sum(each.nats))
    ax = et.plot.profiles(network)
    assert f"states of {best.name}\n" in ax.get_title()
    assert f"{len(found) - 1} other hidden variables not shown" in ax.get_title()
    name = tree.hidden[-1]
    ax = et.plot.profiles(network, hidden=name)
    assert f"states of {name}\n" in ax.get_title()
    assert "not shown" not in ax.get_title()
    assert len(ax.get_xticklabels()) == 12
    assert "the 12 largest of 15 states; 3 are left out" in ax.get_xlabel()
    shares = sorted(found[name].shares, reverse=True)[:12]
    shown = [int(label.get_text().split("\n")[1].rstrip("%")) for label in ax.get_xticklabels()]
    assert sorted(shown, reverse=True) == [round(100 * share) for share in shares]


def test_titles_of_profiles_end_where_the_picture_does() -> None:
    names = ["h_stalk-color-above-ring", "h_spore-print-color"]
    edges = [(names[0], names[1]), *((name, f"a long name of a column {name}") for name in names)]
    graph = et.LatentGraph({name: 2 for edge in edges for name in edge}, edges, names)
    ax = et.plot.profiles(et.LatentNetwork.random(graph, seed=0))
    rendered(ax)
    title = ax.title.get_window_extent()
    assert title.x0 >= 0
    assert title.x1 <= ax.figure.bbox.x1


def test_learning_curves_are_histories() -> None:
    ax = et.plot.learning_curve(MULTISTART)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), MULTISTART.history_)
    (beside,) = (other for other in ax.figure.axes if other is not ax)
    np.testing.assert_array_equal(beside.lines[0].get_ydata(), MULTISTART.validation_history_)
    assert beside.lines[1].get_xdata()[0] == MULTISTART.validation_history_.argmax()
    assert ax.get_title().startswith(f"{len(MULTISTART.history_) - 1} iterations")
    rendered(ax)
    online = et.OnlineEMJunctionTree(MIXTURE.graph, passes=3, random_state=0).fit(ROWS)
    ax = et.plot.learning_curve(online)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), online.history_)
    assert ax.get_xlabel() == "pass"
    assert len(ax.figure.axes) == 1
    np.testing.assert_array_equal(et.plot.learning_curve(HMM).lines[0].get_ydata(), HMM.history_)


def test_multi_starts_are_drawn_rung_by_rung() -> None:
    rungs = MULTISTART.start_.rungs
    ax = et.plot.multistart(MULTISTART)
    assert len(ax.get_xticklabels()) == len(rungs)
    points = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() != "None"])
    assert len(points) == sum(len(rung.objectives) for rung in rungs)
    for number, rung in enumerate(rungs):
        here = points[np.abs(points[:, 0] - number) < 0.5, 1]
        behind = [rung.objectives[0][1] - objective for _, objective in rung.objectives]
        np.testing.assert_allclose(np.sort(here), np.sort(behind))
    assert set(ax.get_legend_handles_labels()[1]) == {name for rung in rungs for name, _ in rung.objectives}
    assert MULTISTART.start_.name in ax.get_title()
    rendered(ax)
    with pytest.warns(FutureWarning, match=r"et.plot.race is called et.plot.multistart"):
        assert et.plot.race(MULTISTART).get_title() == ax.get_title()
    with pytest.raises(et.ParameterError, match="no candidates to choose from"):
        et.plot.multistart(et.OnlineEMJunctionTree(MIXTURE.graph, passes=1, random_state=0).fit(ROWS))  # type: ignore[arg-type]


def test_a_fit_whose_tables_all_depend_on_inputs_has_a_history_too() -> None:
    doses = np.random.default_rng(0).normal(size=40)
    model = et.EMHMM(2, inputs_affect=("start", "transitions", "emissions"), max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit([list("abab")] * 10, inputs=doses)
    assert model.tables_ == {}
    np.testing.assert_array_equal(et.plot.learning_curve(model).lines[0].get_ydata(), model.history_)


def test_transitions_are_arrows_by_their_width() -> None:
    ax = et.plot.transitions(HMM)
    moves = HMM.tables_["transitions"]
    arrows = drawn_by_id(ax.patches)
    largest = max(moves[a, b] for a in range(3) for b in range(3) if a != b)
    strong = {(a, b): moves[a, b] for a in range(3) for b in range(3) if a != b and moves[a, b] >= 0.05 * largest}
    assert set(arrows) == {f"move state {a} state {b}" for a, b in strong}
    by_share = sorted(strong, key=strong.get)  # type: ignore[arg-type]
    widths = [arrows[f"move state {a} state {b}"].get_linewidth() for a, b in by_share]
    assert widths == sorted(widths)
    boxes = drawn_by_id(ax.texts)
    assert [boxes[f"state {k}"].get_text() for k in range(3)] == [
        f"state {k}\nstays {moves[k, k]:.2f}" for k in range(3)
    ]
    rendered(ax)
    several = et.EMHMM((2, 3), init="random", n_init=1, max_iter=2, random_state=0).fit(WORDS)
    assert len(drawn_by_id(et.plot.transitions(several, chain="chain 1").texts)) == 3
    with pytest.raises(et.ParameterError, match="transitions are drawn of order 1"):
        et.plot.transitions(et.EMHMM(2, 2, init="random", n_init=1, max_iter=2, random_state=0).fit(WORDS))
    with pytest.raises(et.ParameterError, match="at most 12 states, not of 13"):
        et.plot.transitions(et.EMHMM(13, init="random", n_init=1, max_iter=1, random_state=0).fit(WORDS))


def test_durations_are_a_line_for_each_state() -> None:
    model = et.EMHMM(2, durations="explicit", init="random", n_init=1, max_iter=3, random_state=0).fit(WORDS)
    ax = et.plot.durations(model)
    for state, line in enumerate(ax.lines):
        steps, shares = line.get_data()
        np.testing.assert_array_equal(steps, np.arange(1, max(map(len, WORDS)) + 1))
        np.testing.assert_allclose(shares, model.tables_["durations"][state])
    assert len(ax.lines) == 2
    assert ax.get_legend_handles_labels()[1] == ["state 0", "state 1"]
    rendered(ax)
    with pytest.raises(et.ParameterError, match="fitted without durations"):
        et.plot.durations(HMM)


def test_decoded_states_are_drawn_line_by_line() -> None:
    states = HMM.decode(WORDS).states
    longest = max(map(len, states))
    rows = sorted([*own, *[-1] * (longest - len(own))] for own in map(list, states))
    ax = et.plot.decoded(HMM, WORDS)
    drawn = ax.images[0].get_array().filled(-1)
    assert sorted(drawn.tolist()) == rows
    codes = np.concatenate([["ABC".index(letter) for letter in word] for word in WORDS])
    same = et.EMHMM(3, init="random", n_init=1, max_iter=8, random_state=0)
    lengths = list(map(len, WORDS))
    same.fit(codes, lengths=lengths)
    flat = et.plot.decoded(same, codes, lengths=lengths).images[0].get_array()
    assert flat.shape == drawn.shape
    rendered(ax)
    many = et.plot.decoded(HMM, ["AB", "BA"] * 1_100)
    assert "the 2000 evenly taken of 2200 sequences; 200 are left out" in many.get_xlabel()
    assert len(many.images[0].get_array()) == 2_000
    several = et.EMHMM((2, 3), init="random", n_init=1, max_iter=2, random_state=0).fit(WORDS)
    assert et.plot.decoded(several, WORDS, chain="chain 1").images[0].get_array().shape == drawn.shape
    assert set(drawn.ravel().tolist()) <= {-1, 0, 1, 2}
    with pytest.raises(et.DataError, match="there is no chain 'chain 7'"):
        et.plot.decoded(several, WORDS, chain="chain 7")


def test_a_long_frame_is_drawn_as_it_is_decoded() -> None:
    steps = [(name, step, letter) for name, word in enumerate(WORDS) for step, letter in enumerate(word)]
    frame = pd.DataFrame(steps, columns=["who", "month", "job"]).sample(frac=1, random_state=0)
    model = et.EMHMM(3, sequence="who", time="month", init="random", n_init=1, max_iter=8, random_state=0).fit(
        frame
    )
    states = np.asarray(model.decode(frame).states)
    drawn = et.plot.decoded(model, frame).images[0].get_array().filled(-1)
    by_sequence = [states[(frame.who == name).to_numpy()] for name in range(len(WORDS))]
    order = [np.argsort(frame.month[frame.who == name].to_numpy()) for name in range(len(WORDS))]
    rows = [[*own[at], *[-1] * (drawn.shape[1] - len(own))] for own, at in zip(by_sequence, order, strict=True)]
    assert sorted(drawn.tolist()) == sorted(map(list, rows))


PICTURES = {
    "tree": lambda ax: et.plot.tree(MIXTURE, ax=ax),
    "spectra": lambda ax: et.plot.spectra(SPECTRAL, ax=ax),
    "profiles": lambda ax: et.plot.profiles(MIXTURE, ax=ax),
    "learning_curve": lambda ax: et.plot.learning_curve(HMM, ax=ax),
    "multistart": lambda ax: et.plot.multistart(MULTISTART, ax=ax),
    "transitions": lambda ax: et.plot.transitions(HMM, ax=ax),
    "decoded": lambda ax: et.plot.decoded(HMM, WORDS, ax=ax),
}


@pytest.mark.parametrize("name", PICTURES)
def test_axes_come_back_and_others_are_refused(name: str) -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    ax, other = figure.subplots(1, 2)
    assert PICTURES[name](ax) is ax
    assert not other.texts
    assert not other.lines
    assert ax.get_title()
    assert PICTURES[name](None).figure is not figure
    with pytest.raises(et.ParameterError, match="ax is one of matplotlib's Axes, not 3"):
        PICTURES[name](3)


@pytest.mark.parametrize("name", PICTURES)
def test_without_matplotlib_it_is_said_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib.textpath", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(et.EigentreeError, match=r"pip install 'eigentree\[plots\]'"):
        PICTURES[name](None)


@pytest.mark.parametrize("name", sorted(et.plot.__all__))
def test_what_cannot_be_drawn_is_said(name: str) -> None:
    more = (WORDS,) if name == "decoded" else ()
    with pytest.raises(et.ParameterError, match="not 'model'"):
        getattr(et.plot, name)("model", *more)
    unfitted = {
        "spectra": et.SpectralJunctionTree(MIXTURE.graph),
        "tree": et.SpectralJunctionTree(MIXTURE.graph),
        "decoded": et.EMHMM(),
        "transitions": et.EMHMM(),
        "durations": et.EMHMM(),
    }
    with pytest.raises(NotFittedError):
        getattr(et.plot, name)(unfitted.get(name, et.EMJunctionTree(MIXTURE.graph)), *more)


def test_names_hold_any_signs() -> None:
    odd = et.LatentGraph(
        {"$h_1$": 2, "50% <b>": 2, "two\nlines": 3}, [("$h_1$", "50% <b>"), ("$h_1$", "two\nlines")], ["$h_1$"]
    )
    network = et.LatentNetwork.random(odd, seed=0)
    spectral = et.SpectralJunctionTree(odd).fit(network.sample(50, seed=0))
    for ax in (et.plot.tree(odd), et.plot.profiles(network), et.plot.spectra(spectral)):
        rendered(ax)
    assert any("two lines = 0" in label.get_text() for label in et.plot.profiles(network).get_yticklabels())
