// Charts of sentences: what each label is worth at each span of words, by all trees of a grammar at once.
//
// A cell is a label at a span. Its inside vector has, for each state of the label, the probability of the words of
// the span below such a node, and its outside vector that of all other words. Rules are grouped by the labels of
// their children: the outer products of the children's vectors are summed over all places where the span can be
// split, and only then is each rule applied, so a split costs states squared, not cubed.
//
// The vectors of a span share a power of two, so sentences may be of any length. Numbers may be negative, as those
// of learned operators can be.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

struct ChartRules {
  std::int64_t labels, all_states, most_pairs;  // most_pairs: of states of two labels that are children
  const std::int64_t* states;                   // of each label
  const std::int64_t* state_at;                 // the first state of each label among all, and their number
  const std::int64_t* first_pair;               // (labels + 1,): the pairs whose left child each label is
  const std::int64_t* right;                    // of each pair
  const std::int64_t* first_rule;               // (pairs + 1,)
  const std::int64_t* parents;                  // of each rule
  const std::int64_t* first_value;              // of each rule
  const double* values;                         // of each rule (state, state of the left child, of the right one)
  const double* root;                           // of all states
  const double* pair;                           // of all states: two children that do not depend on it
  const double* children;                       // of all states: what they are then
};

struct Chart {
  std::int64_t words;
  const double* emissions;         // (words, all states)
  const std::int64_t* first_cell;  // (spans + 1,); spans by their first word, then by their last
  const std::int32_t* labels;      // of each cell, those of a span in their order
  double* posteriors;              // of each cell

  // Work space.
  std::int64_t bits;                 // numbers that hold a bit for each end of a span
  std::int32_t* place;               // (labels, words + 1, words + 1): where a cell's vectors are, or -1
  double *inside, *outside;          // the vectors of all cells
  std::uint64_t *begun, *ended;      // (labels, words + 1, bits): the other ends of possible spans
  std::int64_t* power;               // (words + 1, words + 1)
  double *any_inside, *any_outside;  // (words + 1, words + 1): of a child that does not depend on its parent
  double *pairs, *weights;           // of states of two children; of each end
};

struct ParsingLoops {
  // Returns the log probability of the words, -inf where no tree has them; posteriors are zeros then.
  double (*fill)(const ChartRules& rules, const Chart& chart);
};
EIGENTREE_TABLES(ParsingLoops, parsing_loops)

}  // namespace eigentree
