#include <cmath>

#include "sampling.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

// Max-product in logarithms, so that nothing underflows: for each index on a node's bond with its parent,
//   score[p] = max over entries e with parent index p of log value_e(cell) + sum over children k of score_k[i_ke],
// and over the states of the node's own column where that is decoded.
template <class Code>
void score_up(const OperatorTreeView& tree, Index n, const Code* codes, Index rows, Index r,
              const DecodingSpace& space, const bool* decoded) {
  const OperatorNode& node = tree.nodes[n];
  const Index line = tree.line[n];
  for (Index p = line; p < line + node.bond; ++p) {
    space.score[p] = -HUGE_VAL;
    space.entry[p] = node.first_entry;
    space.state[p] = 0;
  }
  Index first = 0, last = 1;
  if (node.columns > 0) {
    const OwnColumn& own = tree.columns[node.first_column];
    first = codes[own.column * rows + r];
    last = first + 1;
    if (first == own.states && decoded[own.column]) {
      first = 0;
      last = own.states;
    }
  }
  Index below[most_children];
  for (Index k = 0; k < node.children; ++k) below[k] = tree.line[tree.child[node.first_child + k]];
  for (Index state = first; state < last; ++state) {
    const double* values = tree.values + node.first_value + state * node.entries;
    for (Index e = 0; e < node.given; ++e) {
      const std::int32_t* index = tree.index + legs * (node.first_entry + e);
      double score = 0.0;
      for (Index k = 0; k < node.children; ++k) score += space.score[below[k] + index[k + 1]];
      score += values[e];
      const Index at = line + index[0];
      if (score > space.score[at]) {
        space.score[at] = score;
        space.entry[at] = node.first_entry + e;
        space.state[at] = state;
      }
    }
  }
}

template <class Code>
void decode_rows(const OperatorTreeView& tree, Code* codes, Index rows, const DecodingSpace& space,
                 const bool* decoded, const std::int64_t* given_entry, std::int64_t* entries, double* log_prob) {
  for (Index r = 0; r < rows; ++r) {
    for (Index n = tree.count - 1; n >= 0; --n) score_up(tree, n, codes, rows, r, space, decoded);
    log_prob[r] = space.score[tree.line[0]];
    // An impossible row is left as it is.
    if (!(log_prob[r] > -HUGE_VAL)) continue;
    space.chosen[0] = 0;
    for (Index n = 0; n < tree.count; ++n) {
      const OperatorNode& node = tree.nodes[n];
      const Index at = tree.line[n] + space.chosen[n], e = space.entry[at];
      entries[n * rows + r] = given_entry[e];
      for (Index k = 0; k < node.children; ++k)
        space.chosen[tree.child[node.first_child + k]] = tree.index[legs * e + k + 1];
      if (node.columns > 0) {
        const OwnColumn& own = tree.columns[node.first_column];
        Code& cell = codes[own.column * rows + r];
        if (Index(cell) == own.states && decoded[own.column]) cell = Code(space.state[at]);
      }
    }
  }
}

void decode(const OperatorTreeView& tree, const CodesView& codes, const DecodingSpace& space, const bool* decoded,
            const std::int64_t* given_entry, std::int64_t* entries, double* log_prob) {
  if (codes.bytes == 1)
    decode_rows(tree, static_cast<std::uint8_t*>(codes.cells), codes.rows, space, decoded, given_entry, entries,
                log_prob);
  else if (codes.bytes == 2)
    decode_rows(tree, static_cast<std::uint16_t*>(codes.cells), codes.rows, space, decoded, given_entry, entries,
                log_prob);
  else
    decode_rows(tree, static_cast<std::uint32_t*>(codes.cells), codes.rows, space, decoded, given_entry, entries,
                log_prob);
}

// The state whose stretch of the row's cumulative distribution holds the uniform number, by bisection.
void choose(const double* cumulative, std::int64_t states, const std::int64_t* given, const double* uniform,
            std::int64_t rows, std::int64_t* chosen) {
  for (Index r = 0; r < rows; ++r) {
    const double* line = cumulative + given[r] * states;
    const double level = uniform[r] * line[states - 1];
    Index low = 0, high = states - 1;
    while (low < high) {
      const Index middle = (low + high) / 2;
      if (line[middle] > level)
        high = middle;
      else
        low = middle + 1;
    }
    chosen[r] = low;
  }
}

}  // namespace
}  // namespace LOOPS

const SamplingLoops EIGENTREE_JOIN(sampling_loops_, EIGENTREE_INSTRUCTIONS) = {LOOPS::decode, LOOPS::choose};

}  // namespace eigentree
