"""Vectors of four numbers as values of compiled loops, so that a tile of a matrix product stays in registers.

The compiler vectorises a loop, but it writes what the loop adds up to memory in each turn. A product of matrices of
eight states and more then waits for memory most of the time. With vectors, the loops say what is kept.

Each function is written twice: in numpy, which says what it does and runs where nothing is compiled, and as the
instructions that it compiles to. Compiled code does not check places: a vector must lie within its array.
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
    "LANES",
    "add_product",
    "largest",
    "load",
    "load_from",
    "nothing",
    "product",
    "repeated",
    "spread",
    "store",
    "store_at",
    "sum_of",
    "transposed",
]

LANES = 4
"""Numbers of a vector: what one register holds on most processors."""


class Vector(types.Type):
    """The type of a vector in compiled code."""

    def __init__(self) -> None:
        super().__init__(name=f"Vector({LANES})")


VECTOR = Vector()
REGISTER = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(32)

NUMBER_BYTES = 8
"""Vectors start at any number, not only where a register would like them to."""


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """How a vector is kept in compiled code."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, REGISTER)


def load(lines: Floats, line: int, start: int) -> Any:
    """Return the numbers of a line from a start on."""
    return lines[line, start : start + LANES].copy()


@type_callable(load)
def _type_of_load(_: Any) -> Callable[..., Any]:
    return lambda lines, line, start: VECTOR


@lower_builtin(load, types.Array, types.Integer, types.Integer)
def _lower_load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.load(_place(context, builder, signature, arguments), align=NUMBER_BYTES)


def store(lines: Floats, line: int, start: int, vector: Any) -> None:
    """Write a vector into a line from a start on."""
    for k in range(LANES):
        lines[line, start + k] = vector[k]


@type_callable(store)
def _type_of_store(_: Any) -> Callable[..., Any]:
    return lambda lines, line, start, vector: types.none


@lower_builtin(store, types.Array, types.Integer, types.Integer, Vector)
def _lower_store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    place = _place(context, builder, signature, arguments[:-1])
    builder.store(arguments[-1], place, align=NUMBER_BYTES)
    return context.get_dummy_value()


def load_from(values: Floats, start: int) -> Any:
    """Return the numbers of a list from a start on."""
    return values[start : start + LANES].copy()


@type_callable(load_from)
def _type_of_load_from(_: Any) -> Callable[..., Any]:
    return lambda values, start: VECTOR


