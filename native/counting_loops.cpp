#include "counting.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

template <class Code>
Index largest(const void* from, Index rows) {
  const Code* codes = static_cast<const Code*>(from);
  Code high = 0;
  for (Index r = 0; r < rows; ++r) high = larger(high, codes[r]);
  return Index(high);
}

// The joint code of a group with columns 1, 2, 3, … is ((c1 n2 + c2) n3 + c3) …, with n the states and c the codes.
// V is a register of joint codes, or one of them. Where a cell may be missing, `skipped` stands for it.
template <bool missing, class Code, class V, class Joint>
INLINE V joint_code(const GroupRows& group, Index row, Joint skipped) {
  constexpr int count = sizeof(V) / sizeof(Joint);
  const Code* codes = static_cast<const Code*>(group.codes) + row;
  V joint{}, gone{};
  for (Index k = 0; k < group.width; ++k) {
    const Code* from = codes + group.columns[k] * group.stride;
    const Joint states = Joint(group.states[k]);
    if constexpr (count == 1) {
      joint = V(std::uint32_t(joint) * states + *from);
      if (missing) gone |= *from == group.states[k];
    } else {
      const auto code = load<Vector<Code, count>>(from);
      joint = joint * states + __builtin_convertvector(code, V);
      if (missing) gone |= V(__builtin_convertvector(code, V) == spread<V>(states));
    }
  }
  if constexpr (count == 1)
    return gone ? skipped : joint;
  else
    return missing ? (joint & ~gone) | (spread<V>(skipped) & gone) : joint;
}

template <bool missing, class Code, class Joint>
void joint_codes(const GroupRows& group, Index start, Index count, Joint skipped, Joint* joint) {
  using V = Register<Joint>;
  constexpr Index step = lanes<Joint>;
  Index r = 0;
  for (; r + step <= count; r += step) store(joint + r, joint_code<missing, Code, V>(group, start + r, skipped));
  for (; r < count; ++r) joint[r] = joint_code<missing, Code, Joint>(group, start + r, skipped);
}

template <class Code, class Joint>
void joint_codes(const GroupRows& group, Index start, Index count, Joint skipped, Joint* joint) {
  if (group.missing)
    joint_codes<true, Code>(group, start, count, skipped, joint);
  else
    joint_codes<false, Code>(group, start, count, skipped, joint);
}

// Whether at least every eighth joint code is that of the row before: additions to one cell wait for each other.
bool repeats(const std::uint16_t* joint, Index count) {
  std::uint16_t equal = 0;
  for (Index r = 1; r < count; ++r) equal += joint[r] == joint[r - 1];
  return 8 * equal >= count;
}

// Codes are read four at a time: processors load and store no more often than they must. `apart` is how far tables
// that take turns lie apart, or 0 for one table.
INLINE void add_ones(const std::uint16_t* joint, Index count, Index apart, std::uint32_t* counts) {
  Index r = 0;
  for (; r + turns <= count; r += turns) {
    const auto words = load<Vector<std::uint64_t, 2>>(joint + r);
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < 4; ++k) ++counts[(4 * half + k) * apart + (words[half] >> 16 * k & 0xFFFF)];
  }
  for (; r < count; ++r) ++counts[joint[r]];
}

// By way of small counts, which stay in cache. Rows with a missing cell are counted in one cell more.
template <class Code>
void count_small(const GroupRows& group, CountWork work, std::int64_t* table) {
  std::uint16_t* joint = static_cast<std::uint16_t*>(work.joint);
  const Index few = 64;  // cells with which equal codes follow each other often
  const Index apart = group.cells + turn_gap;
  bool in_turns = group.cells <= few;
  for (Index start = 0; start < group.rows; start += block_rows) {
    const Index count = smaller(block_rows, group.rows - start);
    joint_codes<Code>(group, start, count, std::uint16_t(group.cells), joint);
    if (start == 0 && !in_turns) in_turns = repeats(joint, count);
    if (in_turns)
      add_ones(joint, count, apart, work.counts);
    else
      add_ones(joint, count, 0, work.counts);
  }
  for (Index turn = 1; in_turns && turn < turns; ++turn) {
    std::uint32_t* counts = work.counts + turn * apart;
    for (Index k = 0; k <= group.cells; ++k) {
      work.counts[k] += counts[k];
      counts[k] = 0;
    }
  }
  for (Index k = 0; k < group.cells; ++k) {
    table[k] += work.counts[k];
    work.counts[k] = 0;
  }
  work.counts[group.cells] = 0;
}

