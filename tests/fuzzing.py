"""Random calls of everything that is public: each ends in a right answer or in one of our errors.

    python tests/fuzzing.py --calls 50000 --seed 0
    python tests/fuzzing.py --seed 0 --only 1234    # one call again, with its traceback

A call is a failure when it raises anything but an `EigentreeError` (or scikit-learn's error of an estimator that
was not fitted), when numpy warns of its arithmetic, when an answer breaks a law (`fuzzing_laws`), when a refused
call has changed the object that it was made on, or when it takes long.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import hostile_values
import numpy as np
from fuzzing_arguments import ARGUMENTS, ESTIMATORS, POOL, WRAPPERS, Draw, Kind, settings
from fuzzing_laws import LAWS, Question
from sklearn.exceptions import NotFittedError

import eigentree as et
from eigentree import zoo
from eigentree.errors import quoted

MOST_SECONDS = 5.0
MOST_MEMORY = 2 * 2**30

CLASSES = (
    "Counts",
    "EMHMM",
    "HiddenMarkovTree",
    "JunctionTree",
    "JunctionTreeClassifier",
    "JunctionTreeImputer",
    "LabeledTable",
    "LabeledTensor",
    "LatentGrammar",
    "LatentGraph",
    "LatentNetwork",
    "MixtureHMM",
    "PairCounts",
    "SequenceTagger",
    "SpectralHMM",
    "SpectralLatentGrammar",
    "Statistics",
    *ESTIMATORS,
)
BETWEEN_ROOMS = {
    *(f"Counts.{name}" for name in ("count", "featured", "find", "laid_out", "smoothed", "stacked")),
    *(f"PairCounts.{name}" for name in ("count", "empty", "margins", "tables")),
    *(
        "new.JunctionTree",
        "new.PairCounts",
        "Statistics.count",
        "Statistics.count_rows",
        "Statistics.without",
        "LatentGraph.derived",
        "LatentNetwork.reveal",
        "LatentNetwork.with_columns",
        "LatentNetwork.changed",
        "LatentNetwork.evidence",
        "LabeledTable.answer",
        "LatentNetwork.clique_marginals",
    ),
}
"""Methods that take what only the package itself makes."""

FUNCTIONS = (
    "class_regression()",
    "bivariate_residuals()",
    "bootstrap()",
    "bootstrap_likelihood_ratio_test()",
    "classification_table()",
    "dependencies()",
    "distal_outcomes()",
    "expected_counts()",
    "goodness_of_fit()",
    "labelled_f1()",
    "learn_structure()",
    "likelihood_ratio_test()",
    "multiple_imputation()",
    "plot.decoded()",
    "plot.graph()",
    "plot.intervals()",
    "plot.learning_curve()",
    "plot.multistart()",
    "plot.profiles()",
    "plot.spectra()",
    "plot.transitions()",
    "plot.tree()",
    "pool()",
    "profiles()",
    "replicate_variance()",
    "report()",
    "select()",
)

FILES = ("save", "load", "to_bif", "from_bif", "score_samples_to", "predict_proba_to", "impute_to")
"""Methods that write and read files: their hostile calls are in the tests of files, where paths are made up."""


@dataclass(frozen=True)
class Target:
    """Something public that can be called.

    Attributes
    ----------
    name : str
    kind : str
        The class that it is a method of, or an empty string.
    arguments : dict of str to callable
    """

    name: str
    kind: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind}.{self.name}" if self.kind else self.name

    @property
    def arguments(self) -> dict[str, Kind]:
        if self.kind and f"{self.kind}.{self.name}" in ARGUMENTS:
            return ARGUMENTS[f"{self.kind}.{self.name}"]
        return ARGUMENTS[self.name]


def public_methods(kind: type) -> list[str]:
    """The names of the public methods of a class, those of arrays left out where it is one."""
    theirs = {*FILES, *(dir(np.ndarray) if issubclass(kind, np.ndarray) else ())}
    found = [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]
    return [name for name in found if name not in theirs]


def targets() -> list[Target]:
    """Everything public that is called, made up from what the package lists."""
    found = [Target(name) for name in FUNCTIONS]
    found += [Target(sign, kind) for kind in ("Counts", "Statistics", "PairCounts") for sign in ("+", "-")]
    found += [Target(name) for name in zoo.__all__ if name != "Template"]
    found += [
        Target("build", name) for name in zoo.__all__ if inspect.isclass(getattr(zoo, name)) and name != "Template"
    ]
    for kind in CLASSES:
        found.append(Target(kind, "new"))
        found += [Target(name, kind) for name in public_methods(getattr(et, kind))]
    return [each for each in found if each.label not in BETWEEN_ROOMS]


TARGETS = targets()


def called(target: Target, draw: Draw) -> Question:
    """Draw the arguments of a call, junk here and there, and return it, not yet made."""
    if (target.kind == "new" and target.name in ESTIMATORS) or target.name in ("fit", "set_params"):
        return _fit_question(target, draw)
    if target.name in ("+", "-"):
        mine, other = (draw.choice(*POOL.objects[target.kind]) for _ in range(2))
        if draw.random.random() < 0.4:
            other = hostile_values.junk(draw.random)
        add = target.name == "+"
        return Question(target.label, lambda: mine + other if add else mine - other, {"other": other}, mine)
    owner: Any = None
    if target.kind == "new":
        function: Any = getattr(et, target.name)
    elif target.kind in CLASSES:
        owner = draw.choice(*POOL.objects[target.kind])
        function = getattr(owner, target.name)
        draw.graph = (
            getattr(owner, "graph_", None) or getattr(owner, "graph", draw.graph)
            if owner_fitted(owner)
            else draw.graph
        )
        if isinstance(owner, et.Statistics | et.Counts | et.PairCounts):
            draw.graph = next(graph for graph in POOL.graphs if graph.observed == owner.columns.names)
    elif target.kind:
        function = getattr(zoo, target.kind)().build
    elif target.name in FUNCTIONS:
        function = attrgetter(target.name.removesuffix("()"))(et)
    else:
        function = getattr(zoo, target.name)
    arguments = {name: kind(draw) for name, kind in target.arguments.items()}
    spoil(arguments, draw)
    return Question(target.label, lambda: function(**arguments), arguments, owner, draw.table)


def owner_fitted(owner: Any) -> bool:
    return not hasattr(owner, "get_params") or owner.__sklearn_is_fitted__()


def spoil(arguments: dict[str, Any], draw: Draw) -> None:
    """Put junk in place of some arguments, half of the time."""
    if arguments and draw.random.random() < 0.5:
        for name in draw.some(tuple(arguments), 2):
            arguments[name] = hostile_values.junk(draw.random)
            if name == "X":
                draw.table = None


def _fit_question(target: Target, draw: Draw) -> Question:
    """Return a fit of an estimator with parameters of its own, or a change of parameters."""
    kind = target.name if target.kind == "new" else target.kind
    if kind in WRAPPERS:
        inner = draw.choice(*ESTIMATORS)
        owner = getattr(et, kind)(getattr(et, inner)(**settings(draw, inner)))
        if draw.random.random() < 0.1:
            owner = getattr(et, kind)(hostile_values.junk(draw.random))
    else:
        owner = getattr(et, kind)(**settings(draw, kind))
    if target.name == "set_params":
        changes = {
            draw.choice("structure", "views", "nothing", "structure__order", "tol"): hostile_values.junk(
                draw.random
            )
        }
        return Question(target.label, lambda: owner.set_params(**changes), changes, owner)
    name = "partial_fit" if hasattr(owner, "partial_fit") and draw.random.random() < 0.3 else "fit"
    wanted = ARGUMENTS.get(f"{kind}.{name}", ARGUMENTS[name])
    arguments = {argument: draw_one(draw) for argument, draw_one in wanted.items()}
    spoil(arguments, draw)
    return Question(f"{kind}.{name}", lambda: getattr(owner, name)(**arguments), arguments, owner, draw.table)


@dataclass(frozen=True)
class Failure:
    """A call that ended as none may."""

    number: int
    label: str
    what: str
    arguments: str
    trace: str

    @property
    def place(self) -> str:
        """Where in the package it happened, and how: what failures of one cause have in common."""
        lines = [line.strip() for line in self.trace.splitlines() if "src/eigentree" in line]
        return f"{self.what[:60]} @ {lines[-1].split('src/eigentree/')[-1] if lines else self.label}"


def drawn(number: int, seed: int) -> Question:
    """Return the call of a number, the same whichever calls were made before."""
    random = np.random.default_rng([seed, number])
    target = TARGETS[random.integers(len(TARGETS))]
    return called(target, Draw(random, POOL.graphs[random.integers(len(POOL.graphs))]))


def run(numbers: Iterator[int] | range, seed: int) -> tuple[Counter[str], list[Failure]]:
    """Make calls by their numbers; return how often each end was met, and the failures."""
    ends: Counter[str] = Counter()
    failures: list[Failure] = []
    # Made before memory is bounded and time is taken.
    assert POOL.objects
    assert POOL.foreign
    with bounded_memory():
        for number in numbers:
            question = drawn(number, seed)
            end, error = made(question, strict=number % 3 == 0)
            ends[end] += 1
            if error is not None:
                given = ", ".join(f"{name}={quoted(value)}" for name, value in question.arguments.items())
                what = f"{type(error).__name__}: {str(error)[:300]}"
                trace = "".join(traceback.format_exception(error))
                failures.append(Failure(number, question.label, what, given, trace))
    return ends, failures


def made(question: Question, strict: bool, most_seconds: float = MOST_SECONDS) -> tuple[str, BaseException | None]:
    """Make a call; return how it ended, and the failure if it is one."""
    before = question.state()
    state: dict[str, Any] = {"all": "raise"} if strict else {}
    end = "answered"
    with warnings.catch_warnings(record=True) as caught, np.errstate(**state):
        warnings.simplefilter("always")
        try:
            try:
                with bounded_time(most_seconds):
                    answer = question.call()
            except (et.EigentreeError, NotFittedError):
                end = "refused"
                assert question.state() == before, "a refused call has changed the object that it was made on"
            else:
                LAWS.check(question, answer)
        except Exception as error:
            return "failed", error
    for warning in caught:
        if "encountered in" in str(warning.message):
            return "failed", RuntimeError(f"{warning.message} ({warning.filename}:{warning.lineno})")
    return end, None


@contextlib.contextmanager
def bounded_time(most_seconds: float) -> Iterator[None]:
    """Stop what takes long, by the clock of the processor."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"took more than {most_seconds:g} s of processor time")

    earlier = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, most_seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let what asks for much memory fail at once, instead of taking it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="make this call alone, and show where it failed")
    options = parser.parse_args()
    numbers = range(options.calls) if options.only is None else range(options.only, options.only + 1)
    ends, failures = run(numbers, options.seed)
    print(", ".join(f"{count:,} {end}" for end, count in ends.most_common()))
    seen: dict[str, list[Failure]] = {}
    for failure in failures:
        seen.setdefault(failure.place, []).append(failure)
    for place, alike in sorted(seen.items(), key=lambda item: -len(item[1])):
        first = alike[0]
        print(f"\n{len(alike)} x {place}\n  {first.what}")
        print(f"  --only {first.number}: {first.label}({first.arguments[:400]})")
        if options.only is not None:
            print(first.trace)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
