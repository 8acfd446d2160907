"""What ``make demo`` runs: splice junctions classified, imputed and sampled by models fitted in seconds."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

import eigentree as et
from eigentree.datasets import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int8]

JUNCTION = 30
"""The junction lies between the bases before and from this one on."""

MEANINGS = {"EI": "exon, then intron (donor)", "IE": "intron, then exon (acceptor)", "N": "no junction"}


def main() -> None:
    """Print all steps."""
    splice = et.datasets.load_splice()
    codes, classes = splice.codes, np.array(splice.class_names)[splice.classes]
    # Equal sequences stay on one side: a third of all different ones are for testing.
    _, sequence = np.unique(codes, axis=0, return_inverse=True)
    held = np.random.default_rng(0).permutation(sequence.max() + 1)[sequence.ravel()] % 3 == 0
    _show_data(codes, classes, held)
    model = _learn(codes[~held], classes[~held])
    _show_errors(model, codes[~held], classes[~held], codes[held], classes[held])
    _show_doubts(model, codes[held], classes[held])
    donors = model.estimators_[0]
    assert isinstance(donors, et.SpectralJunctionTree)
    _show_imputed(donors, codes[held & (classes == "EI")])
    _show_sampled(donors)
    _show_next()


def _show_data(codes: Codes, classes: NDArray[np.str_], held: NDArray[np.bool_]) -> None:
    print(
        "1. The data: 3,190 stretches of primate DNA, 60 bases each, around a place that may be a splice junction"
    )
    print("   (UCI repository; they come with the package: et.datasets.load_splice()). Three classes:\n")
    for name, meaning in MEANINGS.items():
        rows = codes[classes == name]
        print(f"   {name:<3} {len(rows):>5,}   {_text(rows[0])}   {meaning}")
    print(f"\n   {int((~held).sum()):,} training rows, {int(held.sum()):,} test rows; no sequence is in both.")


def _learn(codes: Codes, classes: NDArray[np.str_]) -> et.JunctionTreeClassifier:
    print("\n2. Fit one hidden Markov model of order 2 per class, from counts: one pass, no random starts.\n")
    print("   model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=2)))")
    print("   model.fit(codes, classes)\n")
    model = et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=2)))
    with _busy("fitting to all rows"):
        model.fit(codes, classes)
    print(f"   Shrinkage toward the independence model, chosen on held-out rows: {model.shrinkage_:g}.")
    return model


def _show_errors(
    model: et.JunctionTreeClassifier,
    codes: Codes,
    classes: NDArray[np.str_],
    tests: Codes,
    truth: NDArray[np.str_],
) -> None:
    apart = et.SpectralJunctionTree(model.estimator.structure, shrinkage=np.inf)
    independent = et.JunctionTreeClassifier(apart).fit(codes, classes)
    with _quiet():
        named = model.predict(tests)
    print(f"\n3. Classify the {len(tests):,} test rows. Errors in per cent:\n")
    print(f"   {_percent(named != truth):>5}  by these models")
    print(f"   {_percent(independent.predict(tests) != truth):>5}  by the independence model (naive Bayes)")
    print(f"   {_percent(truth != 'N'):>5}  if every row were classified as N\n")
    print("   true class predicted " + "".join(f"{name:>6}" for name in model.classes_))
    for name in model.classes_:
        counts = [int(((truth == name) & (named == other)).sum()) for other in model.classes_]
        print(f"   {name:<20} " + "".join(f"{count:>6}" for count in counts))


def _show_doubts(model: et.JunctionTreeClassifier, tests: Codes, truth: NDArray[np.str_]) -> None:
    with _quiet():
        proba = model.predict_proba(tests)
    doubtful = np.sort(proba, axis=1)[:, -1].argsort()[:3]
    print("\n4. The three least certain rows: P(EI), P(IE), P(N), and the true class.\n")
    for row in doubtful:
        print(f"   {_text(tests[row])}   " + "  ".join(f"{p:.2f}" for p in proba[row]) + f"   {truth[row]}")


def _show_imputed(donors: et.SpectralJunctionTree, tests: Codes) -> None:
    holed = tests[:1].copy()
    holed[:, JUNCTION - 4 : JUNCTION + 6] = -1
    with _quiet():
        imputed = donors.impute(holed)
        named = [donors.predict_proba(tests, f"x{column}").argmax(axis=1) for column in range(tests.shape[1])]
    commonest = np.array([donors.joint([f"x{column}"]).argmax() for column in range(tests.shape[1])])
    known = tests >= 0
    print("\n5. Mask the ten bases around a junction and impute them, by the model of the class EI:\n")
    print(f"   masked    {_text(holed[0])}")
    print(f"   imputed   {_text(imputed[0])}")
    print(f"   was       {_text(tests[0])}\n")
    print(f"   Any base of {len(tests)} test rows, predicted from the other 59, is correct in", end=" ")
    print(f"{_percent((np.column_stack(named) == tests)[known])} % of cells;")
    print(f"   the commonest base of its place in {_percent((commonest == tests)[known])} %, a random one in 25 %.")


def _show_sampled(donors: et.SpectralJunctionTree) -> None:
    print("\n6. Sample new donors from the same model (nearly all introns begin with GT):\n")
    with _quiet():
        for row in donors.sample(3, random_state=1):
            print(f"   {_text(row)}")


def _show_next() -> None:
    print("\n7. What to try next:\n")
    print("   print(model.estimators_[0].report_)             ranks, views and singular values of each separator")
    print("   et.EMJunctionTree(graph).fit(X)                  the same methods, fitted by EM")
    print("   et.SpectralJunctionTree(et.zoo.Mixture(4))       a latent class model of any table")
    print('   et.EMJunctionTree("auto").fit(table)             just a table: the structure is learned too')
    print("   README.md                                        the same on your data, in ten lines")


def _text(row: Sequence[int] | NDArray[np.integer]) -> str:
    letters = "".join(LETTERS[cell] if cell >= 0 else "." for cell in row)
    return f"{letters[:JUNCTION]}|{letters[JUNCTION:]}"


def _percent(wrong: NDArray[np.bool_]) -> str:
    return f"{100 * wrong.mean():.1f}"


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """Print what is being done, and then how long it took."""
    print(f"   {what} … ", end="", flush=True)
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:.1f} s")


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


if __name__ == "__main__":
    main()
