#include <cmath>

#include "parsing.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

// The power of two of a span that is impossible: it loses against all others.
constexpr Index Impossible = -(Index(1) << 40);

// out += factor * from.
INLINE void add(double* out, const double* from, double factor, Index count) {
  using Part = Vector<double, 4>;
  Index n = 0;
  for (; n + 4 <= count; n += 4) store(out + n, load<Part>(out + n) + factor * load<Part>(from + n));
  for (; n < count; ++n) out[n] += factor * from[n];
}

INLINE double dot(const double* a, const double* b, Index count) {
  using Part = Vector<double, 4>;
  Part sums{}, others{};
  Index n = 0;
  for (; n + 8 <= count; n += 8) {
    sums += load<Part>(a + n) * load<Part>(b + n);
    others += load<Part>(a + n + 4) * load<Part>(b + n + 4);
  }
  sums += others;
  double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (; n < count; ++n) sum += a[n] * b[n];
  return sum;
}

INLINE void clear(double* out, Index count) {
  for (Index n = 0; n < count; ++n) out[n] = 0.0;
}

// The passes where all labels have one state (Single), or any number of them.
template <bool Single>
class Passes {
 public:
  Passes(const ChartRules& given_rules, const Chart& given_chart)
      : rules(given_rules), chart(given_chart), ends(given_chart.words + 1) {}

  double run() const {
    const Index words = chart.words;
    prepare();
    for (Index width = 1; width <= words; ++width)
      for (Index i = 0; i + width <= words; ++i) inside(i, i + width);
    for (Index n = 0; n < chart.first_cell[spans()]; ++n) chart.posteriors[n] = 0.0;
    double total = 0.0;
    each_cell(0, words, [&](Index, Index a, Index at) {
      total += dot(rules.root + rules.state_at[a], chart.inside + at, states(a));
    });
    if (!(total > 0.0)) return -HUGE_VAL;
    each_cell(0, words, [&](Index, Index a, Index at) {
      add(chart.outside + at, rules.root + rules.state_at[a], 1.0 / total, states(a));
    });
    for (Index width = words; width >= 1; --width)
      for (Index i = 0; i + width <= words; ++i) outside(i, i + width);
    return std::log(total) + double(chart.power[words]) * std::log(2.0);
  }

 private:
  const ChartRules& rules;
  const Chart& chart;
  const Index ends;

  Index spans() const { return chart.words * ends / 2; }
  Index span(Index i, Index j) const { return i * chart.words - i * (i - 1) / 2 + (j - i - 1); }
  Index states(Index label) const { return Single ? 1 : rules.states[label]; }
  std::int32_t& place(Index label, Index i, Index j) const { return chart.place[(label * ends + i) * ends + j]; }
  std::uint64_t* begun(Index label, Index i) const { return chart.begun + (label * ends + i) * chart.bits; }
  std::uint64_t* ended(Index label, Index j) const { return chart.ended + (label * ends + j) * chart.bits; }

  // Calls f(cell, label, where its vectors are) for the cells of a span.
  template <class F>
  INLINE void each_cell(Index i, Index j, F f) const {
    const Index here = span(i, j);
    for (Index n = chart.first_cell[here]; n < chart.first_cell[here + 1]; ++n)
      f(n, chart.labels[n], place(chart.labels[n], i, j));
  }

  // Calls f(right child, pair) for the pairs of labels that can be neighbours between i and j.
  template <class F>
  INLINE void each_pair(Index i, Index j, F f) const {
    for (Index b = 0; b < rules.labels; ++b) {
      bool possible = false;
      for (Index n = 0; n < chart.bits; ++n) possible |= begun(b, i)[n] != 0;
      if (!possible) continue;
      for (Index p = rules.first_pair[b]; p < rules.first_pair[b + 1]; ++p) {
        const Index c = rules.right[p];
        bool split = false;
        for (Index n = 0; n < chart.bits; ++n) split |= (begun(b, i)[n] & ended(c, j)[n]) != 0;
        if (split) f(b, c, p);
      }
    }
  }

  // Calls f(k, left vector's place, right vector's place) where a pair of labels can be split between i and j.
  template <class F>
  INLINE void each_split(Index b, Index c, Index i, Index j, F f) const {
    for (Index n = 0; n < chart.bits; ++n)
      for (std::uint64_t left = begun(b, i)[n] & ended(c, j)[n]; left; left &= left - 1) {
        const Index k = 64 * n + __builtin_ctzll(left);
        f(k, place(b, i, k), place(c, k, j));
      }
  }

  void prepare() const {
    const Index all = rules.labels * ends;
    for (Index n = 0; n < all * ends; ++n) chart.place[n] = -1;
    for (Index n = 0; n < all * chart.bits; ++n) chart.begun[n] = chart.ended[n] = 0;
    for (Index n = 0; n < ends * ends; ++n) chart.any_inside[n] = chart.any_outside[n] = 0.0;
    Index at = 0;
    for (Index i = 0; i < chart.words; ++i)
      for (Index j = i + 1; j < ends; ++j)
        for (Index n = chart.first_cell[span(i, j)]; n < chart.first_cell[span(i, j) + 1]; ++n) {
          place(chart.labels[n], i, j) = std::int32_t(at);
          at += states(chart.labels[n]);
        }
    clear(chart.inside, at);
    clear(chart.outside, at);
  }

