"""The experiments: laws of their parts, and the whole path of both commands in its quick version."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import eigentree as et
from benchmarks.paper import __main__ as paper
from benchmarks.paper import figure3, figure4, methods, runner
from benchmarks.paper.baselines import IndependentColumns, MarkovChain
from benchmarks.paper.runner import Journal
from benchmarks.paper.tables import Point, error_table, points, ratio_table, reach_table
from eigentree.datasets import load_splice

STATES = (2, 3, 2, 2)


def random_rows(seed: int, count: int, gaps: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(0, states, count) for states in STATES], axis=1)
    rows[random.random(rows.shape) < gaps] = -1
    return rows


# Models without hidden variables


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**20), st.integers(0, 30), st.sampled_from([0.0, 0.3]), st.integers(0, 2**4 - 1))
def test_baselines_are_distributions_over_the_known_cells(seed: int, count: int, gaps: float, holes: int) -> None:
    rows = random_rows(seed, count, gaps)
    known = [not holes >> column & 1 for column in range(len(STATES))]
    choices = [range(states) if cell else [-1] for states, cell in zip(STATES, known, strict=True)]
    everything = np.array(list(itertools.product(*choices)))
    for model in (IndependentColumns(STATES, rows), MarkovChain(STATES, rows), MarkovChain(STATES, rows, order=1)):
        assert_allclose(np.exp(model.score_samples(everything)).sum(), 1.0)


def test_a_chain_of_order_zero_is_independent_columns() -> None:
    rows, tests = random_rows(0, 40, 0.2), random_rows(1, 40, 0.2)
    expected = IndependentColumns(STATES, rows).score_samples(tests)
    assert_allclose(MarkovChain(STATES, rows, order=0).score_samples(tests), expected)


def test_a_step_is_predicted_from_the_known_cells_just_before_it() -> None:
    rows = random_rows(0, 400, 0.0)
    chain = MarkovChain(STATES, rows)

    def step(test: list[int]) -> float:
        """P(last known cell | those before it), by two scores."""
        before = [*test[:-1], -1]
        return float(np.diff(chain.score_samples(np.array([before, test])))[0])

    def counted(context: dict[int, int], value: int) -> float:
        fits = np.all([rows[:, column] == cell for column, cell in context.items()], axis=0)
        return float(np.log(((rows[fits, 3] == value).sum() + 0.5) / (fits.sum() + 1.0)))

    assert_allclose(step([0, 2, 1, 0]), counted({1: 2, 2: 1}, 0))
    assert_allclose(step([0, -1, 1, 0]), counted({2: 1}, 0))
    fits = np.ones(len(rows), bool)
    assert_allclose(step([0, 2, -1, 0]), np.log(((rows[fits, 3] == 0).sum() + 0.5) / (len(rows) + 1.0)))


# The splits of the splice data


@pytest.mark.parametrize("ambiguous", ["missing", "drop"])
def test_no_sequence_is_on_both_sides_of_a_split_and_classes_keep_their_shares(ambiguous: str) -> None:
    data = load_splice(ambiguous)
    for seed in range(3):
        training, test = figure4.split_rows(data, seed)
        assert sorted([*training, *test]) == list(range(len(data.codes)))
        assert not {row.tobytes() for row in data.codes[training]} & {row.tobytes() for row in data.codes[test]}
        for label in range(3):
            share = (data.classes[test] == label).sum() / (data.classes == label).sum()
            assert abs(share - figure4.TEST_SHARE) < 0.015


def test_smaller_training_sets_are_stratified_parts_of_larger_ones() -> None:
    data = load_splice()
    training, _ = figure4.split_rows(data, 0)
    larger = training
    shares = np.bincount(data.classes[training]) / len(training)
    for count in sorted(figure4.SAMPLES, reverse=True):
        part = figure4.stratified_prefix(data.classes, training, count)
        assert len(part) == count
        assert set(part) <= set(larger)
        assert np.abs(np.bincount(data.classes[part]) - shares * count).max() < 1
        larger = part
    assert figure4.stratified_prefix(data.classes, training, None) is training


def test_what_rounding_leaves_goes_to_the_largest_remainders() -> None:
    classes = np.repeat(np.array([0, 1, 2], np.int8), [7, 2, 1])
    # Of three rows, the classes' shares are 2.1, 0.6 and 0.3.
    part = figure4.stratified_prefix(classes, np.arange(10), 3)
    assert classes[part].tolist() == [0, 0, 1]


# The journal


def record(number: int) -> dict[str, object]:
    return {"cell": {"figure": 3, "model": number}, "result": {"error": 0.5, "elapsed": 1.0}}


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(1, 200))
def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "deep" / "journal.jsonl"
    journal = Journal(path)
    for number in range(3):
        journal.append(record(number))
    written = path.read_bytes()
    path.write_bytes(written[:-cut])
    again = Journal(path)
    lost = [number for number in range(3) if again.find({"model": number, "figure": 3}) is None]
    assert lost == list(range(3))[3 - len(lost) :]
    for number in lost:
        again.append(record(number))
    assert path.read_bytes() == written
    assert all(Journal(path).find(record(number)["cell"]) == record(number) for number in range(3))


@pytest.mark.parametrize("line", ["not JSON", "[1, 2]", "{}", '{"cell": 3}'])
def test_a_line_that_is_no_result_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(record(0)) + "\n" + line + "\n" + json.dumps(record(1)) + "\n")
    with pytest.raises(et.DataError, match=r"line 2 of .*journal\.jsonl is not a result; remove that line"):
        Journal(path)


def cell3(samples: int, method: str = "ours") -> figure3.Figure3Cell:
    return figure3.Figure3Cell("hmm2", True, 1.0, 0, samples, 10, method)


def test_a_method_that_fails_is_recorded_and_tried_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    # Real data have no truth to start from.
    cells = figure4.cells(1, [100], ["independent", "floor"], columns=12)
    for worked in (2, 1):
        outcome = runner.run(cells, figure4.measure, journal, 1)
        assert outcome.worked == worked
        assert len(outcome.failures) == 1
        assert "ParameterError: the converged MLE is reached by EM from the truth" in outcome.failures[0]
    assert journal.find(cells[0].describe())["result"]["error"] < 0.5


def test_no_row_is_learned_from_and_tested_on_and_all_sizes_are_tested_alike() -> None:
    cells = [cell3(samples, "independent") for samples in (20, 30)] + [cell3(20, "ours")]
    small, large, other = (figure3.measure(cell)["seeds"] for cell in cells)
    assert len({small["truth"], small["tests"], small["rows"], large["rows"]}) == 4
    assert (small["truth"], small["tests"]) == (large["truth"], large["tests"])
    assert {**other, "method": 0} == {**small, "method": 0}, "all methods learn from the same rows"


def problem(count: int = 200) -> methods.Problem:
    truth = et.LatentNetwork.random(et.zoo.hmm(4, 1, 2, 3), seed=0)
    return methods.Problem(truth.graph, truth.sample(count, seed=1), seed=2, truth=truth, most_iterations=3)


def test_online_em_is_given_by_its_likeliest_step_size() -> None:
    task = problem()
    best = methods.METHODS["online"].fit(task)
    scores = [
        et.OnlineEMJunctionTree(task.graph, stepsize, passes=3, random_state=task.seed + k)
        .fit(task.rows)
        .score(task.rows)
        for k, stepsize in enumerate(methods.STEPSIZES)
    ]
    assert best.score(task.rows) == max(scores) > min(scores)


def test_the_published_method_is_algorithm_1() -> None:
    """One outside view for each edge, whose singular values are those of the plain pair moment."""
    task = problem()
    model = methods.train(methods.METHODS["published"], task).model
    for edge in model.report_.separators:
        (outside,) = edge.outside
        pair = model.counts_.joint([*edge.inside, *outside])
        rows = np.prod([task.graph.states[name] for name in edge.inside])
        expected = np.linalg.svd(pair.reshape(rows, -1), compute_uv=False)[: len(edge.singular_values)]
        assert_allclose(edge.singular_values, expected, atol=1e-12)
    assert model.shrinkage_ == 0


def test_points_are_means_with_the_standard_error_of_the_mean(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    errors = [0.1, 0.2, 0.4, 0.3]
    cells = [replace(cell3(100), model=number) for number in range(5)]
    common = {"cpu_seconds": 1.0, "seconds": 2.0, "impossible": 2}
    for cell, error in zip(cells, errors, strict=False):
        journal.append({"cell": cell.describe(), "result": {"error": error, **common}})
    journal.append({"cell": cells[4].describe(), "result": {"failure": "no"}})
    (found,) = points(cells, journal, "panel")
    assert (found.count, found.failures, found.samples, found.impossible) == (5, 1, 100, 2.0)
    assert_allclose([found.error, found.median_error], [0.25, 0.25])
    assert_allclose(found.standard_error, np.std(errors, ddof=1) / 2)


def test_the_floor_is_reached_within_a_tenth_or_never(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    errors = {
        "ours": (0.3, 0.22, 0.21),
        "multistart": (0.2, 0.2, 0.2),
        "em": (0.4, 0.4, 0.4),
        "floor": (0.2, 0.2, 0.2),
    }
    cells = [
        replace(cell3(100), model=model, method=method) for method, found in errors.items() for model in range(3)
    ]
    for cell in cells:
        result = {"error": errors[cell.method][cell.model], "cpu_seconds": float(cell.model)}
        journal.append({"cell": cell.describe(), "result": result})
    row = reach_table(cells, journal).splitlines()[-1]
    shown = [cell.strip() for cell in row.split("|")[1:-1]]
    assert shown == ["100", "1.5 s (2 of 3)", "1 s (3 of 3)", "never (0 of 3)", "1 s (3 of 3)"]


# What people see


def point(method: str, error: float, seconds: float) -> Point:
    return Point("hmm2", method, 100, "100", 2, 0, error, 0.01, error, seconds, seconds, 0.0, 0.15)


def test_the_lowest_error_is_bold_and_the_floor_does_not_compete() -> None:
    found = [point("ours", 0.2, 0.5), point("em", 0.3, 20.0), point("floor", 0.1, 1.0)]
    row = error_table(found).splitlines()[-1]
    assert [cell.strip() for cell in row.split("|")[2:5]] == [
        "**0.200 ± 0.010**",
        "0.300 ± 0.010",
        "0.100 ± 0.010 (theory 0.150)",
    ]
    assert [cell.strip() for cell in ratio_table(found).splitlines()[-1].split("|")[2:4]] == ["40", "2"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "required: figure"),
        ("fig5", "invalid choice: 'fig5'"),
        ("fig3 --models ten", "'ten' is not a whole number of at least 1"),
        ("fig3 --jobs 0", "'0' is not a whole number of at least 1"),
        ("fig3 --structure hmm22", "invalid choice: 'hmm22'"),
        ("fig3 --methods markov", "invalid choice: 'markov'"),
        ("fig3 --concentration 0", "'0' is not a number above 0"),
        ("fig4 --structure hmm2", "unrecognized arguments: --structure"),
    ],
)
def test_wrong_arguments_are_named(arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        paper.main(arguments.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_damaged_journal_is_one_sentence_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal.jsonl").write_text("rubbish\n")
    assert paper.main(["fig4", "--quick", "--out", str(tmp_path)]) == 1
    assert "line 1 of" in capsys.readouterr().err


@pytest.mark.parametrize(("failures", "code"), [((), 0), (("a cell: no",), 1)])
def test_the_command_runs_what_is_asked_for_and_says_what_failed(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    failures: tuple[str, ...],
    code: int,
) -> None:
    asked: list[figure4.Figure4Cell] = []

    def run(cells: list[figure4.Figure4Cell], *_: object) -> runner.Outcome:
        asked.extend(cells)
        return runner.Outcome(len(cells), failures)

    monkeypatch.setattr(paper, "run", run)
    command = "fig4 --splits 2 --samples 200 100 200 --methods markov ours markov --drop-ambiguous --out"
    assert paper.main([*command.split(), str(tmp_path)]) == code
    order = [(cell.split, cell.samples, cell.method) for cell in asked]
    assert order == list(itertools.product((0, 1), (200, 100), ("ours", "markov")))
    assert {(cell.ambiguous, cell.columns) for cell in asked} == {("drop", 60)}
    assert capsys.readouterr().err == "".join(f"failed: {failure}\n" for failure in failures)


# The whole path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def check_files_and_resumption(
    figure: list[str], out: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*figure, "--quick", "--jobs", "1", "--out", str(out)]
    assert paper.main(command) == 0
    text = capsys.readouterr().out
    for name in names:
        assert str(out / name) in text
        assert (out / name).stat().st_size > 500
        if name.endswith(".png"):
            assert (out / name).read_bytes().startswith(b"\x89PNG")
            assert (out / name).stat().st_size > 20_000
        if name.endswith(".svg"):
            assert "</svg>" in (out / name).read_text()
    journal, values = out / "journal.jsonl", out / names[0]
    lines, table = journal.read_bytes(), values.read_bytes()

    assert paper.main(command) == 0
    assert capsys.readouterr().out == text
    assert journal.read_bytes() == lines, "a second run has nothing to do"

    journal.write_bytes(lines[:-30])
    assert paper.main(command) == 0
    assert len(journal.read_bytes().splitlines()) == len(lines.splitlines())
    kept = lines[: lines[:-1].rfind(b"\n") + 1]
    assert journal.read_bytes().startswith(kept), "only the half-written cell was run again"
    errors = [[row["method"], row["error"]] for row in csv.DictReader(io.StringIO(table.decode()))]
    assert [[row["method"], row["error"]] for row in read(values)] == errors, "seeds are fixed"


def test_figure3_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["figure3.csv", "figure3.md"]
    for concentration in ("1", "0.3"):
        names += [f"figure3-concentration-{concentration}.{suffix}" for suffix in ("png", "svg")]
    largest = str(max(figure3.QUICK_SAMPLES))
    check_files_and_resumption(["fig3", "--structure", "hmm2", "--samples", largest], tmp_path, names, capsys)

    errors: dict[str, dict[str, float]] = {}
    theory: dict[str, float] = {}
    for row in read(tmp_path / "figure3.csv"):
        assert row["failures"] == "0"
        errors.setdefault(row["panel"], {})[row["method"]] = float(row["error"])
        theory[row["panel"]] = float(row["theory"])
    assert len(errors) == len(figure3.CONCENTRATIONS)
    for panel, error in errors.items():
        assert set(error) == set(figure3.METHOD_NAMES)
        assert 0.5 < error["floor"] / theory[panel] < 2.0, panel
        assert error["multistart"] < 1.25 * error["floor"], panel
        assert error["ours"] < 0.95 * error["published"], panel
        assert error["ours"] < 0.95 * error["independent"], panel


def test_figure4_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["figure4.csv", "figure4.md", "figure4.png", "figure4.svg"]
    check_files_and_resumption(["fig4", "--splits", "1"], tmp_path, names, capsys)

    error = {row["method"]: float(row["error"]) for row in read(tmp_path / "figure4.csv")}
    assert set(error) == set(figure4.METHOD_NAMES)
    assert error["ours"] < 0.8 * error["em"]
    assert error["ours"] < 0.8 * error["markov"]
    assert error["ours"] < 1.1 * error["published"]
    assert error["ours"] < 1.1 * error["independent"]
