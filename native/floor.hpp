// What trees and sequences of learned operators have in common at the boundary: floors and codes.
#pragma once
#include "boundary.hpp"
#include "chain_rule.hpp"

namespace eigentree {

struct FloorArrays {
  double share;
  In<double> marginals;
  In<std::int64_t> first;

  // The distribution of a column is inside the marginals.
  void check_column(std::int64_t column, std::int64_t states) const {
    const std::int64_t size = std::int64_t(marginals.shape(0));
    check(column >= 0 && column < std::int64_t(first.shape(0)), "every column has a marginal");
    check(states > 0 && states <= size, "marginals of as many states as a column has");
    check(first(column) >= 0 && first(column) <= size - states, "marginals of a column inside the array");
  }

  Floor floor() const { return {share, marginals.data(), first.data()}; }
};

template <class Code>
void check_codes(const Code* codes, std::int64_t count, std::int64_t most) {
  Code largest = 0;
  for (std::int64_t r = 0; r < count; ++r) largest = codes[r] > largest ? codes[r] : largest;
  check(count == 0 || std::int64_t(largest) <= most, "a code is beyond those of its column");
}

}  // namespace eigentree
