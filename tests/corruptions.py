"""Saved files, corrupted at random: each is refused by one of our errors, or loads as something whose answers are
normalised and finite.

    python tests/corruptions.py 20000 7        # so many, of a seed
    python tests/corruptions.py 1 7 1234       # one of them again, whichever were tried before

A file that fails is kept in build/corruptions, as ``SEED-NUMBER-FILE``; FILE is its place in `saved_files`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.exceptions import NotFittedError

import eigentree as et

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIGURATIONS = np.array(list(product(range(3), repeat=5)))
"""All rows of five columns of three states."""

JUNK = [
    None,
    True,
    -1,
    0,
    1,
    3,
    2**31,
    2**70,
    10**400,
    0.5,
    -1e308,
    1e999,
    "",
    "x0",
    "h0",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
]
NUMBERS = [np.nan, np.inf, -1.0, 0.0, 1e308, 5e-324, 2.0]


def header_of(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def with_header(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def resealed(header: dict[str, Any], data: bytes) -> bytes:
    """The file with the digest that it would have had, had it been written so."""
    index = []
    for name, entry in header.items():
        if name != "__metadata__" and isinstance(entry, dict):
            offsets = entry.get("data_offsets")
            placed = isinstance(offsets, list) and len(offsets) == 2
            index.append([name, entry.get("dtype"), entry.get("shape"), *(offsets if placed else [0, 0])])
    with suppress(TypeError):
        index.sort(key=lambda line: (line[3], line[4]))
    sealed = json.dumps([header["__metadata__"]["eigentree"], index], separators=(",", ":")).encode()
    header["__metadata__"]["sha256"] = sha256(sealed + data).hexdigest()
    return with_header(header, data)


def places_in(content: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    found = []
    stack = [content]
    while stack:
        here = stack.pop()
        keys = list(here) if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else []
        for key in keys:
            found.append((here, key))
            stack.append(here[key])
    return found


def mutated(content: Any, random: np.random.Generator) -> None:
    """Change one place of a JSON value."""
    places = places_in(content)
    here, key = places[random.integers(len(places))]
    kind = random.integers(6)
    if kind == 0:
        del here[key]
    elif kind == 1 and isinstance(here, list):
        here.insert(key, copy.deepcopy(here[key]))
    elif kind == 2 and isinstance(here, dict):
        here[f"{key}_new"] = here[key]
    elif kind == 3:
        there, other = places[random.integers(len(places))]
        here[key] = copy.deepcopy(there[other])
    elif kind == 4 and type(here[key]) is int:
        here[key] += int(random.integers(-3, 4))
    else:
        here[key] = JUNK[random.integers(len(JUNK))]


def corrupted(raw: bytes, others: list[bytes], random: np.random.Generator) -> tuple[str, bytes]:
    """How a file was corrupted, and the corrupted file."""
    kind = ["flip", "cut", "splice", "length", "header", "places", "document", "document", "numbers"][
        random.integers(9)
    ]
    changed = bytearray(raw)
    if kind == "flip":
        for _ in range(random.integers(1, 4)):
            changed[random.integers(len(raw))] ^= 1 << random.integers(8)
    elif kind == "cut":
        changed = changed[: random.integers(len(raw))]
    elif kind == "splice":
        other = others[random.integers(len(others))]
        start, size = random.integers(len(raw)), random.integers(1, 400)
        place = random.integers(len(other))
        changed[start : start + size * random.integers(2)] = other[place : place + size]
    elif kind == "length":
        length = [
            0,
            1,
            2,
            7,
            len(raw),
            len(raw) - 8,
            2**20,
            2**31,
            2**60,
            2**64 - 1,
            int(random.integers(len(raw))),
        ]
        changed[:8] = length[random.integers(len(length))].to_bytes(8, "little")
    else:
        header, data = header_of(raw)
        if kind == "header":
            mutated(header, random)
            return kind, with_header(header, data)
        if kind == "places":
            mutated({name: entry for name, entry in header.items() if name != "__metadata__"}, random)
        elif kind == "document":
            document = json.loads(header["__metadata__"]["eigentree"])
            for _ in range(random.integers(1, 3)):
                mutated(document, random)
            header["__metadata__"]["eigentree"] = json.dumps(document, separators=(",", ":"))
        else:
            names = [name for name in header if name != "__metadata__" and header[name]["dtype"] in ("F64", "I64")]
            start, stop = header[names[random.integers(len(names))]]["data_offsets"]
            if stop > start:
                place = start + 8 * random.integers((stop - start) // 8)
                number = np.float64(NUMBERS[random.integers(len(NUMBERS))]).tobytes()
                data = data[:place] + number + data[place + 8 :]
        return kind, resealed(header, data)
    return kind, bytes(changed)


def with_arrays_that_fit(path: Path, random: np.random.Generator) -> None:
    """Give a file arrays of the shapes that its document asks for, one by one, so that it is read further."""
    for _ in range(12):
        try:
            et.load(path)
        except et.FileError as error:
            wrong = re.search(r"array '(.*)' is (\w+).* of shape \((.*)\), but here", str(error))
            absent, spare = (
                re.search(f"there is {one}", str(error)) for one in ("no array '(.*)',", "an array '(.*)' that")
            )
        except BaseException:
            return
        else:
            return
        header, data = header_of(path.read_bytes())
        metadata = header.pop("__metadata__")
        arrays = {
            name: (each["dtype"], each["shape"], data[slice(*each["data_offsets"])])
            for name, each in header.items()
        }
        if wrong:
            name, kind, shape = wrong[1], wrong[2], [int(size) for size in wrong[3].split(",") if size.strip()]
            size = math.prod(shape) * {"F64": 8, "I64": 8, "U64": 8, "U32": 4, "U16": 2}.get(kind, 1)
            if size > 2**16 or name not in arrays:
                return
            there = arrays[name][2] or np.float64(random.random()).tobytes()
            arrays[name] = kind, shape, (there * (size // len(there) + 1))[:size]
        elif absent:
            arrays[absent[1]] = "F64", [0], b""
        elif spare and spare[1] in arrays:
            del arrays[spare[1]]
        else:
            return
        data, header = b"", {"__metadata__": metadata}
        for name, (kind, shape, content) in arrays.items():
            place = [len(data), len(data) + len(content)]
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": place}
            data += content
        path.write_bytes(resealed(header, data))


def asked(thing: Any, rows: Any) -> None:
    """Call the methods that a loaded object of this type has."""
    if isinstance(thing, et.Statistics):
        thing.update(rows)
    elif isinstance(thing, et.JunctionTreeImputer):
        thing.transform(rows)
    elif isinstance(thing, et.JunctionTreeClassifier | et.SequenceTagger):
        thing.predict(rows)
    elif isinstance(thing, et.LatentNetwork):
        thing.decode(rows)
        thing.sample(3, random_state=0)
    elif isinstance(thing, et.EMHMM | et.SpectralHMM):
        thing.sample(2, length=3, random_state=0)
        thing.impute(rows)
        if isinstance(thing, et.EMHMM):
            thing.decode(rows)
        str(vars(thing).get("report_", vars(thing).get("start_")))
    elif isinstance(thing, et.LatentGrammar | et.SpectralLatentGrammar):
        thing.impute(rows)
        thing.anomalies(rows, 2)
        str(vars(thing).get("report_", vars(thing).get("start_")))
        with contextlib.suppress(et.DataError):
            # Not every grammar ends.
            thing.sample(3, random_state=0, max_nodes=100)
    elif isinstance(thing, et.HiddenMarkovTree):
        thing.decode(rows)
        thing.impute(rows, method="sample", random_state=0)
        thing.sample([-1, 0, 0], random_state=0)
        str(thing.report_)
    else:
        thing.sample(3, random_state=0)
        thing.impute(rows)
        repr(thing)
        if isinstance(thing, et.SpectralJunctionTree) and not thing.columns_.number_places:
            thing.partial_fit(rows)
            thing.recover()
        str(vars(thing).get("report_", vars(thing).get("start_")))


def distributions(thing: Any, rows: Any) -> Iterator[np.ndarray]:
    """Answers whose lines, along the last axis, are distributions."""
    if isinstance(thing, et.JunctionTreeImputer):
        thing = thing.estimator_
    if isinstance(thing, et.Statistics):
        return
    if isinstance(thing, et.JunctionTreeClassifier | et.SequenceTagger):
        yield thing.predict_proba(rows)
        return
    numbers = isinstance(rows, pd.DataFrame) or np.asarray(rows).dtype.kind == "f"
    scores = thing.log_prob if isinstance(thing, et.LatentNetwork) else thing.score_samples
    if numbers:
        assert not np.isnan(scores(rows)).any(), "a score is NaN"
    elif np.asarray(rows).dtype.kind == "i":
        yield np.exp(scores(CONFIGURATIONS))
    else:
        assert (scores(rows) <= 1e-9).all(), "a probability is above 1"
    if isinstance(thing, et.LatentNetwork):
        yield from (np.asarray(table) for table in thing.posterior(rows).values())
        return
    if isinstance(thing, et.EMHMM | et.SpectralHMM):
        if not numbers:
            yield thing.predict_next_proba(rows)
        return
    if isinstance(thing, et.HiddenMarkovTree):
        yield thing.predict_proba(rows)
        return
    if isinstance(thing, et.LatentGrammar | et.SpectralLatentGrammar):
        return
    labels = [name for place, name in enumerate(thing.columns_.names) if place not in thing.columns_.number_places]
    for name in labels:
        yield np.asarray(thing.predict_proba(rows, target=name))
    yield np.ravel(thing.joint(labels[:3]))


def outcome(path: Path, rows: Any) -> str:
    """ "loaded" or "refused"; anything else that happens passes through."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            thing = et.load(path)
    except et.FileError as error:
        # Where no check of ours named the part, but one of Python's or numpy's failed.
        return "refused" if error.__cause__ is None else "refused unnamed"
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for lines in distributions(thing, rows):
                assert (lines >= 0).all(), f"{type(thing).__name__}: a probability is negative or NaN"
                sums = lines.sum(axis=-1)
                assert abs(sums - 1.0).max() < 1e-6, f"{type(thing).__name__}: probabilities sum to {sums}"
            asked(thing, rows)
    except (et.EigentreeError, NotFittedError):
        return "refused later"
    return "loaded"


