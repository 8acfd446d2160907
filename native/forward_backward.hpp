// Forward and backward passes over sequences under one hidden chain: log probabilities and expected counts (the
// E-step of an HMM).
#pragma once
#include <cstdint>

#include "hidden_chain.hpp"
#include "instructions.hpp"

namespace eigentree {

// Sequences that are computed together, each in a lane of the vectors.
constexpr int sequence_lanes = 8;

// A sequence of so many steps is cut into pieces, one in each lane, where all sequences beside it have fewer than
// so many times its steps, it included.
constexpr std::int64_t shortest_cut = 1000, most_beside_cut = 3;

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
  double* ends;        // (widest): what is ahead of the last step of each lane
  double* ahead;       // (widest)
  double* seen;        // (widest)
  double* factors;     // (block + 1): by what a message was scaled, where it was
  bool* scaled;        // (block + 1)
  double* restarts;    // (blocks, widest): the message before each block
  // Plain numbers, for a sequence that is cut into pieces.
  double* single;  // (4, widest): messages of the sequence by itself
  double* before;  // (pieces, widest): the message before each piece
  double* after;   // (pieces, widest): what is ahead of its last step

  double* link_counts;    // (link_numbers): lines of lanes, to be multiplied by the links but for those of state 0
  double* symbol_counts;  // (copies, symbols + 1, padded)
  std::int64_t copies;    // eight where each lane counts for itself, or one
  bool unknown_symbol;    // whether a symbol without emissions was read
};

// The pieces of a sequence that is cut: the first has as many steps as the order, all others are alike and fit into
// a block, but the last may be shorter.
struct Pieces {
  std::int64_t count, steps;
};
inline __attribute__((always_inline)) Pieces pieces_of(std::int64_t length, std::int64_t order,
                                                       std::int64_t block) {
  const std::int64_t further = length > order ? length - order : 0, turn = sequence_lanes * block;
  const std::int64_t count = (further + turn - 1) / turn * sequence_lanes;
  return {1 + count, count > 0 ? (further + count - 1) / count : 0};
}

struct ForwardBackwardLoops {
  void (*log_prob)(SequencePass& pass);
  void (*expected_counts)(SequencePass& pass);
};
EIGENTREE_TABLES(ForwardBackwardLoops, forward_backward_loops)

}  // namespace eigentree
