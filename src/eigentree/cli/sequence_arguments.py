"""Sequences: rows that are steps, and a column that tells which sequence each belongs to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.arguments import Reading, Shape, UsageError
from eigentree.cli.model_arguments import kind_of
from eigentree.cli.row_output import hand_rows
from eigentree.cli.table_io import Given, read_table, required
from eigentree.cli.terminal_output import show, show_json, told_rows, told_sequences
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.errors import DataError, GraphError

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = [
    "Long",
    "classes_of",
    "decode_sequences",
    "impute_sequences",
    "long_table",
    "predict_sequences",
    "sample_sequences",
    "score_sequences",
    "sequence_estimator",
    "sequences_for",
]


@dataclass(frozen=True, eq=False)
class Long:
    """Rows that are steps of sequences, those of one sequence together and in the order of the file.

    Attributes
    ----------
    table : Given
        The channels.
    lengths : array of int, shape (sequences,)
    order : array of int, shape (steps,)
        The row of the file that each step is.
    ids : list
        What the sequences are called, in the order in which they first occur.
    """

    table: Given
    lengths: Any
    order: Any
    ids: list[Any]

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return len(self.ids)

    def back(self, steps: Any) -> Any:
        """Return what was found for each step in the order of the rows of the file."""
        placed = np.empty_like(steps)
        placed[self.order] = steps
        return placed

    def chosen(self, sequences: Any) -> "Long":
        """Return some of the sequences, by their numbers."""
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        rows = np.concatenate([np.arange(starts[one], starts[one + 1]) for one in sequences])
        ids = [self.ids[one] for one in sequences]
        return Long(self.table.take(rows), self.lengths[sequences], np.arange(len(rows)), ids)


def long_table(table: Given, column: str, columns: "Columns | None" = None, numeric: Any = "error") -> Long:
    """Return the sequences of rows.

    Parameters
    ----------
    table : Given
    column : str
        What tells the sequence of each row.
    columns : Columns, optional
        The channels of a model; all other columns without it.
    numeric : {"error", "quantiles"}
    """
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.text_cells import Written, read_as

    ids = table.cells(table.names.index(required(column, table.names, table.shown)))
    if None in ids:
        raise DataError(
            f"row {ids.index(None)} of {table.shown} has no sequence: its cell of {column!r} is missing"
        )
    place = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    groups = np.array([place[name] for name in ids])
    order = np.argsort(groups, kind="stable")
    channels = table.without([column]) if columns is None else table.only(columns.names)
    known = Columns.learned(channels, ReadOptions(numeric=numeric)) if columns is None else columns
    held = [
        read_as(cells, meaning) if isinstance(cells, Written) else cells
        for cells, meaning in zip(
            (channels.column(at, name) for at, name in enumerate(channels.names)), known.meanings, strict=True
        )
    ]
    typed = Given(channels.names, held, table.count, table.shown)
    return Long(typed.take(order), np.bincount(groups), order, list(place))


def classes_of(long: Long, labels: Any, target: str) -> list[Any]:
    """Return the class of each sequence, once it is the same at all of its steps; labels are those of the steps."""
    found: list[Any] = []
    for name, own in zip(long.ids, np.split(labels, np.cumsum(long.lengths)[:-1]), strict=True):
        classes = {label for label in own if label is not None}
        if len(classes) != 1:
            told = "no class" if not classes else "several classes"
            raise DataError(f"the sequence {name!r} has {told} in {target!r}; each has one, in all of its rows")
        found += classes
    return found


def sequence_estimator(shape: Shape, seed: int) -> Any:
    """Return the estimator of sequences that was asked for, unfitted."""
    if shape.structure not in (None, "hmm"):
        raise UsageError(f"sequences are learned by hmm, not by {shape.structure}; leave --structure out")
    given = {"hidden_states": shape.hidden, "order": shape.order}
    sizes: dict[str, Any] = {name: size for name, size in given.items() if size is not None}
    if shape.method == "spectral":
        from eigentree.estimators.spectral_hmm import SpectralHMM

        return SpectralHMM(**sizes, numeric=shape.numeric)
    from eigentree.estimators.em_hmm import EMHMM

    return EMHMM(**sizes, random_state=seed, verbose=1, numeric=shape.numeric)


def sequences_for(model: Any, data: str, reading: Reading) -> tuple[Long, Given, str]:
    """Return the sequences that a model is asked about, the rows as they came, and what tells their sequences."""
    from eigentree.cli.model_arguments import fitted_columns

    column = reading.sequence or model.sequence
    if column is None:
        raise UsageError("this is a model of sequences; say which column tells them, as in --sequence id")
    table = read_table(data, reading)
    return long_table(table, column, fitted_columns(model)), table, column


def score_sequences(model: Any, data: str, reading: Reading, output: str | None, as_json: bool) -> None:
    """Tell how likely sequences are."""
    long, _, column = sequences_for(model, data, reading)
    scores = model.score_samples(long.table, lengths=long.lengths)
    steps = int(long.lengths.sum())
    facts = {
        "sequences": long.count,
        "steps": steps,
        "mean_log_probability": float(scores.mean()),
        "per_step": float(scores.sum() / steps),
    }
    sentence = f"mean log probability {scores.mean():.4f} of {told_sequences(long.count)}"
    sentence += f", {scores.sum() / steps:.4f} a step"
    if output is not None:
        names = [column, "log_probability"]
        hand_rows(output, reading.format, as_json, names, [long.ids, scores], facts, sentence)
    elif as_json:
        show_json(facts)
    else:
        show(sentence)


def predict_sequences(model: Any, data: str, reading: Reading, target: str, output: str, as_json: bool) -> None:
    """Tell what comes next in each sequence, or which hidden state each step has."""
    from eigentree.cli.model_arguments import fitted_columns

    long, table, column = sequences_for(model, data, reading)
    columns = fitted_columns(model)
    if target not in columns.names and (target == "state" or target.startswith("chain ")):
        _require_tables(model)
        found = _of_chains(model.predict_proba(long.table, lengths=long.lengths))
        proba = long.back(found[required(target, list(found), "the model")])
        labels: list[Any] = list(range(proba.shape[1]))
        first = table.cells(table.names.index(column))
        sentence = f"hidden states of {told_rows(table.count)} in {told_sequences(long.count)}"
    else:
        required(target, columns.names, "the model")
        found = model.predict_next_proba(long.table, lengths=long.lengths, target=target)
        proba, labels, first = np.asarray(found), list(columns.labels(target)), long.ids
        sentence = f"the next {target} of {told_sequences(long.count)}"
    names = [column, target, *(f"{target}={label}" for label in labels)]
    cells = [first, [labels[place] for place in proba.argmax(axis=1)], *proba.T]
    facts = {"sequences": long.count, "target": target, "labels": [str(label) for label in labels]}
    hand_rows(output, reading.format, as_json, names, cells, facts, sentence)


def decode_sequences(model: Any, data: str, reading: Reading, output: str, as_json: bool) -> None:
    """Tell the likeliest hidden states of the steps of each sequence, in the order of the rows."""
    _require_tables(model)
    long, table, column = sequences_for(model, data, reading)
    found = _of_chains(model.decode(long.table, lengths=long.lengths).states)
    cells = [table.cells(table.names.index(column)), *(long.back(np.asarray(states)) for states in found.values())]
    facts = {"sequences": long.count, "rows": table.count}
    sentence = f"hidden states of {told_rows(table.count)} in {told_sequences(long.count)}"
    hand_rows(output, reading.format, as_json, [column, *found], cells, facts, sentence)


def impute_sequences(model: Any, data: str, reading: Reading, by: str, seed: int) -> tuple[Given, Given, Any]:
    """Return the rows as they came, the channels, and the cells of these filled, in the order of the rows."""
    long, table, _ = sequences_for(model, data, reading)
    filled = np.asarray(model.impute(long.table, lengths=long.lengths, method=by, random_state=seed), object)
    return table, long.table, long.back(filled)


def sample_sequences(model: Any, count: int, length: int, seed: int) -> tuple[list[str], list[Any]]:
    """Return the names and the cells of new sequences, one step per row."""
    from eigentree.cli.model_arguments import fitted_columns

    names = list(fitted_columns(model).names)
    drawn = model.sample(count, length=length, random_state=seed)
    steps = np.concatenate([np.asarray(one, object).reshape(length, -1) for one in drawn])
    return [model.sequence or "sequence", *names], [np.repeat(np.arange(count), length), *steps.T]


def _of_chains(found: Any) -> dict[str, Any]:
    """Return what was found of each hidden chain by its name; a single one is the state."""
    return found if isinstance(found, dict) else {"state": found}


def _require_tables(model: Any) -> None:
    if kind_of(model) == "SpectralHMM":
        raise GraphError("a spectral model has no tables of hidden states; fit with --method em")
