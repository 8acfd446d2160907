"""Structures, models that commands fit and load, rows with the columns of a model, and predictions.

A structure has a name, or a file: ``graph.toml`` is a graph in a few lines, ``net.bif`` one of other programs.
"""

import os
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.cli.arguments import KINDS, STRUCTURES, Densities, Reading, Shape, Structure, UsageError
from eigentree.cli.output import number_of
from eigentree.cli.rows_read import NamedSequences, open_rows, read_rows
from eigentree.data.tables.state_rules import ReadOptions
from eigentree.data.tables.text_cells import read_as, require_names
from eigentree.errors import (
    DataError,
    FileError,
    GraphError,
    ParameterError,
    did_you_mean,
    what_there_is,
    with_article,
)
from eigentree.io.byte_files import read_bytes, require_there

if TYPE_CHECKING:
    from eigentree.data.streams.file_batches import FileStream
    from eigentree.data.tables.columns import Columns
    from eigentree.data.tables.text_cells import FileTable
    from eigentree.graphs.graph import LatentGraph

    AnyRows = FileTable | FileStream

__all__ = [
    "LEARNED",
    "LIKE_MODELS",
    "NETWORKS",
    "SEQUENCE_MODELS",
    "WITH_TABLES",
    "Predictions",
    "categories_of",
    "described",
    "emissions_of",
    "estimator_of",
    "fitted_columns",
    "identified",
    "input_names",
    "kind_of",
    "learned_columns",
    "loaded",
    "loaded_model",
    "numeric_of",
    "read_for",
    "read_training",
    "require_tables",
    "rows_for",
    "saved",
    "structure_of",
    "structure_words",
    "unit_of",
]

SEQUENCE_MODELS = ("EMHMM", "MixtureHMM", "SpectralHMM")
"""Models of sequences."""

WITH_TABLES = ("EMJunctionTree", "LatentClassModel", "OnlineEMJunctionTree")
"""Estimators of rows that have conditional probability tables."""

NETWORKS = ("LatentNetwork", "MixedNetwork")
"""Networks of known tables."""

LIKE_MODELS = ("SpectralJunctionTree", *WITH_TABLES, *NETWORKS, *SEQUENCE_MODELS)
"""What answers queries about rows or sequences."""


USED_BY = {
    "JunctionTreeClassifier": "classify apply",
    "LatentGrammar": "grammar",
    "HiddenMarkovTree": "hidden-tree",
}
"""Commands of their own that other models have."""

MOST_NAMED = 8
"""Columns of a kind that are named in a line."""


def read_training(path: str, shape: Shape, reading: Reading, stream: bool = False) -> Any:
    """Return the rows that a model is fitted to, or the sequences that a column names; a large file as a stream."""
    # What is wrong with the shape is found first, since reading may take a while.
    if shape.method == "spectral":
        from eigentree.estimators.mixins.spectral_mixin import check_hat_families

        try:
            check_hat_families("--method spectral", emissions_of(shape), "--method em")
        except ParameterError as error:
            raise UsageError(str(error)) from None
    if (shape.emissions or shape.kind) and shape.numeric not in (None, "emissions"):
        raise UsageError(
            f"--emissions and --kind are of --numeric emissions, not of {shape.numeric}; leave one out"
        )
    emissions_of(shape)
    if shape.durations and (reading.sequence is None or shape.method == "spectral"):
        raise UsageError("--durations are of sequences (--sequence) by --method em; leave them out")
    if shape.clusters and (reading.sequence is None or shape.method == "spectral"):
        raise UsageError("--clusters are of sequences (--sequence) by --method em; leave them out")
    if shape.max_duration and not shape.durations:
        raise UsageError("--max-duration is of --durations; give these too")
    if reading.sequence is not None and shape.structure not in (None, "hmm"):
        raise UsageError(f"sequences are learned by hmm, not by {shape.structure}; leave --structure out")
    if reading.sequence is None and not shape.is_file:
        structure_of(shape)
    if shape.inputs is not None and reading.sequence is None:
        raise UsageError("--inputs are of sequences; name the column of their names, as in --sequence id")
    rows = open_rows(path, reading) if stream and reading.sequence is None else read_rows(path, reading)
    if reading.sequence is None:
        return rows
    return NamedSequences.of(rows, reading.sequence, inputs=shape.inputs or ())  # type: ignore[arg-type]