@lower_builtin(load_from, types.Array, types.Integer)
def _lower_load_from(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    values = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.bitcast(builder.gep(values.data, [arguments[1]]), REGISTER.as_pointer())
    return builder.load(place, align=NUMBER_BYTES)


def store_at(values: Floats, start: int, vector: Any) -> None:
    """Write a vector into a list from a start on."""
    for k in range(LANES):
        values[start + k] = vector[k]


@type_callable(store_at)
def _type_of_store_at(_: Any) -> Callable[..., Any]:
    return lambda values, start, vector: types.none


@lower_builtin(store_at, types.Array, types.Integer, Vector)
def _lower_store_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    values = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = builder.bitcast(builder.gep(values.data, [arguments[1]]), arguments[2].type.as_pointer())
    builder.store(arguments[2], place, align=NUMBER_BYTES)
    return context.get_dummy_value()


def repeated(number: float) -> Any:
    """Return a vector of one number."""
    return np.full(LANES, number)


@type_callable(repeated)
def _type_of_repeated(_: Any) -> Callable[..., Any]:
    return lambda number: VECTOR


@lower_builtin(repeated, types.Float)
def _lower_repeated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _spread_number(builder, arguments[0])


def largest(vector: Any) -> float:
    """Return the largest absolute value of the numbers of a vector."""
    return float(np.abs(vector).max())


@type_callable(largest)
def _type_of_largest(_: Any) -> Callable[..., Any]:
    return lambda vector: types.float64


@lower_builtin(largest, Vector)
def _lower_largest(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    bits = ir.VectorType(ir.IntType(64), 4)
    unsigned = builder.and_(builder.bitcast(arguments[0], bits), ir.Constant(bits, [2**63 - 1] * 4))
    size = builder.bitcast(unsigned, arguments[0].type)
    for places in ([2, 3, 2, 3], [1, 1, 1, 1]):
        other = builder.shuffle_vector(size, size, ir.Constant(ir.VectorType(INDEX, 4), places))
        size = builder.select(builder.fcmp_ordered(">", size, other), size, other)
    return builder.extract_element(size, INDEX(0))


def spread(values: Floats, place: int) -> Any:
    """Return a vector of one number of a list."""
    return np.full(LANES, values[place])


@type_callable(spread)
def _type_of_spread(_: Any) -> Callable[..., Any]:
    return lambda values, place: VECTOR


@lower_builtin(spread, types.Array, types.Integer)
def _lower_spread(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    values = context.make_array(signature.args[0])(context, builder, arguments[0])
    return _spread_number(builder, builder.load(builder.gep(values.data, [arguments[1]])))


def nothing() -> Any:
    """Return a vector of zeros."""
    return np.zeros(LANES)


@type_callable(nothing)
def _type_of_nothing(_: Any) -> Callable[..., Any]:
    return lambda: VECTOR


@lower_builtin(nothing)
def _lower_nothing(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return ir.Constant(REGISTER, [0.0] * LANES)


def product(first: Any, second: Any) -> Any:
    """Return the products of the numbers of two vectors."""
    return first * second


@type_callable(product)
def _type_of_product(_: Any) -> Callable[..., Any]:
    return lambda first, second: VECTOR


@lower_builtin(product, Vector, Vector)
def _lower_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.fmul(*arguments)


def sum_of(first: Any, second: Any) -> Any:
    """Return the sums of the numbers of two vectors."""
    return first + second


@type_callable(sum_of)
def _type_of_sum(_: Any) -> Callable[..., Any]:
    return lambda first, second: VECTOR


@lower_builtin(sum_of, Vector, Vector)
def _lower_sum(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.fadd(*arguments)


def add_product(total: Any, first: Any, second: Any) -> Any:
    """Return a vector plus the products of two others, rounded once where the processor can."""
    return total + first * second


@type_callable(add_product)
def _type_of_add_product(_: Any) -> Callable[..., Any]:
    return lambda total, first, second: VECTOR


@lower_builtin(add_product, Vector, Vector, Vector)
def _lower_add_product(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    total, first, second = arguments
    return builder.fadd(builder.fmul(first, second, flags=("contract",)), total, flags=("contract",))


def transposed(first: Any, second: Any, third: Any, fourth: Any) -> tuple[Any, Any, Any, Any]:
    """Return the vectors of all first, second, third and fourth numbers of four vectors."""
    a, b, c, d = np.stack([first, second, third, fourth], axis=1)
    return a, b, c, d


@type_callable(transposed)
def _type_of_transposed(_: Any) -> Callable[..., Any]:
    return lambda first, second, third, fourth: types.UniTuple(VECTOR, LANES)


@lower_builtin(transposed, Vector, Vector, Vector, Vector)
def _lower_transposed(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def mixed(first: Any, second: Any, *places: int) -> Any:
        return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(INDEX, LANES), places))

    a, b, c, d = arguments
    # Halves of registers first, then neighbours: the cheapest way on processors whose registers have two halves.
    low = mixed(a, c, 0, 1, 4, 5), mixed(b, d, 0, 1, 4, 5)
    high = mixed(a, c, 2, 3, 6, 7), mixed(b, d, 2, 3, 6, 7)
    columns = [mixed(*pair, *places) for pair in (low, high) for places in ((0, 4, 2, 6), (1, 5, 3, 7))]
    return context.make_tuple(builder, signature.return_type, columns)


def _spread_number(builder: Any, number: Any) -> Any:
    """Return a register that holds one number everywhere."""
    first = builder.insert_element(ir.Constant(REGISTER, ir.Undefined), number, INDEX(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES))


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Return where in an array of lines a vector lies."""
    lines = context.make_array(signature.args[0])(context, builder, arguments[0])
    width = cgutils.unpack_tuple(builder, lines.shape)[1]
    line, start = (
        context.cast(builder, argument, kind, types.intp)
        for argument, kind in zip(arguments[1:], signature.args[1:3], strict=True)
    )
    place = builder.gep(lines.data, [builder.add(builder.mul(line, width), start)])
    return builder.bitcast(place, REGISTER.as_pointer())
