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
template <class Work>
INLINE void in_tiles(Index size, Work work) {
  Index done = 0;
  for (; done + 8 <= size; done += 8) work(done, Width<8>{});
  if (done + 4 <= size) work(done, Width<4>{}), done += 4;
  if (done + 2 <= size) work(done, Width<2>{}), done += 2;
  if (done < size) work(done, Width<1>{});
}

// sum_k factors[k * apart] lines[k * stride + (0 ... N - 1)], in two sums that do not wait for each other.
template <int N>
INLINE Vector<double, N> weighted_sum(const double* factors, Index apart, const double* lines, Index stride,
                                      Index count) {
  using V = Vector<double, N>;
  V even = {}, odd = {};
  Index k = 0;
  for (; k + 2 <= count; k += 2) {
    even += spread<V>(factors[k * apart]) * load<V>(lines + k * stride);
    odd += spread<V>(factors[(k + 1) * apart]) * load<V>(lines + (k + 1) * stride);
  }
  if (k < count) even += spread<V>(factors[k * apart]) * load<V>(lines + k * stride);
  return even + odd;
}

INLINE double total_of(const double* numbers, Index size) {
  using V = Vector<double, 8>;
  V sums = {};
  Index k = 0;
  for (; k + 8 <= size; k += 8) sums += load<V>(numbers + k);
  double total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; k < size; ++k) total += numbers[k];
  return total;
}

// m_t(z') = p(x_t | z') sum_z m_{t-1}(z) p(z' | z), where `before` is of no use at step 0.
template <int K>
INLINE void step_on(const HiddenChain& chain, Index t, const double* before, const double* emission, double* here) {
  const Index states = K ? K : chain.states;
  const Link link = link_of(t, states, chain.order);
  for (Index r = 0; r < link.rest; ++r)
    in_tiles(states, [&](Index first, auto width) {
      using V = Vector<double, width.count>;
      const double* lines = chain.links + link.offset + r * states + first;
      const V sum = t == 0 ? load<V>(lines)
                           : weighted_sum<width.count>(before + r, link.rest, lines, link.rest * states,
                                                       K && link.dropped > 1 ? K : link.dropped);
      store(here + r * states + first, V(sum * load<V>(emission + first)));
    });
}

// a_{t-1}(z) = sum_z' p(z' | z) s_t(z'), where s_t(z') = p(x_t | z') a_t(z'). `turned` are the links with the
// dropped state fastest.
template <int K>
INLINE void step_back(const HiddenChain& chain, const double* turned, Index t, const double* seen, double* ahead) {
  const Index states = K ? K : chain.states;
  const Link link = link_of(t, states, chain.order);
  for (Index r = 0; r < link.rest; ++r)
    in_tiles(K && link.dropped > 1 ? K : link.dropped, [&](Index first, auto width) {
      const double* lines = turned + link.offset + r * states * link.dropped + first;
      const auto sum = weighted_sum<width.count>(seen + r * states, 1, lines, link.dropped, states);
      if (link.rest == 1)
        store(ahead + first, sum);
      else
        for (int d = 0; d < width.count; ++d) ahead[(first + d) * link.rest + r] = sum[d];
    });
}

}  // namespace eigentree::LOOPS
