// A message over the bond of a node with its parent is, for each index on it (Eq. 11, 12, 19),
//   message[p] = sum over entries e with parent index p of value_e(cells) · product over children k of
//   message_k[i_ke],
// and that to a child is the same with the roles of the two legs exchanged. Rows pass through the tree in blocks. A
// block is cut into tiles of a few registers of rows, and a line of a tile has one number for each of its rows, so
// that sums of all rows of a tile stay in registers while the entries of an operator are read once.
//
// Numbers are doubles with one exponent for the whole message of a row. An entry that is a thousand binary digits
// below another is lost, which matters only where a message from elsewhere reverses their order: a bound on the
// smallest entry shows where anything can be lost at all, which is seldom, and there a bound on the error of each
// row shows which rows have to pass once more, in extended range, through the same loops.
#include <cmath>

#include "extended_number.hpp"
#include "message_passing.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

using Lanes = Register<double>;

// How many registers of rows a tile has; those that remain at the end of all rows pass one by one.
constexpr int registers_of_tile = 4;

// A message outside this range is scaled by a power of two, which loses no bit.
constexpr double tiny = 0x1p-60, huge = 0x1p60;
// Products whose log2 is not below this are far from the end of the doubles, whatever is summed on the way.
constexpr double lowest_product = -960.0;
// More than underflow can take from an entry of a message, when no message is beyond `tiny` and `huge`.
constexpr double flushed = 0x1p-1000;
// A row whose lost part may be a larger share of its probability than this is computed again, in extended range.
constexpr double certain = 0x1p-45;

// A register of rows, or one row in extended range.
template <class Number>
struct Rows {
  using Scalar = double;
  static constexpr Index count = lanes<double>;
  static constexpr bool exact = false;
};
template <>
struct Rows<Extended> {
  using Scalar = Extended;
  static constexpr Index count = 1;
  static constexpr bool exact = true;  // nothing underflows
};
template <class Number>
using Scalar = typename Rows<Number>::Scalar;

INLINE void add_product(Lanes& sum, Lanes a, Lanes b) { sum += a * b; }
INLINE void add_product(Extended& sum, Extended a, Extended b) { sum = sum + a * b; }

INLINE Lanes magnitude(Lanes number) { return number < 0.0 ? -number : number; }

// The values of two entries that follow each other, for each row: those of a row are contiguous, so that one
// look-up serves both. Even and odd rows are joined, and then change places.
template <int L>
INLINE Vector<double, L> every_second(const double* values, const std::int32_t* place) {
  if constexpr (L == 2) {
    return load<Vector<double, 2>>(values + place[0]);
  } else {
    using Half = Vector<double, L / 2>;
    const Half low = every_second<L / 2>(values, place), high = every_second<L / 2>(values, place + L / 2);
    if constexpr (L == 4)
      return __builtin_shufflevector(low, high, 0, 1, 2, 3);
    else
      return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }
}

template <int L>
INLINE void interleave(Vector<double, L> even, Vector<double, L> odd, Vector<double, L>& first,
                       Vector<double, L>& second) {
  if constexpr (L == 2) {
    first = __builtin_shufflevector(even, odd, 0, 2);
    second = __builtin_shufflevector(even, odd, 1, 3);
  } else if constexpr (L == 4) {
    first = __builtin_shufflevector(even, odd, 0, 4, 2, 6);
    second = __builtin_shufflevector(even, odd, 1, 5, 3, 7);
  } else {
    first = __builtin_shufflevector(even, odd, 0, 8, 2, 10, 4, 12, 6, 14);
    second = __builtin_shufflevector(even, odd, 1, 9, 3, 11, 5, 13, 7, 15);
  }
}

INLINE void read_pair(const double* values, const std::int32_t* place, Lanes& first, Lanes& second) {
  constexpr int L = lanes<double>;
  interleave<L>(every_second<L>(values, place), every_second<L>(values, place + 1), first, second);
}

INLINE void read_pair(const double* values, const std::int32_t* place, Extended& first, Extended& second) {
  first = extended(values[*place]);
  second = extended(values[*place + 1]);
}

