// Messages up and down a tree of operators: probabilities of rows, tables of single columns, samples of missing
// cells.
#pragma once
#include "instructions.hpp"
#include "operator_tree.hpp"

namespace eigentree {

// What the passes write on, for a block of rows.
struct MessageSpace {
  double* lines;           // of messages, `block` rows each, and of scratch, a tile each
  std::int64_t block;      // rows that pass through the tree together, a multiple of `rows_of_tile`
  std::int32_t* place;     // (block,) where the values of each row start at the node at hand
  std::int64_t* exponent;  // (block,) what was taken out of each row's messages, as a power of two
  std::int32_t* absent;    // (block,) rows of the block that lack a cell
  double* low;             // (nodes,) bound on the log2 of the smallest non-zero entry of a message, at most 0
  bool* lossy;             // (nodes,) whether underflow may have taken something from a message
  double* weight;          // (largest bond,)
  bool* unsure;            // (rows,) whose probability underflow may have changed
};

constexpr std::int64_t entries_at_once = 64;  // whose products are kept while a column's table is added up

struct MessagePassingLoops {
  std::int64_t rows_of_tile;
  std::int64_t (*largest_code)(const CodesView&, std::int64_t column);
  void (*score)(const OperatorTreeView&, const CodesView&, const MessageSpace&, double* log_size,
                std::int8_t* sign);
  // P(column = v, the other cells of the row), up to a factor per row, where `offset` of the column is not
  // negative.
  void (*tables)(const OperatorTreeView&, const CodesView&, const MessageSpace&, const std::int64_t* offset,
                 double* tables, std::int64_t width);
  // Fills missing cells with a sample given the other cells of the row.
  void (*draw)(const OperatorTreeView&, const CodesView&, const MessageSpace&, const TourStep* tour,
               std::int64_t steps, const double* uniform, std::int64_t columns);
};
EIGENTREE_TABLES(MessagePassingLoops, message_passing_loops)

}  // namespace eigentree
