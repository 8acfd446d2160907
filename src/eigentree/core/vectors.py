"""Vectors of numbers as values of compiled loops, so that a tile of a matrix product stays in registers.

The compiler vectorises a loop, but it writes what the loop adds up to memory in each turn. A product of matrices of
eight states and more then waits for memory most of the time. With vectors, the loops say what is kept.

A register holds four numbers of double precision, or eight of single precision: what an array holds decides. Some
loops take four of either kind. Each function is written twice: in numpy, which says what it does and runs where
nothing is compiled, and as the instructions that it compiles to. Compiled code does not check places: a vector must
lie within its array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, models, register_model, type_callable

if TYPE_CHECKING:
    from collections.abc import Callable

    from eigentree.arrays import Floats

__all__ = [
    "FOUR",
    "LANES",
    "REGISTER_BYTES",
    "add_product",
    "lanes",
    "largest",
    "load",
    "load_four",
    "load_from",
    "no_four",
    "nothing",
    "product",
    "repeated",
    "smallest",
    "spread",
    "store",
    "store_at",
    "sum_of",
    "totals_of",
    "transposed",
]

REGISTER_BYTES = 32
"""What one register holds on most processors."""

FOUR = 4
"""Numbers of a short vector: a register of doubles, half a one in single precision."""

LANES = FOUR
"""Numbers of double precision in a register."""

INDEX = ir.IntType(32)


class Vector(types.Type):
    """The type of a vector in compiled code."""

    def __init__(self, number: Any, length: int) -> None:
        self.number, self.length = number, length
        super().__init__(name=f"Vector({number}, {length})")

    @classmethod
    def register(cls, array: Any) -> Vector:
        """Return what a register holds of an array."""
        return cls(array.dtype, 8 * REGISTER_BYTES // array.dtype.bitwidth)

    @property
    def llvm(self) -> Any:
        """The type as instructions name it."""
        return ir.VectorType(ir.DoubleType() if self.number == types.float64 else ir.FloatType(), self.length)

    @property
    def number_bytes(self) -> int:
        """Vectors start at any number, not only where a register would like them to."""
        return int(self.number.bitwidth) // 8


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """How a vector is kept in compiled code."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.llvm)


def _compiles(function: Any, returns: Callable[..., Any], *arguments: Any) -> Any:
    """Return a decorator of the instructions that a function of these types of arguments compiles to."""
    type_callable(function)(lambda _: returns)
    return lower_builtin(function, *arguments)


def lanes(lines: Floats) -> int:
    """Return how many numbers of an array a register holds."""
    return REGISTER_BYTES // lines.itemsize


