"""Numbers of one version of eigentree, to be compared bit for bit with those of another.

Usage, with OLD a checkout of the version to compare with::

    PYTHONPATH=OLD/src python tools/same_numbers.py take old.npz
    PYTHONPATH=src python tools/same_numbers.py take new.npz
    python tools/same_numbers.py compare old.npz new.npz

And, after ``python -m benchmarks.paper fig3 --quick --out FOLDER`` (or fig4) with each version::

    python tools/same_numbers.py journals OLD_FOLDER NEW_FOLDER

Only names that every version has are used.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TIMES = ("elapsed", "finished")

PAPER = {"init": "random", "stopping": "paper", "tol": 1e-4, "accelerate": False, "pseudo_counts": 0.0}
"""EM as the paper has it: random starts, no acceleration."""

Named = Iterator[tuple[str, np.ndarray]]


def graphs() -> dict[str, object]:
    """Structures of every sort."""
    import eigentree as et

    zoo = et.zoo
    return {
        "hmm1": zoo.hmm(12, 1, 3, 4),
        "hmm2": zoo.hmm(40, 2, 2, 4),
        "hmm3": zoo.hmm(20, 3, 2, 4),
        "factorial": zoo.factorial_hmm(10, 2, 2, 5),
        "mixture": zoo.mixture(12, 3, 3),
        "hub": zoo.mixture(40, 4, [2, 3, 5, 2] * 10),
        "tree": zoo.latent_tree(depth=3, hidden_states=3, observed_states=4),
        "semi": zoo.semi_hidden_markov(8, 2, 3, 4),
        "paper": zoo.paper_junction_tree(),
        "wide": zoo.mixture(5, 3, 60),
        "grid": et.LatentGraph(
            {f"{kind}{k}": 2 + k % 2 for k in range(6) for kind in "hx"},
            [(f"h{k}", f"h{k + 1}") for k in range(5)] + [(f"h{k}", f"x{k}") for k in range(6)] + [("h0", "h3")],
            hidden=[f"h{k}" for k in range(6)],
            directed=False,
        ),
    }


def with_missing(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the rows with a share of their cells missing, but for the first row."""
    lost = np.random.default_rng(seed).random(rows.shape) < share
    lost[0] = False
    return np.where(lost, -1, rows)


def of_network(network: object, rows: np.ndarray) -> Named:
    """Yield the results of an exact model."""
    names = network.graph.observed
    lost = with_missing(rows[:700], 0.3, 5)
    yield "log_prob", network.log_prob(rows)
    yield "log_prob of holes", network.log_prob(lost)
    yield "log_prob of one row", network.log_prob(lost[1:2])
    yield "joint", network.joint(names[:2])
    yield "conditional", network.conditional(names[:1], {names[-1]: 0})
    yield "predict_proba", network.predict_proba(lost, names[1])
    yield "impute", network.impute(lost)
    yield "impute by draws", network.impute(lost, "sample", seed=3)
    yield "sample", network.sample(500, seed=4)
    yield "sample given", network.sample(300, seed=4, given={names[0]: 1})


def of_spectral(graph: object, rows: np.ndarray, settings: dict[str, object]) -> Named:
    """Yield the results of a spectral model, of rows with and without missing cells, with weights and in parts."""
    import eigentree as et

    names = graph.observed
    weights = np.random.default_rng(6).integers(0, 4, len(rows))
    cases = {
        "whole": (rows, None),
        "holed": (with_missing(rows, 0.1, 7), None),
        "weighted": (rows, weights),
        "fractional": (rows, weights / 3),
    }
    tests = with_missing(rows[:600], 0.2, 8)
    for case, (data, weight) in cases.items():
        model = et.SpectralJunctionTree(graph, **settings).fit(data, sample_weight=weight)
        yield f"{case}: shrinkage", np.array(model.shrinkage_)
        yield f"{case}: scores", model.score_samples(tests)
        yield f"{case}: joint", model.joint(names[:2])
        yield f"{case}: predict_proba", model.predict_proba(tests, names[1])
        yield f"{case}: impute", model.impute(tests)
        yield f"{case}: sample", model.sample(200, seed=9)
        yield f"{case}: sample given", model.sample(100, seed=9, given={names[0]: 1})
        yield f"{case}: alpha", np.array(model.report_.alpha)
    parts = et.SpectralJunctionTree(graph, **settings)
    for part in np.array_split(rows, 3):
        parts.partial_fit(part)
    yield "parts: scores", parts.score_samples(tests)


