"""Covariates as the terms of a regression: an intercept, numbers, and indicators of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.data.tables.numbers import LabelCodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eigentree.arrays import Floats
    from eigentree.data.tables.columns import Columns

__all__ = ["design_names", "label_counts", "term_counts", "term_names", "terms_of", "whitening_of"]

INTERCEPT = "intercept"


def _labels(columns: Columns, name: str) -> Sequence[Any] | None:
    """Return the labels of a column, or of its codes; None of one of numbers."""
    place = columns.position(name)
    if isinstance(meaning := columns.meanings[place], LabelCodes):
        return meaning.coded.values
    return None if place in columns.number_places else columns.labels(name)


def label_counts(columns: Columns, names: Sequence[str]) -> list[int]:
    """Return the number of labels of some columns; 0 for numbers."""
    return [len(_labels(columns, name) or ()) for name in names]


def term_counts(levels: Sequence[int]) -> list[int]:
    """Return how many terms each column is, given the numbers of their labels; 0 for numbers."""
    return [number - 1 if number else 1 for number in levels]


def term_names(columns: Columns, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the column of each term, and what the term is called: the column itself, or a label beside it."""
    found = [(INTERCEPT, INTERCEPT)]
    for name in names:
        labels = _labels(columns, name)
        found += [(name, name)] if labels is None else [(name, f"{name}: {label}") for label in labels[1:]]
    return found


def design_names(columns: Columns, names: Sequence[str] | None = None) -> list[str]:
    """Return what the terms of some columns are called, or of all."""
    return [term for _, term in term_names(columns, columns.names if names is None else names)]


def terms_of(cells: Floats, levels: Sequence[int]) -> Floats:
    """Return the terms of rows: the intercept, numbers, and of labels an indicator of each but the first."""
    terms = [np.ones(len(cells))]
    for column, number in zip(cells.T, levels, strict=True):
        terms += [(column == code).astype(np.float64) for code in range(1, number)] if number else [column]
    return np.stack(terms, axis=1)


def whitening_of(rows: Floats, weights: Floats) -> Floats:
    """Return what makes terms uncorrelated, with zeros for terms that depend linearly on those before them."""
    scaled = rows * np.sqrt(weights / weights.sum())[:, None]
    norms = np.linalg.norm(scaled, axis=0)
    kept: list[int] = []
    basis = np.empty((len(rows), 0))
    for term, norm in enumerate(norms):
        rest = scaled[:, term] - basis @ (basis.T @ scaled[:, term])
        rest -= basis @ (basis.T @ rest)
        length = float(np.linalg.norm(rest))
        if length > max(rows.shape) * np.finfo(np.float64).eps * norm:
            kept.append(term)
            basis = np.column_stack([basis, rest / length])
    whitening = np.zeros((rows.shape[1], len(kept)))
    whitening[kept] = np.linalg.inv(np.linalg.qr(scaled[:, kept], mode="r"))
    return whitening