@_compiles(lanes, lambda lines: types.intp, types.Array)
def _lower_lanes(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant(types.intp, Vector.register(signature.args[0]).length)


def load(lines: Floats, line: int, start: int) -> Any:
    """Return the numbers of a line from a start on, as many as a register holds."""
    return lines[line, start : start + lanes(lines)].copy()


def load_four(lines: Floats, line: int, start: int) -> Any:
    """Return four numbers of a line from a start on."""
    return lines[line, start : start + FOUR].copy()


def load_from(values: Floats, start: int) -> Any:
    """Return four numbers of a list from a start on."""
    return values[start : start + FOUR].copy()


@_compiles(load, lambda lines, line, start: Vector.register(lines), types.Array, types.Integer, types.Integer)
@_compiles(
    load_four, lambda lines, line, start: Vector(lines.dtype, FOUR), types.Array, types.Integer, types.Integer
)
@_compiles(load_from, lambda values, start: Vector(values.dtype, FOUR), types.Array, types.Integer)
def _lower_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    place = _place(context, builder, signature, arguments, vector)
    return builder.load(place, align=vector.number_bytes)


def store(lines: Floats, line: int, start: int, vector: Any) -> None:
    """Write a vector into a line from a start on."""
    for k in range(len(vector)):
        lines[line, start + k] = vector[k]


def store_at(values: Floats, start: int, vector: Any) -> None:
    """Write a vector into a list from a start on."""
    for k, number in enumerate(vector):
        values[start + k] = number


@_compiles(store, lambda lines, line, start, vector: types.none, types.Array, types.Integer, types.Integer, Vector)
@_compiles(store_at, lambda values, start, vector: types.none, types.Array, types.Integer, Vector)
def _lower_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.args[-1]
    place = _place(context, builder, signature, arguments[:-1], vector)
    builder.store(arguments[-1], place, align=vector.number_bytes)
    return context.get_dummy_value()


def repeated(number: float) -> Any:
    """Return a register of one number, of double precision."""
    return np.full(FOUR, number)


@_compiles(repeated, lambda number: Vector(types.float64, FOUR), types.Float)
def _lower_repeated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _repeated(builder, arguments[0], signature.return_type)


def largest(vector: Any) -> float:
    """Return the largest absolute value of the numbers of a register, of double precision."""
    return float(np.abs(vector).max())


@_compiles(largest, lambda vector: types.float64, Vector)
def _lower_largest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    bits = ir.VectorType(ir.IntType(64), FOUR)
    unsigned = builder.and_(builder.bitcast(arguments[0], bits), ir.Constant(bits, [2**63 - 1] * FOUR))
    size = builder.bitcast(unsigned, arguments[0].type)
    for places in ([2, 3, 2, 3], [1, 1, 1, 1]):
        other = _shuffled(builder, size, size, places)
        size = builder.select(builder.fcmp_ordered(">", size, other), size, other)
    return builder.extract_element(size, INDEX(0))


def smallest(first: Any, second: Any) -> float:
    """Return the smallest of the numbers of two registers, of double precision."""
    return float(np.minimum(first, second).min())


@_compiles(smallest, lambda first, second: types.float64, Vector, Vector)
def _lower_smallest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    first, second = arguments
    least = builder.select(builder.fcmp_ordered("<", first, second), first, second)
    for places in ([2, 3, 2, 3], [1, 1, 1, 1]):
        other = _shuffled(builder, least, least, places)
        least = builder.select(builder.fcmp_ordered("<", least, other), least, other)
    return builder.extract_element(least, INDEX(0))


def spread(values: Floats, place: int) -> Any:
    """Return a register of one number of a list."""
    return np.full(lanes(values), values[place])


@_compiles(spread, lambda values, place: Vector.register(values), types.Array, types.Integer)
def _lower_spread(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    values = context.make_array(signature.args[0])(context, builder, arguments[0])
    return _repeated(builder, builder.load(builder.gep(values.data, [arguments[1]])), vector)


def nothing(lines: Floats | None = None) -> Any:
    """Return a register of zeros, of the precision of an array, or of doubles."""
    return np.zeros(LANES) if lines is None else np.zeros(lanes(lines), lines.dtype)


def no_four(lines: Floats) -> Any:
    """Return four zeros, of the precision of an array."""
    return np.zeros(FOUR, lines.dtype)


@_compiles(nothing, lambda lines=None: Vector(types.float64, LANES) if lines is None else Vector.register(lines))
@lower_builtin(nothing, types.Array)
@_compiles(no_four, lambda lines: Vector(lines.dtype, FOUR), types.Array)
def _lower_nothing(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = signature.return_type
    return ir.Constant(vector.llvm, [0.0] * vector.length)


def product(first: Any, second: Any) -> Any:
    """Return the products of the numbers of two vectors."""
    return first * second


@_compiles(product, lambda first, second: first, Vector, Vector)
def _lower_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.fmul(*arguments)


def sum_of(first: Any, second: Any) -> Any:
    """Return the sums of the numbers of two vectors, as precise as the first."""
    return (first + second).astype(first.dtype)


@_compiles(sum_of, lambda first, second: first, Vector, Vector)
def _lower_sum(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    first, second = arguments
    if signature.args[0] != signature.args[1]:
        second = builder.fpext(second, signature.return_type.llvm)
    return builder.fadd(first, second)


def add_product(total: Any, first: Any, second: Any) -> Any:
    """Return a vector plus the products of two others, rounded once where the processor can."""
    return total + first * second


@_compiles(add_product, lambda total, first, second: total, Vector, Vector, Vector)
def _lower_add_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    total, first, second = arguments
    return builder.fadd(builder.fmul(first, second, flags=("contract",)), total, flags=("contract",))


def transposed(first: Any, second: Any, third: Any, fourth: Any) -> tuple[Any, Any, Any, Any]:
    """Return the vectors of all first, second, third and fourth numbers of four vectors of four."""
    a, b, c, d = np.stack([first, second, third, fourth], axis=1)
    return a, b, c, d


@_compiles(
    transposed, lambda first, second, third, fourth: types.UniTuple(first, FOUR), Vector, Vector, Vector, Vector
)
def _lower_transposed(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.make_tuple(builder, signature.return_type, _columns(builder, *arguments))


def totals_of(first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """Return, in double precision, what the numbers of each of four registers add up to."""
    return np.array([vector.sum() for vector in (first, second, third, fourth)], np.float64)


@_compiles(
    totals_of, lambda first, second, third, fourth: Vector(types.float64, FOUR), Vector, Vector, Vector, Vector
)
def _lower_totals(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    if signature.args[0].length > FOUR:
        halves = [range(start, start + FOUR) for start in (0, FOUR)]
        arguments = [
            builder.fadd(*(_shuffled(builder, vector, vector, half) for half in halves)) for vector in arguments
        ]
    a, b, c, d = _columns(builder, *arguments)
    total = builder.fadd(builder.fadd(a, b), builder.fadd(c, d))
    return total if signature.args[0].number == types.float64 else builder.fpext(total, signature.return_type.llvm)


def _columns(builder: Any, a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    """Return the instructions that transpose four vectors of four."""
    # Halves of registers first, then neighbours: the cheapest way on processors whose registers have two halves.
    low = _shuffled(builder, a, c, (0, 1, 4, 5)), _shuffled(builder, b, d, (0, 1, 4, 5))
    high = _shuffled(builder, a, c, (2, 3, 6, 7)), _shuffled(builder, b, d, (2, 3, 6, 7))
    ways = (0, 4, 2, 6), (1, 5, 3, 7)
    return [_shuffled(builder, *pair, places) for pair in (low, high) for places in ways]


def _repeated(builder: Any, number: Any, vector: Vector) -> Any:
    """Return the instructions that put one number everywhere into a vector."""
    first = builder.insert_element(ir.Constant(vector.llvm, ir.Undefined), number, INDEX(0))
    return _shuffled(builder, first, first, [0] * vector.length)


def _shuffled(builder: Any, first: Any, second: Any, places: Any) -> Any:
    """Return the instruction that takes numbers out of two vectors, those of the second counted on."""
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(INDEX, len(places)), list(places)))


def _place(context: Any, builder: Any, signature: Any, arguments: Any, vector: Vector) -> Any:
    """Return where in a list, or in an array of lines, a vector lies."""
    values = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = arguments[-1]
    if len(arguments) > 2:
        width = cgutils.unpack_tuple(builder, values.shape)[1]
        line, start = (
            context.cast(builder, argument, kind, types.intp)
            for argument, kind in zip(arguments[1:], signature.args[1:3], strict=True)
        )
        place = builder.add(builder.mul(line, width), start)
    return builder.bitcast(builder.gep(values.data, [place]), vector.llvm.as_pointer())
