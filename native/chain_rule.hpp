// The chain rule over a tree of learned operators: each cell of a row given those before it.
//
//   q(s | cells before) = (1 - share) (c+(s) + 4 n m(s)) / (sum c+ + 4 n) + share m(s)
//
// c is the table of the next column by the signed operators, cells to come marginalised out; c+ its positive part,
// n what is below zero, m the column's marginal, share the floor. Messages are divided by the probability of the
// cells so far, so none of them can underflow.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

// How much of a column's own distribution is added to its table for each unit of probability below zero.
constexpr double clipped_weight = 4.0;
// A product of probabilities is turned into its logarithm before it gets as small as this.
constexpr double least_product = 1e-200;
// A sum of positive parts is divided by only where it is greater: the reciprocal is finite then.
constexpr double least_sum = 0x1p-1022;

// A node's side of an edge: size of the edge, stride of its axis in the node's table, and where the constants that
// come in and that go out stand. An absent port has size 1, and the constant 1 comes in.
struct Port {
  std::int64_t size, stride, entry, exit;
};

// Nodes have three ports each, and a dense table of values from `first_value` on. That of a leaf has an axis for
// its port and one for its column, of `states` + 1 entries: the last is the sum over states, for a missing cell.
struct ChainRuleTree {
  const Port* ports;
  const std::int64_t *first_value, *states;
  const double* values;
};

// One step: the node, the port that goes out, the ports that come in and the first lines of their messages, -1 for
// a constant; the first line of the message that goes out, -1 for none; the column of a leaf, else -1.
struct ChainRuleStep {
  std::int64_t node, out, one, two, line_one, line_two, line_out, column;
};

// What cells have at least: a share of their column's own distribution, which begins at `first`.
struct Floor {
  double share;
  const double* marginals;
  const std::int64_t* first;
};

// Codes of any unsigned type: (columns, rows), a missing cell is the number of states.
struct CodeTable {
  void* codes;
  int bytes;
  std::int64_t rows;
};

// What is written on for a block of rows. Lines are `block` numbers long, a multiple of every register.
struct ChainRuleSpace {
  std::int64_t block;
  double* lines;     // messages
  double* table;     // lines: the table of a leaf's column, one more for missing cells, then a constant message
  double* matrices;  // inner nodes with one constant message: their matrices, one after the other in order of steps
  double* products;  // (products of two messages, rows at a time)
  double *product, *positive, *total, *model, *alone, *log_prob, *clipped, *refused;  // one number per row
  std::int64_t* place;                                                                // codes of the column at hand
};
// How many rows go through a product of messages at a time, at most.
constexpr std::int64_t most_rows_at_a_time = 16;

struct ChainRuleLoops {
  void (*constants)(const ChainRuleTree& tree, const std::int64_t* messages, std::int64_t count, double* known);
  void (*score)(const ChainRuleTree& tree, const ChainRuleStep* steps, std::int64_t count, const double* known,
                const Floor& floor, const CodeTable& cells, const double* uniform, const ChainRuleSpace& space,
                double* found);
};
EIGENTREE_TABLES(ChainRuleLoops, chain_rule_loops)

}  // namespace eigentree
