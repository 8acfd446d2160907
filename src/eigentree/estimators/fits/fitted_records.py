"""What a file holds of each kind of fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.counting.additive import read_stored, stored_content
from eigentree.counting.statistics import Statistics, check_counts
from eigentree.data.sequences.steps import FORM
from eigentree.data.tables.columns import columns_content, columns_of
from eigentree.em.stored_learning import LEARNER, SEARCH, START
from eigentree.errors import FileError
from eigentree.inference.grammars.stored_grammar import grammar_content, read_grammar
from eigentree.inference.sequences.stored_chain import chain_content, read_chain, read_clusters
from eigentree.inference.stored_network import network_content, read_network
from eigentree.io.codec import FLAG, NUMBER, SERIES, VALUE, WHOLE, Field, Record, optional, within
from eigentree.planning.stored_plan import plan_content, read_plan
from eigentree.spectral.grammars.stored_spectra import (
    read_spectra,
    read_spectral,
    spectra_content,
    spectral_content,
)
from eigentree.spectral.learn.stored_fit import (
    model_content,
    read_model,
    read_report,
    read_sequence_model,
    read_sequence_statistics,
    report_content,
    sequence_model_content,
    sequence_statistics_content,
)
from eigentree.spectral.sequences.window_report import SequenceReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigentree.em.em_report import Unit
    from eigentree.io.codec import At
    from eigentree.io.stores import Reader

__all__ = ["RECORDS"]


_record = partial(Record, suffix="_")
"""Fitted attributes end with an underscore."""


def _counted(reader: Reader, content: Any, known: Mapping[str, Any]) -> Any:
    statistics = read_stored(Statistics, reader, content)
    check_counts(known["plan_"], statistics.counts)
    return statistics


def _tried(reader: Reader, content: Any, at: At) -> Any:
    tried = VALUE.read(reader, content, at)
    if type(tried) is not dict or not all(
        type(pair) is tuple and len(pair) == 2 and all(type(each) is float for each in (*pair, mean))
        for pair, mean in tried.items()
    ):
        raise FileError("what was tried is no list of shrinkages, floors and what they led to")
    return SequenceReport.of(at.known["statistics_"], at.known["model_"], tried)


COLUMNS = Field(lambda writer, name, value: columns_content(value), lambda reader, content, at: columns_of(content))
CLUSTERS = Field(
    lambda writer, name, value: np.bincount(value).tolist(),
    lambda reader, content, at: read_clusters(content, at.known["model_"]),
)
CHAIN = within(chain_content, lambda reader, content, known: read_chain(reader, content, known["columns_"]))


ITERATIONS = {"n_iter": WHOLE, "converged": FLAG, "history": SERIES}
COURSE = {"validation_history": SERIES, "objectives": SERIES}


def _runs(unit: Unit) -> dict[str, Field]:
    """Return the fields of what runs of EM leave behind, by the unit of their objectives."""
    start = Field(START.write, lambda reader, content, at: replace(START.read(reader, content, at), unit=unit))
    return {"n_parameters": WHOLE, **ITERATIONS, "start": start, **COURSE}


NETWORK_FIELDS = {
    "columns": COLUMNS,
    "network": within(network_content, lambda reader, content, _: read_network(reader, content)),
    **ITERATIONS,
}

SEQUENCE_FIELDS = {"columns": COLUMNS, "form": FORM, "chain": CHAIN, **_runs("step")}

EM = _record(
    "EMJunctionTree",
    {**NETWORK_FIELDS, "start": START, "pseudo_counts": NUMBER, **COURSE},
    {"search": SEARCH, "finish_rows": WHOLE, "n_constraints": WHOLE},
)

RECORDS = {
    "EMJunctionTree": EM,
    "LatentClassModel": EM,
    "OnlineEMJunctionTree": _record("OnlineEMJunctionTree", {**NETWORK_FIELDS, "learner": LEARNER}),
    "SpectralJunctionTree": _record(
        "a spectral estimator",
        {
            "columns": COLUMNS,
            "plan": Field(
                lambda writer, name, plan: writer.share("plans", plan, lambda each: plan_content(writer, each)),
                lambda reader, content, at: reader.share("plans", content, lambda each: read_plan(reader, each)),
            ),
            "model": within(
                model_content,
                lambda reader, content, known: read_model(reader, content, known["plan_"], known["columns_"]),
            ),
            "report": Field(
                lambda writer, name, report: report_content(report),
                lambda reader, content, at: read_report(content, at.known["model_"]),
            ),
            "statistics": optional(within(stored_content, _counted)),
        },
        {"search": SEARCH},
    ),
    "EMHMM": _record("EMHMM", SEQUENCE_FIELDS, attributes={"chain": "model_"}),
    "MixtureHMM": _record(
        "MixtureHMM",
        {**SEQUENCE_FIELDS, "state_clusters": CLUSTERS},
        attributes={"chain": "model_"},
    ),
    "HiddenMarkovTree": _record(
        "HiddenMarkovTree",
        {"columns": COLUMNS, "chain": CHAIN, **_runs("node")},
        attributes={"chain": "model_"},
    ),
    "LatentGrammar": _record(
        "LatentGrammar",
        {
            "grammar": within(grammar_content, lambda reader, content, _: read_grammar(reader, content)),
            **_runs("node"),
        },
    ),
    "SpectralLatentGrammar": _record(
        "SpectralLatentGrammar",
        {
            "model": within(spectral_content, lambda reader, content, _: read_spectral(reader, content)),
            "report": within(
                spectra_content, lambda reader, content, known: read_spectra(reader, content, known["model_"])
            ),
        },
    ),
    "SpectralHMM": _record(
        "SpectralHMM",
        {
            "form": FORM,
            "statistics": within(
                sequence_statistics_content, lambda reader, content, _: read_sequence_statistics(reader, content)
            ),
            "model": within(
                sequence_model_content,
                lambda reader, content, known: read_sequence_model(reader, content, known["statistics_"]),
            ),
            "tried": Field(lambda writer, name, report: VALUE.write(writer, name, dict(report.tried)), _tried),
        },
        {"inputs": COLUMNS},
        attributes={"tried": "report_", "inputs": "_input_columns"},
    ),
}
"""What was fitted, by the names of estimators."""