INLINE void same_value(double value, Lanes& number) { number = spread<Lanes>(value); }
INLINE void same_value(double value, Extended& number) { number = extended(value); }

// The entries of a node, and the messages of a tile over its legs.
template <class Number>
struct Meeting {
  const double* values;
  const std::int32_t* place;  // of each row; none at a node without columns
  const std::int32_t* index;
  Index entries;
  const Scalar<Number>* from[legs];
};

// The message of a tile over one leg. `Factors` messages of other legs meet at an entry. Entries are sorted by the
// parent's index, so the message `Up` is written in order; that to a child is added to zeros.
template <class Number, int U, int Factors, bool Own, bool Up>
void send_over(const Meeting<Number>& met, int leg, Index bond, Scalar<Number>* out) {
  constexpr Index rows = Rows<Number>::count, tile = U * rows;
  int by[Factors + 1];
  for (int k = 0, other = 0; k < Factors; ++k, ++other) {
    other += other == leg;
    by[k] = other;
  }
  // Entries of the same index follow each other: their sum stays in registers.
  Index at = met.index[leg];
  Number sum[U] = {};
  if constexpr (Up)
    std::memset(out, 0, sizeof(Scalar<Number>) * std::size_t(at * tile));
  else
    std::memset(out, 0, sizeof(Scalar<Number>) * std::size_t(bond * tile));
  // Indices up to before the next one have no entry.
  const auto add_sum = [&](Index next) {
    for (int u = 0; u < U; ++u) {
      Scalar<Number>* to = out + at * tile + u * rows;
      if constexpr (Up)
        store(to, sum[u]);
      else
        store(to, load<Number>(to) + sum[u]);
      sum[u] = Number{};
    }
    if (Up && next > at + 1)
      std::memset(out + (at + 1) * tile, 0, sizeof(Scalar<Number>) * std::size_t((next - at - 1) * tile));
    at = next;
  };
  for (Index e = 0; e < met.entries; e += 2) {
    Number value[2][U];
    for (int u = 0; u < U; ++u) {
      if constexpr (Own) {
        read_pair(met.values + e, met.place + u * rows, value[0][u], value[1][u]);
      } else {
        same_value(met.values[e], value[0][u]);
        same_value(met.values[e + 1], value[1][u]);
      }
    }
    for (int i = 0; i < 2; ++i) {
      const std::int32_t* here = met.index + legs * (e + i);
      if (here[leg] != at) add_sum(here[leg]);
      for (int u = 0; u < U; ++u) {
        if constexpr (Factors == 0) {
          sum[u] = sum[u] + value[i][u];
        } else {
          Number product = load<Number>(met.from[by[0]] + here[by[0]] * tile + u * rows);
          for (int k = 1; k < Factors; ++k)
            product = product * load<Number>(met.from[by[k]] + here[by[k]] * tile + u * rows);
          add_product(sum[u], value[i][u], product);
        }
      }
    }
  }
  add_sum(bond);
}

template <class Number, int U, bool Up, int Factors>
void send_by(const Meeting<Number>& met, int leg, Index bond, Scalar<Number>* out) {
  met.place ? send_over<Number, U, Factors, true, Up>(met, leg, bond, out)
            : send_over<Number, U, Factors, false, Up>(met, leg, bond, out);
}

template <class Number, int U, bool Up>
void send(const Meeting<Number>& met, Index children, int leg, Index bond, Scalar<Number>* out) {
  switch (children) {
    case 0:
      return send_by<Number, U, Up, 0>(met, leg, bond, out);
    case 1:
      return send_by<Number, U, Up, 1>(met, leg, bond, out);
    case 2:
      return send_by<Number, U, Up, 2>(met, leg, bond, out);
    default:
      return send_by<Number, U, Up, 3>(met, leg, bond, out);
  }
}

