"""Hidden Markov models of sequences beside hmmlearn, dynamax, pomegranate: time, likelihood reached, and size."""

from __future__ import annotations

import importlib.util
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.measure import best_seconds, in_fresh_process, peak_growth, show_note, show_table
from benchmarks.shared import SEQUENCE_FILES, careers, families, is_absent
from eigentree import EMHMM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

CLOCK = time.process_time
PLAIN: dict[str, Any] = {"pseudo_counts": 0.0, "accelerate": False, "tol": 0.0, "stopping": "paper"}
"""The parameters that make it steps of EM and nothing else."""

STEPS = 20
"""Iterations whose time is taken, beyond the first."""

PEER_STEPS = 200
"""The same beside packages that compile anew in each fit, which takes longer than many iterations."""

STARTS = 20
"""Random starts of hmmlearn."""

PATIENCE = 100
"""Iterations of hmmlearn at most, from each start; it stops by a tolerance of 1e-2 before, as by default."""


class Case(NamedTuple):
    """Sequences end to end, how long each is, and how many states a model of them has."""

    name: str
    codes: NDArray[np.int64]
    lengths: list[int]
    states: int


def tables(case: Case, seed: int) -> dict[str, NDArray[np.float64]]:
    """Return random tables to start from."""
    random = np.random.default_rng(seed)
    symbols = int(case.codes.max()) + 1
    shapes = {"start": (case.states,), "transitions": (case.states,) * 2, "emissions": (case.states, symbols)}
    return {name: random.dirichlet(np.ones(shape[-1]), shape[:-1] or None) for name, shape in shapes.items()}


def theirs(case: Case, start: Mapping[str, Any], steps: int, implementation: str, tol: float = -np.inf) -> Any:
    """Return hmmlearn's model after some iterations."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(
        case.states, n_iter=steps, tol=tol, init_params="", params="ste", implementation=implementation
    )
    model.startprob_, model.transmat_ = start["start"].copy(), start["transitions"].copy()
    model.emissionprob_ = start["emissions"].copy()
    return model.fit(case.codes[:, None], case.lengths)


def ours(case: Case, start: Mapping[str, Any], steps: int) -> EMHMM:
    """Return our model after some iterations."""
    return EMHMM(case.states, init=start, max_iter=steps, **PLAIN).fit(case.codes, lengths=case.lengths)


def drawn(count: int, length: int, states: int, seed: int = 0) -> Case:
    """Return sequences of four symbols sampled from a chain with high self-transition probabilities."""
    random = np.random.default_rng(seed)
    moves = 0.8 * np.eye(states) + 0.2 * random.dirichlet(np.ones(states), states)
    model = EMHMM(
        states,
        init={
            "start": np.full(states, 1 / states),
            "transitions": moves / moves.sum(axis=1, keepdims=True),
            "emissions": random.dirichlet(np.full(4, 0.5), states),
        },
        max_iter=1,
        pseudo_counts=1.0,
    ).fit([[0, 1, 2, 3]])
    X = np.concatenate(model.sample(count, length=length, seed=seed + 1))
    return Case(f"{count:,} of {length:,}, drawn", X, [length] * count, states)


def real() -> list[Case]:
    """Return careers, and family life as one symbol of three channels, which is all that hmmlearn can express."""
    mvad = careers()
    codes = np.unique(mvad.to_numpy(str), return_inverse=True)[1].reshape(-1)
    biofam = [frame.to_numpy() for frame in families().values()]
    joint = np.unique(biofam[0] * 4 + biofam[1] * 2 + biofam[2], return_inverse=True)[1].reshape(-1)
    return [
        Case("mvad", codes, [mvad.shape[1]] * len(mvad), 4),
        Case("biofam, one symbol", joint, [16] * len(biofam[0]), 4),
    ]


def iterations(cases: list[Case], repeats: int) -> None:
    """Print the time of an iteration from the same start, once both have the same tables."""
    table = []
    for case in cases:
        start = tables(case, 0)
        known, found = theirs(case, start, STEPS, "scaling"), ours(case, start, STEPS)
        apart = max(
            np.abs(found.tables_["transitions"] - known.transmat_).max(),
            np.abs(found.tables_["emissions"] - known.emissionprob_).max(),
        )
        if not apart < 1e-8:
            raise AssertionError(f"{case.name}: tables differ by {apart}")
        runs: dict[str, Callable[[], object]] = {}
        for steps in (1, 1 + STEPS):
            runs[f"ours {steps}"] = partial(ours, case, start, steps)
            for implementation in ("scaling", "log"):
                runs[f"{implementation} {steps}"] = partial(theirs, case, start, steps, implementation)
        spent = best_seconds(runs, repeats, CLOCK)
        each = {
            name: (spent[f"{name} {1 + STEPS}"] - spent[f"{name} 1"]) / STEPS / len(case.codes) * 1e9
            for name in ("ours", "scaling", "log")
        }
        table.append(
            [
                case.name,
                f"{case.states}",
                f"{each['ours']:.0f}",
                f"{each['scaling']:.0f}",
                f"{each['log']:.0f}",
                f"{each['scaling'] / each['ours']:.0f}x",
                f"{each['log'] / each['ours']:.0f}x",
                f"{apart:.0e}",
            ]
        )
    show_table(
        f"sequences: nanoseconds of processor time per symbol and EM iteration, same start, {STEPS} iterations;\n"
        f"hmmlearn's CategoricalHMM with implementation='scaling', and with 'log', its default",
        ["sequences", "states", "eigentree", "hmmlearn, scaling", "log", "scaling / ours", "log / ours", "apart"],
        table,
    )
    show_note("apart: the largest difference of an entry of the tables after these iterations")


def by_dynamax(case: Case, start: Mapping[str, Any], steps: int) -> NDArray[np.float64]:
    """Return dynamax's transitions after some iterations, compiled as a whole, without its priors."""
    import jax.numpy as jnp
    from dynamax.hidden_markov_model import CategoricalHMM
    from jax.random import PRNGKey

    flat = {f"{name}_concentration": 1.0 for name in ("initial_probs", "transition_matrix", "emission_prior")}
    model = CategoricalHMM(case.states, 1, start["emissions"].shape[1], **flat)
    given = {
        "initial_probs": jnp.asarray(start["start"]),
        "transition_matrix": jnp.asarray(start["transitions"]),
        "emission_probs": jnp.asarray(start["emissions"][:, None, :]),
    }
    parameters, properties = model.initialize(PRNGKey(0), method="prior", **given)
    shown = jnp.asarray(case.codes.reshape(len(case.lengths), -1, 1))
    parameters, _ = model.fit_em(parameters, properties, shown, num_iters=steps, verbose=False)
    return np.asarray(parameters.transitions.transition_matrix)


