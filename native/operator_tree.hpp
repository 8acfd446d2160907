// A tree of sparse operators (sections 4.2 and 5 of the paper), as the loops read it. An operator is the tensor of
// one node: it has a leg to the parent and one to each child, and an entry has an index on each leg (leg 0 is the
// parent's) and one value for each joint code of the columns that the node holds.
#pragma once
#include <cstdint>

namespace eigentree {

constexpr int most_children = 3;
constexpr int legs = most_children + 1;

struct OperatorNode {
  std::int64_t bond;  // size of the bond with the parent
  std::int64_t first_child, children;
  std::int64_t first_column, columns;
  std::int64_t first_entry, entries;  // an even number: values are read in pairs
  std::int64_t given;                 // entries without the one that only makes their number even
  std::int64_t first_value;           // at the joint code 0; those of the next code follow `entries` further on
  double reach;  // log2 of the smallest entry of the message when no child's message has one below 1
};

struct OwnColumn {
  std::int64_t column;  // the row of codes
  std::int64_t stride;  // from the values of one code to those of the next
  std::int64_t states;  // also the code of a missing cell
};

// A step of the way through the tree that enters and leaves each node once: entering, the node is the k-th child of
// its parent (-1 for the root); leaving, `k` is -1.
struct TourStep {
  std::int64_t node, parent, k;
};

struct OperatorTreeView {
  const OperatorNode* nodes;  // children after their parents
  std::int64_t count;
  const std::int64_t* child;
  const std::int32_t* index;  // `legs` for each entry; entries of a node are sorted by the parent's
  const OwnColumn* columns;
  const double* values;
  // Where messages are kept: those up from the first line of each node on, and after them a line that bounds their
  // error; those down `depth` lines further on.
  const std::int64_t* line;
  std::int64_t depth;
};

// Codes of columns, each of `rows` cells of 1, 2 or 4 bytes.
struct CodesView {
  void* cells;
  int bytes;
  std::int64_t rows;
};

}  // namespace eigentree