// P(column = v, the other cells) of the rows of a tile, up to a factor: for each state the sum over entries of its
// value there times the product of all messages. `met.place` is that of the column's state 0.
template <class Number, int U>
void add_up_table(const Meeting<Number>& met, Index children, const OwnColumn& own, Scalar<Number>* products,
                  Scalar<Number>* table) {
  constexpr Index rows = Rows<Number>::count, tile = U * rows;
  std::memset(table, 0, sizeof(Scalar<Number>) * std::size_t(own.states * tile));
  for (Index first = 0; first < met.entries; first += entries_at_once) {
    const Index stop = smaller(first + Index(entries_at_once), met.entries);
    for (Index e = first; e < stop; ++e) {
      const std::int32_t* here = met.index + legs * e;
      for (int u = 0; u < U; ++u) {
        Number product = load<Number>(met.from[0] + here[0] * tile + u * rows);
        for (Index k = 1; k <= children; ++k)
          product = product * load<Number>(met.from[k] + here[k] * tile + u * rows);
        store(products + (e - first) * tile + u * rows, product);
      }
    }
    for (Index v = 0; v < own.states; ++v) {
      Number sum[U];
      for (int u = 0; u < U; ++u) sum[u] = load<Number>(table + v * tile + u * rows);
      for (Index e = first; e < stop; e += 2) {
        const Scalar<Number>* by = products + (e - first) * tile;
        for (int u = 0; u < U; ++u) {
          Number value, next;
          read_pair(met.values + v * own.stride + e, met.place + u * rows, value, next);
          add_product(sum[u], value, load<Number>(by + u * rows));
          add_product(sum[u], next, load<Number>(by + tile + u * rows));
        }
      }
      for (int u = 0; u < U; ++u) store(table + v * tile + u * rows, sum[u]);
    }
  }
}

// One row's table in doubles; in extended range, as multiples of the largest power of two in it.
void read_table(const double* table, Index states, Index tile, double* shares) {
  for (Index v = 0; v < states; ++v) shares[v] = table[v * tile];
}
void read_table(const Extended* table, Index states, Index, double* shares) {
  std::int64_t top = INT64_MIN / 2;
  for (Index v = 0; v < states; ++v)
    if (table[v].size != 0.0) top = larger(top, table[v].power);
  for (Index v = 0; v < states; ++v) shares[v] = table[v].size != 0.0 ? relative(table[v], top) : 0.0;
}

// The state whose stretch of the positive part of a table holds the uniform number; `states` if nothing is
// positive.
Index pick(const double* shares, Index states, double uniform) {
  double total = 0.0;
  for (Index v = 0; v < states; ++v) total += larger(shares[v], 0.0);
  double left = uniform * total;
  Index chosen = states;
  for (Index v = 0; v < states; ++v)
    if (shares[v] > 0.0) {
      chosen = v;
      left -= shares[v];
      if (left < 0.0) break;
    }
  return chosen;
}

template <class Code>
void add_codes(const void* cells, Index first, Index count, std::int32_t stride, std::int32_t* place) {
  const Code* codes = static_cast<const Code*>(cells) + first;
  for (Index r = 0; r < count; ++r) place[r] += std::int32_t(codes[r]) * stride;
}

template <class Code>
std::int64_t largest_of(const void* cells, Index first, Index count) {
  const Code* codes = static_cast<const Code*>(cells) + first;
  Code most = 0;
  for (Index r = 0; r < count; ++r) most = larger(most, codes[r]);
  return std::int64_t(most);
}

std::int64_t largest_code(const CodesView& codes, std::int64_t column) {
  const Index first = column * codes.rows;
  if (codes.bytes == 1) return largest_of<std::uint8_t>(codes.cells, first, codes.rows);
  if (codes.bytes == 2) return largest_of<std::uint16_t>(codes.cells, first, codes.rows);
  return largest_of<std::uint32_t>(codes.cells, first, codes.rows);
}

Index code_at(const CodesView& codes, Index column, Index row) {
  const Index at = column * codes.rows + row;
  if (codes.bytes == 1) return static_cast<const std::uint8_t*>(codes.cells)[at];
  if (codes.bytes == 2) return static_cast<const std::uint16_t*>(codes.cells)[at];
  return static_cast<const std::uint32_t*>(codes.cells)[at];
}

