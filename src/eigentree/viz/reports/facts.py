"""All facts of a report, computed once: what the model is, how it was learned, and how it does on rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import eigentree
from eigentree.exact.network import LatentNetwork
from eigentree.models.profiles import profiles
from eigentree.viz.reports.anomalies import odd_rows
from eigentree.viz.reports.likelihoods import likelihoods_of
from eigentree.viz.reports.predicted import predicted_cells
from eigentree.viz.reports.structure import structure_of

if TYPE_CHECKING:
    from eigentree.markup.figures import Spectrum
    from eigentree.models.profiles import Profile
    from eigentree.viz.reports.adapters import Subject
    from eigentree.viz.reports.anomalies import OddRow
    from eigentree.viz.reports.given import Given, Unseen
    from eigentree.viz.reports.likelihoods import Likelihoods
    from eigentree.viz.reports.predicted import Predicted
    from eigentree.viz.reports.structure import Structure

__all__ = ["DataFacts", "Facts", "Learned", "facts_of"]


@dataclass(frozen=True)
class DataFacts:
    """What is known of the rows that were given.

    Attributes
    ----------
    count : int
        Rows, or sequences.
    steps : int or None
        Steps of sequences.
    cells, missing : int
        All cells, and those that are missing, unseen labels among them.
    by_column : tuple of (str, int)
        Missing cells of each column that has some, most first.
    unseen : tuple of Unseen
        Labels that the model never saw.
    """

    count: int
    steps: int | None
    cells: int
    missing: int
    by_column: tuple[tuple[str, int], ...]
    unseen: tuple[Unseen, ...]


@dataclass(frozen=True)
class Learned:
    """How a model was learned, as far as it tells.

    Attributes
    ----------
    facts : tuple of (str, str)
        Whatever is known, by name, in words.
    warnings : tuple of str
    parameters : int or None
        Free parameters, where they are known.
    spectra : tuple of Spectrum
        Of separators, of a spectral model.
    history, validation_history : tuple of float
        Of a climb.
    unit : str
        What was learned from.
    start, search : object or None
        Which start won, and which sizes were tried.
    """

    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...] = ()
    parameters: int | None = None
    spectra: tuple[Spectrum, ...] = ()
    history: tuple[float, ...] = ()
    validation_history: tuple[float, ...] = ()
    unit: str = "row"
    start: Any = None
    search: Any = None


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a report.

    Attributes
    ----------
    kind : str
        What the model is, as its class is called.
    unit : {"row", "sequence"}
    columns : tuple of (str, int)
        The columns, or channels, and how many states each has.
    mixed : int
        How many trees are mixed; 0 where none are.
    steps : int
        How many steps of a model of sequences are drawn; 0 for one of rows.
    structure : Structure
    profiles : tuple of Profile
        Of hidden variables, where tables are known; those first that tell most.
    learned : Learned
    data, likelihoods, predicted, odd
        What is known from rows; None, or empty, without any.
    version : str
        That of the package.
    """

    kind: str
    unit: str
    columns: tuple[tuple[str, int], ...]
    mixed: int
    steps: int
    structure: Structure
    profiles: tuple[Profile, ...]
    learned: Learned
    data: DataFacts | None
    likelihoods: Likelihoods | None
    predicted: Predicted | None
    odd: tuple[OddRow, ...]
    version: str


def facts_of(subject: Subject, given: Given | None, training: Given | None) -> Facts:
    """Return all facts of a report.

    Parameters
    ----------
    subject : Subject
    given : Given or None
        The rows that the model is looked at with.
    training : Given or None
        Rows that simpler models learn from.
    """
    columns = subject.columns
    return Facts(
        kind=subject.kind,
        unit=subject.unit,
        columns=tuple(zip(columns.names, columns.states, strict=True)),
        mixed=subject.mixed,
        steps=subject.steps,
        structure=structure_of(subject),
        profiles=_profiles(subject),
        learned=_learned(subject),
        data=None if given is None else _data(given),
        likelihoods=None if given is None else likelihoods_of(given, training),
        predicted=None if given is None else predicted_cells(given),
        odd=() if given is None else odd_rows(given),
        version=eigentree.__version__,
    )


def _profiles(subject: Subject) -> tuple[Profile, ...]:
    if subject.network is None:
        return ()
    found = profiles(subject.asked).values()
    return tuple(sorted(found, key=lambda profile: -sum(profile.nats)))


def _learned(subject: Subject) -> Learned:
    asked = subject.asked
    if isinstance(asked, LatentNetwork):
        return Learned((("free parameters", f"{asked.n_parameters:,}"),), parameters=asked.n_parameters)
    report = asked.report_
    return Learned(
        facts=tuple(report.facts()),
        warnings=report.warnings,
        parameters=getattr(report, "parameters", None),
        spectra=getattr(report, "spectra", ()),
        history=getattr(report, "history", ()),
        validation_history=getattr(report, "validation_history", ()),
        unit=getattr(report, "unit", "row"),
        start=getattr(report, "start", None),
        search=getattr(report, "search", None),
    )


def _data(given: Given) -> DataFacts:
    missing = given.missing
    counts = missing.sum(axis=0).tolist()
    by_column = [(name, count) for name, count in zip(given.columns.names, counts, strict=True) if count]
    return DataFacts(
        count=given.count,
        steps=None if given.starts is None else len(given.codes),
        cells=missing.size,
        missing=int(missing.sum()),
        by_column=tuple(sorted(by_column, key=lambda each: -each[1])),
        unseen=given.unseen,
    )