def estimator_of(shape: Shape, seed: int, rows: Any = None, covariates: Sequence[str] | None = None) -> Any:
    """Return the estimator of a structure and a method, unfitted."""
    numeric: dict[str, Any] = {} if shape.numeric is None else {"numeric": shape.numeric}
    if covariates:
        if shape.structure != "mixture" or shape.method != "em" or isinstance(rows, NamedSequences):
            raise UsageError(
                "--covariates are of latent classes: --structure mixture, fitted by EM; leave them out"
            )
        from eigentree.estimators.latent_class import LatentClassModel

        how = {**numeric, "emissions": emissions_of(shape), "covariates": list(covariates)}
        return LatentClassModel(shape.hidden or 2, random_state=seed, verbose=1, **how)
    if isinstance(rows, NamedSequences):
        sizes = {"hidden_states": shape.hidden, "order": shape.order}
        lasting: dict[str, Any] = {"durations": shape.durations, "max_duration": shape.max_duration}
        given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
        if shape.method == "spectral":
            from eigentree.estimators.spectral_hmm import SpectralHMM

            return SpectralHMM(**given, **numeric, emissions=emissions_of(shape))
        from eigentree.estimators.em_hmm import EMHMM

        usual: dict[str, Any] = {"random_state": seed, "verbose": 1, "emissions": emissions_of(shape)}
        if shape.clusters is not None:
            from eigentree.estimators.mixture_hmm import MixtureHMM

            return MixtureHMM(shape.clusters, **given, **lasting, **usual, **numeric)
        return EMHMM(**given, **lasting, **usual, **numeric)
    structure = structure_of(shape, rows)
    labels: dict[str, Any] = {**numeric, "categories": categories_of(structure, rows, shape)}
    if shape.method == "spectral":
        from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

        return SpectralJunctionTree(structure, **labels, emissions=emissions_of(shape))
    from eigentree.estimators.em_junction_tree import EMJunctionTree

    return EMJunctionTree(structure, random_state=seed, verbose=1, **labels, emissions=emissions_of(shape))


def emissions_of(shape: Densities) -> Any:
    """Return the families of numbers that were given, as estimators take them."""
    # They were converted as they were read.
    given: Any = shape.emissions or []
    kinds: Any = shape.kind or []
    alone = [family for columns, family in given if not columns]
    if alone and len(given) > 1:
        raise UsageError(
            f"--emissions is one family of all numbers, such as {alone[0]}, or families of columns; not both"
        )
    pairs = [*given, *(((name,), KINDS[kind]) for name, kind in kinds)]
    named = [name for columns, _ in pairs for name in columns]
    if twice := [name for name in named if named.count(name) > 1]:
        raise UsageError(f"--emissions and --kind name {twice[0]!r} twice; a column has one family")
    if alone and len(pairs) > 1:
        raise UsageError(f"--kind has families of columns, so give them to --emissions too, in place of {alone[0]}")
    return alone[0] if alone else dict(pairs) or "auto"


def numeric_of(shape: Structure) -> str:
    """Return what a column of numbers is: as was said, or one with a density."""
    return shape.numeric or "emissions"


def categories_of(structure: Any, rows: Any, shape: Shape) -> dict[str, list[Any]] | None:
    """Return the labels of the columns of a graph, where numbers would be taken for codes; None for a template."""
    from eigentree.data.tables.labels import Labels
    from eigentree.graphs.graph import LatentGraph

    if rows is None or not isinstance(structure, LatentGraph):
        return None
    columns = learned_columns(rows.only(structure.observed), shape)
    meanings = zip(columns.names, columns.meanings, strict=True)
    return {name: list(meaning.values) for name, meaning in meanings if isinstance(meaning, Labels)}


def unit_of(rows: Any) -> str:
    """Return what is counted: ``"row"`` or ``"sequence"``."""
    return "sequence" if isinstance(rows, NamedSequences) else "row"


def saved(model: Any, output: str, sequence: str | None = None) -> Any:
    """Return a model once it is written; one of sequences stores the column that names them."""
    if sequence is not None:
        model.set_params(sequence=sequence)
    model.save(output)
    return model


