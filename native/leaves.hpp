// Leaves turn codes into messages, and distributions into counts of codes. The values of a code stand together:
// four of them are read or added to at once, for four rows of data, and transposed.
#pragma once
#include "vectors.hpp"

namespace eigentree::LOOPS {

// Rows of data at a time, states at a time, and copies of the counts: neighbouring rows with equal codes need not
// wait for each other's sum.
constexpr int four = 4;

// The vectors of all first, second, third and fourth numbers. Halves first, then neighbours: the cheapest way on
// processors whose registers have two halves.
template <class V>
INLINE void transpose(V (&rows)[four]) {
  const V low_even = __builtin_shufflevector(rows[0], rows[2], 0, 1, 4, 5);
  const V low_odd = __builtin_shufflevector(rows[1], rows[3], 0, 1, 4, 5);
  const V high_even = __builtin_shufflevector(rows[0], rows[2], 2, 3, 6, 7);
  const V high_odd = __builtin_shufflevector(rows[1], rows[3], 2, 3, 6, 7);
  rows[0] = __builtin_shufflevector(low_even, low_odd, 0, 4, 2, 6);
  rows[1] = __builtin_shufflevector(low_even, low_odd, 1, 5, 3, 7);
  rows[2] = __builtin_shufflevector(high_even, high_odd, 0, 4, 2, 6);
  rows[3] = __builtin_shufflevector(high_even, high_odd, 1, 5, 3, 7);
}

// N states of four rows.
template <bool Multiply, int N, class T>
INLINE void look_up_states(const T* const (&from)[four], Index state, T* lines, Index width) {
  using Four = Vector<T, four>;
  Four found[four];
  if constexpr (N == four) {
    for (int k = 0; k < four; ++k) found[k] = load<Four>(from[k] + state);
    transpose(found);
  } else {
    for (int n = 0; n < N; ++n)
      found[n] = Four{from[0][state + n], from[1][state + n], from[2][state + n], from[3][state + n]};
  }
  for (int n = 0; n < N; ++n) {
    T* const out = lines + (state + n) * width;
    store(out, Multiply ? Four(found[n] * load<Four>(out)) : found[n]);
  }
}

// Writes the message of a leaf, lines[p][r] = values[code(r)][p], or multiplies lines by it. Beyond the last row
// the last code is read again: what is multiplied there is zero, and what is written there is set to zero.
template <bool Multiply, class T, class Code>
void look_up(const T* values, Index bond, const Code* codes, Index count, T* lines, Index width) {
  const Index whole = bond - bond % four;
  for (Index r = 0; r < count; r += four) {
    const T* from[four];
    for (int k = 0; k < four; ++k) from[k] = values + Index(codes[smaller(r + k, count - 1)]) * bond;
    for (Index p = 0; p < whole; p += four) look_up_states<Multiply, four>(from, p, lines + r, width);
    switch (bond - whole) {
      case 3:
        look_up_states<Multiply, 3>(from, whole, lines + r, width);
        break;
      case 2:
        look_up_states<Multiply, 2>(from, whole, lines + r, width);
        break;
      case 1:
        look_up_states<Multiply, 1>(from, whole, lines + r, width);
        break;
    }
  }
  if (!Multiply)
    for (Index r = count; r % four != 0; ++r)
      for (Index p = 0; p < bond; ++p) lines[p * width + r] = T(0);
}

template <int N, class T>
INLINE void count_states(const T* lines, Index width, Index state, double* const (&sums)[four]) {
  using Four = Vector<T, four>;
  Four found[four] = {};
  for (int n = 0; n < N; ++n) found[n] = load<Four>(lines + (state + n) * width);
  if constexpr (N == four) {
    using Doubles = Vector<double, four>;
    transpose(found);
    for (int k = 0; k < four; ++k) {
      double* const to = sums[k] + state;
      store(to, Doubles(load<Doubles>(to) + __builtin_convertvector(found[k], Doubles)));
    }
  } else {
    for (int k = 0; k < four; ++k)
      for (int n = 0; n < N; ++n) sums[k][state + n] += double(found[n][k]);
  }
}

// Adds each row's distribution to its code: sums[code(r)][p] += lines[p][r]. Beyond the last row lines are zero.
template <class T, class Code>
void count_codes(const T* lines, Index width, Index bond, const Code* codes, Index count, double* sums,
                 Index apart) {
  const Index whole = bond - bond % four;
  for (Index r = 0; r < count; r += four) {
    double* to[four];
    for (int k = 0; k < four; ++k) to[k] = sums + k * apart + Index(codes[smaller(r + k, count - 1)]) * bond;
    for (Index p = 0; p < whole; p += four) count_states<four>(lines + r, width, p, to);
    switch (bond - whole) {
      case 3:
        count_states<3>(lines + r, width, whole, to);
        break;
      case 2:
        count_states<2>(lines + r, width, whole, to);
        break;
      case 1:
        count_states<1>(lines + r, width, whole, to);
        break;
    }
  }
}

}  // namespace eigentree::LOOPS
