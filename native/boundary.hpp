// What stands between Python and the loops: arrays of known type, shape and contiguity, and checks that no code,
// place or size leads outside an array. Checks happen once per call, before the GIL is let go.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "instructions.hpp"

namespace eigentree {

namespace nb = nanobind;

// Arrays that are read and arrays that are written. No argument may be converted on the way in (use `given`): what
// is written into a copy would be lost.
template <class T, int D = 1>
using In = nb::ndarray<const T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;
template <class T, int D = 1>
using Out = nb::ndarray<T, nb::ndim<D>, nb::c_contig, nb::device::cpu>;

inline auto given(const char* name) { return nb::arg(name).noconvert(); }

[[noreturn]] inline void refuse(const std::string& why) {
  throw nb::value_error(("eigentree.core: " + why).c_str());
}

inline void check(bool holds, const char* why) {
  if (!holds) refuse(why);
}

}  // namespace eigentree