void write_code(const CodesView& codes, Index column, Index row, Index code) {
  const Index at = column * codes.rows + row;
  if (codes.bytes == 1)
    static_cast<std::uint8_t*>(codes.cells)[at] = std::uint8_t(code);
  else if (codes.bytes == 2)
    static_cast<std::uint16_t*>(codes.cells)[at] = std::uint16_t(code);
  else
    static_cast<std::uint32_t*>(codes.cells)[at] = std::uint32_t(code);
}

INLINE bool any(Vector<std::int64_t, lanes<double>> holds) {
  std::int64_t found = 0;
  for (int i = 0; i < lanes<double>; ++i) found |= holds[i];
  return found != 0;
}

// Brings the message of each row of a tile back into range, and `scaled` lines with it; adds what was taken out to
// its exponent, and returns the largest.
template <int U>
Index rescale(double* message, Index bond, Index scaled, std::int64_t* exponent) {
  constexpr Index rows = lanes<double>, tile = U * rows;
  Vector<std::int64_t, lanes<double>> outside = {};
  double peaks[tile];
  for (int u = 0; u < U; ++u) {
    Lanes peak = {};
    for (Index line = 0; line < bond; ++line) {
      const Lanes size = magnitude(load<Lanes>(message + line * tile + u * rows));
      peak = peak < size ? size : peak;
    }
    outside |= (peak < tiny) | (peak > huge);
    store(peaks + u * rows, peak);
  }
  Index largest = 0;
  if (!any(outside)) return largest;
  for (Index r = 0; r < tile; ++r) {
    const double size = peaks[r];
    if ((size >= tiny && size <= huge) || !(size > 0.0) || size == HUGE_VAL) continue;
    int shift;
    std::frexp(size, &shift);
    shift -= 1;
    // Two steps, because the inverse of a subnormal number overflows.
    const double half = std::ldexp(1.0, -(shift / 2)), rest = std::ldexp(1.0, -(shift - shift / 2));
    for (Index line = 0; line < scaled; ++line) {
      double& number = message[line * tile + r];
      number = number * half * rest;
    }
    exponent[r] += shift;
    largest = larger(largest, Index(shift));
  }
  return largest;
}

// The rows of a block, or a part of them, on their way through the tree.
template <class Number, int U>
struct Pass {
  static constexpr Index rows = Rows<Number>::count, tile = U * rows;
  static constexpr bool exact = Rows<Number>::exact;

  const OperatorTreeView& tree;
  const CodesView& codes;
  const MessageSpace& space;
  Index start, count;  // rows
  Index lines_of_tile;

  Index tiles() const { return (count + tile - 1) / tile; }
  Scalar<Number>* lines() const { return reinterpret_cast<Scalar<Number>*>(space.lines); }
  Scalar<Number>* up(Index t, Index n) const { return lines() + (t * lines_of_tile + tree.line[n]) * tile; }
  Scalar<Number>* down(Index t, Index n) const { return up(t, n) + tree.depth * tile; }
  Scalar<Number>* scratch() const { return lines() + tiles() * lines_of_tile * tile; }

  // Where the values of each row start at a node, counted from its first.
  void find_places(const OperatorNode& node) const {
    if (node.columns == 0) return;
    std::int32_t* place = space.place;
    for (Index r = 0; r < count; ++r) place[r] = 0;
    for (Index k = node.first_column; k < node.first_column + node.columns; ++k) {
      const OwnColumn& own = tree.columns[k];
      const Index first = own.column * codes.rows + start;
      if (codes.bytes == 1)
        add_codes<std::uint8_t>(codes.cells, first, count, std::int32_t(own.stride), place);
      else if (codes.bytes == 2)
        add_codes<std::uint16_t>(codes.cells, first, count, std::int32_t(own.stride), place);
      else
        add_codes<std::uint32_t>(codes.cells, first, count, std::int32_t(own.stride), place);
    }
    // A tile that is not full is filled with copies of its last row.
    for (Index r = count; r < tiles() * tile; ++r) place[r] = place[count - 1];
  }

  Meeting<Number> meeting(const OperatorNode& node, Index t) const {
    Meeting<Number> met = {tree.values + node.first_value,
                           node.columns ? space.place + t * tile : nullptr,
                           tree.index + legs * node.first_entry,
                           node.entries,
                           {}};
    met.from[0] = down(t, &node - tree.nodes);
    for (Index k = 0; k < node.children; ++k) met.from[k + 1] = up(t, tree.child[node.first_child + k]);
    return met;
  }

