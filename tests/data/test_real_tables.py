"""Tables of the world, read as people read them and given as they are: no codes, no encoders."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pytest
from numpy.testing import assert_array_equal
from shared_files import shared_file

import eigentree as et

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.filterwarnings("ignore:.*the data cannot support the rank:RuntimeWarning"),
]


class Source(NamedTuple):
    """A file, what marks its missing cells, and what to learn of it."""

    file: str
    structure: et.zoo.Template
    missing: str = ""
    names: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    target: str | None = None


VOTES = ("party", *(f"vote{k}" for k in range(16)))
MUSHROOMS = ("poisonous", *(f"trait{k}" for k in range(22)))

SOURCES = {
    "votes": Source("house-votes-84.data", et.zoo.Mixture(2), "?", VOTES, target="party"),
    "mushrooms": Source("agaricus-lepiota.data", et.zoo.Mixture(2), "?", MUSHROOMS, target="poisonous"),
    "gss82": Source("gss82.csv", et.zoo.Mixture(3), target="COOPERAT"),
    "election": Source("election.csv", et.zoo.Mixture(3), target="INTELB"),
    "mvad": Source("mvad.csv", et.zoo.HMM(hidden_states=2), drop=("id", "weight"), target="Jun.99"),
}


def pandas_table(source: Source) -> Any:
    missing = [source.missing] if source.missing else None
    header = 0 if source.names is None else None
    frame = pd.read_csv(shared_file(source.file), names=source.names, header=header, na_values=missing)
    return frame.drop(columns=list(source.drop))


def polars_table(source: Source) -> Any:
    frame = pl.read_csv(
        shared_file(source.file),
        has_header=source.names is None,
        new_columns=source.names,
        null_values=[source.missing],
    )
    return frame.drop(source.drop)


def arrow_table(source: Source) -> Any:
    table = pyarrow.csv.read_csv(
        shared_file(source.file),
        pyarrow.csv.ReadOptions(column_names=source.names),
        convert_options=pyarrow.csv.ConvertOptions(null_values=[source.missing], strings_can_be_null=True),
    )
    return table.drop_columns(list(source.drop))


def rows_of(answer: Any) -> list[Any]:
    if isinstance(answer, pa.Table):
        answer = answer.to_pandas()
    if isinstance(answer, pl.DataFrame):
        return answer.rows()
    return [tuple(row) for row in answer.astype(object).to_numpy().tolist()]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_a_file_is_fitted_scored_and_filled_the_same_by_every_library(source: Source) -> None:
    answers = []
    for read in (pandas_table, polars_table, arrow_table):
        X = read(source)
        model = et.EMJunctionTree(source.structure, init="random", n_init=1, max_iter=4, random_state=0).fit(X)
        spectral = et.SpectralJunctionTree(source.structure, shrinkage=1.0, when_short="warn").fit(X)
        head = X.slice(0, 60) if isinstance(X, pa.Table | pl.DataFrame) else X.head(60)
        answers.append(
            {
                "em": model.score_samples(X),
                "spectral": spectral.score_samples(X),
                "filled": rows_of(model.impute(head)),
                "drawn": rows_of(spectral.sample(20, seed=0)),
                "proba": model.predict_proba(head, model.columns_.names[0]),
                "labels": [model.columns_.labels(name) for name in model.columns_.names],
            }
        )
        assert np.isfinite(answers[-1]["em"]).all()
        assert not any(cell is None or cell != cell for row in answers[-1]["filled"] for cell in row)
    first, *others = answers
    for other in others:
        for question in ("em", "spectral", "proba"):
            assert_array_equal(first[question], other[question], err_msg=question)
        for question in ("filled", "drawn", "labels"):
            assert first[question] == other[question], question


@pytest.mark.parametrize("name", ["votes", "mushrooms", "gss82", "election", "mvad"])
def test_a_column_is_classified_by_the_others(name: str) -> None:
    source = SOURCES[name]
    frame = pandas_table(source).dropna(subset=[source.target])[::3]
    X, y = frame.drop(columns=source.target), frame[source.target]
    held = np.arange(len(X)) % 3 == 0
    estimator = et.SpectralJunctionTree(source.structure, when_short="warn", handle_unknown="missing")
    model = et.JunctionTreeClassifier(estimator).fit(X[~held], y[~held])
    commonest = (y[held] == y[~held].mode()[0]).mean()
    # The answers of gss82 say next to nothing of its target: two standard errors are left to chance.
    noise = np.sqrt(commonest * (1 - commonest) / held.sum())
    assert model.score(X[held], y[held]) > commonest - (2 * noise if name == "gss82" else 0)
    others = [(pl.from_pandas(X), y.to_numpy()), (pa.Table.from_pandas(X, preserve_index=False), y.to_numpy())]
    for table, labels in others:
        part = table.filter(pl.Series(~held)) if isinstance(table, pl.DataFrame) else table.filter(pa.array(~held))
        twin = et.JunctionTreeClassifier(estimator).fit(part, labels[~held])
        assert_array_equal(twin.predict_proba(X[held]), model.predict_proba(X[held]))


def test_splice_junctions_are_words() -> None:
    file, names = shared_file("splice.data"), ["class", "name", "sequence"]
    by_pandas = pd.read_csv(file, header=None, names=names, skipinitialspace=True)
    by_polars = pl.read_csv(file, has_header=False, new_columns=names)
    by_arrow = pyarrow.csv.read_csv(file, pyarrow.csv.ReadOptions(column_names=names))
    words = {
        "pandas": by_pandas["sequence"],
        "polars": by_polars["sequence"].str.strip_chars(),
        "pyarrow": pyarrow.compute.utf8_trim_whitespace(by_arrow["sequence"]),
        "letters": pd.DataFrame([list(word) for word in by_pandas["sequence"]]),
    }
    classes = {"pandas": by_pandas, "polars": by_polars, "pyarrow": by_arrow, "letters": by_pandas}
    estimator = et.SpectralJunctionTree(et.zoo.HMM(), categories="ACGT", handle_unknown="missing", shrinkage=25.6)
    answers = []
    for library, rows in words.items():
        model = et.JunctionTreeClassifier(estimator).fit(rows[::2], classes[library]["class"][::2])
        assert model.score(rows[1::2], classes[library]["class"][1::2]) > 0.94
        answers.append(model.predict_proba(rows))
    for other in answers[1:]:
        assert_array_equal(other, answers[0])


def test_names_of_people_are_no_states() -> None:
    frame = pd.read_csv(shared_file("mvad.csv"))
    with pytest.warns(
        RuntimeWarning, match=r"column 'id' holds 712 different whole numbers in as many rows, .* drop"
    ):
        et.SpectralJunctionTree(et.zoo.HMM()).fit(frame)
