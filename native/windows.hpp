// Windows cut from sequences that lie end to end, hashes of their pieces, and which sequences are equal.
//
// Codes are (channels, steps), of 8, 16 or 32 bits; sequence i has the steps from starts[i] to before starts[i +
// 1].
#pragma once
#include <cstdint>

#include "instructions.hpp"

namespace eigentree {

struct SequenceCodes {
  const void* codes;
  std::int64_t channels, steps;
  const std::int64_t* starts;
  std::int64_t sequences;
};

// Which cell each column of a window holds: so many steps from its own step, of which channel, and the code of one
// that is missing.
struct WindowCells {
  std::int64_t columns;
  const std::int64_t *lags, *channels;
  const void* missing;
};

// How windows are cut: from which of its steps on, and up to which, a sequence has them (`own`, two numbers each);
// a window wants `reach` more steps after it. The cursor is the sequence and its step that come next.
struct WindowRange {
  const std::int64_t* own;
  std::int64_t reach;
  std::int64_t *sequence, *step;
};

// A piece of a sequence has `length` steps, and so many before and after it belong to it.
struct Pieces {
  std::int64_t length, context, reach;
};

struct WindowLoops {
  // Returns how many windows were written: `found` (columns, most), and the sequence of each.
  std::int64_t (*cut_windows)(const SequenceCodes& from, const WindowCells& cells, const WindowRange& range,
                              std::int64_t most, void* found, std::int64_t* of);
  // Write a hash of each piece, and its sequence and first step.
  void (*hash_pieces)(const SequenceCodes& from, const Pieces& pieces, std::uint64_t* hashes, std::int64_t* places);
  // Write a number for each sequence that depends on its codes alone.
  void (*fingerprints)(const SequenceCodes& from, std::uint64_t* prints);
  // Write whether each sequence in an order, but the first, is the same as the one before.
  void (*repeats)(const SequenceCodes& from, const std::int64_t* order, std::int64_t count, bool* same);
};

struct WindowsLoops {
  WindowLoops codes[3];  // by the type of codes
};
EIGENTREE_TABLES(WindowsLoops, windows_loops)

}  // namespace eigentree
