// What stands between Python and the loops: arrays of known type, shape and contiguity, and checks that no code,
// place or size leads outside an array. Checks happen once per call, before the GIL is let go.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>

#include "instructions.hpp"

namespace eigentree {

namespace nb = nanobind;

// An array whose numbers stand at multiples of their size, as compilers take for granted: slices of bytes, viewed
// as numbers, need not.
template <class Array>
struct Aligned : Array {
  Aligned() = default;
  explicit Aligned(const Array& array) : Array(array) {}
};

// Arrays that are read and arrays that are written. No argument may be converted on the way in (use `given`): what
// is written into a copy would be lost.
template <class T, int D = 1>
using In = Aligned<nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>>;
template <class T, int D = 1>
using Out = Aligned<nb::ndarray<T, nb::ndim<D>, nb::c_contig, nb::device::cpu>>;

inline auto given(const char* name) { return nb::arg(name).noconvert(); }

[[noreturn]] inline void refuse(const std::string& why) {
  throw nb::value_error(("eigentree.core: " + why).c_str());
}

inline void check(bool holds, const char* why) {
  if (!holds) refuse(why);
}

// Whether two arrays have no byte in common.
template <class A, class B>
bool apart(const A& a, const B& b) {
  const auto first = [](const auto& array) { return reinterpret_cast<std::uintptr_t>(array.data()); };
  const bool empty = a.size() == 0 || b.size() == 0;
  return empty || first(a) + a.nbytes() <= first(b) || first(b) + b.nbytes() <= first(a);
}

// What is written must not change what was checked.
template <class Written, class... Checked>
void check_apart(const Written& written, const Checked&... checked) {
  check((apart(written, checked) && ...), "codes or places share memory with what is written");
}

// Flags that are 0 or 1: bytes of any value can be viewed as an array of bool, and compilers rely on these two.
inline std::unique_ptr<bool[]> copied_flags(const In<bool>& flags) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(flags.data());
  auto copy = std::make_unique<bool[]>(flags.shape(0));
  for (std::size_t k = 0; k < flags.shape(0); ++k) copy[k] = bytes[k] != 0;
  return copy;
}

}  // namespace eigentree

template <class Array>
struct nanobind::detail::type_caster<eigentree::Aligned<Array>> {
  NB_TYPE_CASTER(eigentree::Aligned<Array>, make_caster<Array>::Name)

  template <class Flags>
  bool from_python(handle source, Flags flags, cleanup_list* cleanup) noexcept {
    make_caster<Array> given;
    if (!given.from_python(source, flags, cleanup)) return false;
    value = Value(given.value);
    return value.size() == 0 || reinterpret_cast<std::uintptr_t>(value.data()) % value.itemsize() == 0;
  }
};
