// Cells to codes, and hashes of rows.
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

struct EncodingLoops {
  void (*hash_rows_8)(const std::uint8_t* codes, std::int64_t columns, std::int64_t rows, std::uint64_t* hashes);
  void (*hash_rows_16)(const std::uint16_t* codes, std::int64_t columns, std::int64_t rows, std::uint64_t* hashes);
};
EIGENTREE_TABLES(EncodingLoops, encoding_loops)

}  // namespace eigentree
