#include <cmath>

#include "estep.hpp"
#include "leaves.hpp"
#include "matrix_tiles.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

// Messages beyond these are brought back into range by powers of two, whose sum is the row's exponent.
template <class T>
struct Range;
template <>
struct Range<double> {
  static constexpr double least = 0x1p-60, most = 0x1p60, lost = 0.0;
  // Messages from above are cut here, so that none can meet a zero from below as an infinity.
  static constexpr double most_outside = 1e290;
};
template <>
struct Range<float> {
  // Siblings are multiplied before messages are brought back into range. What is smaller than `lost` has lost
  // digits: it is taken to be zero, which makes its row impossible, and the caller repeats it in double precision.
  static constexpr double least = 0x1p-10, most = 0x1p60, lost = 0x1p-100;
  static constexpr float most_outside = 1e30f;
};

// The inverse of a subnormal number overflows: what is left to do is left to the next node.
constexpr int least_shift = -900;

// Messages of some rows of one section.
template <class T>
class Messages {
  using V = Register<T>;

  const TreePass<T>& pass;
  const BlockTree& tree;
  const BlockSection& section;
  const TreeSpace<T> space;
  double* const sums;
  const Index width;
  Index begin = 0, count = 0, whole = 0;  // the first row, how many, and how many with those of the last tile

 public:
  static constexpr Index tile =
      tile_registers * lanes<T> % four ? 2 * tile_registers * lanes<T> : tile_registers * lanes<T>;
  static_assert(tile % four == 0, "leaves take four rows at a time");

  Messages(const TreePass<T>& given, TreeSpace<T> own, const BlockSection& passed, double* to)
      : pass(given), tree(given.tree), section(passed), space(own), sums(to), width(given.width) {}

  void start(Index first, Index stop) {
    begin = first;
    count = smaller<Index>(pass.block, stop - first);
    whole = (count + tile - 1) / tile * tile;
    for (Index r = 0; r < count; ++r) line(tree.ones)[r] = T(1), space.exponent[r] = 0;
    // What tiles find beyond the rows must count for nothing.
    if (count < whole)
      for (Index l = 0; l < section.lines; ++l)
        for (Index r = count; r < whole; ++r) line(l)[r] = T(0);
  }

  void up() const {
    for (Index i = section.end - 1; i >= section.first; --i) {
      const BlockNode& node = tree.nodes[i];
      if (node.leaf >= 0) {
        if (node.message >= 0) look_up_leaf<false>(node, node.message);
        continue;
      }
      join(node);
      mix(pass.transposed + node.value, node.blocks, node.rows, node.columns, products(node),
          rows_of(node, node.message), whole);
      if (node.factor >= 0) to_range(node);
    }
  }

  void down() const {
    for (Index i = section.first; i < section.end; ++i) {
      const BlockNode& node = tree.nodes[i];
      if (node.leaf >= 0) continue;
      if (node.factor >= 0) outside_to_range(node);
      matrix_down(node);
      count_leaves(node);
      if (node.first_edge < node.first_leaf) pass_down(node);
    }
  }

  // outside = weight / P(row) at the root, and the log-likelihood so far.
  void turn(LogLikelihood& found) const {
    const BlockNode& root = tree.nodes[section.first];
    const T* const size = line(root.message);
    T* const outside = line(root.outside);
    for (Index r = 0; r < count; ++r) {
      const double weight = pass.weights[begin + r], probability = double(size[r]);
      if (probability > 0.0) {
        found.sum += weight * (std::log(probability) + double(space.exponent[r]) * log_2);
        outside[r] = T(weight / probability);
      } else {
        outside[r] = T(0);
        if (weight > 0.0) found.impossible = begin + r;
      }
    }
  }

  // The messages of a section's root become values that a leaf of the section above reads.
  void write_table() const {
    const BlockNode& root = tree.nodes[section.first];
    T* const table = pass.values + section.table + begin * root.bond;
    for (Index p = 0; p < root.bond; ++p) {
      const T* const from = line(root.message + p);
      for (Index r = 0; r < count; ++r) table[r * root.bond + p] = from[r];
    }
    for (Index r = 0; r < count; ++r) pass.exponents[section.first_row + begin + r] = space.exponent[r];
  }

