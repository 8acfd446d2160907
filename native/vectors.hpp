// Registers of numbers: the compiler's own vectors, which any processor has, since what is wider than a register is
// the compiler's matter. Included by loops only, which are compiled once for each instruction set.
#pragma once
#include <cstdint>
#include <cstring>

#define EIGENTREE_JOIN_(a, b) a##b
#define EIGENTREE_JOIN(a, b) EIGENTREE_JOIN_(a, b)
// One name space for each instruction set: the linker would keep one copy of each template for all otherwise. For
// the same reason loops use no templates of the standard library (std::vector, std::min): numbers, pointers,
// <cmath> on doubles.
#define LOOPS EIGENTREE_JOIN(loops_, EIGENTREE_INSTRUCTIONS)
#define INLINE inline __attribute__((always_inline))

namespace eigentree::LOOPS {

using Index = std::int64_t;

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

// How many numbers a register holds, and a register of them.
template <class T>
constexpr int lanes = EIGENTREE_REGISTER_BYTES / int(sizeof(T));
template <class T>
using Register = Vector<T, lanes<T>>;

template <class V, class T>
INLINE V load(const T* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <class V, class T>
INLINE void store(T* to, V v) {
  std::memcpy(to, &v, sizeof v);
}
template <class V, class T>
INLINE V spread(T number) {
  return number - V{};  // number + 0 would be computed, for the sake of the sign of zero
}

template <class T>
INLINE T smaller(T a, T b) {
  return b < a ? b : a;
}
template <class T>
INLINE T larger(T a, T b) {
  return a < b ? b : a;
}

}  // namespace eigentree::LOOPS
