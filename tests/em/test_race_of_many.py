"""The multi-start on many rows, here on rows that count as many: what is made once, and who runs on all rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from eigentree.em.course import Course
from eigentree.em.entrants import Entrant, Office
from eigentree.em.field import Field
from eigentree.em.racing import raced
from eigentree.em.starts import Start
from test_curvature import given_rows

import eigentree as et
from eigentree.em import course as courses
from eigentree.em import field as fields
from eigentree.em.optimize.stopping import Stopping
from eigentree.errors import RankError


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch) -> Course:
    """2,400 rows, of which 600 are the first part."""
    monkeypatch.setattr(courses, "MANY_ROWS", 2_000)
    monkeypatch.setattr(courses, "FIRST_ROWS", 600)
    monkeypatch.setattr(fields, "FEW_ROWS", 500)
    network = et.LatentNetwork.random(et.zoo.hmm(6, 1, 2, 3), 0.5, seed=0)
    rows = given_rows(network.graph, network.sample(2_400, seed=1))
    made = Course(network.graph, rows, frozenset(), 0.1, Stopping.usual("gain", rows, 60), 300)
    assert made.is_curved
    assert made.has_many_rows
    return made


def run(
    course: Course, monkeypatch: pytest.MonkeyPatch, absent: bool = False
) -> tuple[list[Any], dict[str, int], Any]:
    """Who entered where, how often an initialiser ran, and the order after the first rung.

    The method-of-moments estimate is never confirmed.
    """
    monkeypatch.setattr(fields, "TOLD", -1.0)
    random = np.random.default_rng(0)
    made: dict[str, int] = {}

    def counted(entrant: Entrant, rows: Any) -> Start:
        made[entrant.name] = made.get(entrant.name, 0) + 1
        if absent and entrant.name == "spectral":
            raise RankError("nothing is told")
        return entrant.make(rows)

    entrants = [
        Entrant(entrant.name, lambda rows, entrant=entrant: counted(entrant, rows))  # type: ignore[misc]
        for entrant in Office(course.graph, course.rows, course.gaps).racing(False, random)
    ]
    entered: list[Any] = []
    enter = Field.enter

    def noted(self: Field, start: Start, heats: Any, waiting: int) -> None:
        entered.append((self, start))
        enter(self, start, heats, waiting)

    monkeypatch.setattr(Field, "enter", noted)
    first = len(course.parts(np.random.default_rng(0))[0].rows.weights)
    for standing in raced(course, entrants, 1, random):
        if any(heat.rows > 2 * first for heat in standing.heats):
            break
    return entered, made, standing


def test_a_spectral_start_that_is_not_confirmed_is_made_once_and_races_as_it_was_made(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, made, _ = run(course, monkeypatch)
    first, second = [(field, start) for field, start in entered if start.name == "spectral"][:2]
    assert made["spectral"] == 1
    assert first[0] is not second[0]
    assert first[1] is second[1]
    among = [start for field, start in entered if field is second[0]]
    # All are who they would be had it not run alone before.
    monkeypatch.setattr(Course, "is_curved", False)
    others, _, _ = run(replace(course), monkeypatch)
    usual = [start for field, start in others if field is others[0][0]]
    assert [start.name for start in among[:8]] == [start.name for start in usual[:8]]
    for one, other in zip(among[:8], usual[:8], strict=True):
        assert np.array_equal(one.parameters, other.parameters)


def test_a_spectral_start_that_cannot_be_is_asked_for_once(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, made, standing = run(course, monkeypatch, absent=True)
    assert made["spectral"] == 1
    assert dict(standing.absent) == {"spectral": "nothing is told"}
    assert "spectral" not in {start.name for _, start in entered}


def runner(height: float, arrived: bool, gain: float = 0.0) -> Any:
    return SimpleNamespace(
        name="random",
        height=height,
        arrived=arrived,
        gain=gain,
        is_out=False,
        climb=SimpleNamespace(history=(height,)),
    )


def closed(course: Course, part: int, runners: list[Any]) -> list[Any]:
    """Which candidates stay after a rung."""
    field = Field(course, course.parts(np.random.default_rng(0))[part], at_once=False)
    field.runners = list(runners)
    field.closed(0, field.rounds[0])
    return list(field.runners)


def test_of_those_who_arrive_at_one_top_one_goes_on(course: Course) -> None:
    weight = course.parts(np.random.default_rng(0))[0].rows.weights.sum()
    leader, same, other = runner(0.0, True), runner(-5e-5 * weight, True), runner(-2e-4 * weight, True)
    passing = runner(-5e-5 * weight, False, gain=1e-3 * weight)
    assert closed(course, 0, [same, leader, other, passing]) == [leader, passing, other]
    # A candidate that has not converged may have any objective.
    leader.arrived = False
    assert closed(course, 0, [same, leader, other, passing]) == [leader, same, passing, other]


def test_no_more_enter_where_three_have_arrived_at_one_top(course: Course) -> None:
    field = Field(course, course.parts(np.random.default_rng(0))[0], at_once=False)
    heat = field.rounds[3]
    for arrived, room in (((True, True, True), False), ((True, True, False), True), ((False, True, True), True)):
        field.runners = [runner(-k, each) for k, each in zip((0.0, 1e-3, 1e-3), arrived, strict=True)]
        assert field.has_room(heat) == room


def test_several_run_on_all_rows_as_long_as_it_matters_which_wins(course: Course) -> None:
    chance = course.whole.layout.learned_count / 2.0
    leader = runner(0.0, False, gain=chance)
    near = runner(-0.5 * chance, False, gain=0.6 * chance)
    behind = runner(-0.5 * chance, False, gain=0.52 * chance)
    assert closed(course, -1, [leader, near, behind]) == [leader, near]


def test_only_a_climb_that_has_arrived_on_a_part_goes_on_by_newtons_steps(course: Course) -> None:
    part = course.parts(np.random.default_rng(0))[0]
    for steps, arrived in ((2, False), (300, True)):
        field = Field(course, part, at_once=False)
        (entrant,) = Office(course.graph, course.rows, course.gaps).of_kinds(["random"], np.random.default_rng(2))
        field.enter(entrant.make(part.rows), [field.rounds[0]._replace(steps=steps)])
        (start,) = field.starts()
        assert field.runners[0].arrived == arrived
        assert (start.curvature is not None) == arrived