  // What the two vectors of a split are multiplied by, beside the power of their span.
  void weigh(Index i, Index j, Index power) const {
    for (Index k = i + 1; k < j; ++k) {
      const Index own = chart.power[i * ends + k] + chart.power[k * ends + j] - power;
      chart.weights[k] = std::ldexp(1.0, int(larger(own, Index(-2000))));
    }
  }

  void inside(Index i, Index j) const {
    Index power = 0;
    if (j == i + 1) {
      each_cell(i, j, [&](Index, Index a, Index at) {
        add(chart.inside + at, chart.emissions + i * rules.all_states + rules.state_at[a], 1.0, states(a));
      });
    } else {
      power = chart.power[i * ends + i + 1] + chart.power[(i + 1) * ends + j];
      for (Index k = i + 2; k < j; ++k)
        power = larger(power, chart.power[i * ends + k] + chart.power[k * ends + j]);
      weigh(i, j, power);
      join(i, j);
    }
    double largest = 0.0;
    each_cell(i, j, [&](Index, Index a, Index at) {
      for (Index s = 0; s < states(a); ++s) largest = larger(largest, std::fabs(chart.inside[at + s]));
    });
    int shift = 0;
    std::frexp(largest, &shift);
    chart.power[i * ends + j] = largest > 0.0 ? power + shift : Impossible;
    const double factor = largest > 0.0 ? std::ldexp(1.0, -shift) : 0.0;
    double any = 0.0;
    each_cell(i, j, [&](Index, Index a, Index at) {
      double* own = chart.inside + at;
      bool possible = false;
      for (Index s = 0; s < states(a); ++s) {
        own[s] *= factor;
        possible |= own[s] != 0.0;
      }
      any += dot(own, rules.children + rules.state_at[a], states(a));
      if (!possible) return;
      begun(a, i)[j / 64] |= std::uint64_t(1) << j % 64;
      ended(a, j)[i / 64] |= std::uint64_t(1) << i % 64;
    });
    chart.any_inside[i * ends + j] = any;
  }

  void join(Index i, Index j) const {
    double any = 0.0;
    for (Index k = i + 1; k < j; ++k)
      any += chart.weights[k] * chart.any_inside[i * ends + k] * chart.any_inside[k * ends + j];
    each_cell(i, j, [&](Index, Index a, Index at) {
      add(chart.inside + at, rules.pair + rules.state_at[a], any, states(a));
    });
    each_pair(i, j, [&](Index b, Index c, Index p) {
      const Index left_states = states(b), right_states = states(c), pairs = left_states * right_states;
      bool summed = false;
      for (Index r = rules.first_rule[p]; r < rules.first_rule[p + 1]; ++r) {
        const Index a = rules.parents[r], at = place(a, i, j);
        if (at < 0) continue;
        if (!summed) {
          clear(chart.pairs, pairs);
          each_split(b, c, i, j, [&](Index k, Index left, Index right) {
            for (Index t = 0; t < left_states; ++t)
              add(chart.pairs + t * right_states, chart.inside + right, chart.weights[k] * chart.inside[left + t],
                  right_states);
          });
          summed = true;
        }
        const double* values = rules.values + rules.first_value[r];
        for (Index s = 0; s < states(a); ++s) chart.inside[at + s] += dot(values + s * pairs, chart.pairs, pairs);
      }
    });
  }

  void outside(Index i, Index j) const {
    double any = 0.0;
    each_cell(i, j, [&](Index n, Index a, Index at) {
      double* own = chart.outside + at;
      add(own, rules.children + rules.state_at[a], chart.any_outside[i * ends + j], states(a));
      chart.posteriors[n] = dot(own, chart.inside + at, states(a));
      any += dot(rules.pair + rules.state_at[a], own, states(a));
    });
    if (j == i + 1 || chart.power[i * ends + j] == Impossible) return;
    weigh(i, j, chart.power[i * ends + j]);
    if (any != 0.0)
      for (Index k = i + 1; k < j; ++k) {
        const double own = any * chart.weights[k];
        chart.any_outside[i * ends + k] += own * chart.any_inside[k * ends + j];
        chart.any_outside[k * ends + j] += own * chart.any_inside[i * ends + k];
      }
    each_pair(i, j, [&](Index b, Index c, Index p) {
      const Index left_states = states(b), right_states = states(c), pairs = left_states * right_states;
      bool possible = false;
      for (Index r = rules.first_rule[p]; r < rules.first_rule[p + 1]; ++r) {
        const Index a = rules.parents[r], at = place(a, i, j);
        if (at < 0) continue;
        if (!possible) clear(chart.pairs, pairs);
        possible = true;
        const double* values = rules.values + rules.first_value[r];
        for (Index s = 0; s < states(a); ++s) add(chart.pairs, values + s * pairs, chart.outside[at + s], pairs);
      }
      if (!possible) return;
      each_split(b, c, i, j, [&](Index k, Index left, Index right) {
        const double weight = chart.weights[k];
        for (Index t = 0; t < left_states; ++t) {
          const double* line = chart.pairs + t * right_states;
          chart.outside[left + t] += weight * dot(line, chart.inside + right, right_states);
          add(chart.outside + right, line, weight * chart.inside[left + t], right_states);
        }
      });
    });
  }
};

double fill(const ChartRules& rules, const Chart& chart) {
  if (rules.all_states == rules.labels) return Passes<true>(rules, chart).run();
  return Passes<false>(rules, chart).run();
}

}  // namespace
}  // namespace LOOPS

const ParsingLoops EIGENTREE_JOIN(parsing_loops_, EIGENTREE_INSTRUCTIONS) = {LOOPS::fill};

}  // namespace eigentree