def of_em(graph: object, rows: np.ndarray) -> Named:
    """Yield what EM learns, plain and otherwise, and online."""
    import eigentree as et

    cases = {
        "plain": {"n_init": 2, "random_state": 0, "max_iter": 15},
        "accelerated": {"n_init": 1, "random_state": 1, "max_iter": 25, "accelerate": True, "tol": 1e-8},
        "prior": {"n_init": 1, "random_state": 2, "max_iter": 10, "pseudo_counts": 0.5},
        "threads": {"n_init": 1, "random_state": 3, "max_iter": 5, "n_jobs": 2},
    }
    for case, settings in cases.items():
        for kind, data in {"whole": rows, "holed": with_missing(rows, 0.1, 10)}.items():
            model = et.EMJunctionTree(graph, **PAPER | settings).fit(data)
            yield f"{case}, {kind}: history", model.history_
            yield f"{case}, {kind}: scores", model.score_samples(rows[:300])
    weights = np.random.default_rng(11).random(len(rows))
    model = et.EMJunctionTree(graph, n_init=1, random_state=0, max_iter=5, **PAPER)
    model.fit(rows, sample_weight=weights)
    yield "weighted: history", model.history_
    online = et.OnlineEMJunctionTree(graph, passes=2, random_state=0, pseudo_counts=0.1).fit(
        rows, sample_weight=weights
    )
    yield "online: history", online.history_
    yield "online: scores", online.score_samples(rows[:300])
    stepwise = et.OnlineEMJunctionTree(graph, random_state=0)
    for part in np.array_split(with_missing(rows, 0.05, 12), 3):
        stepwise.partial_fit(part)
    yield "stepwise: history", stepwise.history_
    yield "stepwise: scores", stepwise.score_samples(rows[:300])


def of_classes() -> Named:
    """Yield the predictions of classifiers of splice junctions."""
    import eigentree as et

    splice = et.datasets.load_splice()
    codes, classes = splice.codes[:, 22:38], splice.classes
    for name, estimator in {
        "spectral": et.SpectralJunctionTree(et.zoo.HMM(order=2, hidden_states=2)),
        "fixed": et.SpectralJunctionTree(et.zoo.HMM(order=1, hidden_states=2), shrinkage=1.0),
        "em": et.EMJunctionTree(
            et.zoo.HMM(order=1, hidden_states=2), n_init=1, max_iter=10, random_state=0, **PAPER
        ),
    }.items():
        model = et.JunctionTreeClassifier(estimator).fit(codes[::3], classes[::3])
        yield f"{name}: predict_proba", model.predict_proba(codes[1::3])
        yield f"{name}: predict", model.predict(codes[1::3])


def every() -> Named:
    """All numbers, by name."""
    import eigentree as et

    for kind, graph in graphs().items():
        truth = et.LatentNetwork.random(graph, seed=0)
        rows = truth.sample(3_000, seed=1)
        for name, found in of_network(truth, rows):
            yield f"{kind}: exact: {name}", found
        recipes = {
            "default": {},
            "shrunk": {"shrinkage": 2.0, "views": 3},
            "published": {"views": 1, "scaling": None, "shrinkage": 0},
        }
        for recipe, settings in recipes.items():
            for name, found in of_spectral(graph, rows, settings):
                yield f"{kind}: {recipe}: {name}", found
        exact = et.SpectralJunctionTree(graph).fit_moments(truth)
        yield f"{kind}: population: scores", exact.score_samples(rows[:300])
        if kind in ("hmm1", "hmm2", "factorial", "mixture", "tree", "paper", "grid"):
            for name, found in of_em(graph, rows[:1500]):
                yield f"{kind}: em: {name}", found
    for name, found in of_classes():
        yield f"splice: {name}", found


def compare(first: str, second: str) -> int:
    """Print what differs; return how many numbers do."""
    old, new = np.load(first), np.load(second)
    names = list(dict.fromkeys([*old.files, *new.files]))
    different = 0
    for name in names:
        if name not in old or name not in new:
            print(f"only in {'the second' if name in new else 'the first'}: {name}")
        elif old[name].shape == new[name].shape and np.array_equal(old[name], new[name], equal_nan=True):
            continue
        elif old[name].shape != new[name].shape:
            print(f"{name}: shapes {old[name].shape} and {new[name].shape}")
        else:
            print(f"{name}: differs by up to {np.abs(old[name].astype(float) - new[name]).max():.3g}")
        different += 1
    print(f"{len(names) - different} of {len(names)} arrays are bit-identical")
    return different


def results(folder: str) -> dict[str, object]:
    """Return what was found in each cell of an experiment, but for times."""
    lines = (Path(folder) / "journal.jsonl").read_text().splitlines()
    cells = [json.loads(line) for line in lines]
    return {json.dumps(cell["cell"], sort_keys=True): without_times(cell) for cell in cells}


def without_times(found: object) -> object:
    """Return a result without its times."""
    if isinstance(found, dict):
        kept = {name: value for name, value in found.items() if "seconds" not in name and name not in TIMES}
        return {name: without_times(value) for name, value in kept.items()}
    return found


def compare_journals(first: str, second: str) -> int:
    """Print which cells of an experiment differ; return how many do."""
    old, new = results(first), results(second)
    names = list(dict.fromkeys([*old, *new]))
    different = [name for name in names if old.get(name) != new.get(name)]
    for name in different:
        print(f"differs: {name}")
    print(f"{len(names) - len(different)} of {len(names)} cells are bit-identical, times aside")
    return len(different)


def main() -> int:
    """Take numbers to a file, or compare two files."""
    if sys.argv[1:2] == ["compare"] and len(sys.argv) == 4:
        return int(compare(*sys.argv[2:]) > 0)
    if sys.argv[1:2] == ["journals"] and len(sys.argv) == 4:
        return int(compare_journals(*sys.argv[2:]) > 0)
    if sys.argv[1:2] != ["take"] or len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(sys.argv[2], **dict(every()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
