// Joint counts of groups of columns and of pairs, and the moments that are sums over their cells.
//
// Codes are (columns, rows), of 8, 16 or 32 bits. The code of a missing cell is the number of states of its column;
// no code is larger. Tables of groups are kept in row-major order, the first column of the group first, and have at
// most 65,536 cells.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

constexpr std::int64_t most_cells = 1 << 16;
constexpr std::int64_t block_rows = 2048;  // whose joint codes are worked out at a time

// Counts of eight tables that take turns lie so many cells apart at least: at a power of two, all would compete for
// the same lines of the cache.
constexpr std::int64_t turns = 8, turn_gap = 80;
constexpr std::int64_t turn_cells(std::int64_t cells) { return turns * (cells + turn_gap); }

// One group of columns of some rows.
struct GroupRows {
  const void* codes;
  std::int64_t stride;  // from a column to the next
  std::int64_t rows;
  const std::int64_t* columns;
  const std::int64_t* states;  // of each of these columns
  std::int64_t width;          // how many columns
  std::int64_t cells;          // product of the states
  bool missing;                // whether any cell may be missing
};

// Work space for `block_rows` joint codes, and for counts of 32 bits, all 0: `turn_cells` of the cells and one
// more.
struct CountWork {
  void* joint;
  std::uint32_t* counts;
};

struct GroupLoops {
  std::int64_t (*largest)(const void* codes, std::int64_t rows);
  // Add ones, or weights, to the cells of the rows that miss no cell of the group.
  void (*count)(const GroupRows& group, CountWork work, std::int64_t* table);
  void (*weigh_whole)(const GroupRows& group, const std::uint64_t* weights, CountWork work, std::uint64_t* table);
  void (*weigh)(const GroupRows& group, const double* weights, CountWork work, double* table);
};

// A pair of columns (one of them with itself): where its counted states begin in a row of the matrix, and how many
// are counted.
struct PairRows {
  const void *first, *second;
  std::int64_t rows, first_states, second_states, first_kept, second_kept, stride;
};

// Add the weights of rows to a part of a matrix; `scratch` is all 0, and has room for every two codes, or is null.
struct PairLoops {
  void (*to_int32)(const PairRows& pair, const std::uint64_t* weights, std::uint64_t* scratch,
                   std::uint32_t* matrix);
  void (*to_int64)(const PairRows& pair, const std::uint64_t* weights, std::uint64_t* scratch,
                   std::uint64_t* matrix);
  void (*to_float)(const PairRows& pair, const double* weights, double* scratch, double* matrix);
};

struct BitPlanes {
  const std::uint64_t* planes;  // (count, words)
  std::int64_t count, words;
  const std::int64_t* places;  // in the matrix
  std::int64_t stride;         // of the matrix
};

// Tables of one shape: `states` and `widths` (features) of each axis; of `whole` axes states are the features.
struct FeatureAxes {
  std::int64_t axes;
  const std::int64_t *states, *widths;
  const bool* whole;
  std::int64_t matrix_states, matrix_widths;  // matrices are (axes, matrix_states, matrix_widths)
  std::int64_t cells;                         // product of the states
};

struct CountingLoops {
  GroupLoops groups[3];  // by the type of codes
  PairLoops pairs[3];
  // Sum a table over the axes that are not kept, in place; returns how many cells are left.
  std::int64_t (*marginalise)(std::int64_t* table, std::int64_t axes, const std::int64_t* states,
                              const std::uint8_t* kept);
  void (*common_bits_32)(const BitPlanes& bits, std::uint32_t* matrix);
  void (*common_bits_64)(const BitPlanes& bits, std::uint64_t* matrix);
  // Write sums of counts times products of features; `lines` are two of the most cells that there are on the way.
  void (*feature_sums_whole)(const FeatureAxes& axes, const std::int64_t* table, const double* matrices,
                             double* const lines[2], double* sums);
  void (*feature_sums)(const FeatureAxes& axes, const double* table, const double* matrices, double* const lines[2],
                       double* sums);
};
EIGENTREE_TABLES(CountingLoops, counting_loops)

}  // namespace eigentree
