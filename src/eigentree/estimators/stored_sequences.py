"""Models of sequences in files: what was fitted, beside their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.sequences.sequence_forms import SequenceForm
from eigentree.data.stored_columns import columns_content, columns_of
from eigentree.em.stored_learning import outcome_content, read_outcome
from eigentree.errors import DataError, FileError
from eigentree.inference.stored_chain import chain_content, read_chain
from eigentree.io.documents import Section, plain
from eigentree.spectral.learn.stored_windows import (
    read_sequence_model,
    read_sequence_statistics,
    sequence_model_content,
    sequence_statistics_content,
)
from eigentree.spectral.sequences.window_report import SequenceReport

if TYPE_CHECKING:
    from eigentree.estimators.em_hmm import EMHMM
    from eigentree.estimators.spectral_hmm import SpectralHMM
    from eigentree.io.stores import Reader, Writer

__all__ = [
    "form_content",
    "hmm_content",
    "listed",
    "read_form",
    "read_hmm",
    "read_spectral_hmm",
    "spectral_hmm_content",
]

SERIES = ("history", "validation_history", "objectives")


def listed(value: Any) -> Any:
    """Return a parameter with its arrays as lists, which a file can hold."""
    if isinstance(value, Mapping):
        return {key: listed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(listed, value))
    if isinstance(value, np.ndarray):
        return np.asarray(value).tolist()
    return value


def form_content(form: SequenceForm) -> dict[str, Any]:
    """Return the document of the form in which sequences came."""
    return form.to_json()


def read_form(content: Any) -> SequenceForm:
    """Return the form of a document.

    Raises
    ------
    FileError
        When it is none.
    """
    try:
        return SequenceForm.from_json(content)
    except DataError as error:
        raise FileError(str(error)) from None


def hmm_content(writer: Writer, estimator: EMHMM) -> dict[str, Any]:
    """Return the document of what was fitted, after putting its arrays into the file."""
    content: dict[str, Any] = {
        "columns": columns_content(estimator.columns_),
        "form": form_content(estimator.form_),
        "chain": chain_content(writer.within("chain"), estimator.model_),
        "n_parameters": int(estimator.n_parameters_),
        "n_iter": int(estimator.n_iter_),
        "converged": bool(estimator.converged_),
        "start": outcome_content(estimator.start_),
    }
    for name in SERIES:
        series = np.asarray(getattr(estimator, f"{name}_"), np.float64)
        writer.array(name, series)
        content[name] = len(series)
    return content


def read_hmm(reader: Reader, content: Any) -> dict[str, Any]:
    """Return the fitted attributes of a document.

    Raises
    ------
    FileError
        When it is none of such an estimator.
    """
    known = ("columns", "form", "chain", "n_parameters", "n_iter", "converged", "start", *SERIES)
    entry = Section(content, "EMHMM", known)
    columns = columns_of(entry["columns"])
    fitted: dict[str, Any] = {
        "columns_": columns,
        "form_": read_form(entry["form"]),
        "model_": read_chain(reader.within("chain"), entry["chain"], columns),
        "n_parameters_": entry.whole("n_parameters"),
        "n_iter_": entry.whole("n_iter"),
        "converged_": entry.flag("converged"),
        "start_": replace(read_outcome(entry["start"]), unit="step"),
    }
    for name in SERIES:
        series = reader.array(name, ("F64",), entry.whole(name))
        if np.isnan(series).any():
            raise FileError(f"the series {name} holds what is no number")
        fitted[f"{name}_"] = series.copy()
    return fitted


def spectral_hmm_content(writer: Writer, estimator: SpectralHMM) -> dict[str, Any]:
    """Return the document of what was fitted, after putting its arrays into the file."""
    return {
        "form": form_content(estimator.form_),
        "statistics": sequence_statistics_content(writer.within("statistics"), estimator.statistics_),
        "model": sequence_model_content(writer.within("model"), estimator.model_),
        "tried": plain(dict(estimator.report_.tried), "what was tried"),
    }


def read_spectral_hmm(reader: Reader, content: Any) -> dict[str, Any]:
    """Return the fitted attributes of a document.

    Raises
    ------
    FileError
        When it is none of such an estimator.
    """
    entry = Section(content, "SpectralHMM", ("form", "statistics", "model", "tried"))
    statistics = read_sequence_statistics(reader.within("statistics"), entry["statistics"])
    model = read_sequence_model(reader.within("model"), entry["model"], statistics.plan)
    tried = entry.value("tried")
    if type(tried) is not dict or not all(
        type(pair) is tuple and len(pair) == 2 and all(type(each) is float for each in (*pair, mean))
        for pair, mean in tried.items()
    ):
        raise FileError("what was tried is no list of shrinkages, floors and what they led to")
    return {
        "columns_": statistics.columns,
        "form_": read_form(entry["form"]),
        "statistics_": statistics,
        "model_": model,
        "report_": SequenceReport.of(statistics, model, tried),
    }