def kind_of(thing: object) -> str:
    """Return the name of the class of what was loaded."""
    return type(thing).__name__


def loaded(path: str, kinds: Sequence[str] = (), wanted: str = "") -> Any:
    """Return what a file of eigentree holds; raise `FileError` unless it is of some classes, if any are given."""
    from eigentree.estimators.model_files import load
    from eigentree.io.byte_files import require_there

    require_there(path)
    found = load(path)
    if not kinds:
        return found
    if kind_of(found) not in kinds:
        hint = ""
        if kind_of(found) == "Statistics":
            hint = f"; eigentree fit {path} --method spectral fits a model to it"
        elif kind_of(found) in USED_BY:
            hint = f"; eigentree {USED_BY[kind_of(found)]} uses it"
        raise FileError(f"{path!r} holds {with_article(kind_of(found))}, not {wanted}{hint}")
    check = getattr(found, "__sklearn_is_fitted__", None)
    if check is not None and not check():
        raise FileError(f"{path!r} holds a model that was never fitted; fit it before you save it")
    return found


def loaded_model(path: str, unknown: str = "error") -> Any:
    """Return the model of a file; a network of known tables is an estimator that was fitted."""
    model = loaded(path, LIKE_MODELS, "a model")
    if kind_of(model) in NETWORKS:
        from eigentree.estimators.em_junction_tree import EMJunctionTree

        network, model = model, EMJunctionTree(model.graph)
        model.network_, model.columns_ = network, network.columns
    model.handle_unknown = unknown
    return model


def described(columns: "Columns") -> str:
    """Return what the columns are, in one line: those of each kind together.

    Examples
    --------
    >>> from eigentree.data.tables.columns import Columns
    >>> described(Columns.learned([["yes", 0], ["no", 2], [None, 1]]))
    'x0, x1 categorical'
    """
    from eigentree.data.tables.labels import Bins, Labels
    from eigentree.data.tables.numbers import LabelCodes, Numbers

    kinds: dict[str, list[str]] = {}
    for name, meaning in zip(columns.names, columns.meanings, strict=True):
        found = "categorical"
        if isinstance(meaning, Numbers) and not isinstance(meaning, LabelCodes):
            found = meaning.kind
        elif isinstance(meaning, Bins):
            found = "in bins"
        elif isinstance(meaning, Labels) and meaning.ordered:
            found = "ordinal"
        kinds.setdefault(found, []).append(name)
    return "; ".join(
        ", ".join(names[:MOST_NAMED]) + (f", … ({len(names)})" if len(names) > MOST_NAMED else "") + f" {found}"
        for found, names in kinds.items()
    )


def fitted_columns(model: Any) -> "Columns":
    """Return the columns of a model."""
    columns: Columns = model.columns_ if hasattr(model, "columns_") else model.columns
    return columns


def require_tables(model: Any, path: str) -> None:
    """Raise `GraphError` where a model was fitted spectrally, and so has no tables of hidden states."""
    if kind_of(model).startswith("Spectral"):
        raise GraphError(
            f"{path!r} is a spectral model, which has no tables of hidden states; fit with --method em"
        )


def read_for(model: Any, path: str, reading: Reading, id_column: str | None = None, stream: bool = False) -> Any:
    """Return the rows that a model is applied to, with all of their columns; of a model of sequences, these."""
    own = model.estimator if kind_of(model) in ("JunctionTreeClassifier", "SequenceTagger") else model
    if kind_of(own) not in SEQUENCE_MODELS:
        if reading.sequence is not None:
            raise UsageError(
                "--sequence is for models of sequences, and this is one of rows; fit with --sequence too"
            )
        return open_rows(path, reading) if stream else read_rows(path, reading)
    column = reading.sequence or own.sequence
    if column is None:
        raise UsageError("this is a model of sequences; name the column of their names, as in --sequence id")
    if id_column is not None:
        raise UsageError(f"sequences are identified by their column {column!r}; leave --id out")
    return NamedSequences.of(read_rows(path, reading), column, fitted_columns(model), input_names(model))


