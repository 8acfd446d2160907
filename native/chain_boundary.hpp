// What all loops over sequences check of a chain and of sequences.
#pragma once
#include <memory>
#include <vector>

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

// The links with the dropped state fastest: (rest, new state, dropped).
inline std::vector<double> turned_links(const HiddenChain& chain) {
  std::vector<double> turned(chain.links, chain.links + chain.link_numbers);
  for (std::int64_t t = 1; t <= chain.order; ++t) {
    const Link link = link_of(t, chain.states, chain.order);
    const std::int64_t kept = link.rest * chain.states;
    for (std::int64_t d = 0; d < link.dropped; ++d)
      for (std::int64_t z = 0; z < kept; ++z)
        turned[std::size_t(link.offset + z * link.dropped + d)] = chain.links[link.offset + d * kept + z];
  }
  return turned;
}

// Numbers that the loops write before they read them.
template <class T>
struct Space {
  std::unique_ptr<T[]> numbers;
  explicit Space(std::int64_t count) : numbers(new T[std::size_t(count)]) {}
  operator T*() const { return numbers.get(); }
};

}  // namespace eigentree