// Straight into the table: `amount(row)` is added to the cell of each row that misses none.
template <class Code, class Joint, class Number, class Amount>
void add_each(const GroupRows& group, void* work, Number* table, Amount amount) {
  Joint* joint = static_cast<Joint*>(work);
  const Joint skipped = Joint(group.cells);
  for (Index start = 0; start < group.rows; start += block_rows) {
    const Index count = smaller(block_rows, group.rows - start);
    joint_codes<Code>(group, start, count, skipped, joint);
    if (group.missing) {
      for (Index r = 0; r < count; ++r)
        if (joint[r] != skipped) table[joint[r]] += amount(start + r);
    } else {
      for (Index r = 0; r < count; ++r) table[joint[r]] += amount(start + r);
    }
  }
}

// With 65,536 cells and one for missing ones, 16 bits do not hold every joint code.
template <class Code, class Number, class Amount>
void add_amounts(const GroupRows& group, void* work, Number* table, Amount amount) {
  if (group.missing && group.cells == most_cells)
    add_each<Code, std::uint32_t>(group, work, table, amount);
  else
    add_each<Code, std::uint16_t>(group, work, table, amount);
}

template <class Code>
void count(const GroupRows& group, CountWork work, std::int64_t* table) {
  // To empty the small counts should take less time than to fill them.
  if (2 * group.cells <= group.rows && group.cells < most_cells)
    count_small<Code>(group, work, table);
  else
    add_amounts<Code>(group, work.joint, table, [](Index) { return 1; });
}

template <class Code, class Number>
void weigh(const GroupRows& group, const Number* weights, CountWork work, Number* table) {
  add_amounts<Code>(group, work.joint, table, [weights](Index r) { return weights[r]; });
}

template <class Code, class Weight, class Number>
void count_pair(const PairRows& pair, const Weight* weights, Weight* scratch, Number* matrix) {
  const Code *first = static_cast<const Code*>(pair.first), *second = static_cast<const Code*>(pair.second);
  const Index width = pair.second_states + 1;
  if (scratch) {
    // Without a branch on which codes are counted, which processors predict wrong.
    for (Index r = 0; r < pair.rows; ++r) scratch[Index(first[r]) * width + Index(second[r])] += weights[r];
    for (Index a = 0; a < pair.first_kept; ++a)
      for (Index b = 0; b < pair.second_kept; ++b) matrix[a * pair.stride + b] += Number(scratch[a * width + b]);
    for (Index cell = 0; cell < (pair.first_states + 1) * width; ++cell) scratch[cell] = 0;
  } else {
    for (Index r = 0; r < pair.rows; ++r)
      if (Index(first[r]) < pair.first_kept && Index(second[r]) < pair.second_kept)
        matrix[Index(first[r]) * pair.stride + Index(second[r])] += Number(weights[r]);
  }
}

Index marginalise(std::int64_t* table, Index axes, const std::int64_t* states, const std::uint8_t* kept) {
  Index done = 1, rest = 1;
  for (Index axis = 0; axis < axes; ++axis) rest *= states[axis];
  for (Index axis = 0; axis < axes; ++axis) {
    rest /= states[axis];
    if (kept[axis]) {
      done *= states[axis];
      continue;
    }
    // Cells move to the front only, so none is written before it was read.
    for (Index before = 0; before < done; ++before)
      for (Index state = 0; state < states[axis]; ++state) {
        const std::int64_t* from = table + (before * states[axis] + state) * rest;
        std::int64_t* to = table + before * rest;
        if (state == 0)
          std::memmove(to, from, std::size_t(rest) * sizeof *to);
        else
          for (Index cell = 0; cell < rest; ++cell) to[cell] += from[cell];
      }
  }
  return done;
}

// How many bits are set, in each word.
template <class V>
INLINE V bits_set(V words) {
  words -= words >> 1 & 0x5555555555555555;
  words = (words & 0x3333333333333333) + (words >> 2 & 0x3333333333333333);
  words = (words + (words >> 4)) & 0x0F0F0F0F0F0F0F0F;
  words += words >> 8;
  words += words >> 16;
  return (words + (words >> 32)) & 0x7F;
}

// Bit by bit, `sum` + a + b = sum + 2 carry: three bits become two.
template <class V>
INLINE V carry_of(V& sum, V a, V b) {
  const V half = sum ^ a, carry = (sum & a) | (half & b);
  sum = half ^ b;
  return carry;
}

