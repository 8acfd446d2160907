"""Classification of rows of labels by learned trees beside naive Bayes, logistic regression and a random forest."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import eigentree as et
from benchmarks import shared
from benchmarks.measure import show_note, show_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

FILES = {"mushrooms": "agaricus-lepiota.data", "splice": "splice.data"}
TRAINING_ROWS = {"mushrooms": 500, "splice": 2_000}
SPLITS = 5
FOLDS = 5
"""Of the training rows, by which the others choose their settings."""

FOREST, TREES = "random forest", 300
"""How many trees it has; it is left out where time is short."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of labels, of which each column declares all that it has, and their classes."""

    rows: pd.DataFrame
    classes: pd.Series

    def part(self, places: NDArray[np.int64]) -> Labelled:
        """Return some of the rows."""
        return Labelled(self.rows.iloc[places], self.classes.iloc[places])

    @property
    def codes(self) -> NDArray[np.int64]:
        """The rows as codes from 0, a missing cell as one more label, as scikit-learn wants them."""
        columns = [self.rows[name].cat for name in self.rows]
        return np.stack([np.where(cat.codes < 0, len(cat.categories), cat.codes) for cat in columns], axis=1)

    @property
    def code_counts(self) -> list[int]:
        """How many codes each column has."""
        return [len(self.rows[name].cat.categories) + 1 for name in self.rows]


class Predicted(NamedTuple):
    """The accuracy on test rows, and in how many processor seconds."""

    accuracy: float
    log_loss: float
    seconds: float


def labelled(name: str) -> Labelled:
    """Return a data set."""
    frame = pd.read_csv(shared.FOLDER / FILES[name], header=None, na_values="?", dtype=str, skipinitialspace=True)
    classes = frame.pop(0).str.strip()
    if name == "splice":
        letters = frame.pop(2).str.strip()
        # Letters that stand for several bases are less informative than a base; they are missing.
        frame = pd.DataFrame([list(row) for row in letters]).where(lambda cells: cells.isin(list("ACGT")))
    frame.columns = [f"c{place}" for place in range(frame.shape[1])]
    return Labelled(frame.astype("category"), classes)


def trees(train: Labelled, test: Labelled, split: int, class_as: Literal["column", "models"]) -> NDArray[Any]:
    """Return the predictions of ours with default settings."""
    model = et.JunctionTreeClassifier(et.EMJunctionTree("auto", random_state=split), class_as=class_as)
    return model.fit(train.rows, train.classes).predict_proba(test.rows)


def _chosen(train: Labelled, model: Any, grid: dict[str, Any], split: int) -> Any:
    """Return the best of some settings by the log loss of held-out training rows, fitted to all of them."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=split)
    return GridSearchCV(model, grid, scoring="neg_log_loss", cv=folds).fit(train.codes, train.classes)


def naive_bayes(train: Labelled, test: Labelled, split: int) -> NDArray[Any]:
    model = CategoricalNB(min_categories=train.code_counts)
    return np.asarray(_chosen(train, model, {"alpha": [0.01, 0.1, 0.5, 1.0, 2.0]}, split).predict_proba(test.codes))


def _one_hot(train: Labelled, model: Any) -> Any:
    return make_pipeline(OneHotEncoder(categories=[np.arange(count) for count in train.code_counts]), model)


def logistic(train: Labelled, test: Labelled, split: int) -> NDArray[Any]:
    model = _one_hot(train, LogisticRegression(max_iter=2_000))
    grid = {"logisticregression__C": [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0]}
    return np.asarray(_chosen(train, model, grid, split).predict_proba(test.codes))


def forest(train: Labelled, test: Labelled, split: int) -> NDArray[Any]:
    model = _one_hot(train, RandomForestClassifier(TREES, random_state=split, n_jobs=1))
    grid = {"randomforestclassifier__min_samples_leaf": [1, 2, 5]}
    return np.asarray(_chosen(train, model, grid, split).predict_proba(test.codes))


METHODS: dict[str, Callable[[Labelled, Labelled, int], NDArray[Any]]] = {
    'EM, "auto", class a column': partial(trees, class_as="column"),
    'EM, "auto", a model a class': partial(trees, class_as="models"),
    "naive Bayes": naive_bayes,
    "logistic regression": logistic,
    FOREST: forest,
}


def predicted(method: str, train: Labelled, test: Labelled, split: int) -> Predicted:
    """Return the accuracy of a method on test rows."""
    start = time.process_time()
    proba = METHODS[method](train, test, split)
    spent = time.process_time() - start
    labels = np.unique(train.classes)
    right = float(np.mean(labels[proba.argmax(axis=1)] == test.classes))
    return Predicted(right, float(log_loss(test.classes, proba, labels=labels)), spent)


def run(quick: bool) -> None:
    """Print a table for each data set."""
    names = [name for name in FILES if not quick or name == "mushrooms"]
    if shared.is_absent("labels", [FILES[name] for name in names]):
        return
    for name in names:
        whole, count = labelled(name), 100 if quick else TRAINING_ROWS[name]
        lines = []
        # Imported before any clock runs.
        for method in list(METHODS)[:2]:
            predicted(method, whole.part(np.arange(0, len(whole.rows), 50)), whole.part(np.arange(10)), 0)
        for method in [method for method in METHODS if not quick or method != FOREST]:
            outcomes = []
            for split in range(2 if quick else SPLITS):
                order = np.random.default_rng(split).permutation(len(whole.rows))
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
                    outcomes.append(predicted(method, whole.part(order[:count]), whole.part(order[count:]), split))
            error = np.std([one.accuracy for one in outcomes], ddof=1) / len(outcomes) ** 0.5
            lines.append(
                [
                    method,
                    f"{100 * fmean(one.accuracy for one in outcomes):.2f}",
                    f"{100 * error:.2f}",
                    f"{fmean(one.log_loss for one in outcomes):.4f}",
                    f"{fmean(one.seconds for one in outcomes):.2f}",
                ]
            )
        show_table(
            f"labels: {name}, {count:,} rows to learn from, {len(whole.rows) - count:,} to test: per cent of the"
            f" classes\ntold rightly, mean of {len(outcomes)} fixed splits and its standard error; log loss in"
            " nats;\nprocessor seconds of fitting, choosing and predicting, 1 thread",
            ["method", "right", "error", "log loss", "s"],
            lines,
        )
    show_note(
        f"ours: default settings; the others choose by the log loss of {FOLDS} folds of the training rows: alpha of"
        f" CategoricalNB, C of LogisticRegression on indicators, the least rows of a leaf of {TREES} trees on"
        " indicators. A missing cell is marginalised out by ours, one more label to the others"
    )