  // What comes down to a section is what that leaf has counted, which is the product of messages from above and
  // below, divided by the message from below. Where that is zero, nothing below can count.
  void read_counts() const {
    const BlockNode& root = tree.nodes[section.first];
    const T* const table = pass.values + section.table + begin * root.bond;
    const double* const counted = sums + section.above + begin * root.bond;
    for (Index p = 0; p < root.bond; ++p) {
      T* const out = line(root.outside + p);
      for (Index r = 0; r < count; ++r) {
        const T message = table[r * root.bond + p];
        out[r] = message > T(0) ? T(counted[r * root.bond + p] / double(message)) : T(0);
      }
    }
  }

 private:
  T* line(Index number) const { return space.lines + number * width; }

  const Index* picks(Index edge) const { return tree.places + tree.edges[edge].pick; }
  const BlockNode& child(Index edge) const { return tree.nodes[tree.edges[edge].child]; }
  Lines<T> rows_of(const BlockNode& node, Index first) const {
    return {line(first), width, tree.places + node.row};
  }
  Lines<T> columns_of(const BlockNode& node, Index first) const {
    return {line(first), width, tree.places + node.column};
  }
  Lines<T> products(const BlockNode& node) const { return columns_of(node, node.product); }

  template <class F>
  INLINE void with_codes(const BlockNode& leaf, F f) const {
    const Index first = section.codes + leaf.leaf * section.rows + begin;
    if (pass.code_bytes == 2)
      f(static_cast<const std::uint16_t*>(pass.codes) + first);
    else
      f(static_cast<const std::uint32_t*>(pass.codes) + first);
  }

  template <bool Multiply>
  void look_up_leaf(const BlockNode& leaf, Index out) const {
    with_codes(leaf, [&](auto codes) {
      look_up<Multiply>(pass.values + leaf.value, leaf.bond, codes, count, line(out), width);
    });
  }

  template <class F>
  INLINE void each_register(F f) const {
    for (Index r = 0; r < whole; r += lanes<T>) f(r);
  }

  void copy(Index out, Index from) const {
    T* const to = line(out);
    const T* const a = line(from);
    each_register([=](Index r) { store(to + r, load<V>(a + r)); });
  }
  void multiply(Index out, Index first, Index second) const {
    T* const to = line(out);
    const T *const a = line(first), *const b = line(second);
    each_register([=](Index r) { store(to + r, V(load<V>(a + r) * load<V>(b + r))); });
  }
  void add_product(Index out, Index first, Index second) const {
    T* const to = line(out);
    const T *const a = line(first), *const b = line(second);
    each_register([=](Index r) { store(to + r, V(load<V>(to + r) + load<V>(a + r) * load<V>(b + r))); });
  }

  // The products of the messages of leaves that are stored, then of inner children, then of other leaves.
  void join(const BlockNode& node) const {
    Index product = node.first_edge < node.first_leaf ? child(node.first_edge).before : node.product;
    bool nothing = true;
    for (Index k = node.first_leaf; k < node.last_edge; ++k) {
      const Index message = child(k).message;
      if (message < 0) continue;
      for (Index t = 0; t < node.terms; ++t) {
        const Index own = message + picks(k)[t];
        if (!nothing)
          multiply(product + t, product + t, own);
        else if (message != product)
          copy(product + t, own);
      }
      nothing = false;
    }
    for (Index k = node.first_edge; k < node.first_leaf; ++k) {
      const BlockNode& inner = child(k);
      product = k + 1 < node.first_leaf ? child(k + 1).before : node.product;
      for (Index t = 0; t < node.terms; ++t) {
        // The products may stand where the message does.
        const Index own = inner.message == product ? product + t : inner.message + picks(k)[t];
        if (inner.before >= 0)
          multiply(product + t, inner.before + t, own);
        else if (own != product + t)
          copy(product + t, own);
      }
      nothing = false;
    }
    for (Index k = node.first_leaf; k < node.last_edge; ++k) {
      if (child(k).message >= 0) continue;
      if (nothing)
        look_up_leaf<false>(child(k), node.product);
      else
        look_up_leaf<true>(child(k), node.product);
      nothing = false;
    }
  }

