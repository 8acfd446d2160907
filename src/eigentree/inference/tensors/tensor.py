"""Dense tensors whose modes are labelled with variables (sections 2 and 4.1 of the paper)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import factorial, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentree.errors import TensorError, did_you_mean, quoted
from eigentree.validation import (
    MOST_CELLS,
    a_mapping,
    an_array,
    check_cells,
    finite_number,
    one_by_one,
    our_arithmetic,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

__all__ = ["LabeledTensor"]

MOST_MODES = 32
"""Most modes of a tensor."""

MOST_ALIGNMENTS = 10_000
"""Most permutations of modes that are tried to make two tensors equal."""


@dataclass(frozen=True, eq=False)
class LabeledTensor:
    """An immutable dense tensor whose modes are labelled with the names of variables.

    A label may occur several times, on modes of equal size. Wherever a method takes labels, one string is
    one label, and each occurrence of a label stands for one mode: the first that is not yet taken.
    Compare tensors with `equivalent`; ``==`` is identity.

    Parameters
    ----------
    array : array_like of float
        The entries; they are copied.
    labels : iterable of str
        One label per mode.

    Attributes
    ----------
    array : ndarray of float64, read-only
    labels : tuple of str

    Examples
    --------
    P(A|B) multiplied with the diagonal matrix P(⊘_2 B) over B is P(A, B):

    >>> b = LabeledTensor([0.25, 0.75], ["B"])
    >>> a_given_b = LabeledTensor([[0.5, 0.25], [0.5, 0.75]], ["A", "B"])
    >>> joint = a_given_b.multiply(b.diagonal({"B": 2}), over="B")
    >>> joint
    <LabeledTensor: A 2, B 2>
    >>> joint.array.tolist()
    [[0.125, 0.1875], [0.125, 0.5625]]
    """

    array: npt.NDArray[np.float64]
    labels: tuple[str, ...]

    def __init__(self, array: npt.ArrayLike, labels: Iterable[str]) -> None:
        names = _names(labels)
        try:
            given = an_array(f"what has the labels {names}", array, TensorError)
            entries = given.astype(np.float64, order="C", casting="same_kind")
        except (TypeError, OverflowError) as error:
            raise TensorError(f"the array for labels {names} must hold real numbers: {error}") from None
        if len(names) != entries.ndim:
            raise TensorError(
                f"an array of shape {entries.shape} needs {entries.ndim} labels, one per mode, "
                f"not {len(names)}: {names}"
            )
        sizes: dict[str, int] = {}
        for name, size in zip(names, entries.shape, strict=True):
            if size == 0:
                raise TensorError(f"label {name!r} has size 0; a variable has at least one value")
            if sizes.setdefault(name, size) != size:
                raise TensorError(
                    f"label {name!r} has modes of sizes {sizes[name]} and {size}; modes of one variable "
                    f"have equal sizes, so rename one of them"
                )
        entries.setflags(write=False)
        object.__setattr__(self, "array", entries)
        object.__setattr__(self, "labels", names)

    def __repr__(self) -> str:
        modes = ", ".join(f"{name} {size}" for name, size in zip(self.labels, self.shape, strict=True))
        return f"<LabeledTensor: {modes or 'a number'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # Without it, a copied or unpickled array would be writeable.
        return type(self), (self.array, self.labels)

    @classmethod
    def identity(cls, labels: Iterable[str], sizes: Iterable[int]) -> LabeledTensor:
        """Return the mode-specific identity tensor I_σ, for which A ×_σ I_σ ≅ A (Eq. 4).

        Its labels are (X_1, …, X_K, X_1, …, X_K); the first K modes flattened to rows and the last K to
        columns are the identity matrix.
        """
        names = _names(labels)
        counts = _at_most_modes("sizes", sizes, "whole numbers, one per label")
        if len(names) != len(counts):
            raise TensorError(f"{len(names)} labels {names} need as many sizes, not {len(counts)}")
        shape = tuple(_whole(f"the size of {x!r}", size, 1) for x, size in zip(names, counts, strict=True))
        _check_shape("this identity", shape + shape)
        return cls(np.eye(prod(shape)).reshape(shape + shape), names + names)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of every mode, in the order of `labels`."""
        return self.array.shape

    @property
    def order(self) -> int:
        """The number of modes."""
        return self.array.ndim

    def size_of(self, label: str) -> int:
        """Return the size of the modes with this label: the number of values of the variable."""
        return self.shape[self._positions(_names((label,)))[0]]

    @our_arithmetic
    def multiply(self, other: LabeledTensor, over: Iterable[str]) -> LabeledTensor:
        """Return the product A ×_σ B over shared labels σ (Eq. 2 and 3); over no labels, the outer product.

        Its labels are those that remain of this tensor, then those that remain of the other.

        Each occurrence of a label in `over` consumes one mode of each tensor, the first that is left.
        Which one makes no difference for the embeddings of `diagonal`, nor for I_σ, since swapping modes
        of one label leaves them unchanged. For other tensors it does: reorder their axes before labelling
        them. In P~(C_i) of Eq. 16, multiplied in the printed order, a label shared by ω_{i_1} and ω_i is
        first met in ω_{i_1}, as Eq. 19 needs.
        """
        _require_tensor(other)
        names = _names(over)
        mine, theirs = self._positions(names), other._positions(names)
        for name in names:
            if self.size_of(name) != other.size_of(name):
                raise TensorError(
                    f"cannot multiply over {name!r}: its size is {self.size_of(name)} in {self} and "
                    f"{other.size_of(name)} in {other}; both need the same"
                )
        labels = [label for mode, label in enumerate(self.labels) if mode not in mine]
        labels += [label for mode, label in enumerate(other.labels) if mode not in theirs]
        kept = [self.shape[mode] for mode in range(self.order) if mode not in mine]
        _check_shape(
            "the product", (*kept, *(other.shape[mode] for mode in range(other.order) if mode not in theirs))
        )
        return LabeledTensor(np.tensordot(self.array, other.array, axes=(mine, theirs)), labels)

    @our_arithmetic
    def equivalent(self, other: LabeledTensor, atol: float = 1e-10) -> bool:
        """Return whether some permutation of modes that aligns labels makes the tensors equal (Eq. 1).

        Entries that differ by no more than `atol` are equal. Modes of one label may be permuted in any way.
        """
        _require_tensor(other)
        atol = finite_number("atol", atol, 0.0, TensorError)
        if Counter(self.labels) != Counter(other.labels):
            return False
        if prod(factorial(times) for times in Counter(self.labels).values()) > MOST_ALIGNMENTS:
            raise TensorError(f"{self} has too many modes of one label to try all their orders; rename some")
        distinct = sorted(set(self.labels))
        mine = self.array.transpose([mode for label in distinct for mode in self._modes(label)])
        for groups in product(*(permutations(other._modes(label)) for label in distinct)):
            theirs = other.array.transpose([mode for group in groups for mode in group])
            # Broadcasting would take different sizes for equal.
            if mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=0, atol=atol):
                return True
        return False

    def transpose(self, labels: Iterable[str]) -> LabeledTensor:
        """Return the tensor with its modes in the order of the labels given.

        Modes of one label keep their order among each other.
        """
        names = _names(labels)
        ordered = self._with_first(names)
        if ordered.labels != names:
            raise TensorError(f"the order {names} leaves out {ordered.labels[len(names) :]}; name every mode")
        return ordered

    @our_arithmetic
    def matrix(self, rows: Iterable[str]) -> npt.NDArray[np.float64]:
        """Return the matricised tensor, read-only: the given labels flattened to rows, the rest to columns.

        Rows follow the order of the labels given, columns that of `labels`; the last label runs fastest.
        """
        names = _names(rows)
        ordered = self._with_first(names)
        return ordered.array.reshape(prod(ordered.shape[: len(names)]), -1)

    @our_arithmetic
    def inverse(self, over: Iterable[str], tolerance: float | None = None) -> tuple[LabeledTensor, int]:
        """Return the mode-specific (pseudo-)inverse F^-1 with respect to ω (Eq. 5), and the rank of F.

        F^-1 has the labels of F. With σ the labels outside ω, F ×_ω F^-1 ≅ I_σ exactly when the rank, that
        of ``matrix(over)``, is the product of the sizes of σ. When it is less, the product is the
        orthogonal projection on the row space of that matrix.

        Parameters
        ----------
        over : iterable of str, or str
            The labels ω.
        tolerance : float, optional
            Singular values up to this fraction of the largest count as zero; by default that of
            `numpy.linalg.matrix_rank`.
        """
        names = _names(over)
        flat = self.matrix(names)
        if tolerance is None:
            tolerance = max(flat.shape) * float(np.finfo(np.float64).eps)
        if not finite_number("tolerance", tolerance, 0.0, TensorError) < 1:
            raise TensorError(f"tolerance must be at least 0 and less than 1, not {quoted(tolerance)}")
        if not np.isfinite(flat).all():
            raise TensorError(f"{self} has no inverse over {names}: remove its NaN or infinite entries")
        left, singular, right = np.linalg.svd(flat, full_matrices=False)
        rank = int(np.count_nonzero(singular > tolerance * singular[0]))
        # Transposed against numpy's pinv, since a product over labels makes rows meet rows.
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = left[:, :rank] / singular[:rank] @ right[:rank]
        if not np.isfinite(inverse).all():
            raise TensorError(f"{self} has no inverse over {names}: its entries are too small; multiply them")
        ordered = self._with_first(names)
        return LabeledTensor(inverse.reshape(ordered.shape), ordered.labels).transpose(self.labels), rank

    def diagonal(self, repeats: Mapping[str, int]) -> LabeledTensor:
        """Return the embedding with labels repeated along diagonals, such as P(⊘_2 B, D | ⊘_2 C, E) (Eq. 10).

        The modes of a repeated label are adjacent, in the place of the original one; entries whose
        indices differ among them are zero. `repeats` says how often a label occurs in the result, d_{j,i} of
        Eq. 9: 0 marginalises its mode out, and a label not mentioned stays as it is.
        """
        summed = self
        for name, count in a_mapping("repeats", repeats, "{'A': 2}", TensorError).items():
            self._sole_position(name)
            if _whole(f"the number of repeats of {name!r}", count, 0, MOST_MODES) == 0:
                summed = summed.sum(name)
        modes = [mode for mode, label in enumerate(summed.labels) for _ in range(repeats.get(label, 1))]
        grids = np.indices(summed.shape, sparse=True)
        _check_shape("this embedding", [summed.shape[mode] for mode in modes])
        embedded = np.zeros([summed.shape[mode] for mode in modes])
        embedded[tuple(grids[mode] for mode in modes)] = summed.array
        return LabeledTensor(embedded, [summed.labels[mode] for mode in modes])

    def select(self, assignments: Mapping[str, int]) -> LabeledTensor:
        """Return the tensor with labels fixed to values, counted from 0: P(C_l)_{R_l = r_l} of Eq. 12.

        A label that is fixed must have one mode only; the result is without it.
        """
        index: list[int | slice] = [slice(None)] * self.order
        for name, value in a_mapping("assignments", assignments, "{'A': 0}", TensorError).items():
            mode = self._sole_position(name)
            index[mode] = _whole(f"the value of {name!r}", value, 0)
            if value >= self.shape[mode]:
                raise TensorError(f"{name!r} has {self.shape[mode]} values, counted from 0, but no {quoted(value)}")
        labels = [label for label in self.labels if label not in assignments]
        return LabeledTensor(self.array[tuple(index)], labels)

    @our_arithmetic
    def sum(self, label: str) -> LabeledTensor:
        """Return the tensor with one mode of this label, the first, marginalised out: P(⊘_2 B) becomes P(B)."""
        mode = self._positions(_names((label,)))[0]
        return LabeledTensor(self.array.sum(axis=mode), self.labels[:mode] + self.labels[mode + 1 :])

    def _modes(self, label: str) -> list[int]:
        return [mode for mode, found in enumerate(self.labels) if found == label]

    def _positions(self, names: tuple[str, ...]) -> list[int]:
        free = {label: self._modes(label) for label in self.labels}
        positions = []
        for name in names:
            if name not in free:
                raise TensorError(f"{self} has no mode {quoted(name)}{did_you_mean(name, self.labels)}")
            if not free[name]:
                raise TensorError(f"{names} names {name!r} more often than {self} has modes for it")
            positions.append(free[name].pop(0))
        return positions

    def _with_first(self, names: tuple[str, ...]) -> LabeledTensor:
        first = self._positions(names)
        order = first + [mode for mode in range(self.order) if mode not in first]
        return LabeledTensor(self.array.transpose(order), [self.labels[mode] for mode in order])

    def _sole_position(self, name: str) -> int:
        position = self._positions(_names((name,)))[0]
        if self.labels.count(name) > 1:
            raise TensorError(f"select or repeat {name!r} while it has one mode only, not several as in {self}")
        return position


