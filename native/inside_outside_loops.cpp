#include <cmath>

#include "inside_outside.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

using Numbers = Register<double>;
constexpr Index wide = lanes<double>;

INLINE double dot(const double* a, const double* b, Index count) {
  double sum = 0.0;
  Index k = 0;
  if (count >= wide) {
    Numbers sums{};
    for (; k + wide <= count; k += wide) sums += load<Numbers>(a + k) * load<Numbers>(b + k);
    for (Index lane = 0; lane < wide; ++lane) sum += sums[lane];
  }
  for (; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

INLINE void add_multiple(double* __restrict to, const double* __restrict from, double by, Index count) {
  for (Index k = 0; k < count; ++k) to[k] += by * from[k];
}

// Scales numbers so that the largest is between 1/2 and 1, and returns by which power of two they were divided.
INLINE Index scale(double* numbers, Index count) {
  double largest = 0.0;
  for (Index k = 0; k < count; ++k) largest = larger(largest, std::fabs(numbers[k]));
  if (!(largest > 0.0) || !(largest < HUGE_VAL)) return 0;
  int exponent = 0;
  std::frexp(largest, &exponent);
  for (Index k = 0; k < count; ++k) numbers[k] = std::ldexp(numbers[k], -exponent);
  return exponent;
}

// A node, and where its messages and those of its children are.
struct Place {
  Index node, label, states, first, at, width;
  double kept;
};

INLINE Place place_of(const GrammarView& g, const TreesView& trees, Index tree, Index node) {
  const Index label = trees.labels[node], begin = trees.node_at[trees.offsets[tree]];
  return {node,
          label,
          g.states[label],
          g.state_at[label],
          trees.node_at[node] - begin,
          g.width[label],
          1.0 - g.pair[label] - g.word[label]};
}

INLINE void products(const double* left, Index lefts, const double* right, Index rights, double* __restrict pairs) {
  for (Index i = 0; i < lefts; ++i)
    for (Index j = 0; j < rights; ++j) pairs[i * rights + j] = left[i] * right[j];
}

INLINE void word_message(const GrammarView& g, const TreesView& trees, const Place& own, double* message) {
  const std::int32_t word = trees.words[own.node], pair = trees.rule[own.node];
  const double unseen = word == missing_word ? g.word[own.label] : g.word[own.label] * g.words[word];
  for (Index h = 0; h < own.states; ++h) {
    double seen = 0.0;
    if (word == missing_word)
      seen = g.any_word[own.first + h];
    else if (pair >= 0)
      seen = g.values[g.lexicon[pair].at + h * own.width];
    message[h] = own.kept * seen + unseen;
  }
}

void inside(const GrammarView& g, const TreesView& trees, Index tree, const TreeMessages& space, double* mantissa,
            Index* exponent) {
  const Index begin = trees.offsets[tree], end = trees.offsets[tree + 1];
  for (Index n = begin; n < end; ++n) {
    const Place own = place_of(g, trees, tree, n);
    double* message = space.inside + own.at;
    Index power = 0;
    if (trees.left[n] < 0) {
      word_message(g, trees, own, message);
    } else {
      const Place left = place_of(g, trees, tree, trees.left[n]), right = place_of(g, trees, tree, n - 1);
      const double* below_left = space.inside + left.at;
      const double* below_right = space.inside + right.at;
      power = space.exponent[left.node - begin] + space.exponent[right.node - begin];
      const double unseen = g.pair[own.label] == 0.0
                                ? 0.0
                                : g.pair[own.label] * dot(g.children + left.first, below_left, left.states) *
                                      dot(g.children + right.first, below_right, right.states);
      for (Index h = 0; h < own.states; ++h) message[h] = unseen;
      if (trees.rule[n] >= 0) {
        const Index pairs = left.states * right.states;
        products(below_left, left.states, below_right, right.states, space.pairs);
        const double* values = g.values + g.rules[trees.rule[n]].at;
        for (Index h = 0; h < own.states; ++h)
          message[h] += own.kept * dot(values + h * own.width, space.pairs, pairs);
      }
    }
    space.exponent[n - begin] = power + scale(message, own.states);
  }
  const Place root = place_of(g, trees, tree, end - 1);
  *mantissa = dot(g.values + root.first, space.inside + root.at, root.states);
  *exponent = space.exponent[end - 1 - begin];
}

// What is above the children of a node, and what the node adds to the counts: `factor` is one for each unit of the
// node's outside message times its inside message without scale.
void node_outside(const GrammarView& g, const TreesView& trees, Index tree, const Place& own,
                  const TreeMessages& space, double factor, double* counts) {
  const Place left = place_of(g, trees, tree, trees.left[own.node]), right = place_of(g, trees, tree, own.node - 1);
  const double *above = space.outside + own.at, *below_left = space.inside + left.at,
               *below_right = space.inside + right.at;
  double *to_left = space.outside + left.at, *to_right = space.outside + right.at;
  const Index pairs = left.states * right.states;
  double unseen = 0.0;
  for (Index h = 0; h < own.states; ++h) unseen += above[h];
  unseen *= g.pair[own.label];
  const double *as_left = g.children + left.first, *as_right = g.children + right.first;
  const double from_left = unseen == 0.0 ? 0.0 : unseen * dot(as_left, below_left, left.states);
  const double from_right = unseen == 0.0 ? 0.0 : unseen * dot(as_right, below_right, right.states);
  for (Index i = 0; i < left.states; ++i) to_left[i] = from_right * as_left[i];
  for (Index j = 0; j < right.states; ++j) to_right[j] = from_left * as_right[j];
  if (trees.rule[own.node] >= 0) {
    const Index at = g.rules[trees.rule[own.node]].at;
    double* sums = space.pairs + pairs;
    for (Index k = 0; k < pairs; ++k) sums[k] = 0.0;
    if (counts) products(below_left, left.states, below_right, right.states, space.pairs);
    for (Index h = 0; h < own.states; ++h) {
      const double by = own.kept * above[h];
      if (by == 0.0) continue;
      add_multiple(sums, g.values + at + h * own.width, by, pairs);
      if (counts) add_multiple(counts + at + h * own.width, space.pairs, by * factor, pairs);
    }
    for (Index i = 0; i < left.states; ++i) {
      to_left[i] += dot(sums + i * right.states, below_right, right.states);
      add_multiple(to_right, sums + i * right.states, below_left[i], right.states);
    }
  }
  scale(to_left, left.states);
  scale(to_right, right.states);
}

void outside(const GrammarView& g, const TreesView& trees, Index tree, const TreeMessages& space, double weight,
             double* counts, double* any) {
  const Index begin = trees.offsets[tree], end = trees.offsets[tree + 1];
  const Place root = place_of(g, trees, tree, end - 1);
  for (Index h = 0; h < root.states; ++h) space.outside[root.at + h] = g.values[root.first + h];
  const double whole = dot(space.outside + root.at, space.inside + root.at, root.states);
  const bool possible = whole != 0.0;
  if (counts && possible)
    for (Index h = 0; h < root.states; ++h) counts[root.first + h] += weight / whole * space.inside[root.at + h];
  for (Index n = end - 1; n >= begin; --n) {
    const Place own = place_of(g, trees, tree, n);
    const double* above = space.outside + own.at;
    const double both = dot(above, space.inside + own.at, own.states);
    const bool inner = trees.left[n] >= 0;
    Index power = space.exponent[n - begin];
    if (inner) power -= space.exponent[trees.left[n] - begin] + space.exponent[n - 1 - begin];
    // Where all products underflow, the node adds nothing.
    const double factor = possible && both != 0.0 ? std::ldexp(weight / both, -int(power)) : 0.0;
    double* own_counts = factor != 0.0 ? counts : nullptr;
    if (inner) {
      node_outside(g, trees, tree, own, space, factor, own_counts);
    } else if (own_counts) {
      const double by = own.kept * factor;
      if (trees.words[n] == missing_word)
        for (Index h = 0; h < own.states; ++h) any[own.first + h] += by * above[h];
      else if (trees.rule[n] >= 0)
        for (Index h = 0; h < own.states; ++h) counts[g.lexicon[trees.rule[n]].at + h * own.width] += by * above[h];
    }
  }
}

// Max-product: of equal states the first.
void decode(const GrammarView& g, const TreesView& trees, Index tree, const TreeMessages& space,
            std::int32_t* states, double* mantissa, Index* exponent) {
  const Index begin = trees.offsets[tree], end = trees.offsets[tree + 1];
  for (Index n = begin; n < end; ++n) {
    const Place own = place_of(g, trees, tree, n);
    double* message = space.inside + own.at;
    Index power = 0;
    if (trees.left[n] < 0) {
      word_message(g, trees, own, message);
    } else {
      const Place left = place_of(g, trees, tree, trees.left[n]), right = place_of(g, trees, tree, n - 1);
      power = space.exponent[left.node - begin] + space.exponent[right.node - begin];
      const Index pairs = left.states * right.states;
      double* unseen = space.pairs + pairs;
      products(space.inside + left.at, left.states, space.inside + right.at, right.states, space.pairs);
      products(g.children + left.first, left.states, g.children + right.first, right.states, unseen);
      const bool seen = trees.rule[n] >= 0;
      const double* values = seen ? g.values + g.rules[trees.rule[n]].at : g.values;
      for (Index h = 0; h < own.states; ++h) {
        double most = -1.0;
        Index best = 0;
        for (Index k = 0; k < pairs; ++k) {
          const double known = seen ? own.kept * values[h * own.width + k] : 0.0;
          const double score = (known + g.pair[own.label] * unseen[k]) * space.pairs[k];
          if (score > most) {
            most = score;
            best = k;
          }
        }
        message[h] = most;
        space.best[own.at + h] = std::int32_t(best);
      }
    }
    space.exponent[n - begin] = power + scale(message, own.states);
  }
  const Place root = place_of(g, trees, tree, end - 1);
  double most = -1.0;
  for (Index h = 0; h < root.states; ++h) {
    const double score = g.values[root.first + h] * space.inside[root.at + h];
    if (score > most) {
      most = score;
      states[end - 1] = std::int32_t(h);
    }
  }
  *mantissa = most;
  *exponent = space.exponent[end - 1 - begin];
  for (Index n = end - 1; n >= begin; --n) {
    if (trees.left[n] < 0) continue;
    const Place own = place_of(g, trees, tree, n);
    const Index rights = g.states[trees.labels[n - 1]], best = space.best[own.at + states[n]];
    states[trees.left[n]] = std::int32_t(best / rights);
    states[n - 1] = std::int32_t(best % rights);
  }
}

}  // namespace
}  // namespace LOOPS

const InsideOutsideLoops EIGENTREE_JOIN(inside_outside_loops_, EIGENTREE_INSTRUCTIONS) = {
    LOOPS::inside, LOOPS::outside, LOOPS::decode};

}  // namespace eigentree
