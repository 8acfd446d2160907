// Sequences of any length through the operators of one step: scores, samples and smoothed distributions.
//
// Sequences go cell by cell, by the same rule as chain_rule.hpp has for rows, and the operators are those of one
// step, used at every step. A cell's code is a pattern: it stands for the states that the cell can be. The message
// is the expectation of features given the cells so far, so it lies between their least and their largest values;
// noise would drive it beyond after enough steps, and so it is held there.
#pragma once
#include <cstdint>

#include "chain_rule.hpp"
#include "instructions.hpp"

namespace eigentree {

struct StepOperators {
  std::int64_t channels;
  const double* values;  // per channel (state, bond before, bond after); the last state is the sum of all
  const double* heads;   // per channel (bond before, state): values at the constant of the bond after
  const std::int64_t *first_value, *first_head, *ranks, *states;
  const double* start;  // the message before the first step
  std::int64_t bounds;  // length of a line of `low` and `high`, between which the message before a channel lies
  const double *low, *high;
  const std::int64_t* first_pattern;          // where the patterns of a channel begin
  const std::int64_t *first_match, *matches;  // the states that each pattern can be
  const std::int64_t* patterns;               // the pattern of each state; a channel's begin where its marginals do
  const double* clipping;                     // per channel: what `clipped_weight` is for the columns of a table
};

// Sequences end to end: `codes` are (channels, steps).
struct StepSequences {
  CodeTable codes;
  const std::int64_t* starts;
  std::int64_t count;
};

// What a cell does to the message behind it: `own` times that of its states and `missing` times that of a missing
// one. `clipped` is the share of marginals in place of what is negative, `refused` is 1 where the cell's own
// probability was not positive.
struct CellEffect {
  double own, missing, clipped, refused;
};

// What of the scores is wanted; null where it is not.
struct ScoreResults {
  double* found;     // (3, sequences): log probability, sum of clipped, sum of refused
  double* each;      // (steps,): log probability of each step given those before it
  double* messages;  // (steps, first rank): the message before each step
  double* last;      // (sequences, first rank): the message behind the last step
};

// Space: `table` has the most states of a channel, `line` of a message the largest rank.
struct StepSpace {
  double* table;
  std::int64_t line;
  double *seen, *behind;  // (cells of the longest sequence + 1, line); scoring takes two lines of `seen`
  CellEffect* effects;    // (cells of the longest sequence,)
};

struct OperatorStepsLoops {
  // Scores; with uniform numbers, states are sampled into cells that can be several. Where a sequence does not
  // begin with its first step, nothing is known of those before; without `begins`, all do.
  void (*score)(const StepOperators& steps, const Floor& floor, const StepSequences& sequences, const bool* begins,
                const double* uniform, const StepSpace& space, const ScoreResults& results);
  // Distributions of cells that can be several, given all of their sequence, a line each of `width` in `found`;
  // with uniform numbers, states are sampled into them instead, all cells of a sequence together.
  void (*smooth)(const StepOperators& steps, const Floor& floor, const StepSequences& sequences,
                 const double* uniform, const StepSpace& space, double* found, std::int64_t width);
};
EIGENTREE_TABLES(OperatorStepsLoops, operator_steps_loops)

}  // namespace eigentree
