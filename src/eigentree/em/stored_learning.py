"""In files, beside the tables of a fit by EM: its start, its size search, and the state of stepwise EM."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from eigentree.em.em_report import StartReport
from eigentree.em.multistart import Rung
from eigentree.em.parameters import ParameterLayout
from eigentree.em.sizes import SearchStart, Size, SizeSearch, SizeTrial
from eigentree.em.stepwise import Learner
from eigentree.errors import FileError, quoted
from eigentree.graphs.elimination import check_families
from eigentree.io.codec import NUMBER, TEXT, TEXTS, WHOLE, Field, Record, tuple_of, within
from eigentree.io.documents import UnknownEntryError, number, plain, texts, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.io.codec import At
    from eigentree.io.stores import Reader, Writer

__all__ = ["LEARNER", "SEARCH", "START"]


def _rung_content(_: Writer | None, name: str, rung: Rung) -> list[Any]:
    objectives = [[candidate, plain(end, "an objective")] for candidate, end in rung.objectives]
    return [rung.rows, rung.iterations, objectives]


def _rung(_: Reader | None, content: Any, at: At) -> Rung:
    if type(content) is not list or len(content) != 3 or type(content[2]) is not list:
        raise FileError("a rung has rows, iterations and candidates")
    rows, iterations, lines = content
    candidates = []
    for line in lines:
        if type(line) is not list or len(line) != 2 or type(line[0]) is not str:
            raise FileError("a candidate of a rung is a name and an objective")
        candidates.append((line[0], number(line[1], "an objective")))
    return Rung(whole(rows, "the rows of a rung"), whole(iterations, "its iterations"), tuple(candidates))


def _absent(_: Reader | None, content: Any, at: At) -> tuple[str, ...]:
    pair = tuple(texts(content, at.where))
    if len(pair) != 2:
        raise FileError("an absent start has a name and a reason")
    return pair


def _trial_content(_: Writer | None, name: str, trial: SizeTrial) -> list[Any]:
    # Without the seconds: the same rows are the same bytes.
    figures = (trial.start, trial.passes, trial.parameters, trial.log_likelihood, trial.validation)
    shown = [trial.emissions] if trial.emissions else []
    return [*trial.size, *(plain(figure, "a figure of a trial") for figure in figures), *shown]


def _trial(_: Reader | None, content: Any, at: At) -> SizeTrial:
    # Earlier files had the seconds behind it; what numbers have stands there now.
    if type(content) is not list or len(content) not in (7, 8):
        raise FileError("a trial has a size, a start and four figures")
    states, trees, start, passes, parameters, *figures = content[:7]
    if start not in get_args(SearchStart):
        raise UnknownEntryError(f"there is no start {quoted(start)}")
    size = Size(whole(states, "hidden states"), whole(trees, "trees", 1))
    log_likelihood, validation = (number(figure, "a figure of a trial") for figure in figures)
    emissions = content[7] if len(content) == 8 and type(content[7]) is str else ""
    counts = (whole(passes, "passes"), whole(parameters, "parameters"))
    return SizeTrial(size, start, *counts, log_likelihood, validation, emissions=emissions)


_START = Record(
    "a start",
    {
        "name": TEXT,
        "objective": NUMBER,
        "lead": NUMBER,
        "heats": tuple_of(Field(_rung_content, _rung)),
        "absent": tuple_of(Field(lambda writer, name, pair: list(pair), _absent)),
    },
    # Rungs have their first name in files, so that old files load.
    attributes={"heats": "rungs"},
)

_SEARCH = Record(
    "a search",
    {
        "trials": tuple_of(Field(_trial_content, _trial)),
        "size": tuple_of(WHOLE),
        "shares": tuple_of(NUMBER),
        "validation": NUMBER,
        "rows": NUMBER,
        "validation_rows": NUMBER,
    },
)

_LEARNER = Record(
    "a learner",
    {
        "graph": Field(
            lambda writer, name, graph: writer.graph(graph), lambda reader, content, at: reader.graph(content)
        ),
        "missing": Field(lambda writer, name, missing: sorted(missing), TEXTS.read),
        "stepsize": NUMBER,
        "pseudo_counts": NUMBER,
        "batch_size": WHOLE,
        "threads": WHOLE,
        "batches": WHOLE,
        "rows": WHOLE,
    },
)


def _search(reader: Reader | None, content: Any, at: At) -> SizeSearch:
    entries = _SEARCH.read(reader, content)
    size, shares = entries["size"], entries["shares"]
    if len(size) != 2 or Size(*size) not in {trial.size for trial in entries["trials"]}:
        raise FileError("a search has the size of one of its trials")
    if not shares or not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1.0):
        raise FileError("a search has normalised shares")
    return SizeSearch(**{**entries, "size": Size(*size)})


def _learner_content(writer: Writer, learner: Learner) -> dict[str, Any]:
    writer.array("parameters", learner.parameters)
    writer.array("average", learner.average)
    return _LEARNER.write(writer, learner)


def _learner(reader: Reader, content: Any, _: Mapping[str, Any]) -> Learner:
    entries = _LEARNER.read(reader, content)
    graph, missing = entries["graph"], frozenset(entries.pop("missing"))
    check_families(graph)
    size = ParameterLayout.of(graph).size
    parameters, average = reader.floats("parameters", size), reader.floats("average", size)
    learner = Learner(**entries, parameters=parameters, average=average, missing=missing)
    is_step = 0.5 < learner.stepsize <= 1 and min(learner.batch_size, learner.threads) >= 1
    if not is_step or not 0 <= learner.pseudo_counts < math.inf:
        raise FileError("a learner has a step size, pseudo-counts or mini-batches out of range")
    if (learner.average < 0).any() or not missing <= set(graph.observed):
        raise FileError("a learner has negative counts, or columns that its graph does not have")
    # The tables themselves are checked where they are made a network.
    if learner.network.graph is not graph:
        raise FileError("a learner has tables of another graph")
    return learner


START = Field(
    lambda writer, name, start: _START.write(writer, start),
    lambda reader, content, at: StartReport(**_START.read(reader, content)),
)
SEARCH = Field(lambda writer, name, search: _SEARCH.write(writer, search), _search)
LEARNER = within(_learner_content, _learner)
