"""Training for the class beside generative training, logistic regression, a forest and boosted trees.

All tables are read in the same way, and nothing is chosen by test rows: size and penalty of ours, and the penalty
of logistic regression, by the log loss of held-out training rows. The others have their default settings.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import eigentree as et
from benchmarks import mixed_data, shared
from benchmarks.measure import show_note, show_table
from benchmarks.mixed_tables import mean_and_error
from benchmarks.shared import binary_part, split_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from eigentree import JunctionTreeClassifier

TARGETS = {"SLID": "sex", "Chile": "vote", "Wages": "union", "diamonds": "cut"}
"""The column of the class, in tables that have none of their own."""

BASES = {(1, 0, 0): "A", (0, 1, 0): "C", (0, 0, 1): "G", (0, 0, 0): "T"}
"""How the file of dna has bases, found by comparison with splice: 3,175 of its 3,186 rows are there."""


def load_dna(return_X_y: bool = True, as_frame: bool = True) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return the 180 binary columns of dna, and the class that splice has of the same sequence of bases.

    Rows that splice has not, or with two classes, are left out.
    """
    X, y = et.datasets.load_splice(return_X_y=True, as_frame=True)
    classes: dict[str, set[str]] = {}
    for row, label in zip(X.astype(str).to_numpy().tolist(), np.asarray(y).tolist(), strict=True):
        classes.setdefault("".join(map(str, row)), set()).add(label)
    rows = np.concatenate([binary_part("dna", part) for part in ("train", "valid", "test")])
    words = ["".join(BASES[tuple(three)] for three in row.reshape(-1, 3).tolist()) for row in rows]
    found = [classes.get(word, set()) for word in words]
    kept = [place for place, own in enumerate(found) if len(own) == 1]
    frame = pd.DataFrame(rows[kept], columns=[f"bit {place}" for place in range(rows.shape[1])])
    return frame, np.array([next(iter(found[place])) for place in kept])


LOADED: dict[str, Callable[..., Any]] = {
    "splice": et.datasets.load_splice,
    "dna": load_dna,
    "mushrooms": et.datasets.load_mushrooms,
    "votes": et.datasets.load_votes,
}
SETS = (*LOADED, *TARGETS)

SPLITS = (0, 1, 2, 3, 4)
MOST_TRAINING_ROWS, TRAINING_SHARE = 2_000, 0.8
TRAINING_ROWS = {"mushrooms": 500}
"""With more of them every method is right about all."""

SIZES = (1, 4)
"""Hidden states of the model of each class: naive Bayes, and latent classes."""

GENERATIVE, NAIVE, CONDITIONAL, LOGISTIC = "generative", "naive Bayes", "conditional", "logistic"
FOREST, BOOSTING, TREES = "random forest", "boosting", 300
METHODS = (CONDITIONAL, GENERATIVE, NAIVE, LOGISTIC, FOREST, BOOSTING)

FOLDS = 5


class Labelled(NamedTuple):
    """Rows, in a data frame whose columns are numbers or categories, and their classes."""

    rows: pd.DataFrame
    classes: NDArray[Any]


@dataclass(frozen=True)
class Predicted:
    """The accuracy and the log loss of a method on the test rows of a split, and processor seconds."""

    table: str
    seed: int
    method: str
    accuracy: float
    log_loss: float
    seconds: float


def labelled(name: str) -> Labelled:
    """Return a table; numbers are floats, categories have the labels of all rows."""
    if name in LOADED:
        rows, classes = LOADED[name](return_X_y=True, as_frame=True)
        frame = rows.astype(object)
    else:
        raw = mixed_data.TABLES[name]()
        frame = raw.frame[raw.frame[TARGETS[name]].notna()].reset_index(drop=True)
        classes = frame.pop(TARGETS[name])
        frame = frame.astype({number: float for number in raw.numbers if number in frame})
    kinds = {column: "category" for column in frame if frame[column].dtype != float}
    return Labelled(frame.astype(kinds), np.asarray(classes).astype(str))


def split(table: Labelled, name: str, seed: int) -> tuple[Labelled, Labelled]:
    """Return training and test rows, stratified by class."""
    most = min(MOST_TRAINING_ROWS, int(TRAINING_SHARE * len(table.classes)))
    rows, tests, classes, truth = train_test_split(
        *table, train_size=TRAINING_ROWS.get(name, most), random_state=seed, stratify=table.classes
    )
    return Labelled(rows, classes), Labelled(tests, truth)


