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
from eigentree.io.documents import Section, UnknownEntryError, number, plain, texts, whole

if TYPE_CHECKING:
    from eigentree.io.stores import Reader, Writer

__all__ = [
    "learner_content",
    "outcome_content",
    "read_learner",
    "read_outcome",
    "read_search",
    "search_content",
]

NUMBERS = ("stepsize", "pseudo_counts")
FIGURES = ("validation", "rows", "validation_rows")

WHOLES = ("batch_size", "threads", "batches", "rows")


def outcome_content(outcome: StartReport) -> dict[str, Any]:
    """Return the document of the start of a fit."""
    return {
        "name": outcome.name,
        "objective": plain(outcome.objective, "an objective"),
        "lead": plain(outcome.lead, "a lead"),
        # Rungs have their first name in files, so that old files load.
        "heats": [
            [rung.rows, rung.iterations, [[name, plain(end, "an objective")] for name, end in rung.objectives]]
            for rung in outcome.rungs
        ],
        "absent": [list(pair) for pair in outcome.absent],
    }


def read_outcome(content: Any) -> StartReport:
    """Return the start of a fit, of a document.

    Raises
    ------
    FileError
        When it is none.
    """
    entry = Section(content, "a start", ("name", "objective", "lead", "heats", "absent"))
    absent = [texts(pair, entry.at("absent")) for pair in entry.items("absent")]
    if any(len(pair) != 2 for pair in absent):
        raise FileError("an absent start has a name and a reason")
    return StartReport(
        entry.text("name"),
        entry.number("objective"),
        entry.number("lead"),
        tuple(_rung(each) for each in entry.items("heats")),
        tuple((name, reason) for name, reason in absent),
    )


def _rung(content: Any) -> Rung:
    if type(content) is not list or len(content) != 3 or type(content[2]) is not list:
        raise FileError("a rung has rows, iterations and candidates")
    rows, iterations, lines = content
    candidates = []
    for line in lines:
        if type(line) is not list or len(line) != 2 or type(line[0]) is not str:
            raise FileError("a candidate of a rung is a name and an objective")
        candidates.append((line[0], number(line[1], "an objective")))
    return Rung(whole(rows, "the rows of a rung"), whole(iterations, "its iterations"), tuple(candidates))


def search_content(search: SizeSearch) -> dict[str, Any]:
    """Return the document of a search over sizes, without its seconds: the same rows are the same bytes."""
    trials = [
        [*trial.size, *(plain(figure, "a figure of a trial") for figure in trial.values()[:-1])]
        for trial in search.trials
    ]
    return {
        "trials": trials,
        "size": list(search.size),
        "shares": [plain(share, "a share") for share in search.shares],
        **{name: plain(getattr(search, name), name) for name in FIGURES},
    }


def read_search(content: Any) -> SizeSearch:
    """Return the search over sizes, of a document.

    Raises
    ------
    FileError
        When it is none.
    """
    entry = Section(content, "a search", ("trials", "size", "shares", *FIGURES))
    trials = tuple(_trial(each) for each in entry.items("trials"))
    size = entry.wholes("size")
    shares = tuple(number(each, entry.at("shares")) for each in entry.items("shares"))
    if len(size) != 2 or Size(*size) not in {trial.size for trial in trials}:
        raise FileError("a search has the size of one of its trials")
    if not shares or not all(share > 0 for share in shares) or not math.isclose(sum(shares), 1.0):
        raise FileError("a search has normalised shares")
    return SizeSearch(trials, Size(*size), shares, *(entry.number(name) for name in FIGURES))


def _trial(content: Any) -> SizeTrial:
    # Earlier files had the seconds behind it.
    if type(content) is not list or len(content) not in (7, 8):
        raise FileError("a trial has a size, a start and four figures")
    states, trees, start, passes, parameters, *figures = content[:7]
    if start not in get_args(SearchStart):
        raise UnknownEntryError(f"there is no start {quoted(start)}")
    log_likelihood, validation = (number(figure, "a figure of a trial") for figure in figures)
    return SizeTrial(
        Size(whole(states, "hidden states"), whole(trees, "trees", 1)),
        start,
        whole(passes, "passes"),
        whole(parameters, "parameters"),
        log_likelihood,
        validation,
    )


def learner_content(writer: Writer, learner: Learner) -> dict[str, Any]:
    """Return the document of a state of stepwise EM, after putting its arrays into the file."""
    writer.array("parameters", learner.parameters)
    writer.array("average", learner.average)
    return {
        "graph": writer.graph(learner.graph),
        "missing": sorted(learner.missing),
        **{name: plain(getattr(learner, name), name) for name in (*NUMBERS, *WHOLES)},
    }


def read_learner(reader: Reader, content: Any) -> Learner:
    """Return a state of stepwise EM, of a document and the arrays of the file.

    Raises
    ------
    FileError, NetworkError
        When it is no state of stepwise EM.
    """
    entry = Section(content, "a learner", ("graph", "missing", *NUMBERS, *WHOLES))
    graph = reader.graph(entry["graph"])
    check_families(graph)
    size = ParameterLayout.of(graph).size
    stepsize, pseudo_counts = (entry.number(name) for name in NUMBERS)
    batch_size, threads, batches, rows = (entry.whole(name) for name in WHOLES)
    learner = Learner(
        graph,
        stepsize,
        reader.floats("parameters", size),
        reader.floats("average", size),
        batches,
        batch_size,
        pseudo_counts,
        threads,
        frozenset(entry.texts("missing")),
        rows,
    )
    if not 0.5 < stepsize <= 1 or not 0 <= pseudo_counts < float("inf") or min(batch_size, threads) < 1:
        raise FileError("a learner has a step size, pseudo-counts or mini-batches out of range")
    if (learner.average < 0).any() or not learner.missing <= set(graph.observed):
        raise FileError("a learner has negative counts, or columns that its graph does not have")
    # The tables themselves are checked where they are made a network.
    if learner.network.graph is not graph:
        raise FileError("a learner has tables of another graph")
    return learner