def input_names(model: Any) -> list[str]:
    """Return the names of the inputs of a model of sequences, if it has some."""
    columns = getattr(getattr(model, "model_", None), "input_columns", None)
    return [] if columns is None else list(columns.names)


def rows_for(model: Any, rows: Any) -> Any:
    """Return the columns of a model in its order; others are left out."""
    return rows if isinstance(rows, NamedSequences) else rows.only(fitted_columns(model).names)


def identified(rows: Any, id_column: str | None) -> dict[str, Any]:
    """Return the column that identifies rows, the one given or their number; of sequences, their names."""
    if isinstance(rows, NamedSequences):
        return {rows.name: rows.ids}
    if id_column is None or (id_column == "row" and id_column not in rows.names):
        return {"row": range(rows.count)}
    require_names([id_column], rows.names, rows.source)
    return {id_column: rows.cells(rows.names.index(id_column))}


LEARNED = ("auto", "tree")
"""The structures that are learned from rows."""

ENTRIES = ("states", "edges", "hidden", "directed")


def structure_of(shape: Shape, table: "AnyRows | None" = None) -> Any:
    """Return the template of a name, or the graph of a file.

    The rows determine the states of the columns of a graph, and which variables of a network are hidden.
    """
    name = str(shape.structure)
    if name not in STRUCTURES:
        if not shape.is_file:
            hint = (
                did_you_mean(name, STRUCTURES) or f"; there are {', '.join(STRUCTURES)}, and files .toml and .bif"
            )
            raise UsageError(f"there is no structure {name!r}{hint}")
        for option, value in (("--hidden", shape.hidden), ("--order", shape.order)):
            if value is not None:
                raise UsageError(f"{option} is not used with {name!r}, which determines it; leave it out")
        return _of_toml(name, table, shape) if name.lower().endswith(".toml") else _of_bif(name, table)
    if shape.order is not None and name not in ("hmm", "factorial"):
        raise UsageError(f"--order is of hmm and factorial, not of {name}; leave it out")
    from eigentree.graphs import zoo

    sizes = {} if shape.hidden is None else {"hidden_states": shape.hidden}
    order = {} if shape.order is None else {"order" if name == "hmm" else "levels": shape.order}
    if name == "auto":
        if shape.hidden is None:
            return "auto"
        return zoo.HiddenChowLiu(shape.hidden, trees="auto" if shape.method == "em" else 1)
    made = {"hmm": zoo.HMM, "mixture": zoo.Mixture, "tree": zoo.HiddenChowLiu, "factorial": zoo.FactorialHMM}
    return made[name](**sizes, **order)


def structure_words(shape: Shape) -> str:
    """Return a structure in a few words, such as ``"mixture, 4 states"``."""
    order = "" if shape.order is None else f", order {shape.order}"
    states = "" if shape.hidden is None else f", {number_of(shape.hidden, 'state')}"
    return f"{os.path.basename(str(shape.structure))}{order}{states}"


def _of_toml(path: str, table: "AnyRows | None", shape: Structure) -> "LatentGraph":
    from eigentree.data.tables.text_cells import require_names
    from eigentree.graphs.graph import LatentGraph

    with read_bytes(path) as file:
        try:
            document = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FileError(f"{path!r} is no TOML: {error}") from None
    for entry in document:
        if entry not in ENTRIES:
            raise FileError(f"{path!r} has an entry {entry!r} that no graph has{what_there_is(entry, ENTRIES)}")
    given, edges, hidden = document.get("states", {}), document.get("edges", []), document.get("hidden", [])
    if not isinstance(given, dict):
        raise FileError(f"{path!r}: [states] holds names with their numbers of states, such as class = 3")
    if not isinstance(edges, list) or not all(isinstance(edge, list) and len(edge) == 2 for edge in edges):
        raise FileError(f'{path!r}: edges is a list of pairs of names, such as [["class", "odor"]]')
    ends = [name for edge in edges for name in edge]
    if not isinstance(hidden, list) or not all(isinstance(name, str) for name in [*hidden, *ends]):
        raise FileError(f'{path!r}: hidden is a list of names, such as ["class"], and so is each edge')
    states = dict.fromkeys([*given, *ends, *hidden]) | given
    if table is not None:
        observed = [name for name in states if name not in hidden]
        if not observed:
            raise FileError(f"{path!r} has no column that is not hidden")
        for name in observed:
            require_names([name], table.names, f"{name!r} is in {path!r} and not hidden, but {table.source}")
        columns = learned_columns(table.only(observed), shape)
        states |= {name: columns.states[columns.position(name)] for name in observed if name not in given}
    for name, count in states.items():
        if count is None:
            raise FileError(f"no column shows the states of {name!r} of {path!r}; say them under [states]")
    try:
        return LatentGraph(states, [tuple(edge) for edge in edges], hidden, document.get("directed", True))
    except GraphError as error:
        raise FileError(f"{path!r}: {error}") from None