// How many bits two planes have in common. Of eight registers of words, the bits that are set are added up in
// binary digits (ones, twos, fours), so that only what carries to eights is counted.
INLINE std::uint64_t common_bits_of(const std::uint64_t* one, const std::uint64_t* other, Index words) {
  using V = Register<std::uint64_t>;
  constexpr Index step = lanes<std::uint64_t>;
  const auto both = [&](Index w) { return load<V>(one + w) & load<V>(other + w); };
  V ones{}, twos{}, fours{}, eights{};
  Index w = 0;
  for (; w + 8 * step <= words; w += 8 * step) {
    V two[4], four[2];
    for (int k = 0; k < 4; ++k) two[k] = carry_of(ones, both(w + 2 * k * step), both(w + (2 * k + 1) * step));
    for (int k = 0; k < 2; ++k) four[k] = carry_of(twos, two[2 * k], two[2 * k + 1]);
    eights += bits_set(carry_of(fours, four[0], four[1]));
  }
  V total = 8 * eights + 4 * bits_set(fours) + 2 * bits_set(twos) + bits_set(ones);
  for (; w + step <= words; w += step) total += bits_set(both(w));
  std::uint64_t common = 0;
  for (Index k = 0; k < step; ++k) common += total[k];
  for (; w < words; ++w) common += std::uint64_t(__builtin_popcountll(one[w] & other[w]));
  return common;
}

// Rows as bits, 64 to a word: how many have two states at once is counted without reading any single row. The
// diagonal of the matrix gets how many bits a plane has at all.
template <class Number>
void common_bits(const BitPlanes& bits, Number* matrix) {
  // Some planes stay in the second cache while each of the others passes once, by way of the first.
  const Index tile = 64;
  for (Index begin = 0; begin < bits.count; begin += tile)
    for (Index j = begin; j < bits.count; ++j)
      for (Index i = begin; i < smaller(begin + tile, j + 1); ++i) {
        const std::uint64_t *one = bits.planes + i * bits.words, *other = bits.planes + j * bits.words;
        matrix[bits.places[i] * bits.stride + bits.places[j]] += Number(common_bits_of(one, other, bits.words));
      }
}

// One axis of a line of cells turned from states to features: to[b, w, r] = sum over s of features[s, w] from[b, s,
// r].
void take_features(const double* from, const double* features, Index stride, Index done, Index states, Index widths,
                   Index rest, double* to) {
  for (Index before = 0; before < done; ++before)
    for (Index state = 0; state < states; ++state) {
      const double* __restrict source = from + (before * states + state) * rest;
      for (Index width = 0; width < widths; ++width) {
        const double factor = features[state * stride + width];
        double* __restrict target = to + (before * widths + width) * rest;
        if (state == 0)  // Zero is added so that no zero is negative.
          for (Index cell = 0; cell < rest; ++cell) target[cell] = factor * source[cell] + 0.0;
        else
          for (Index cell = 0; cell < rest; ++cell) target[cell] += factor * source[cell];
      }
    }
}

template <class Number>
void feature_sums(const FeatureAxes& axes, const Number* table, const double* matrices, double* const lines[2],
                  double* sums) {
  int here = 0;
  Index done = 1, rest = axes.cells;
  for (Index cell = 0; cell < axes.cells; ++cell) lines[0][cell] = double(table[cell]);
  for (Index axis = 0; axis < axes.axes; ++axis) {
    rest /= axes.states[axis];
    if (!axes.whole[axis]) {
      const double* features = matrices + axis * axes.matrix_states * axes.matrix_widths;
      take_features(lines[here], features, axes.matrix_widths, done, axes.states[axis], axes.widths[axis], rest,
                    lines[1 - here]);
      here = 1 - here;
    }
    done *= axes.widths[axis];
  }
  for (Index cell = 0; cell < done; ++cell) sums[cell] = lines[here][cell];
}

template <class Code>
constexpr GroupLoops group_loops() {
  return {largest<Code>, count<Code>, weigh<Code, std::uint64_t>, weigh<Code, double>};
}

template <class Code>
constexpr PairLoops pair_loops() {
  return {count_pair<Code, std::uint64_t, std::uint32_t>, count_pair<Code, std::uint64_t, std::uint64_t>,
          count_pair<Code, double, double>};
}

}  // namespace
}  // namespace LOOPS

const CountingLoops EIGENTREE_JOIN(counting_loops_, EIGENTREE_INSTRUCTIONS) = {
    {LOOPS::group_loops<std::uint8_t>(), LOOPS::group_loops<std::uint16_t>(), LOOPS::group_loops<std::uint32_t>()},
    {LOOPS::pair_loops<std::uint8_t>(), LOOPS::pair_loops<std::uint16_t>(), LOOPS::pair_loops<std::uint32_t>()},
    LOOPS::marginalise,
    LOOPS::common_bits<std::uint32_t>,
    LOOPS::common_bits<std::uint64_t>,
    LOOPS::feature_sums<std::int64_t>,
    LOOPS::feature_sums<double>};

}  // namespace eigentree
