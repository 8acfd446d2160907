// The hidden states of the steps of sequences: filtered, smoothed, most probable together (Viterbi), and sampled.
#pragma once
#include <cstdint>

#include "hidden_chain.hpp"
#include "instructions.hpp"

namespace eigentree {

// Sequences are computed one at a time: the result has a number per step and state anyway.
struct StatePass {
  HiddenChain chain;           // or its logarithms, to decode
  const double* turned;        // the links, with the dropped state fastest
  const std::uint32_t* steps;  // the symbol of each step
  const std::int64_t* starts;
  std::int64_t count;
  const double* emissions;  // (symbols, states), or their logarithms, to decode
  const double* uniform;    // of each step, from 0 to 1, to sample

  // Work space.
  double* messages;     // (steps of the longest, widest)
  double* ahead;        // (2, widest)
  std::uint16_t* back;  // (steps of the longest, widest)

  // Results; zeros or states of -1 where a sequence is impossible.
  double* proba;         // (steps, states)
  double* ends;          // (sequences, widest): the message at the end of each sequence
  std::int64_t* states;  // of each step
  double* log_prob;      // of each sequence with its most probable states
};

struct StatePosteriorsLoops {
  void (*filter)(const StatePass& pass);
  void (*smooth)(const StatePass& pass);
  void (*decode)(const StatePass& pass);
  void (*sample)(const StatePass& pass);
  void (*sample_given)(const StatePass& pass);
};
EIGENTREE_TABLES(StatePosteriorsLoops, state_posteriors_loops)

}  // namespace eigentree