  // Multiplies each row's message by a power of two, which is left in the line `factor`. All states of a row share
  // its exponent: one that is less probable than another by more than numbers can hold is lost.
  void to_range(const BlockNode& node) const {
    T* const factor = line(node.factor);
    V least = spread<V>(T(1)), most = spread<V>(T(1));
    each_register([&](Index r) {
      V size = load<V>(line(node.message) + r);
      for (Index p = 1; p < node.bond; ++p) size += load<V>(line(node.message + p) + r);
      store(factor + r, size);
      if (r + lanes<T> <= count) {
        least = size < least ? size : least;
        most = size > most ? size : most;
      }
    });
    constexpr T low = T(Range<T>::least), high = T(Range<T>::most);
    bool usual = true;
    for (int k = 0; k < lanes<T>; ++k) usual &= least[k] >= low && most[k] <= high;
    for (Index r = count - count % lanes<T>; r < count; ++r) usual &= factor[r] >= low && factor[r] <= high;
    for (Index r = 0; r < count; ++r) {
      const double size = usual ? 1.0 : double(factor[r]);
      factor[r] = T(1);
      if (size < Range<T>::lost) {
        factor[r] = T(0);
      } else if ((size < Range<T>::least || size > Range<T>::most) && size > 0.0) {
        const int shift = larger(std::ilogb(size), least_shift);
        factor[r] = T(std::ldexp(1.0, -shift));
        space.exponent[r] += shift;
      }
    }
    if (usual) return;
    for (Index p = 0; p < node.bond; ++p) multiply(node.message + p, node.message + p, node.factor);
  }

  // What the message up was multiplied by, the message from above has to be, too.
  void outside_to_range(const BlockNode& node) const {
    const T* const factor = line(node.factor);
    const V most = spread<V>(T(Range<T>::most_outside));
    for (Index p = 0; p < node.bond; ++p) {
      T* const outside = line(node.outside + p);
      each_register([=](Index r) {
        const V size = load<V>(outside + r) * load<V>(factor + r);
        store(outside + r, V(size < most ? size : most));
      });
    }
  }

  // What comes down to each product, and what the matrix counts.
  void matrix_down(const BlockNode& node) const {
    const auto outside = rows_of(node, node.outside), product = products(node), down = columns_of(node, node.down);
    const T* const values = pass.values + node.value;
    double* const counts = sums + node.sums;
    const auto few = [&](auto rows, auto columns) {
      mix_and_dot<decltype(rows)::value, decltype(columns)::value>(values, node.blocks, outside, product, down,
                                                                   counts, whole);
    };
    const auto few_rows = [&](auto rows) {
      switch (node.columns) {
        case 1:
          few(rows, Known<1>{});
          break;
        case 2:
          few(rows, Known<2>{});
          break;
        case 3:
          few(rows, Known<3>{});
          break;
        case 4:
          few(rows, Known<4>{});
          break;
      }
    };
    switch (node.columns > 4 ? 0 : node.rows) {
      case 1:
        few_rows(Known<1>{});
        break;
      case 2:
        few_rows(Known<2>{});
        break;
      case 3:
        few_rows(Known<3>{});
        break;
      case 4:
        few_rows(Known<4>{});
        break;
      default:
        // Seen from above, columns are rows. The lines of what comes down are none of those that are multiplied.
        mix(values, node.blocks, node.columns, node.rows, outside, down, whole);
        dot(node.blocks, node.rows, node.columns, outside, product, counts, whole);
    }
  }