  Index send_up(Index n, Index t, bool lossy) const {
    const OperatorNode& node = tree.nodes[n];
    send<Number, U, true>(meeting(node, t), node.children, 0, node.bond, up(t, n));
    if constexpr (exact) {
      return 0;
    } else {
      if (lossy) bound_error(n, t);
      return rescale<U>(up(t, n), node.bond, node.bond + lossy, space.exponent + t * tile);
    }
  }

  // The message of a node to its k-th child, from all that is outside that child.
  void send_down(Index n, Index k, Index t) const {
    const OperatorNode& node = tree.nodes[n];
    const Index child = tree.child[node.first_child + k], bond = tree.nodes[child].bond;
    send<Number, U, false>(meeting(node, t), node.children, int(k) + 1, bond, down(t, child));
    if constexpr (!exact) rescale<U>(down(t, child), bond, bond, space.exponent + t * tile);
  }

  // Nothing is above the root.
  void enter_root() const {
    for (Index t = 0; t < tiles(); ++t)
      for (Index r = 0; r < tile; ++r)
        if constexpr (exact)
          down(t, 0)[r] = extended(1.0);
        else
          down(t, 0)[r] = 1.0;
  }

  // A bound on the log2 of the smallest product at a node: from what is known, or else as measured.
  double lowest(Index n) const {
    const OperatorNode& node = tree.nodes[n];
    double bound = node.reach;
    for (Index k = 0; k < node.children; ++k) bound += space.low[tree.child[node.first_child + k]];
    if (bound >= lowest_product) return bound;
    bound = node.reach;
    for (Index k = 0; k < node.children; ++k) {
      const Index child = tree.child[node.first_child + k];
      Lanes least = spread<Lanes>(1.0);
      for (Index t = 0; t < tiles(); ++t)
        for (Index i = 0; i < tree.nodes[child].bond * U; ++i) {
          const Lanes size = magnitude(load<Lanes>(up(t, child) + i * rows));
          least = ((size > 0.0) & (size < least)) ? size : least;
        }
      double smallest = 1.0;
      for (Index r = 0; r < rows; ++r) smallest = smaller(smallest, least[r]);
      space.low[child] = std::log2(smallest);
      bound += space.low[child];
    }
    return bound;
  }

  // Writes, on the line after a node's message, a bound on what underflow, here or below, may have taken from an
  // entry of it, row by row.
  void bound_error(Index n, Index t) const {
    const OperatorNode& node = tree.nodes[n];
    for (Index r = 0; r < tile; ++r) {
      // The norm of the operator at the row's cells: how much it can amplify an error.
      for (Index p = 0; p < node.bond; ++p) space.weight[p] = 0.0;
      const double* values = tree.values + node.first_value + (node.columns ? space.place[t * tile + r] : 0);
      for (Index e = 0; e < node.entries; ++e)
        space.weight[tree.index[legs * (node.first_entry + e)]] += std::fabs(values[e]);
      double norm = 0.0;
      for (Index p = 0; p < node.bond; ++p) norm = larger(norm, space.weight[p]);
      double low = node.reach, product = 1.0, error = 0.0;
      for (Index k = 0; k < node.children; ++k) {
        const Index child = tree.child[node.first_child + k], bond = tree.nodes[child].bond;
        const double* message = up(t, child) + r;
        double peak = 0.0, least = huge;
        for (Index i = 0; i < bond; ++i) {
          const double size = std::fabs(message[i * tile]);
          peak = larger(peak, size);
          if (size > 0.0) least = smaller(least, size);
        }
        const double below = space.lossy[child] ? smaller(message[bond * tile], huge) : 0.0;
        error = error * (peak + below) + product * below;
        product *= peak;
        low += smaller(std::log2(least), 0.0);
        // The bound itself must not underflow.
        if (below > 0.0) error = larger(error, flushed);
      }
      error *= norm;
      if (low < lowest_product) error += flushed * norm;
      if (error > 0.0) error = larger(error, flushed);
      // What is this far lost stays so; an infinite bound would turn into no number at all.
      up(t, n)[node.bond * tile + r] = smaller(error, huge);
    }
  }

