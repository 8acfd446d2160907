"""Signs of life: long work says on a terminal that it is under way, and nothing else does."""

from __future__ import annotations

import io
import sys
import time

import pytest

import eigentree as et
from eigentree import messages as notices


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    return stream


def test_long_work_says_that_it_is_under_way_and_the_outer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    with notices.signs_of_life("A.fit", "; wait", 0.02), notices.signs_of_life("B.fit", "", 0.02):
        time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("eigentree: A.fit has been at work for 0 s; wait") for line in lines)
    time.sleep(0.1)
    assert stream.getvalue().splitlines() == lines


def test_nothing_is_said_of_short_work_or_where_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal(monkeypatch)
    et.SpectralJunctionTree(et.zoo.Mixture(2), when_short="warn", shrinkage=1).fit([[0, 1, 0], [1, 0, 1]] * 50)
    assert "at work" not in stream.getvalue()
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    with notices.signs_of_life("A.fit", "", 0.01):
        time.sleep(0.05)
    assert not quiet.getvalue()


def test_a_fit_is_named_and_points_to_what_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = et.LatentNetwork.random(et.zoo.hmm(20, 2, 3, 4), seed=0).sample(3_000, seed=1)
    stream = terminal(monkeypatch)
    monkeypatch.setattr(notices, "PATIENCE", 0.005)
    et.EMJunctionTree(et.zoo.HMM(2, 3), random_state=0, max_iter=3).fit(rows)
    told = [line for line in stream.getvalue().splitlines() if "at work" in line]
    assert told
    assert all("EMJunctionTree.fit has been at work" in line and "verbose=1" in line for line in told)