def _names(labels: Iterable[str]) -> tuple[str, ...]:
    names = (labels,) if isinstance(labels, str) else _at_most_modes("labels", labels, "strings")
    for name in names:
        if not isinstance(name, str) or not name:
            raise TensorError(f"labels are non-empty strings, not {quoted(name)}")
    if len(names) > MOST_MODES:
        raise TensorError(f"a tensor has at most {MOST_MODES} modes, but more labels are given")
    return names


def _at_most_modes(argument: str, value: Iterable[Any], members: str) -> tuple[Any, ...]:
    """Return what a list holds, as far as modes could have it."""
    return tuple(islice(one_by_one(argument, value, members, TensorError), MOST_MODES + 1))


def _whole(what: str, number: object, least: int, most: int = MOST_CELLS) -> int:
    return whole_number(what, number, least, TensorError, most)


def _check_shape(what: str, shape: Sequence[int]) -> None:
    """Raise `TensorError` where a tensor of this shape would be too large."""
    if len(shape) > MOST_MODES:
        raise TensorError(f"{what} would have {len(shape)} modes (the limit is {MOST_MODES})")
    check_cells(what, prod(shape), "use fewer or smaller modes", TensorError)


def _require_tensor(other: object) -> None:
    if not isinstance(other, LabeledTensor):
        raise TensorError(f"a {type(other).__name__} has no labels; write LabeledTensor(array, labels)")