def ours(train: Labelled, size: int, seed: int) -> JunctionTreeClassifier:
    """Return a trained classifier with so many hidden states in each class."""
    model = et.EMJunctionTree(et.zoo.Mixture(size), random_state=seed)
    return et.JunctionTreeClassifier(model, training="conditional", random_state=seed).fit(*train)


def generative(train: Labelled, size: int, seed: int) -> JunctionTreeClassifier:
    """Return the same without conditional training."""
    model = et.EMJunctionTree(et.zoo.Mixture(size), random_state=seed)
    return et.JunctionTreeClassifier(model).fit(*train)


def _prepared(train: Labelled, model: Any) -> Any:
    """Return a model of scikit-learn behind indicators and standardised numbers."""
    numbers = [name for name in train.rows if train.rows[name].dtype == float]
    others = [name for name in train.rows if name not in numbers]
    labels = [train.rows[name].cat.categories for name in others]
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("labels", OneHotEncoder(categories=labels, handle_unknown="ignore"), others),
        ],
        sparse_threshold=0.0,
    )
    return make_pipeline(columns, model)


def theirs(method: str, train: Labelled, seed: int) -> Any:
    """Return a model of scikit-learn; the log loss of five folds chooses the penalty of logistic regression."""
    if method == FOREST:
        return _prepared(train, RandomForestClassifier(TREES, random_state=seed)).fit(*train)
    if method == BOOSTING:
        return _prepared(train, HistGradientBoostingClassifier(random_state=seed)).fit(*train)
    model = _prepared(train, LogisticRegression(max_iter=2_000))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0, 100.0]}
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(*train)


def predictions(name: str, seed: int, methods: Sequence[str]) -> list[Predicted]:
    """Return what each method reaches on a split; ours take the size that predicts held-out rows best."""
    train, test = split(labelled(name), name, seed)
    found: list[Predicted] = []

    def add(method: str, model: Any, spent: float) -> None:
        proba = np.clip(model.predict_proba(test.rows), 1e-15, 1.0)
        proba /= proba.sum(axis=1, keepdims=True)
        right = float(np.mean(model.classes_[proba.argmax(axis=1)] == test.classes))
        loss = float(log_loss(test.classes, proba, labels=model.classes_))
        found.append(Predicted(name, seed, method, right, loss, spent))

    start = time.process_time()
    if CONDITIONAL in methods:
        models = {size: ours(train, size, seed) for size in SIZES}
        spent = time.process_time() - start
        add(CONDITIONAL, max(models.values(), key=lambda each: max(each.tried_.values())), spent)
        start = time.process_time()
        if GENERATIVE in methods:
            best = max(SIZES, key=lambda size: models[size].tried_[np.inf])
            add(GENERATIVE, generative(train, best, seed), time.process_time() - start)
    for method in methods:
        start = time.process_time()
        if method == NAIVE:
            model: Any = generative(train, 1, seed)
        elif method in (LOGISTIC, FOREST, BOOSTING):
            model = theirs(method, train, seed)
        else:
            continue
        add(method, model, time.process_time() - start)
    return found


def show(found: Sequence[Predicted], methods: Sequence[str]) -> None:
    """Print accuracy and log loss, a line for each table."""
    names = list(dict.fromkeys(one.table for one in found))
    kinds: dict[str, Callable[[Sequence[Predicted]], str]] = {
        "accuracy, per cent": lambda some: mean_and_error([100 * one.accuracy for one in some], 2),
        "log loss, nats": lambda some: mean_and_error([one.log_loss for one in some], 4),
        "processor seconds": lambda some: f"{fmean(one.seconds for one in some):.1f}" if some else "-",
    }
    for kind, cell in kinds.items():
        lines = [
            [
                name,
                *(cell([one for one in found if (one.table, one.method) == (name, method)]) for method in methods),
            ]
            for name in names
        ]
        what = "means" if kind == "processor seconds" else "means and standard errors"
        show_table(f"discriminative: {kind}, {what} over splits", ["data", *methods], lines)


def run(
    quick: bool, sets: Sequence[str] = (), methods: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[Predicted]:
    """Print what all methods reach on all tables that are there."""
    names, found = list(sets or (["votes"] if quick else SETS)), []
    methods, seeds = list(methods or METHODS), list(seeds or SPLITS[: 1 if quick else None])
    for name in names:
        if name in TARGETS and (absent := mixed_data.missing_package(name)):
            show_note(f"{name} is left out: install {absent}")
            continue
        if name == "dna" and shared.is_absent("discriminative", split_files(name)):
            continue
        for seed in seeds:
            with warnings.catch_warnings():
                # Whole numbers that are labels, and iterations of regressions.
                warnings.simplefilter("ignore")
                found += predictions(name, seed, methods)
    show(found, methods)
    return found
