"""How often intervals of 95 % cover the truth, and standard errors beside the spread of estimates."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.measure import show_table
from eigentree import EMHMM, LatentClassModel
from eigentree.inference.sequences.hmm_chain import Chain
from eigentree.uncertainty.free_models import free_model
from eigentree.uncertainty.information import Information
from eigentree.uncertainty.quantities import Quantities
from eigentree.uncertainty.refits import FittedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

SIZES = (500, 2000)
REPLICATES = 200
"""The standard error of a coverage of 95 % of one parameter is then 1.5 %."""

SEED = 20261119
"""Fixed before anything was looked at."""

KINDS = ("observed", "empirical", "robust")

SHARES = np.array([0.5, 0.3, 0.2])
ITEMS = np.array([[0.85] * 8, [0.8] * 4 + [0.2] * 4, [0.15] * 8])
"""P(yes | class) of eight items."""

START = np.array([0.7, 0.3])
MOVES = np.array([[0.85, 0.15], [0.25, 0.75]])
SHOWN = np.array([[0.6, 0.2, 0.15, 0.05], [0.1, 0.15, 0.25, 0.5]])
LENGTH = 10


def _states(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the hidden states of sequences."""
    states = np.empty((count, LENGTH), np.int64)
    states[:, 0] = random.random(count) < START[1]
    for step in range(1, LENGTH):
        states[:, step] = random.random(count) < MOVES[states[:, step - 1], 1]
    return states


def classes(count: int, random: np.random.Generator) -> Any:
    """Return answers of latent classes."""
    own = random.choice(3, count, p=SHARES)
    return (random.random((count, 8)) < ITEMS[own]).astype(np.int8)


def sequences(count: int, random: np.random.Generator) -> Any:
    """Return sequences of symbols."""
    ends = SHOWN.cumsum(axis=1)
    return (random.random((count, LENGTH))[:, :, None] > ends[_states(count, random)]).sum(axis=2)


def measured(count: int, random: np.random.Generator) -> Any:
    """Return sequences of numbers."""
    states = _states(count, random)
    return list(random.normal(2.0 * states, 1.0 + 0.5 * states)[:, :, None])


def _classes_truth(model: Any, order: tuple[int, ...]) -> Any:
    """Return a fitted model of classes with the parameters of the truth, classes in some order."""
    old, own = model.network_, list(order)
    (hidden,) = old.graph.hidden
    shown = {
        name: np.stack([1.0 - ITEMS[own, place], ITEMS[own, place]], axis=1)
        for place, name in enumerate(old.graph.observed)
    }
    made = copy(model)
    made.network_ = old.changed(tables={hidden: SHARES[own]} | shown)
    return made


def _chain_truth(model: Any, order: tuple[int, ...]) -> Any:
    """Return a fitted chain with the parameters of the truth, states in some order."""
    old, own = model.model_, list(order)
    numbers = {
        group: replace(emission, mean=2.0 * np.array(own), variance=(1.0 + 0.5 * np.array(own)) ** 2)
        for group, emission in old.numbers.items()
    }
    shown = [np.ones((2, 1))] if numbers else [SHOWN[own]]
    made = copy(model)
    made.model_ = Chain.of(old.columns, [[START[own], MOVES[np.ix_(own, own)]]], shown, numbers)
    return made


class Case(NamedTuple):
    """A model whose truth is known: data, an unfitted estimator, and the fitted one at the truth."""

    key: str
    name: str
    sampled: Callable[[int, np.random.Generator], Any]
    estimator: Callable[[], Any]
    truth: Callable[[Any, tuple[int, ...]], Any]
    states: int


CASES = (
    Case(
        "classes",
        "3 latent classes, 8 items",
        classes,
        partial(LatentClassModel, 3, random_state=0),
        _classes_truth,
        3,
    ),
    Case("hmm", "HMM of 2 states, 4 symbols", sequences, partial(EMHMM, 2, random_state=0), _chain_truth, 2),
    Case(
        "gaussian_hmm",
        "HMM of 2 states, a number",
        measured,
        partial(EMHMM, 2, emissions="gaussian", random_state=0),
        _chain_truth,
        2,
    ),
)


def _type(label: tuple[Any, ...]) -> str:
    """Return the type of a parameter."""
    table, state, given = label
    if state in ("mean", "std"):
        return str(state)
    if table in ("start", "transitions"):
        return str(table)
    return "responses" if given else "class sizes"


def replicate(case: Case, size: int, number: int) -> dict[str, list[NDArray[np.float64]]]:
    """Return, for each kind, the errors of the estimates of a sample, standard errors, and what is covered."""
    random = np.random.default_rng([SEED, CASES.index(case), size, number])
    data = case.sampled(size, random)
    model = case.estimator().fit(data)
    information = Information(free_model(FittedModel.of(model, data, None, None)))
    found: dict[str, list[NDArray[np.float64]]] = {}
    truths = [Quantities.of(case.truth(model, order), None).values for order in permutations(range(case.states))]
    for kind in KINDS:
        own = information.estimates(None, kind)
        truth = min(truths, key=lambda each: float(np.square(each - own.values).sum()))
        low, high = own.confint().T
        covered = np.where(np.isnan(own.standard_errors), np.nan, (low <= truth) & (truth <= high))
        found[kind] = [own.values - truth, own.standard_errors, covered]
    found["types"] = [np.array([_type(label) for label in own.labels])]
    return found


def table_lines(case: Case, size: int, replicates: int) -> list[list[str]]:
    """Return, for each type of parameter, coverage by kind, and standard errors beside the spread of estimates."""
    every = [replicate(case, size, number) for number in range(replicates)]
    types, lines = every[0]["types"][0], []
    for own in dict.fromkeys(types.tolist()):
        here = types == own
        given = {
            kind: [np.array([each[kind][what][here] for each in every]) for what in range(3)] for kind in KINDS
        }
        coverage = [f"{100 * np.nanmean(covered):.1f}" for _, _, covered in given.values()]
        apart, errors, _ = given["observed"]
        ratio = np.sqrt(np.nanmean(errors**2, axis=0)) / apart.std(axis=0)
        without = f"{100 * np.isnan(errors).mean():.1f}"
        lines.append([f"{size:,}", own, *coverage, f"{ratio.min():.2f} to {ratio.max():.2f}", without])
    return lines


def run(quick: bool = False, sets: Sequence[str] = ()) -> None:
    """Print coverage and standard errors by type of parameter, size and kind; of some models, if they are given."""
    replicates, sizes = (20, (500,)) if quick else (REPLICATES, SIZES)
    for case in CASES:
        if sets and case.key not in sets:
            continue
        lines = [line for size in sizes for line in table_lines(case, size, replicates)]
        unit = "rows" if case.states == 3 else f"sequences of {LENGTH} steps"
        show_table(
            f"coverage of intervals of 95 %, in %: {case.name}; {replicates} samples of N {unit}",
            ["N", "parameters", *KINDS, "error / spread", "without one, %"],
            lines,
        )
