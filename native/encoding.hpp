// Cells to codes, and hashes of rows. Codes are the numbers of states, from 0 on; a missing cell has the code after
// the last.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

// What cells and codes may be, in the order of the tables below.
enum CellType : int { int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, cell_types };
constexpr int code_types = 3;  // of 8, 16 and 32 bits without a sign

constexpr std::int64_t tile_rows = 64, run_rows = 8;

// Work space of `encode_rows`: `limits`, `wrong` and `missing` have `run_rows` rows, `tile` has `tile_rows`.
struct EncodeRowsWork {
  void *limits, *wrong, *missing, *tile;
};

struct CellLoops {
  // Returns the first row whose cell is not a code, or -1.
  std::int64_t (*encode_column[code_types])(const void* cells, std::int64_t stride, std::int64_t rows,
                                            std::int64_t states, void* codes);
  // `cells` (rows, columns), `codes` (columns, rows), `wrong` (columns,); not of floats.
  void (*encode_rows[code_types])(const void* cells, std::int64_t columns, std::int64_t rows,
                                  const std::int64_t* states, EncodeRowsWork work, void* codes, bool* wrong);
};

struct EncodingLoops {
  CellLoops cells[cell_types];
  // `codes` (columns, rows).
  void (*hash_rows[code_types])(const void* codes, std::int64_t columns, std::int64_t rows, std::uint64_t* hashes);
};
EIGENTREE_TABLES(EncodingLoops, encoding_loops)

}  // namespace eigentree