def by_pomegranate(case: Case, start: Mapping[str, Any], steps: int) -> None:
    """Fit pomegranate's model, which also has the probability that a sequence ends in a state."""
    import torch
    from pomegranate.distributions import Categorical
    from pomegranate.hmm import DenseHMM

    torch.set_num_threads(1)
    emissions = [Categorical([line.tolist()]) for line in start["emissions"].astype(np.float32)]
    ends = np.full(case.states, 1 / case.states)
    given = {name: start[key].astype(np.float32) for name, key in (("edges", "transitions"), ("starts", "start"))}
    model = DenseHMM(emissions, ends=ends.astype(np.float32), max_iter=steps, tol=0.0, **given)
    model.fit(torch.asarray(case.codes.reshape(len(case.lengths), -1, 1)))


PEERS = {"dynamax": by_dynamax, "pomegranate": by_pomegranate}
"""Packages that bring JAX or PyTorch with them, and are no part of the extra `bench` for that."""


def peers(cases: list[Case], repeats: int) -> None:
    """Print the time of an iteration beside packages that are installed, and name those that are not."""
    absent = [name for name in PEERS if importlib.util.find_spec(name) is None]
    for name in absent:
        show_note(f"{name} is not installed here and is left out; pip install {name}")
    table = []
    for case in cases if len(absent) < len(PEERS) else []:
        start = tables(case, 0)
        row = [case.name, f"{case.states}"]
        runs: dict[str, Callable[[], object]] = {}
        for steps in (1, 1 + PEER_STEPS):
            runs[f"ours {steps}"] = partial(ours, case, start, steps)
            for name in PEERS.keys() - set(absent):
                runs[f"{name} {steps}"] = partial(PEERS[name], case, start, steps)
        spent = best_seconds(runs, repeats, CLOCK)
        each = {
            name: (spent[f"{name} {1 + PEER_STEPS}"] - spent[f"{name} 1"]) / PEER_STEPS / len(case.codes) * 1e9
            for name in ("ours", *(name for name in PEERS if name not in absent))
        }
        row.append(f"{each['ours']:.0f}")
        for name in PEERS:
            row += [f"{each[name]:.0f}", f"{each[name] / each['ours']:.0f}x"] if name in each else ["-", "-"]
        apart = "-"
        if "dynamax" in each:
            known = by_dynamax(case, start, STEPS)
            apart = f"{np.abs(ours(case, start, STEPS).tables_['transitions'] - known).max():.0e}"
        table.append([*row, apart])
    if table:
        show_table(
            f"sequences: nanoseconds of processor time per symbol and EM iteration, same start,\n"
            f"{PEER_STEPS} iterations; dynamax's CategoricalHMM, pomegranate's DenseHMM, in their single precision",
            ["sequences", "states", "eigentree", "dynamax", "/ ours", "pomegranate", "/ ours", "dynamax apart"],
            table,
        )
        show_note(
            "what is spent besides iterations, compiling included, is left out: all fits once with 1 iteration"
        )
        show_note("pomegranate's chains also have ends, so that its tables are others")


