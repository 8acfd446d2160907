// Matrices that join messages: times the messages below, transposed times those above, and what to count.
//
// A message is a line of numbers per state, one for each row of data, so a matrix multiplies many rows at once.
// Tiles of 4 states by three registers of rows are added up in registers: fewer sums at a time would wait for each
// other.
#pragma once
#include "vectors.hpp"

namespace eigentree::LOOPS {

// Registers of rows of data of a tile. The last tile may go beyond the rows: lines have to be so long, and zero
// there.
constexpr int tile_registers = 3;

// Lines of messages, each named by its place in a list.
template <class T>
struct Lines {
  T* first;
  Index width;
  const Index* places;

  INLINE T* operator[](Index i) const { return first + places[i] * width; }
  INLINE Lines from(Index i) const { return {first, width, places + i}; }
};

// A number that the compiler knows.
template <int N>
struct Known {
  static constexpr int value = N;
};

// Calls f(Known<4>, i) for i = 0, 4, ..., and then for the rest of 3, 2 or 1.
template <class F>
INLINE void in_fours(Index count, F f) {
  Index i = 0;
  for (; i + 4 <= count; i += 4) f(Known<4>{}, i);
  switch (count - i) {
    case 3:
      f(Known<3>{}, i);
      break;
    case 2:
      f(Known<2>{}, i);
      break;
    case 1:
      f(Known<1>{}, i);
      break;
  }
}

// out[i] = sum over j of flipped[j][i] source[j], for one tile of rows of data. `Columns` is 0 where there are
// many.
template <int Rows, int Columns, class T>
INLINE void mix_tile(const T* flipped, Index rows, Index columns, Lines<T> source, Lines<T> out, Index start) {
  using V = Register<T>;
  V sum[Rows][tile_registers] = {};
  const Index count = Columns ? Columns : columns;
  for (Index j = 0; j < count; ++j) {
    const T* line = source[j] + start;
    V x[tile_registers];
    for (int w = 0; w < tile_registers; ++w) x[w] = load<V>(line + w * lanes<T>);
    for (int i = 0; i < Rows; ++i) {
      const V value = spread<V>(flipped[j * rows + i]);
      for (int w = 0; w < tile_registers; ++w) sum[i][w] += value * x[w];
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int w = 0; w < tile_registers; ++w) store(out[i] + start + w * lanes<T>, sum[i][w]);
}

template <int Columns, class T>
void mix_block(const T* flipped, Index rows, Index columns, Lines<T> source, Lines<T> out, Index count) {
  for (Index start = 0; start < count; start += tile_registers * lanes<T>) {
    Index first = 0;
    // With twice the registers, tiles of twice the states.
    if constexpr (EIGENTREE_REGISTER_BYTES == 64 && Columns == 0)
      for (; first + 8 <= rows; first += 8)
        mix_tile<8, Columns>(flipped + first, rows, columns, source, out.from(first), start);
    in_fours(rows - first, [=](auto number, Index k) __attribute__((always_inline)) {
      const Index i = first + k;
      mix_tile<decltype(number)::value, Columns>(flipped + i, rows, columns, source, out.from(i), start);
    });
  }
}

// Lines times a block-diagonal matrix: out[i] = sum over j of flipped[j][i] source[j] in each block.
template <class T>
void mix(const T* flipped, Index blocks, Index rows, Index columns, Lines<T> source, Lines<T> out, Index count) {
  for (Index b = 0; b < blocks; ++b) {
    switch (columns) {
      case 1:
        mix_block<1>(flipped, rows, columns, source, out, count);
        break;
      case 2:
        mix_block<2>(flipped, rows, columns, source, out, count);
        break;
      case 3:
        mix_block<3>(flipped, rows, columns, source, out, count);
        break;
      case 4:
        mix_block<4>(flipped, rows, columns, source, out, count);
        break;
      default:
        mix_block<0>(flipped, rows, columns, source, out, count);
    }
    flipped += rows * columns;
    source = source.from(columns);
    out = out.from(rows);
  }
}

// Lower and upper half of a register, added.
template <class V>
INLINE auto halves_added(V v) {
  constexpr int n = sizeof(V) / sizeof(v[0]);
  if constexpr (n == 4)
    return __builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3);
  else if constexpr (n == 8)
    return __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  else
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}

// The sum of the numbers of a register.
template <class V>
INLINE auto total(V v) {
  constexpr int n = sizeof(V) / sizeof(v[0]);
  if constexpr (n == 2)
    return v[0] + v[1];
  else
    return total(halves_added(v));
}

// sums[i][j] += sum over rows of data r of above[i][r] below[j][r].
template <int Rows, int Columns, class T>
INLINE void dot_tile(Lines<T> above, Lines<T> below, double* sums, Index stride, Index count) {
  using V = Register<T>;
  V sum[Rows][Columns] = {};
  const T *x[Rows], *y[Columns];
  for (int i = 0; i < Rows; ++i) x[i] = above[i];
  for (int j = 0; j < Columns; ++j) y[j] = below[j];
  for (Index r = 0; r < count; r += lanes<T>) {
    V a[Rows];
    for (int i = 0; i < Rows; ++i) a[i] = load<V>(x[i] + r);
    for (int j = 0; j < Columns; ++j) {
      const V b = load<V>(y[j] + r);
      for (int i = 0; i < Rows; ++i) sum[i][j] += a[i] * b;
    }
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Columns; ++j) sums[i * stride + j] += double(total(sum[i][j]));
}

template <int Rows, class T>
void dot_lines(Lines<T> above, Lines<T> below, Index columns, double* sums, Index count) {
  in_fours(columns, [=](auto number, Index j) {
    dot_tile<Rows, decltype(number)::value>(above, below.from(j), sums + j, columns, count);
  });
}

// What to count of a block-diagonal matrix: the dot products of lines above and below, for each block.
template <class T>
void dot(Index blocks, Index rows, Index columns, Lines<T> above, Lines<T> below, double* sums, Index count) {
  for (Index b = 0; b < blocks; ++b) {
    Index i = 0;
    // With twice the registers, tiles of four by four.
    if constexpr (EIGENTREE_REGISTER_BYTES == 64)
      for (; rows - i >= 4; i += 4) dot_lines<4>(above.from(i), below, columns, sums + i * columns, count);
    // Twelve sums keep a processor busy, eight nearly so; four would not.
    for (; rows - i == 3 || rows - i > 4; i += 3)
      dot_lines<3>(above.from(i), below, columns, sums + i * columns, count);
    for (; rows - i >= 2; i += 2) dot_lines<2>(above.from(i), below, columns, sums + i * columns, count);
    if (rows - i == 1) dot_lines<1>(above.from(i), below, columns, sums + i * columns, count);
    sums += rows * columns;
    above = above.from(rows);
    below = below.from(columns);
  }
}

// Both at once for few states, which wait for memory: down[j] = sum over i of values[i][j] above[i], and the
// counts.
template <int Rows, int Columns, class T>
void mix_and_dot(const T* values, Index blocks, Lines<T> above, Lines<T> below, Lines<T> down, double* sums,
                 Index count) {
  using V = Register<T>;
  for (Index b = 0; b < blocks; ++b) {
    V sum[Rows][Columns] = {}, value[Rows][Columns];
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Columns; ++j) value[i][j] = spread<V>(values[i * Columns + j]);
    for (Index r = 0; r < count; r += lanes<T>) {
      V x[Rows];
      for (int i = 0; i < Rows; ++i) x[i] = load<V>(above[i] + r);
      for (int j = 0; j < Columns; ++j) {
        const V y = load<V>(below[j] + r);
        V mixed = value[0][j] * x[0];
        for (int i = 1; i < Rows; ++i) mixed += value[i][j] * x[i];
        for (int i = 0; i < Rows; ++i) sum[i][j] += x[i] * y;
        store(down[j] + r, mixed);
      }
    }
    for (int i = 0; i < Rows; ++i)
      for (int j = 0; j < Columns; ++j) sums[i * Columns + j] += double(total(sum[i][j]));
    values += Rows * Columns;
    sums += Rows * Columns;
    above = above.from(Rows);
    below = below.from(Columns);
    down = down.from(Columns);
  }
}

}  // namespace eigentree::LOOPS
