#include "vectors.hpp"
#include "windows.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

template <class Code>
Index cut_windows(const SequenceCodes& from, const WindowCells& cells, const WindowRange& range, Index most,
                  void* found, std::int64_t* of) {
  const Code* codes = static_cast<const Code*>(from.codes);
  Index written = 0, sequence = *range.sequence, step = *range.step;
  while (sequence < from.sequences && written < most) {
    const Index first = from.starts[sequence], last = from.starts[sequence + 1];
    const Index begin = larger(Index(range.own[2 * sequence]), step);
    const Index end = smaller(Index(range.own[2 * sequence + 1]), last - first - range.reach);
    const Index count = larger(Index(0), smaller(end - begin, most - written));
    for (Index j = 0; j < cells.columns; ++j) {
      // Rows up to `before` lie before the sequence, those from `inside` on after it.
      const Index source = first + begin + cells.lags[j];
      const Index before = smaller(larger(first - source, Index(0)), count);
      const Index inside = larger(smaller(last - source, count), before);
      Code* line = static_cast<Code*>(found) + j * most + written;
      const Code* channel = codes + cells.channels[j] * from.steps;
      const Code missing = static_cast<const Code*>(cells.missing)[j];
      for (Index r = 0; r < before; ++r) line[r] = missing;
      for (Index r = before; r < inside; ++r) line[r] = channel[source + r];
      for (Index r = inside; r < count; ++r) line[r] = missing;
    }
    for (Index r = 0; r < count; ++r) of[written + r] = sequence;
    written += count;
    const bool finished = begin + count >= end;
    sequence += finished;
    step = finished ? 0 : begin + count;
  }
  *range.sequence = sequence;
  *range.step = step;
  return written;
}

constexpr std::uint64_t factor = 0xBF58476D1CE4E5B9;

template <class Code>
void hash_pieces(const SequenceCodes& from, const Pieces& pieces, std::uint64_t* hashes, std::int64_t* places) {
  for (Index sequence = 0; sequence < from.sequences; ++sequence) {
    const Index first = from.starts[sequence], size = from.starts[sequence + 1] - first;
    for (Index begin = 0; begin < size; begin += pieces.length) {
      const Index low = larger(begin - pieces.context, Index(0));
      const Index high = smaller(begin + pieces.length + pieces.reach, size);
      std::uint64_t mixed = 0x9E3779B97F4A7C15 ^ std::uint64_t(begin - low);
      mixed = mixed * factor ^ std::uint64_t(smaller(pieces.length, size - begin));
      mixed = mixed * factor ^ std::uint64_t(high - begin);
      for (Index channel = 0; channel < from.channels; ++channel) {
        const Code* codes = static_cast<const Code*>(from.codes) + channel * from.steps + first;
        for (Index t = low; t < high; ++t) {
          mixed = (mixed ^ codes[t]) * factor;
          mixed ^= mixed >> 31;
        }
      }
      mixed = (mixed ^ (mixed >> 30)) * 0x94D049BB133111EB;
      *hashes++ = mixed ^ (mixed >> 29);
      *places++ = sequence;
      *places++ = begin;
    }
  }
}

template <class Code>
void fingerprints(const SequenceCodes& from, std::uint64_t* prints) {
  const Code* codes = static_cast<const Code*>(from.codes);
  for (Index sequence = 0; sequence < from.sequences; ++sequence) {
    std::uint64_t mixed = 14695981039346656037u;
    for (Index step = from.starts[sequence]; step < from.starts[sequence + 1]; ++step) {
      mixed = (mixed ^ codes[step]) * 1099511628211u;
      mixed ^= mixed >> 29;
    }
    prints[sequence] = mixed;
  }
}

template <class Code>
void repeats(const SequenceCodes& from, const std::int64_t* order, Index count, bool* same) {
  const Code* codes = static_cast<const Code*>(from.codes);
  const auto length = [&](Index sequence) { return from.starts[sequence + 1] - from.starts[sequence]; };
  for (Index place = 1; place < count; ++place) {
    const Index one = order[place - 1], other = order[place];
    const Index steps = length(one);
    bool equal = length(other) == steps;
    for (Index t = 0; equal && t < steps; ++t) equal = codes[from.starts[one] + t] == codes[from.starts[other] + t];
    same[place] = equal;
  }
}

template <class Code>
constexpr WindowLoops window_loops() {
  return {cut_windows<Code>, hash_pieces<Code>, fingerprints<Code>, repeats<Code>};
}

}  // namespace
}  // namespace LOOPS

const WindowsLoops EIGENTREE_JOIN(windows_loops_, EIGENTREE_INSTRUCTIONS) = {
    {LOOPS::window_loops<std::uint8_t>(), LOOPS::window_loops<std::uint16_t>(),
     LOOPS::window_loops<std::uint32_t>()}};

}  // namespace eigentree