def learned_columns(table: "AnyRows", shape: Structure) -> "Columns":
    """Return the columns of rows; a large file is read once for them."""
    from eigentree.data.streams.encoded_stream import StreamSchema
    from eigentree.data.streams.sources import is_stream
    from eigentree.data.tables.columns import Columns
    from eigentree.em.mixed.emission_choice import column_kinds

    numeric: Any = numeric_of(shape)
    kinds: Any = None
    if isinstance(shape, Densities) and numeric == "emissions":
        own = [name for name in table.names if name is not None]
        kinds = {name: kind for name, kind in column_kinds(emissions_of(shape)).items() if name in own}
    options = ReadOptions(numeric=numeric, kinds=kinds or None)
    found = StreamSchema.of(table, options).schema if is_stream(table) else table
    return Columns.learned(found, options)


def _of_bif(path: str, table: "AnyRows | None") -> "LatentGraph":
    from eigentree.inference.networks.network import LatentNetwork

    # A path that is none would be taken for the text itself.
    require_there(path)
    graph = LatentNetwork.from_bif(path, hidden=[]).graph
    if table is None:
        return graph
    hidden = [name for name in graph.names if name not in table.names]
    if len(hidden) == len(graph.names):
        raise DataError(
            f"{table.source} has no column of the network {path!r}, whose variables are {graph.names[:6]}"
        )
    return LatentNetwork.from_bif(path, hidden=hidden).graph


class Predictions:
    """The predictions of one column, and how many of its known cells, encoded by columns, they agree with."""

    def __init__(self, target: str, labels: list[Any], columns: "Columns | None" = None) -> None:
        self.target, self.labels, self._columns = target, labels, columns
        self.count = self.known = self.correct = 0

    def columns(self, proba: Any) -> dict[str, Any]:
        """Return the most probable label and the probability of each as columns."""
        numbers = np.asarray(proba)
        best = [self.labels[place] for place in numbers.argmax(axis=1)]
        probabilities = zip(self.labels, numbers.T, strict=True)
        return {self.target: best} | {f"P({self.target}={label})": own for label, own in probabilities}

    def add(self, rows: Any, proba: Any) -> None:
        """Count how often predictions agree with the known cells of the target, where rows have these."""
        codes = np.full(len(proba), -1)
        if self._columns is not None and self.target in rows.names:
            meaning = self._columns.meanings[self._columns.position(self.target)]
            cells = read_as(rows.column(rows.names.index(self.target), self.target), meaning)
            if meaning is not None:
                codes = meaning.encode(cells)
            elif isinstance(cells, np.ndarray):
                codes = np.where(cells == cells, cells, -1).astype(np.int64)
        self.compare(proba, codes)

    def compare(self, proba: Any, codes: Any) -> None:
        """Count how often predictions have the codes of known cells; negative codes are unknown."""
        there = codes >= 0
        self.count += len(codes)
        self.known += int(there.sum())
        self.correct += int((np.asarray(proba).argmax(axis=1) == codes)[there].sum())

    def report(self, unit: str) -> tuple[dict[str, Any], str]:
        """Return facts for programs and a sentence for people."""
        facts: dict[str, Any] = {f"{unit}s": self.count, "target": self.target}
        facts["labels"] = [str(label) for label in self.labels]
        sentence = f"{self.target} of {number_of(self.count, unit)}"
        if self.known:
            facts |= {"known": self.known, "accuracy": self.correct / self.known}
            sentence += f", accuracy {100 * self.correct / self.known:.1f} % on {self.known:,} with a known label"
        return facts, sentence
