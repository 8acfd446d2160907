// A hidden Markov chain of any order, as the loops of sequences read it.
#pragma once
#include <cstdint>

namespace eigentree {

// The tables P(z_t | earlier states) stand end to end in `links`: of state 0, of state 1 given state 0, ..., and
// last the one of all further steps, given as many states as the order; earlier states first, z_t last. A message
// has a number for each value of the latest `order` states (fewer in the first steps), the latest state fastest.
struct HiddenChain {
  const double* links;
  std::int64_t link_numbers, states, order, widest;  // widest: numbers of a full message, states^order
};

// The table of step t: where it begins, how many values of the oldest state the step sums over (one, while the
// message still grows), and how many values the states between the oldest and the new one have together.
struct Link {
  std::int64_t offset, dropped, rest;
};

inline __attribute__((always_inline)) Link link_of(std::int64_t t, std::int64_t states, std::int64_t order) {
  std::int64_t offset = 0, rest = 1;
  for (std::int64_t k = 0; k < (t < order ? t : order); ++k) {
    offset += rest * states;
    rest *= states;
  }
  if (t >= order) return {offset, states, rest / states};
  return {offset, 1, rest};
}

}  // namespace eigentree
