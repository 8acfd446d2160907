"""How likely held-out rows of real tables are under a spectral fit and under EM, and what each takes."""

from __future__ import annotations

import time
import warnings
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import shared
from benchmarks.measure import afresh, show_note, show_table
from benchmarks.paper.baselines import IndependentColumns
from eigentree import EMJunctionTree, SpectralJunctionTree, zoo

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.zoo import Template

    from benchmarks.shared import Split

UCI = {"house votes": "house-votes-84.data", "mushrooms": "agaricus-lepiota.data"}
LATENT_CLASSES = {"carcinoma": 3, "cheating": 2, "gss82": 3, "election": 3}
FOLDS = 5
MOST_CONFIGURATIONS = 2**17
"""Of tables whose probabilities are all added up, to see that they make 1."""


def scored(structure: Template, split: Split) -> list[float]:
    """Return the mean log probability of a test row: independent, spectral, EM; and the seconds of the last two."""
    table, test = split.train, split.test.codes
    scores = [float(IndependentColumns(table.states, table.codes).score_samples(test).mean())]
    spent = []
    graph = structure.build(table.states)
    for estimator in (SpectralJunctionTree, partial(EMJunctionTree, random_state=0)):
        start = time.process_time()
        with warnings.catch_warnings():
            # Ranks that few rows do not support: the score shows the effect.
            warnings.simplefilter("ignore")
            model = estimator(afresh(graph)).fit(table.codes)
        spent.append(time.process_time() - start)
        scores.append(float(model.score_samples(test).mean()))
        if table.configurations <= MOST_CONFIGURATIONS:
            total = np.exp(model.score_samples(table.all_rows())).sum()
            if not abs(total - 1) < 1e-9:
                raise AssertionError(f"{model!r}: the probabilities of all rows add up to {total!r}")
    return [*scores, *spent]


def cases(quick: bool) -> list[tuple[str, list[str], Template, Callable[[], list[Split]]]]:
    """Return the name of each data set, its files, a structure, and how to read its splits."""
    most = 500 if quick else None
    structures = [zoo.Mixture(4)] if quick else [zoo.Mixture(4), zoo.HMM(1, 4), zoo.LatentTree(4)]
    found: list[tuple[str, list[str], Template, Callable[[], list[Split]]]] = []
    for name in ("nltcs", "msnbc", "plants"):
        read = partial(shared.binary_split, name, most)
        found += [(name, shared.split_files(name), each, lambda read=read: [read()]) for each in structures]
    for name, file in UCI.items():
        found += [
            (name, [file], each, lambda file=file: [shared.seeded_split(shared.labelled(file))])
            for each in (zoo.Mixture(4), zoo.Mixture(8))[: 1 if quick else 2]
        ]
    for name, classes in LATENT_CLASSES.items():
        file = f"{name}.csv"
        found.append(
            (name, [file], zoo.Mixture(classes), lambda file=file: shared.folds(shared.labelled(file), FOLDS))
        )
    return found


def run(quick: bool) -> None:
    """Print a line for each data set and structure."""
    table = []
    for name, files, structure, splits in cases(quick):
        if shared.is_absent(f"real: {name}", files):
            continue
        read = splits()
        means = [fmean(column) for column in zip(*(scored(structure, split) for split in read), strict=True)]
        rows = f"{len(read[0].train.codes):,}"
        shown = repr(structure).replace("hidden_states=", "")
        table.append([name, shown, rows, *(f"{mean:.4f}" for mean in means[:3]), *(f"{s:.2f}" for s in means[3:])])
    show_table(
        "real: mean log probability of a test row in nats; processor seconds of a fit, 1 thread",
        ["data", "structure", "training rows", "independent", "spectral", "EM", "spectral s", "EM s"],
        table,
    )
    show_note(
        "default settings; independent: add-1/2 smoothing; the four tables of latent classes: mean of"
        f" {FOLDS} folds; `multistart` puts EM beside random starts"
    )
    show_note(
        f"where there are at most {MOST_CONFIGURATIONS:,} different rows, the probabilities of all are checked to"
        " be normalised"
    )
