// What all loops over sequences check of a chain and of sequences.
#pragma once
#include "boundary.hpp"
#include "hidden_chain.hpp"

namespace eigentree {

// The chain whose tables stand end to end.
inline HiddenChain checked_chain(const In<double>& links, std::int64_t states, std::int64_t order) {
  const std::int64_t numbers = std::int64_t(links.shape(0));
  check(states > 0 && order > 0, "a chain has at least one state and is of order 1 or more");
  std::int64_t widest = 1, total = 0;
  for (std::int64_t k = 0; k <= order; ++k) {
    check(widest <= (numbers - total) / states, "links are too few for these states and this order");
    total += widest * states;
    if (k < order) widest *= states;
  }
  check(total == numbers, "links are too many for these states and this order");
  return {links.data(), numbers, states, order, widest};
}

inline void check_starts(const In<std::int64_t>& starts, std::int64_t steps) {
  const std::int64_t count = std::int64_t(starts.shape(0));
  check(count > 0 && starts(0) == 0 && starts(count - 1) == steps, "starts go from 0 to the number of steps");
  for (std::int64_t k = 1; k < count; ++k) check(starts(k) >= starts(k - 1), "starts never fall");
}

}  // namespace eigentree