class Reached(NamedTuple):
    """The log-likelihoods at which fits ended, and the processor seconds of one of them."""

    ends: list[float]
    seconds: float

    def above(self, other: float, case: Case) -> int:
        """Return how many are at or above another, but for a millionth of a nat a symbol."""
        return sum(end > other - max(1e-3, 1e-6 * len(case.codes)) for end in self.ends)


def reached(case: Case, seeds: int, **settings: Any) -> Reached:
    """Return where fits without pseudo-counts end, from several random states."""
    began = CLOCK()
    ends = []
    for seed in range(seeds):
        model = EMHMM(case.states, pseudo_counts=0.0, random_state=seed, **settings)
        ends.append(float(model.fit(case.codes, lengths=case.lengths).history_[-1]))
    return Reached(ends, (CLOCK() - began) / seeds)


def likelihoods(cases: list[Case], seeds: int, starts: int) -> None:
    """Print where the default ends for several seeds, beside the best of many random starts of hmmlearn."""
    table = []
    for case in cases:
        began = CLOCK()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits = [theirs(case, tables(case, seed), PATIENCE, "scaling", 1e-2) for seed in range(starts)]
        best = max(model.score(case.codes[:, None], case.lengths) for model in fits)
        spent = CLOCK() - began
        default = reached(case, seeds)
        table.append(
            [
                case.name,
                f"{case.states}",
                f"{best:.2f}",
                f"{spent:.1f}",
                f"{min(default.ends):.2f}",
                f"{max(default.ends):.2f}",
                f"{default.seconds:.1f}",
                f"{default.above(best, case)} of {seeds}",
                f"{default.seconds / spent:.2f}",
            ]
        )
    show_table(
        f"sequences: log-likelihood reached, and processor seconds; best of {starts} random starts of hmmlearn\n"
        f"(scaling, at most {PATIENCE} iterations each), and the default of EMHMM without pseudo-counts,\n"
        f"random_state 0 to {seeds - 1}: worst, best, seconds of one fit, how many reach all random starts",
        ["sequences", "states", "hmmlearn", "s", "default, worst", "best", "s", "at or above", "s / hmmlearn's"],
        table,
    )


def large(count: int, length: int) -> list[float]:
    """Return bytes of the data and of growth, and seconds besides and of an iteration; for a fresh process."""
    random = np.random.default_rng(0)
    X = random.integers(0, 4, count * length).astype(np.uint8)
    lengths = np.full(count, length)
    case = Case("", X[:4].astype(np.int64), [4], 4)
    start = tables(case, 0) | {"emissions": random.dirichlet(np.ones(4), 4)}
    small = EMHMM(4, init=start, max_iter=1, **PLAIN)
    small.fit(X[: min(len(X), 8 * length)], lengths=lengths[:8] if count > 1 else [length])
    times = []
    for steps in (1, 4):
        began = CLOCK()
        model = EMHMM(4, init=start, max_iter=steps, **PLAIN)
        model.fit(X, lengths=lengths)
        times.append(CLOCK() - began)
    growth = peak_growth(lambda: EMHMM(4, init=start, max_iter=1, **PLAIN).fit(X, lengths=lengths))
    each = (times[1] - times[0]) / 3
    return [X.nbytes, growth, times[0] - 3 * each, each]


def sizes(quick: bool) -> None:
    """Print memory and time of many short sequences, and of one long one."""
    cases = [(100_000, 10), (1_000_000, 10), (1, 1_000_000), (1, 10_000_000)]
    table = []
    for count, length in cases[:1] if quick else cases:
        data, growth, reading, each = in_fresh_process(__name__, "large", count, length)
        table.append(
            [
                f"{count:,} of {length:,}",
                f"{data / 1e6:.0f}",
                f"{growth / 1e6:.0f}",
                f"{reading:.2f}",
                f"{each:.3f}",
                f"{count * length / each / 1e6:.0f}",
            ]
        )
    show_table(
        "sequences: a fit of 4 states to random symbols in uint8, with lengths, 1 thread, each in a fresh process",
        ["sequences", "data MB", "MB beyond the data", "s besides", "s an iteration", "million symbols/s"],
        table,
    )


def run(quick: bool) -> None:
    """Print all tables."""
    if quick:
        iterations([drawn(300, 50, 4)], 1)
    else:
        iterations([drawn(500, 50, 4), drawn(500, 50, 8), drawn(1, 50_000, 4), drawn(1, 50_000, 8)], 3)
        peers([drawn(500, 50, 4), drawn(500, 50, 8), drawn(1, 5_000, 4)], 2)
    sizes(quick)
    if is_absent("sequences", SEQUENCE_FILES):
        return
    cases = real()
    if quick:
        likelihoods(cases[1:], 2, 5)
        return
    iterations(cases, 2)
    likelihoods([*cases, drawn(500, 40, 4, seed=5)], 10, STARTS)
