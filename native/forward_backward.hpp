// Forward and backward passes over sequences under one hidden chain: log probabilities and expected counts (the
// E-step of an HMM).
#pragma once
#include <cstdint>

#include "hidden_chain.hpp"
#include "instructions.hpp"

namespace eigentree {

// Sequences that are computed together, each in a lane of the vectors.
constexpr int sequence_lanes = 8;

// Steps whose expected links are added up in registers.
constexpr int stretch = 16;

// A sequence: its first step, its length, how often it counts, and where its log probability goes.
struct SequencePlace {
  std::int64_t begin, length;
  double weight;
  double* log_prob;
};

struct SequencePass {
  HiddenChain chain;
  const double* turned;  // the links, with the dropped state fastest: (rest, new state, dropped)

  const void* symbols;  // of all steps
  int symbol_bytes;     // 1, 2 or 4
  const SequencePlace* sequences;
  std::int64_t count;

  const double* emissions;  // (symbols + 1, padded); the last line is 1 in all states: nothing is observed
  std::int64_t unobserved;  // the number of that line
  std::int64_t padded;      // states, rounded up to a multiple of four

  std::int64_t block;          // steps whose messages are kept
  std::int64_t checked_every;  // steps after which messages are checked for underflow

  // Work space. Lines of eight numbers, one of each lane; `shown`, `messages` and `later` have lines for each step.
  std::int64_t* rows;  // (block, lanes): where a symbol's emissions begin
  double* shown;       // (block, padded): emissions of the symbols, then P(state) of each step
  double* messages;    // (block + 1, widest)
  double* later;       // (stretch, widest)
  double* ahead;       // (widest)
  double* seen;        // (widest)
  double* factors;     // (block + 1): by what a message was scaled, where it was
  bool* scaled;        // (block + 1)
  double* restarts;    // (blocks, widest): the message before each block

  double* link_counts;    // (link_numbers): lines of lanes, to be multiplied by the links but for those of state 0
  double* symbol_counts;  // (copies, symbols + 1, padded)
  std::int64_t copies;    // eight where each lane counts for itself, or one
  bool unknown_symbol;    // whether a symbol without emissions was read
};

struct ForwardBackwardLoops {
  void (*log_prob)(SequencePass& pass);
  void (*expected_counts)(SequencePass& pass);
};
EIGENTREE_TABLES(ForwardBackwardLoops, forward_backward_loops)

}  // namespace eigentree