  // The distribution over the bond of each leaf, counted by codes. Leaves on the same bond have the same.
  void count_leaves(const BlockNode& node) const {
    const Index* shared = nullptr;
    for (Index k = node.first_leaf; k < node.last_edge; ++k) {
      const BlockNode& leaf = child(k);
      if (picks(k) != shared) {
        shared = picks(k);
        const Index *term = shared + node.terms, each = node.terms / leaf.bond;
        for (Index p = tree.share; p < tree.share + leaf.bond; ++p) {
          multiply(p, node.down + *term, node.product + *term);
          ++term;
          for (Index n = 1; n < each; ++n, ++term) add_product(p, node.down + *term, node.product + *term);
        }
      }
      with_codes(leaf, [&](auto codes) {
        count_codes(line(tree.share), width, leaf.bond, codes, count, sums + leaf.sums, leaf.apart);
      });
    }
  }

  // The messages from above to inner children: what comes down, times the messages of all others. What comes down
  // takes up those of leaves that are not stored, then those of inner children from the last to the first, so that
  // all that is left to multiply it by is what was multiplied before on the way up. To an only child it may come
  // down where its message goes.
  void pass_down(const BlockNode& node) const {
    for (Index k = node.first_leaf; k < node.last_edge; ++k)
      if (child(k).message < 0) look_up_leaf<true>(child(k), node.down);
    const bool in_place = node.down != tree.down;
    for (Index k = node.first_leaf - 1; k >= node.first_edge; --k) {
      const BlockNode& inner = child(k);
      const Index each = node.terms / inner.bond, *term = picks(k) + node.terms;
      if (in_place && inner.before < 0) continue;
      for (Index p = inner.outside; p < inner.outside + inner.bond; ++p)
        for (Index n = 0; n < each; ++n, ++term) {
          const Index before = inner.before >= 0 ? inner.before + *term : tree.ones;
          if (in_place)
            multiply(p, p, before);
          else if (n > 0)
            add_product(p, node.down + *term, before);
          else
            multiply(p, node.down + *term, before);
        }
      if (k > node.first_edge)
        for (Index t = 0; t < node.terms; ++t) multiply(node.down + t, node.down + t, inner.message + picks(k)[t]);
    }
  }
};

template <class T>
void messages(const TreePass<T>& pass, TreeSpace<T> space, const BlockSection& section) {
  Messages<T> own(pass, space, section, nullptr);
  for (Index begin = 0; begin < section.rows; begin += pass.block) {
    own.start(begin, section.rows);
    own.up();
    own.write_table();
  }
}

template <class T>
void counts(const TreePass<T>& pass, TreeSpace<T> space, const BlockSection& section, double* sums) {
  Messages<T> own(pass, space, section, sums);
  for (Index begin = 0; begin < section.rows; begin += pass.block) {
    own.start(begin, section.rows);
    own.up();
    own.read_counts();
    own.down();
  }
}

template <class T>
LogLikelihood first(const TreePass<T>& pass, TreeSpace<T> space, Index start, Index stop, double* sums) {
  LogLikelihood found{0.0, -1};
  Messages<T> own(pass, space, pass.sections[0], sums);
  for (Index begin = start; begin < stop; begin += pass.block) {
    own.start(begin, stop);
    own.up();
    own.turn(found);
    if (sums) own.down();
  }
  return found;
}

template <class Code>
std::uint32_t largest_code(const Code* codes, Index count) {
  Code largest = 0;
  for (Index r = 0; r < count; ++r) largest = larger(largest, codes[r]);
  return largest;
}

}  // namespace
}  // namespace LOOPS

const EstepLoops EIGENTREE_JOIN(estep_loops_, EIGENTREE_INSTRUCTIONS) = {
    {LOOPS::messages, LOOPS::counts, LOOPS::first, LOOPS::Messages<double>::tile},
    {LOOPS::messages, LOOPS::counts, LOOPS::first, LOOPS::Messages<float>::tile},
    LOOPS::largest_code,
    LOOPS::largest_code,
};

}  // namespace eigentree
