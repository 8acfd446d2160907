// Arrays of codes of 8, 16 or 32 bits without a sign, whose type is known when they are given.
#pragma once
#include "boundary.hpp"

namespace eigentree {

template <int D>
using InAny = Aligned<nb::ndarray<nb::ro, nb::ndim<D>, nb::c_contig, nb::device::cpu>>;
template <int D>
using OutAny = Aligned<nb::ndarray<nb::ndim<D>, nb::c_contig, nb::device::cpu>>;

// 0, 1 or 2 for codes of 8, 16 or 32 bits.
template <class Array>
int code_type(const Array& codes) {
  for (int k = 0; k < 3; ++k)
    if (codes.dtype() == nb::dlpack::dtype{std::uint8_t(nb::dlpack::dtype_code::UInt), std::uint8_t(8 << k), 1})
      return k;
  throw nb::type_error("eigentree.core: codes are of 8, 16 or 32 bits without a sign");
}

}  // namespace eigentree
