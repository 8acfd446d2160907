"""Models that commands fit and load, and rows with the columns that a model has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eigentree.cli.arguments import Reading, Shape, UsageError
from eigentree.cli.rows_read import NamedSequences, open_rows, read_rows
from eigentree.cli.structure_arguments import learned_columns, structure_of
from eigentree.data.tables.text_cells import require_names
from eigentree.errors import FileError, GraphError, with_article

if TYPE_CHECKING:
    from eigentree.data.tables.columns import Columns

__all__ = [
    "LIKE_MODELS",
    "SEQUENCE_MODELS",
    "WITH_TABLES",
    "categories_of",
    "estimator_of",
    "fitted_columns",
    "identified",
    "kind_of",
    "loaded",
    "loaded_model",
    "read_for",
    "read_training",
    "require_tables",
    "rows_for",
    "saved",
    "unit_of",
]

SEQUENCE_MODELS = ("EMHMM", "SpectralHMM")
"""Models of sequences."""

WITH_TABLES = ("EMJunctionTree", "LatentClassModel", "OnlineEMJunctionTree")
"""Estimators of rows that have conditional probability tables."""

LIKE_MODELS = ("SpectralJunctionTree", *WITH_TABLES, "LatentNetwork", *SEQUENCE_MODELS)
"""What answers queries about rows or sequences."""


def read_training(path: str, shape: Shape, reading: Reading, stream: bool = False) -> Any:
    """Return the rows that a model is fitted to, or the sequences that a column names; a large file as a stream."""
    # What is wrong with the shape is found first, since reading may take a while.
    if reading.sequence is not None and shape.structure not in (None, "hmm"):
        raise UsageError(f"sequences are learned by hmm, not by {shape.structure}; leave --structure out")
    if reading.sequence is None and not shape.is_file:
        structure_of(shape)
    rows = open_rows(path, reading) if stream and reading.sequence is None else read_rows(path, reading)
    return rows if reading.sequence is None else NamedSequences.of(rows, reading.sequence)  # type: ignore[arg-type]


def estimator_of(shape: Shape, seed: int, rows: Any = None) -> Any:
    """Return the estimator of a structure and a method, unfitted."""
    if isinstance(rows, NamedSequences):
        sizes = {"hidden_states": shape.hidden, "order": shape.order}
        given: dict[str, Any] = {name: size for name, size in sizes.items() if size is not None}
        if shape.method == "spectral":
            from eigentree.estimators.spectral_hmm import SpectralHMM

            return SpectralHMM(**given, numeric=shape.numeric)
        from eigentree.estimators.em_hmm import EMHMM

        return EMHMM(**given, random_state=seed, verbose=1, numeric=shape.numeric)
    structure = structure_of(shape, rows)
    labels: dict[str, Any] = {"numeric": shape.numeric, "categories": categories_of(structure, rows, shape)}
    if shape.method == "spectral":
        from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

        return SpectralJunctionTree(structure, **labels)
    from eigentree.estimators.em_junction_tree import EMJunctionTree

    return EMJunctionTree(structure, random_state=seed, verbose=1, **labels)


def categories_of(structure: Any, rows: Any, shape: Shape) -> dict[str, list[Any]] | None:
    """Return the labels of the columns of a graph, where numbers would be taken for codes; None for a template."""
    from eigentree.data.tables.labels import Labels
    from eigentree.graphs.graph import LatentGraph

    if rows is None or not isinstance(structure, LatentGraph):
        return None
    columns = learned_columns(rows.only(structure.observed), shape.numeric)
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
        elif kind_of(found) == "JunctionTreeClassifier":
            hint = "; eigentree classify apply uses it"
        raise FileError(f"{path!r} holds {with_article(kind_of(found))}, not {wanted}{hint}")
    check = getattr(found, "__sklearn_is_fitted__", None)
    if check is not None and not check():
        raise FileError(f"{path!r} holds a model that was never fitted; fit it before you save it")
    return found


def loaded_model(path: str, unknown: str = "error") -> Any:
    """Return the model of a file; a network of known tables is an estimator that was fitted."""
    model = loaded(path, LIKE_MODELS, "a model")
    if kind_of(model) == "LatentNetwork":
        from eigentree.estimators.em_junction_tree import EMJunctionTree

        network, model = model, EMJunctionTree(model.graph)
        model.network_, model.columns_ = network, network.columns
    model.handle_unknown = unknown
    return model


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
    own = model.estimator if kind_of(model) == "JunctionTreeClassifier" else model
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
    return NamedSequences.of(read_rows(path, reading), column, fitted_columns(model))


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
