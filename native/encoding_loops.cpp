#include <type_traits>

#include "encoding.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

// Whether a cell is one of so many states; numbers are compared by value, whatever their types.
template <class Cell>
INLINE bool is_state(Cell cell, std::int64_t states) {
  if constexpr (std::is_floating_point_v<Cell>)
    return cell >= 0 && double(cell) < double(states) && Cell(std::int64_t(cell)) == cell;
  else
    return cell >= 0 && std::uint64_t(cell) < std::uint64_t(states);
}

template <class Cell>
INLINE bool is_missing(Cell cell) {
  if constexpr (std::is_floating_point_v<Cell>)
    return cell == -1 || cell != cell;
  else
    return std::is_signed_v<Cell> && cell == Cell(-1);
}

template <class Cell, class Code>
Index encode_column(const void* from, Index stride, Index rows, Index states, void* to) {
  const Cell* cells = static_cast<const Cell*>(from);
  Code* codes = static_cast<Code*>(to);
  for (Index r = 0; r < rows; ++r) {
    const Cell cell = cells[r * stride];
    if (is_state(cell, states))
      codes[r] = Code(cell);
    else if (is_missing(cell))
      codes[r] = Code(states);
    else
      return r;
  }
  return -1;
}

// Cells are transposed by the tile, so that both sides are read and written line by line of the cache. With a sign,
// a cell is right where cell + 1, which is 0 of a missing one, is at most the number of states; without a sign,
// where the cell is at most the last state. Either is one comparison of numbers without a sign, as wide as a cell.
template <class Cell, class Code>
void encode_rows(const void* from, Index columns, Index rows, const std::int64_t* states, EncodeRowsWork work,
                 void* to, bool* wrong) {
  using Unsigned = std::make_unsigned_t<Cell>;
  constexpr Unsigned shift = std::is_signed_v<Cell> ? 1 : 0;
  constexpr std::uint64_t most = Unsigned(~Unsigned(0)) >> shift;  // the largest cell
  const Cell* cells = static_cast<const Cell*>(from);
  Code* __restrict codes = static_cast<Code*>(to), * __restrict tile = static_cast<Code*>(work.tile);
  Unsigned* __restrict limits = static_cast<Unsigned*>(work.limits);
  Unsigned* __restrict beyond = static_cast<Unsigned*>(work.wrong);
  Code* __restrict missing = static_cast<Code*>(work.missing);
  for (Index k = 0; k < run_rows * columns; ++k) {
    const std::int64_t own = states[k % columns];
    limits[k] = Unsigned(smaller(std::uint64_t(own - 1), most) + shift);
    missing[k] = Code(own);
    beyond[k] = 0;
  }
  for (Index first = 0; first < rows; first += tile_rows) {
    const Index count = smaller(tile_rows, rows - first);
    // Some rows are one run of cells: longer than a register, however few columns there are.
    for (Index r = 0; r < count; r += run_rows) {
      const Cell* __restrict run = cells + (first + r) * columns;
      Code* __restrict line = tile + r * columns;
      const Index run_cells = smaller(run_rows, count - r) * columns;
      for (Index k = 0; k < run_cells; ++k) {
        const Unsigned shifted = Unsigned(Unsigned(run[k]) + shift);
        beyond[k] |= Unsigned(shifted > limits[k]);
        line[k] = shift && shifted == 0 ? missing[k] : Code(run[k]);
      }
    }
    for (Index j = 0; j < columns; ++j) {
      constexpr int together = 8 / sizeof(Code);  // codes that are written as one word
      Code* line = codes + j * rows + first;
      const Code* column = tile + j;
      Index r = 0;
      for (; r + together <= count; r += together) {
        Vector<Code, together> word;
        for (int k = 0; k < together; ++k) word[k] = column[(r + k) * columns];
        store(line + r, word);
      }
      for (; r < count; ++r) line[r] = column[r * columns];
    }
  }
  for (Index j = 0; j < columns; ++j) wrong[j] = false;
  for (Index k = 0; k < run_rows * columns; ++k) wrong[k % columns] |= beyond[k] != 0;
}

template <class Code>
void hash_rows(const void* from, Index columns, Index rows, std::uint64_t* hashes) {
  const Code* codes = static_cast<const Code*>(from);
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

template <class Cell>
constexpr CellLoops cell_loops() {
  CellLoops loops = {
      {encode_column<Cell, std::uint8_t>, encode_column<Cell, std::uint16_t>, encode_column<Cell, std::uint32_t>},
      {}};
  if constexpr (!std::is_floating_point_v<Cell>) {
    loops.encode_rows[0] = encode_rows<Cell, std::uint8_t>;
    loops.encode_rows[1] = encode_rows<Cell, std::uint16_t>;
    loops.encode_rows[2] = encode_rows<Cell, std::uint32_t>;
  }
  return loops;
}

}  // namespace
}  // namespace LOOPS

const EncodingLoops EIGENTREE_JOIN(encoding_loops_, EIGENTREE_INSTRUCTIONS) = {
    {LOOPS::cell_loops<std::int8_t>(), LOOPS::cell_loops<std::int16_t>(), LOOPS::cell_loops<std::int32_t>(),
     LOOPS::cell_loops<std::int64_t>(), LOOPS::cell_loops<std::uint8_t>(), LOOPS::cell_loops<std::uint16_t>(),
     LOOPS::cell_loops<std::uint32_t>(), LOOPS::cell_loops<std::uint64_t>(), LOOPS::cell_loops<float>(),
     LOOPS::cell_loops<double>()},
    {LOOPS::hash_rows<std::uint8_t>, LOOPS::hash_rows<std::uint16_t>, LOOPS::hash_rows<std::uint32_t>}};

}  // namespace eigentree