  // Passes messages up the whole tree, and marks the rows whose probability underflow may have changed.
  void pass_up() const {
    for (Index r = 0; r < tiles() * tile; ++r) space.exponent[r] = 0;
    for (Index n = tree.count - 1; n >= 0; --n) {
      const OperatorNode& node = tree.nodes[n];
      find_places(node);
      double bound = 0.0;
      bool lossy = false;
      if constexpr (!exact) {
        bound = lowest(n);
        lossy = bound < lowest_product;
        for (Index k = 0; k < node.children; ++k) lossy |= space.lossy[tree.child[node.first_child + k]];
        space.lossy[n] = lossy;
      }
      Index largest = 0;
      for (Index t = 0; t < tiles(); ++t) largest = larger(largest, send_up(n, t, lossy));
      if constexpr (!exact) space.low[n] = smaller(bound - double(largest), 0.0);
    }
    if constexpr (!exact)
      for (Index r = 0; r < count; ++r) {
        const double* root = up(r / tile, 0) + r % tile;
        space.unsure[start + r] = space.lossy[0] && root[tile] > certain * std::fabs(root[0]);
      }
  }

  void write_sizes(double* log_size, std::int8_t* sign) const {
    for (Index r = 0; r < count; ++r) {
      double size;
      std::int64_t exponent;
      if constexpr (exact) {
        size = up(0, 0)->size;
        exponent = up(0, 0)->power;
      } else {
        size = up(r / tile, 0)[r % tile];
        exponent = space.exponent[r];
      }
      sign[start + r] = std::int8_t((size > 0.0) - (size < 0.0));
      log_size[start + r] = std::log(std::fabs(size)) + double(exponent) * 0.6931471805599453;
    }
  }

  void write_tables(const std::int64_t* offset, double* tables, Index width) const {
    enter_root();
    Scalar<Number>* table = scratch() + entries_at_once * tile;
    for (Index n = 0; n < tree.count; ++n) {
      const OperatorNode& node = tree.nodes[n];
      find_places(node);
      for (Index t = 0; t < tiles(); ++t)
        for (Index k = 0; k < node.children; ++k) send_down(n, k, t);
      for (Index k = node.first_column; k < node.first_column + node.columns; ++k) {
        const OwnColumn& own = tree.columns[k];
        if (offset[own.column] < 0) continue;
        // Places without this column's cells.
        for (Index r = 0; r < tiles() * tile; ++r)
          space.absent[r] =
              space.place[r] - std::int32_t(code_at(codes, own.column, start + smaller(r, count - 1)) * own.stride);
        for (Index t = 0; t < tiles(); ++t) {
          Meeting<Number> met = meeting(node, t);
          met.place = space.absent + t * tile;
          add_up_table<Number, U>(met, node.children, own, scratch(), table);
          for (Index r = t * tile; r < smaller(count, (t + 1) * tile); ++r)
            read_table(table + r % tile, own.states, tile, tables + (start + r) * width + offset[own.column]);
        }
      }
    }
  }

