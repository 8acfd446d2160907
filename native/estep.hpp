// The E-step on a tree: expected counts of all values of all nodes, by one pass of messages up and one down.
//
// A tree has leaves, which read one code per row, and inner nodes, which are matrices. A message of a node with S
// states is S lines of numbers, one number per row of data. With m(c) the messages of the children c of an inner
// node, A its matrix (block-diagonal over what its separator shares with its children), t a product of one entry of
// each child's message, pick_c(t) the index of that entry, i an index on the bond with the parent:
//   product[t]  = prod over children c of m(c)[pick_c(t)]
//   message[i]  = sum over t of A[i,t] product[t]                                    (up)
//   down[t]     = sum over i of A[i,t] outside[i]                                    (down)
//   outside(c)[p] = sum over t with pick_c(t) = p of down[t] prod over other children of m(.)[pick(t)]
//   counts of A[i,t] = A[i,t] sum over rows of outside[i] product[t]
// At the root, outside = weight / P(row), so nothing has to be normalised again.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

constexpr double log_2 = 0.6931471805599453;

// The fields are those of `core.trees.block_tree`, in their order; the last two are placed by the boundary.
struct BlockNode {
  std::int64_t bond, leaf, section, value, message, outside, factor, product, terms, before, down, first_edge,
      first_leaf, last_edge, blocks, rows, columns, row, column;
  std::int64_t sums, apart;
  static constexpr int given = 19;
};

struct BlockEdge {
  std::int64_t child, pick;
};

struct BlockSection {
  std::int64_t first, end, codes, rows;
  static constexpr int given = 4;
  // Placed by the boundary: the end of its lines; where its first row stands among all rows; where its table starts
  // in the values, and in the sums what comes down to it.
  std::int64_t lines, first_row, table, above;
};

struct BlockTree {
  const BlockNode* nodes;
  const BlockEdge* edges;
  const std::int64_t* places;
  std::int64_t ones, down, share;
};

// What passes of one E-step read, and what they write but for sums.
template <class T>
struct TreePass {
  BlockTree tree;
  const BlockSection* sections;
  T* values;            // of nodes; then the tables of sections, which are written
  const T* transposed;  // blocks of inner nodes as (column, row)
  const void* codes;
  int code_bytes;         // 2 or 4
  const double* weights;  // of the rows of all sections
  std::int64_t* exponents;
  std::int64_t width, block;  // of lines, and rows that pass at a time
};

// What one thread writes messages to. Lines start with a line of the cache.
template <class T>
struct TreeSpace {
  T* lines;
  std::int64_t* exponent;  // the power of two that each row's message lacks
};

struct LogLikelihood {
  double sum;
  std::int64_t impossible;  // a row of probability zero and positive weight, or -1
};

template <class T>
struct TreeLoops {
  // Writes the messages of the root of a section below the first into its table.
  void (*messages)(const TreePass<T>&, TreeSpace<T>, const BlockSection&);
  // Adds the expected counts of such a section to the sums.
  void (*counts)(const TreePass<T>&, TreeSpace<T>, const BlockSection&, double* sums);
  // Passes some rows of the first section; adds their expected counts, if there are sums.
  LogLikelihood (*first)(const TreePass<T>&, TreeSpace<T>, std::int64_t start, std::int64_t stop, double* sums);
  // Lines are multiples of so many numbers: the last tile may go beyond the rows.
  std::int64_t tile;
};

struct EstepLoops {
  TreeLoops<double> in_double;
  TreeLoops<float> in_single;
  std::uint32_t (*largest_code_16)(const std::uint16_t* codes, std::int64_t count);
  std::uint32_t (*largest_code_32)(const std::uint32_t* codes, std::int64_t count);
};
EIGENTREE_TABLES(EstepLoops, estep_loops)

}  // namespace eigentree
