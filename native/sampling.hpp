// The most probable states of rows (decoding), and states chosen by uniform random numbers.
#pragma once
#include "instructions.hpp"
#include "operator_tree.hpp"

namespace eigentree {

// Messages of one row, and how each entry of them came about.
struct DecodingSpace {
  double* score;         // (lines,) the log of the largest product for each entry of each node's message
  std::int64_t* entry;   // (lines,) which entry of the operator it is from
  std::int64_t* state;   // (lines,) and the state of the node's own column, if that is decoded
  std::int64_t* chosen;  // (nodes,) the index on each node's bond on the way back
};

struct SamplingLoops {
  // `decoded` (columns,): whether a missing cell is decoded; others are marginalised out. `entries` (nodes, rows).
  void (*decode)(const OperatorTreeView&, const CodesView&, const DecodingSpace&, const bool* decoded,
                 const std::int64_t* given_entry, std::int64_t* entries, double* log_prob);
  void (*choose)(const double* cumulative, std::int64_t states, const std::int64_t* given, const double* uniform,
                 std::int64_t rows, std::int64_t* chosen);
};
EIGENTREE_TABLES(SamplingLoops, sampling_loops)

}  // namespace eigentree
