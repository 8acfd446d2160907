"""The one progress display: a bar where somebody reads standard error as it is written, and silence elsewhere."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eigentree as et
from eigentree import progress as progress_module
from eigentree.em.size_search import SearchState
from eigentree.em.sizes import Size
from eigentree.progress import progress, shown_batches, shown_progress, shown_search


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """Return a function that makes standard error a terminal from now on."""

    def opened() -> Terminal:
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        for name, value in (("COLUMNS", "200"), ("TERM", "xterm-256color")):
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("NO_COLOR", raising=False)
        return stream

    return opened


def last_line(stream: Terminal) -> str:
    """Return what stood on the terminal before it was cleared, without the codes of colours."""
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split("[\r\n]", stream.getvalue())]
    return [line for line in lines if line.strip()][-1]


def test_fits_show_iterations_on_a_terminal_only(
    terminal: Callable[[], Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    graph = et.zoo.mixture(3, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(50, seed=1)
    model = et.EMJunctionTree(
        graph, n_init=2, max_iter=5, tol=0, init="random", verbose=1, random_state=0, pseudo_counts=0.1
    )
    model.fit(rows)
    assert not capsys.readouterr().err
    stream = terminal()
    model.fit(rows)
    shown = last_line(stream)
    assert shown.startswith("EM ")
    assert float(shown.split()[-1]) == pytest.approx(50 * model.start_.objective, rel=1e-5)
    quiet = terminal()
    model.set_params(verbose=0).fit(rows)
    assert not quiet.getvalue()


def test_iterations_and_objective_are_shown(terminal: Callable[[], Terminal]) -> None:
    stream = terminal()
    with shown_progress(1, "EM", 10) as report:
        for done in range(11):
            report(done, -2.5 + 0.1 * done)
    assert re.match(r"EM .*0:00:00.* -1\.5", last_line(stream))
    with shown_progress(0, "EM", 10) as report:
        report(3, -1.0)
    assert "-1 " not in stream.getvalue()


def test_a_search_counts_the_passes_of_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, float | None]] = []

    class Bar:
        task_ids = (0,)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None: ...
        def add_task(self, *_: Any, **__: Any) -> None: ...
        def update(self, task: int, completed: float, total: float | None, text: str) -> None:
            shown.append((completed, total))

    monkeypatch.setattr(progress_module, "_bar", Bar)
    monkeypatch.setattr(progress_module, "_seen", lambda verbose: True)
    size = Size(4, 1)
    with shown_search(1) as report:
        # Three models of one size; the second of ten passes ends before its last.
        for passes, to_come in ((1, 2), (10, 2), (1, 1), (6, 1), (2, 0)):
            report(SearchState((), size, passes, 10, to_come))
    assert shown == [(1, 30), (10, 30), (11, 30), (16, 30), (18, 26)]


def test_batches_pass_unchanged_and_show_rows_per_second(
    terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = et.LatentNetwork.random(et.zoo.mixture(4, 2, 3), seed=0)
    X = truth.sample(500, seed=0)
    model = et.SpectralJunctionTree(truth.graph).fit(X)
    stream = terminal()
    expected = model.score_samples(X)
    scores = model.score_samples(iter([X, X]))
    assert not stream.getvalue()  # tests are not read as they are written
    monkeypatch.setattr(progress_module, "on_terminal", lambda: True)
    monkeypatch.setattr(progress_module, "PATIENCE", 0)
    again = model.score_samples(iter([X, X]))
    np.testing.assert_array_equal(np.concatenate([expected, expected]), np.asarray(scores))
    np.testing.assert_array_equal(scores, again)
    assert re.search(r"scoring .* 1,000 rows, [\d,]+ a second", last_line(stream))


def test_short_work_shows_nothing(terminal: Callable[[], Terminal], monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal()
    monkeypatch.setattr(progress_module, "on_terminal", lambda: True)
    assert list(shown_batches([], "counting", 0)) == []
    with progress("work", 3, visible=True, patience=60.0) as show:
        show(1)
    assert not stream.getvalue()
