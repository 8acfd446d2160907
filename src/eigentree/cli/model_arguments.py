"""Models made and found: estimators as options say, files that hold what is needed, rows as a model wants them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from eigentree.cli.arguments import Shape, UsageError
from eigentree.cli.structure_arguments import structure_of
from eigentree.errors import DataError, FileError, with_article

if TYPE_CHECKING:
    from eigentree.cli.block_io import Blocks
    from eigentree.cli.table_io import Given
    from eigentree.data.tables.columns import Columns

__all__ = [
    "LIKE_MODELS",
    "SEQUENCE_MODELS",
    "WITH_TABLES",
    "Unknown",
    "categories_of",
    "estimator_of",
    "fitted_columns",
    "kind_of",
    "label_of",
    "loaded",
    "loaded_model",
    "of_sequences",
    "read_file",
    "rows_for",
]

Unknown = Literal["error", "missing"]

AnyRows = TypeVar("AnyRows", bound="Given | Blocks")

SEQUENCE_MODELS = ("EMHMM", "SpectralHMM")
"""What answers questions about sequences."""

WITH_TABLES = ("EMJunctionTree", "LatentClassModel", "OnlineEMJunctionTree")
"""Estimators of rows that leave tables."""

LIKE_MODELS = ("SpectralJunctionTree", *WITH_TABLES, "LatentNetwork", *SEQUENCE_MODELS)
"""What answers questions about rows."""


def estimator_of(shape: Shape, seed: int, table: "Given | Blocks | None" = None) -> Any:
    """Return the estimator that was asked for, unfitted, with its structure as `structure_of` has it."""
    structure = structure_of(shape, table)
    reading: dict[str, Any] = {"numeric": shape.numeric, "categories": categories_of(structure, table, shape)}
    if shape.method == "spectral":
        from eigentree.estimators.spectral_junction_tree import SpectralJunctionTree

        return SpectralJunctionTree(structure, **reading)
    from eigentree.estimators.em_junction_tree import EMJunctionTree

    return EMJunctionTree(structure, random_state=seed, verbose=1, **reading)


def categories_of(structure: Any, table: "Given | Blocks | None", shape: Shape) -> dict[str, list[Any]] | None:
    """Return the labels of the columns of a graph, where numbers would be taken for codes; None for a template."""
    from eigentree.cli.structure_arguments import learned_columns
    from eigentree.data.tables.labels import Labels
    from eigentree.graphs.graph import LatentGraph

    if table is None or not isinstance(structure, LatentGraph):
        return None
    columns = learned_columns(table.only(structure.observed), shape.numeric)
    return {
        name: list(meaning.values)
        for name, meaning in zip(columns.names, columns.meanings, strict=True)
        if isinstance(meaning, Labels)
    }


def of_sequences(model: Any, reading: Any) -> bool:
    """Return whether a model is one of sequences; raise `UsageError` where others are asked about sequences."""
    if kind_of(model) in SEQUENCE_MODELS:
        return True
    if reading.sequence is not None:
        raise UsageError("--sequence is for models of sequences, and this is one of rows; fit with --sequence too")
    return False


def kind_of(thing: object) -> str:
    """Return what was loaded, as its class is called."""
    return type(thing).__name__


def read_file(path: str) -> Any:
    """Return whatever a file of eigentree holds.

    Raises
    ------
    FileError
        When there is no such file, or it is none of eigentree's.
    """
    from eigentree.cli.pipes import require_there
    from eigentree.estimators.model_files import load

    require_there(path)
    return load(path)


def loaded(path: str, kinds: Sequence[str], wanted: str) -> Any:
    """Return what a file of eigentree holds, once it is of some kinds.

    Raises
    ------
    FileError
        When there is no such file, it is none of eigentree's, or it holds something else than is wanted.
    """
    found = read_file(path)
    if kind_of(found) not in kinds:
        hint = ""
        if kind_of(found) == "Statistics":
            hint = f"; eigentree fit {path} --method spectral makes a model of it"
        elif kind_of(found) == "JunctionTreeClassifier":
            hint = "; eigentree classify apply asks it"
        raise FileError(f"{path!r} holds {with_article(kind_of(found))}, not {wanted}{hint}")
    check = getattr(found, "__sklearn_is_fitted__", None)
    if check is not None and not check():
        raise FileError(f"{path!r} holds a model that was never fitted; fit it before you save it")
    return found


def loaded_model(path: str, unknown: Unknown = "error") -> Any:
    """Return the model of a file, which answers questions about rows."""
    model = loaded(path, LIKE_MODELS, "a model")
    if hasattr(model, "handle_unknown"):
        model.handle_unknown = unknown
    return model


def fitted_columns(model: Any) -> "Columns":
    """Return what a model knows of its columns."""
    columns: Columns = model.columns if kind_of(model) in ("LatentNetwork", "Statistics") else model.columns_
    return columns


def rows_for(model: Any, table: "AnyRows", absent: str | None = None) -> "AnyRows":
    """Return the columns of a model in its order; others are left out, and one may be absent.

    Raises
    ------
    DataError
        When a column of the model is not there.
    """
    columns = fitted_columns(model)
    wanted = [name for name in columns.names if name != absent or name in table.names]
    if not wanted:
        raise DataError(f"{table.shown} has none of the columns that the model knows")
    return cast("AnyRows", table.only(wanted))


def label_of(columns: "Columns", name: str, text: str) -> Any:
    """Return the label of a column that is written so: the text itself, or the number that it stands for."""
    labels = columns.labels(name)
    return next((label for label in labels if str(label) == text), text)
