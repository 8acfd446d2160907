#include "encoding.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {

template <class Code>
static void hash_rows(const Code* codes, Index columns, Index rows, std::uint64_t* hashes) {
  for (Index r = 0; r < rows; ++r) hashes[r] = 0x9E3779B97F4A7C15;
  for (Index j = 0; j < columns; ++j)
    for (Index r = 0; r < rows; ++r) {
      const std::uint64_t mixed = (hashes[r] ^ codes[j * rows + r]) * 0xBF58476D1CE4E5B9;
      hashes[r] = mixed ^ (mixed >> 31);
    }
  for (Index r = 0; r < rows; ++r) {
    const std::uint64_t mixed = (hashes[r] ^ (hashes[r] >> 30)) * 0x94D049BB133111EB;
    hashes[r] = mixed ^ (mixed >> 29);
  }
}

}  // namespace LOOPS

const EncodingLoops EIGENTREE_JOIN(encoding_loops_, EIGENTREE_INSTRUCTIONS) = {LOOPS::hash_rows, LOOPS::hash_rows};

}  // namespace eigentree