  // Samples one of a node's own columns in the rows that lack it. Their messages are brought together, so that
  // few of them cost little.
  void draw_column(Index n, const OwnColumn& own, const double* uniform, Index columns) const {
    const OperatorNode& node = tree.nodes[n];
    Index lacking = 0;
    for (Index r = 0; r < count; ++r)
      if (code_at(codes, own.column, start + r) == own.states && (exact || !space.unsure[start + r]))
        space.absent[lacking++] = std::int32_t(r);
    if (lacking == 0) return;
    find_places(node);
    Scalar<Number>* table = scratch() + entries_at_once * tile;
    Scalar<Number>* gathered = table + own.states * tile;
    for (Index first = 0; first < lacking; first += rows) {
      std::int32_t which[rows], place[rows];
      for (Index i = 0; i < rows; ++i) {
        which[i] = space.absent[smaller(first + i, lacking - 1)];
        place[i] = space.place[which[i]] - std::int32_t(own.states * own.stride);
      }
      Meeting<Number> met = meeting(node, 0);
      met.place = place;
      Scalar<Number>* to = gathered;
      for (Index k = 0; k <= node.children; ++k) {
        const Index bond = k == 0 ? node.bond : tree.nodes[tree.child[node.first_child + k - 1]].bond;
        for (Index i = 0; i < rows; ++i) {
          const Scalar<Number>* from = met.from[k] + which[i] / tile * lines_of_tile * tile + which[i] % tile;
          for (Index p = 0; p < bond; ++p) to[p * rows + i] = from[p * tile];
        }
        met.from[k] = to;
        to += bond * rows;
      }
      add_up_table<Number, 1>(met, node.children, own, scratch(), table);
      double* shares = reinterpret_cast<double*>(to);
      for (Index i = 0; i < smaller(rows, lacking - first); ++i) {
        read_table(table + i, own.states, rows, shares);
        const Index row = start + which[i];
        write_code(codes, own.column, row, pick(shares, own.states, uniform[row * columns + own.column]));
      }
    }
  }

  void draw(const TourStep* tour, Index steps, const double* uniform, Index columns) const {
    enter_root();
    for (Index step = 0; step < steps; ++step) {
      const Index n = tour[step].node, parent = tour[step].parent;
      const OperatorNode& node = tree.nodes[n];
      if (tour[step].k < 0) {
        // Now with the cells known that were sampled below.
        find_places(node);
        for (Index t = 0; t < tiles(); ++t) send_up(n, t, false);
        continue;
      }
      if (parent >= 0) {
        find_places(tree.nodes[parent]);
        for (Index t = 0; t < tiles(); ++t) send_down(parent, tour[step].k, t);
      }
      for (Index k = node.first_column; k < node.first_column + node.columns; ++k)
        draw_column(n, tree.columns[k], uniform, columns);
    }
  }
};

// All rows pass in blocks, and then one by one in extended range those that underflow may have changed.
template <class Work>
void pass_rows(const OperatorTreeView& tree, const CodesView& codes, const MessageSpace& space, bool down,
               Work work) {
  constexpr Index tile = Pass<Lanes, registers_of_tile>::tile;
  const Index lines = down ? 2 * tree.depth : tree.depth;
  for (Index start = 0; start < codes.rows; start += space.block) {
    const Index count = smaller(Index(space.block), codes.rows - start), whole = count / tile * tile;
    if (whole > 0) work(Pass<Lanes, registers_of_tile>{tree, codes, space, start, whole, lines});
    if (whole < count) work(Pass<Lanes, 1>{tree, codes, space, start + whole, count - whole, lines});
  }
  for (Index r = 0; r < codes.rows; ++r)
    if (space.unsure[r]) work(Pass<Extended, 1>{tree, codes, space, r, 1, lines});
}

void score(const OperatorTreeView& tree, const CodesView& codes, const MessageSpace& space, double* log_size,
           std::int8_t* sign) {
  pass_rows(tree, codes, space, false, [&](const auto& pass) {
    pass.pass_up();
    pass.write_sizes(log_size, sign);
  });
}

void tables(const OperatorTreeView& tree, const CodesView& codes, const MessageSpace& space,
            const std::int64_t* offset, double* out, std::int64_t width) {
  pass_rows(tree, codes, space, true, [&](const auto& pass) {
    pass.pass_up();
    pass.write_tables(offset, out, width);
  });
}

void draw(const OperatorTreeView& tree, const CodesView& codes, const MessageSpace& space, const TourStep* tour,
          std::int64_t steps, const double* uniform, std::int64_t columns) {
  pass_rows(tree, codes, space, true, [&](const auto& pass) {
    pass.pass_up();
    pass.draw(tour, steps, uniform, columns);
  });
}

}  // namespace
}  // namespace LOOPS

const MessagePassingLoops EIGENTREE_JOIN(message_passing_loops_, EIGENTREE_INSTRUCTIONS) = {
    LOOPS::Pass<LOOPS::Lanes, LOOPS::registers_of_tile>::tile, LOOPS::largest_code, LOOPS::score, LOOPS::tables,
    LOOPS::draw};

}  // namespace eigentree
