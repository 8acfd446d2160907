// A step of one sequence under a hidden chain, for a known number of states K, or any (0). Sums over states stand
// beside each other in the registers.
#pragma once
#include "hidden_chain.hpp"
#include "vectors.hpp"

namespace eigentree::LOOPS {

template <int N>
struct Width {
  static constexpr int count = N;
};

// work(first, width) for numbers in tiles of a known width, whose sums stay in registers.
template <int K, class Work>
INLINE void in_tiles(Index size, Work work) {
  if constexpr (K > 0) return work(Index(0), Width<K>{});
  Index done = 0;
  for (; done + 8 <= size; done += 8) work(done, Width<8>{});
  if (done + 4 <= size) work(done, Width<4>{}), done += 4;
  if (done + 2 <= size) work(done, Width<2>{}), done += 2;
  if (done < size) work(done, Width<1>{});
}

// m_t(z') = p(x_t | z') sum_z m_{t-1}(z) p(z' | z), where `before` is of no use at step 0; returns its total.
template <int K>
INLINE double step_on(const HiddenChain& chain, Index t, const double* before, const double* emission,
                      double* here) {
  const Index states = K ? K : chain.states;
  const Link link = link_of(t, states, chain.order);
  double total = 0.0;
  for (Index r = 0; r < link.rest; ++r)
    in_tiles<K>(states, [&](Index first, auto width) {
      double sums[width.count] = {};
      const double* line = chain.links + link.offset + r * states + first;
      const double* from = before + r;
      if (t == 0)
        for (int j = 0; j < width.count; ++j) sums[j] = line[j];
      else
        for (Index d = 0; d < link.dropped; ++d, line += link.rest * states, from += link.rest)
          for (int j = 0; j < width.count; ++j) sums[j] += *from * line[j];
      for (int j = 0; j < width.count; ++j) {
        const double number = sums[j] * emission[first + j];
        here[r * states + first + j] = number;
        total += number;
      }
    });
  return total;
}

// a_{t-1}(z) = sum_z' p(z' | z) s_t(z'), where s_t(z') = p(x_t | z') a_t(z'); returns its largest number. `turned`
// are the links with the dropped state fastest.
template <int K>
INLINE double step_back(const HiddenChain& chain, const double* turned, Index t, const double* seen,
                        double* ahead) {
  const Index states = K ? K : chain.states;
  const Link link = link_of(t, states, chain.order);
  double largest = 0.0;
  const auto tile = [&](Index r, Index first, auto width) {
    double sums[width.count] = {};
    const double* line = turned + link.offset + r * states * link.dropped + first;
    for (Index j = 0; j < states; ++j, line += link.dropped)
      for (int d = 0; d < width.count; ++d) sums[d] += line[d] * seen[r * states + j];
    for (int d = 0; d < width.count; ++d) {
      ahead[(first + d) * link.rest + r] = sums[d];
      largest = larger(largest, sums[d]);
    }
  };
  for (Index r = 0; r < link.rest; ++r)
    if (link.dropped == 1)
      tile(r, 0, Width<1>{});
    else
      in_tiles<K>(states, [&](Index first, auto width) { tile(r, first, width); });
  return largest;
}

}  // namespace eigentree::LOOPS