def labelled(rows: np.ndarray) -> np.ndarray:
    """The rows with labels in one column, and continuous numbers in another."""
    found = rows.astype(object)
    found[:, 0] = np.array(["a", "b", None], object)[rows[:, 0]]
    found[:, 1] = np.random.default_rng(0).random(len(rows))
    return found


def saved_files(folder: Path) -> tuple[list[bytes], list[Any]]:
    """One small file of each type, and rows that it can be asked about."""
    graph = et.zoo.hmm(5, 1, 2, 3)
    rows = et.LatentNetwork.random(graph, seed=0).sample(120, seed=1)
    rows[::9, 2] = -1
    gaps = rows[:20].copy()
    gaps[::4, 1] = -1
    numbers = np.random.default_rng(2).normal(size=120)
    mixed = pd.DataFrame(rows, columns=[f"x{t}" for t in range(5)]).assign(age=numbers, size=numbers.round(1) ** 2)
    labels, weights = np.repeat(["a", "b"], 60), np.linspace(0.5, 2, 120)
    loop = et.LatentGraph(
        {"h": 2, "k": 2, **{f"x{t}": 3 for t in range(5)}},
        [("h", "x0"), ("h", "x1"), ("h", "k"), ("k", "x2"), ("k", "x3"), ("x1", "x2"), ("x3", "x4")],
        ["h", "k"],
        directed=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = {"init": "random", "n_init": 1, "max_iter": 3, "random_state": 0}
        quantiles = et.SpectralJunctionTree(et.zoo.Mixture(), numeric="quantiles", handle_unknown="missing")
        spectral = et.SpectralJunctionTree(graph)
        trained = {"estimator": et.EMJunctionTree(et.zoo.Mixture(2), **learned)}
        trees = ["(a (b c) (b (a c)))", "(b c)"]
        brackets = ["(S (NP she) (VP (V sees) (NP stars)))", "(S (NP stars) (VP shine))"]
        steps = [list(sequence) for sequence in numbers.reshape(-1, 6)]
        things = [
            (et.SpectralJunctionTree(et.zoo.HMM(order=1)).fit(rows), gaps),
            (et.SpectralJunctionTree(et.zoo.Mixture(), shrinkage=0.4).fit(rows, sample_weight=weights), gaps),
            (et.EMJunctionTree(loop, **learned | {"init": et.LatentNetwork.random(loop, seed=1)}).fit(rows), gaps),
            (et.EMJunctionTree(graph, pseudo_counts=0.1, **learned).fit(rows), gaps),
            (et.OnlineEMJunctionTree(graph, passes=1, random_state=0).fit(rows), gaps),
            (et.JunctionTreeClassifier(spectral).fit(rows, labels), gaps),
            (et.LatentNetwork.random(loop, seed=2), gaps),
            (et.LatentNetwork.random(graph, seed=2), gaps),
            (et.Statistics.of(rows, graph), gaps),
            (
                et.JunctionTreeClassifier(et.SpectralJunctionTree(et.zoo.HMM()), class_as="column").fit(
                    rows, labels
                ),
                gaps,
            ),
            (et.JunctionTreeImputer(spectral).fit(rows), gaps),
            (et.EMHMM(2, 2, **learned).fit(rows), gaps),
            (et.SpectralHMM(2, order=2).fit(rows), gaps),
            (et.JunctionTreeClassifier(et.EMHMM(2, **learned)).fit(rows, labels), gaps),
            (quantiles.fit(labelled(rows)), labelled(gaps)),
            (et.LatentClassModel(2, **learned).fit(mixed), mixed[:20]),
            (et.SpectralJunctionTree(et.zoo.Mixture(hidden_states=2)).fit(mixed), mixed[:20]),
            (et.EMHMM(2, emissions="gaussian", **learned).fit(steps), steps[:4]),
            (et.SpectralHMM(2).fit(steps), steps[:4]),
            (et.LatentClassModel(2, covariates=["age"], **learned).fit(mixed), mixed[:20]),
            (et.LatentClassModel(2, group="x0", **learned).fit(mixed), mixed[:20]),
            (et.MixtureHMM(2, [2, 1], **learned).fit(rows), gaps),
            (et.EMHMM(2, durations="explicit", max_duration=4, **learned).fit(rows), gaps),
            (et.EMHMM(2, durations="negative_binomial", max_duration=4, **learned).fit(rows), gaps),
            (et.HiddenMarkovTree(2, **learned).fit(trees), [*trees, "(a () (b c))"]),
            *(
                (grammar.fit(brackets * 5), brackets)
                for grammar in (et.LatentGrammar(2, random_state=0, max_iter=3), et.SpectralLatentGrammar(2))
            ),
            (et.JunctionTreeClassifier(training="conditional", alpha=1.0, **trained).fit(rows, labels), gaps),
            (et.SequenceTagger(et.EMHMM(2, **learned), "conditional", 1.0).fit(rows, rows % 2), rows[:20]),
        ]
    files, asked_about = [], []
    for k, (thing, own) in enumerate(things):
        path = folder / f"{k}.eigentree"
        thing.save(path)
        files.append(path.read_bytes())
        asked_about.append(own)
    return files, asked_about


def drawn(files: list[bytes], path: Path, seed: int, number: int) -> tuple[int, str]:
    """Write the corrupted file of a number, the same whichever came before; return what was corrupted, and how."""
    random = np.random.default_rng([seed, number])
    file = int(random.integers(len(files)))
    kind, raw = corrupted(files[file], files, random)
    path.write_bytes(raw)
    if kind == "document":
        with_arrays_that_fit(path, random)
    return file, kind


def main(count: int = 1000, seed: int = 0, first: int = 0) -> int:
    found: Counter[str] = Counter()
    failures = 0
    kept = Path(__file__).resolve().parents[1] / "build" / "corruptions"
    with tempfile.TemporaryDirectory() as folder:
        files, rows = saved_files(Path(folder))
        path = Path(folder) / "corrupted.eigentree"
        for number in range(first, first + count):
            file, kind = drawn(files, path, seed, number)
            raw = path.read_bytes()
            started, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            try:
                found[f"{kind}: {outcome(path, rows[file])}"] += 1
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
                assert grown < 2**19, f"{len(raw)} bytes took {grown / 2**10:.0f} MiB"
                assert time.monotonic() - started < 10, "the file took more than ten seconds"
            except BaseException:
                failures += 1
                kept.mkdir(parents=True, exist_ok=True)
                (kept / f"{seed}-{number}-{file}").write_bytes(raw)
                print(f"python tests/corruptions.py 1 {seed} {number}  # {kind}\n{traceback.format_exc()}")
                if failures > 20:
                    break
    print(*(f"{what}: {times}" for what, times in sorted(found.items())), sep="\n")
    print(f"{sum(found.values())} corrupted files, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
