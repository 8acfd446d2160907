"""Latent classes beside StepMix: log-likelihood, BIC, whether the classes agree, and the time."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks import shared
from benchmarks.measure import afresh, seconds, show_note, show_table
from eigentree import EMJunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.shared import Table

STARTS = {"carcinoma": 20, "gss82": 20, "election": 5}
"""Of StepMix, by data set; an iteration on the last takes it 11 ms with 6 classes."""

MOST_ITERATIONS = 1_000
TOLERANCE = 1e-8
"""Of StepMix, in nats per row and iteration; 1e-10 took it up to 1.7 times as long, for less than 0.001 nats."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Log-likelihood of all rows, BIC, each row's most probable class and processor seconds of one fit."""

    log_likelihood: float
    bic: float
    most_probable: NDArray[np.int64]
    seconds: float


def ours(table: Table, classes: int) -> Classes:
    """Return the default EM without pseudo-counts; the time is that of the fit, with planning."""
    graph = afresh(zoo.Mixture(classes).build(table.states))
    model = EMJunctionTree(graph, pseudo_counts=0, random_state=0)
    spent = seconds(lambda: model.fit(table.codes), time.process_time)
    rows = table.codes
    most_probable = model.predict_proba(rows, target="h").argmax(axis=1)
    return Classes(float(model.score_samples(rows).sum()), model.bic(rows), most_probable, spent)


def stepmix(table: Table, classes: int, starts: int) -> Classes:
    """Return StepMix's best of several starts."""
    from stepmix import StepMix

    missing = bool((table.codes < 0).any())
    rows: NDArray[Any] = np.where(table.codes < 0, np.nan, table.codes) if missing else table.codes.astype(np.int64)
    model = StepMix(
        classes,
        measurement="categorical_nan" if missing else "categorical",
        n_init=starts,
        max_iter=MOST_ITERATIONS,
        abs_tol=TOLERANCE,
        random_state=0,
        progress_bar=0,
    )
    with warnings.catch_warnings():
        # It warns of starts that end at max_iter; the log-likelihood shows what they reach.
        warnings.simplefilter("ignore")
        spent = seconds(lambda: model.fit(rows), time.process_time)
    most_probable = np.asarray(model.predict(rows), np.int64)
    return Classes(float(model.score(rows)) * len(rows), float(model.bic(rows)), most_probable, spent)


def _show_data(name: str, counts: Sequence[int], compared: bool) -> None:
    """Print one table: a line for each number of classes."""
    table = shared.labelled(f"{name}.csv")
    mine = [ours(table, classes) for classes in counts]
    theirs = [stepmix(table, classes, STARTS[name]) for classes in counts] if compared else None
    chosen = int(np.argmin([one.bic for one in mine]))
    lines = []
    for k, classes in enumerate(counts):
        line = [
            f"{classes}{' <' if k == chosen else ''}",
            f"{mine[k].log_likelihood:.3f}",
            f"{mine[k].bic:.2f}",
            f"{mine[k].seconds:.3f}",
        ]
        if theirs:
            line += [
                f"{theirs[k].log_likelihood:.3f}",
                f"{theirs[k].bic:.2f}",
                f"{theirs[k].seconds:.3f}",
                f"{mine[k].log_likelihood - theirs[k].log_likelihood:+.3f}",
                f"{adjusted_rand_score(mine[k].most_probable, theirs[k].most_probable):.3f}",
                f"{theirs[k].seconds / mine[k].seconds:.1f}",
            ]
        lines.append(line)
    header = ["classes", "eigentree", "BIC", "s"]
    if theirs:
        spent = [sum(one.seconds for one in all_counts) for all_counts in (mine, theirs)]
        ratio = f"{spent[1] / spent[0]:.1f}"
        lines.append(["all", "", "", f"{spent[0]:.3f}", "", "", f"{spent[1]:.3f}", "", "", ratio])
        header += ["StepMix", "BIC", "s", "ours - theirs", "agreement", "time theirs/ours"]
    missing = int((table.codes < 0).sum())
    show_table(
        f"classes: {name}, {len(table.codes):,} rows, {len(table.states)} columns, {missing:,} missing cells:\n"
        "log-likelihood of all rows, BIC, processor seconds of a fit, 1 thread",
        header,
        lines,
    )
    if theirs:
        other = int(np.argmin([one.bic for one in theirs]))
        agreement = adjusted_rand_score(mine[chosen].most_probable, theirs[other].most_probable)
        show_note(
            f"BIC chooses {counts[chosen]} classes of eigentree's and {counts[other]} of StepMix's;"
            f" the adjusted Rand index between these is {agreement:.3f}"
        )


def run(quick: bool) -> None:
    """Print a table for each data set."""
    if shared.is_absent("classes", [f"{name}.csv" for name in STARTS]):
        return
    compared = find_spec("stepmix") is not None
    # Imported before any clock runs.
    missing = shared.Table(np.array([[0, 1, 0], [1, -1, 1], [1, 0, 0], [0, 1, 1]] * 5, np.int8), (2, 2, 2))
    for table in (missing, shared.Table(np.abs(missing.codes), missing.states)):
        ours(table, 2)
    if compared:
        stepmix(missing, 1, 1)
    for name in list(STARTS)[: 1 if quick else None]:
        _show_data(name, range(1, 4 if quick else 7), compared)
    show_note(
        "<: the BIC's choice; agreement: adjusted Rand index of the rows' most probable classes; ours:"
        " EMJunctionTree with pseudo_counts=0 and random_state=0, all else as it comes"
    )
    if compared:
        starts = ", ".join(f"{count} ({name})" for name, count in STARTS.items())
        show_note(
            f"StepMix {version('stepmix')}: n_init={starts}, max_iter={MOST_ITERATIONS}, abs_tol={TOLERANCE:g},"
            " random_state=0, categorical (categorical_nan where cells are missing), in one process"
        )
    else:
        show_note("not installed: stepmix, which is measured beside ours where it is")
