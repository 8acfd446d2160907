#include <cmath>

#include "chain_rule.hpp"
#include "code_table.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

using Numbers = Register<double>;
using Mask = Register<std::int64_t>;
constexpr Index width = lanes<double>;
static_assert(2 * width <= most_rows_at_a_time);

// Messages over every edge, both ways, when all cells are missing; the first of them is 1, for absent ports.
void constants(const ChainRuleTree& tree, const std::int64_t* messages, std::int64_t count, double* known) {
  known[0] = 1.0;
  for (Index m = 0; m < count; ++m) {
    const Index node = messages[2 * m], out = messages[2 * m + 1];
    const Port* ports = tree.ports + 3 * node;
    const Port &leaving = ports[out], &one = ports[(out + 1) % 3], &two = ports[(out + 2) % 3];
    const double* values = tree.values + tree.first_value[node] + tree.states[node];
    for (Index o = 0; o < leaving.size; ++o) {
      double total = 0.0;
      for (Index i = 0; i < one.size; ++i)
        for (Index j = 0; j < two.size; ++j)
          total += values[o * leaving.stride + i * one.stride + j * two.stride] *
                   (known[one.entry + i] * known[two.entry + j]);
      known[leaving.exit + o] = total;
    }
  }
}

// A matrix inside a node's table: entry (o, i, j) is at o * out + i * one + j * two.
struct Strided {
  const double* values;
  Index out, one, ones, two, twos;
};

// Outputs o to o + Outputs - 1 of a matrix times vectors, for several registers of rows: lines of the vectors
// follow each other at a distance. Sums go over entries in their order, so no row depends on those beside it.
template <int Outputs, int Registers>
INLINE void multiply(const Strided& matrix, Index o, const double* lines, Index distance,
                     Numbers (&sums)[Outputs][Registers]) {
  for (int k = 0; k < Outputs; ++k)
    for (int v = 0; v < Registers; ++v) sums[k][v] = Numbers{};
  for (Index i = 0; i < matrix.ones; ++i) {
    const double* entry = matrix.values + o * matrix.out + i * matrix.one;
    for (Index j = 0; j < matrix.twos; ++j, lines += distance, entry += matrix.two) {
      Numbers line[Registers];
      for (int v = 0; v < Registers; ++v) line[v] = load<Numbers>(lines + v * width);
      for (int k = 0; k < Outputs; ++k)
        for (int v = 0; v < Registers; ++v) sums[k][v] += entry[k * matrix.out] * line[v];
    }
  }
}

// All outputs of a matrix, four at a time: `write(o, sums)` gets them.
template <int Registers, class Write>
INLINE void multiply_all(const Strided& matrix, Index outputs, const double* lines, Index distance,
                         const Write& write) {
  const auto some = [&](auto& sums, Index o) {
    multiply(matrix, o, lines, distance, sums);
    for (const auto& sum : sums) write(o++, sum);
  };
  Index o = 0;
  for (; o + 4 <= outputs; o += 4) {
    Numbers sums[4][Registers];
    some(sums, o);
  }
  if (o + 2 <= outputs) {
    Numbers sums[2][Registers];
    some(sums, o);
    o += 2;
  }
  if (o < outputs) {
    Numbers sums[1][Registers];
    some(sums, o);
  }
}

// A number of registers, as a type.
template <int Registers>
struct AtOnce {
  static constexpr int registers = Registers;
};

// Calls `part(row, AtOnce)` for all rows of a block, two registers at a time or one.
template <class Part>
INLINE void for_rows(Index count, const Part& part) {
  Index r = 0;
  for (; r + width < count; r += 2 * width) part(r, AtOnce<2>{});
  if (r < count) part(r, AtOnce<1>{});
}

// One pass of a block of rows over all steps.
struct Block {
  const ChainRuleTree& tree;
  const double* known;
  const Floor& floor;
  const CodeTable& cells;
  const double* uniform;
  const ChainRuleSpace& space;
  Index start, count;

  double* line(Index number) const { return space.lines + number * space.block; }

  // The message that goes out of an inner node, from those that come in.
  void send(const ChainRuleStep& step, const double*& prepared) const {
    const Port* ports = tree.ports + 3 * step.node;
    const Port &leaving = ports[step.out], &one = ports[step.one], &two = ports[step.two];
    const Index block = space.block;
    double* out = line(step.line_out);
    const double* first = line(step.line_one);
    if (step.line_two < 0) {
      const Strided matrix{prepared, one.size, one.size, 1, 1, one.size};
      prepared += leaving.size * one.size;
      for_rows(count, [&](Index r, auto at_once) {
        multiply_all<decltype(at_once)::registers>(
            matrix, leaving.size, first + r, block,
            [&](Index o, const auto& sum) { put(out + o * block + r, sum); });
      });
      return;
    }
    const double* second = line(step.line_two);
    const Strided matrix{
        tree.values + tree.first_value[step.node], leaving.stride, one.stride, one.size, two.stride, two.size};
    for_rows(count, [&](Index r, auto at_once) {
      constexpr int registers = decltype(at_once)::registers;
      double* product = space.products;
      for (Index i = 0; i < one.size; ++i)
        for (Index j = 0; j < two.size; ++j, product += registers * width)
          for (int v = 0; v < registers; ++v)
            store(product + v * width, load<Numbers>(first + i * block + r + v * width) *
                                           load<Numbers>(second + j * block + r + v * width));
      multiply_all<registers>(matrix, leaving.size, space.products, registers * width,
                              [&](Index o, const auto& sum) { put(out + o * block + r, sum); });
    });
  }

  template <int Registers>
  INLINE static void put(double* to, const Numbers (&sum)[Registers]) {
    for (int v = 0; v < Registers; ++v) store(to + v * width, sum[v]);
  }

  // The codes of a leaf's column; rows behind the last of a block are as if all were missing.
  void read(Index column, Index states) const {
    const Index at = column * cells.rows + start;
    for (Index r = 0; r < count; ++r) space.place[r] = code_at(cells, at + r);
    for (Index r = count; r < space.block; ++r) space.place[r] = states;
  }

  // The table of a leaf's column given the cells before it, a line per state, its sum and that of its positive
  // part.
  void tabulate(const ChainRuleStep& step) const {
    const Index states = tree.states[step.node], block = space.block;
    const Port& port = tree.ports[3 * step.node + step.out];
    const Strided matrix{tree.values + tree.first_value[step.node], 1, 0, 1, states + 1, port.size};
    const double* message = step.line_one < 0 ? space.table + (states + 1) * block : line(step.line_one);
    if (step.line_one < 0)
      for (Index k = 0; k < port.size; ++k)
        for (Index r = 0; r < block; ++r) space.table[(states + 1 + k) * block + r] = known[port.entry + k];
    for (Index r = 0; r < block; ++r) space.table[states * block + r] = 0.0;
    for_rows(count, [&](Index r, auto at_once) {
      constexpr int registers = decltype(at_once)::registers;
      Numbers positive[registers] = {}, total[registers] = {};
      multiply_all<registers>(matrix, states, message + r, block, [&](Index s, const auto& cell) {
        put(space.table + s * block + r, cell);
        for (int v = 0; v < registers; ++v) {
          positive[v] += cell[v] < 0.0 ? Numbers{} : cell[v];  // what is no number stays none
          total[v] += cell[v];
        }
      });
      put(space.positive + r, positive);
      put(space.total + r, total);
    });
  }

  // A state for each missing cell of a column, sampled from its distribution.
  void sample(const ChainRuleStep& step) const {
    const Index states = tree.states[step.node], block = space.block;
    const double* marginals = floor.marginals + floor.first[step.column];
    for (Index r = 0; r < count; ++r) {
      if (space.place[r] != states) continue;
      const double positive = space.positive[r], clipped = clipped_weight * (positive - space.total[r]);
      const bool usable = positive > least_sum && positive + clipped < HUGE_VAL;
      double left = uniform[step.column * cells.rows + start + r];
      for (Index s = 0; s < states; ++s) {
        double q = marginals[s];
        if (usable) {
          const double own = larger(space.table[s * block + r], 0.0) + clipped * marginals[s];
          q = (1.0 - floor.share) * (own / (positive + clipped)) + floor.share * marginals[s];
        }
        if (q > 0.0) {
          // Rounding may leave a little over: the last state that is possible gets it.
          space.place[r] = s;
          put_code(cells, step.column * cells.rows + start + r, s);
          left -= q;
          if (left < 0.0) break;
        }
      }
    }
  }

  // Multiplies each row's probability by that of its cell, and finds the effect of the cell on those after it:
  // `model` times the cell's own values and `alone` times those of a missing one. With the probability that the
  // cell came from its column's marginal, it has none.
  void observe(const ChainRuleStep& step) const {
    const Index states = tree.states[step.node], block = space.block;
    const double* marginals = floor.marginals + floor.first[step.column];
    const Numbers zero{}, one = spread<Numbers>(1.0), share = spread<Numbers>(floor.share);
    for (Index first = 0; first < count; first += width) {
      Numbers cell, marginal;
      for (Index lane = 0; lane < width; ++lane) {
        const Index r = first + lane, x = space.place[r];
        cell[lane] = space.table[x * block + r];
        marginal[lane] = marginals[x < states ? x : 0];
      }
      const Numbers positive = load<Numbers>(space.positive + first), total = load<Numbers>(space.total + first);
      const Mask seen = load<Mask>(space.place + first) < spread<Mask>(std::int64_t(states));
      const Numbers clipped = clipped_weight * (positive - total), whole = positive + clipped;
      const Mask usable = seen & (positive > least_sum) & (whole < HUGE_VAL);
      const Mask likely = usable & (cell > 0.0);
      const Numbers own = cell < 0.0 ? zero : cell;
      const Numbers trust = (1.0 - share) / whole;
      const Numbers learned = trust * (own + clipped * marginal) + share * marginal;
      const Numbers q = seen ? (usable ? learned : marginal) : one;
      const Numbers model = likely ? trust / q : zero;
      const Numbers weight = likely ? model * own : zero;
      const Mask below = usable & (clipped > 0.0);
      add(space.clipped + first, below ? clipped / whole : zero);
      add(space.refused + first, usable & ~likely ? one : zero);
      store(space.product + first, load<Numbers>(space.product + first) * q);
      store(space.model + first, model);
      store(space.alone + first, (1.0 - weight) / (total > 0.0 ? total : one));
    }
    for (Index r = 0; r < count; ++r)
      if (space.product[r] < least_product) {
        space.log_prob[r] += std::log(space.product[r]);
        space.product[r] = 1.0;
      }
  }

  INLINE static void add(double* to, Numbers what) { store(to, load<Numbers>(to) + what); }

  // The message of a leaf to the cells after it.
  void go_on(const ChainRuleStep& step) const {
    const Index states = tree.states[step.node], size = tree.ports[3 * step.node + step.out].size;
    const double* values = tree.values + tree.first_value[step.node];
    for (Index first = 0; first < count; first += width) {
      const Numbers model = load<Numbers>(space.model + first), alone = load<Numbers>(space.alone + first);
      for (Index k = 0; k < size; ++k) {
        const double* own = values + k * (states + 1);
        Numbers cell;
        for (Index lane = 0; lane < width; ++lane) cell[lane] = own[space.place[first + lane]];
        store(line(step.line_out + k) + first, model * cell + alone * own[states]);
      }
    }
  }

  void pass(const ChainRuleStep* steps, Index step_count, double* found) const {
    for (Index r = 0; r < space.block; ++r) {
      space.product[r] = 1.0;
      space.log_prob[r] = space.clipped[r] = space.refused[r] = 0.0;
    }
    const double* prepared = space.matrices;
    for (Index s = 0; s < step_count; ++s) {
      const ChainRuleStep& step = steps[s];
      if (step.column < 0) {
        send(step, prepared);
        continue;
      }
      read(step.column, tree.states[step.node]);
      tabulate(step);
      if (uniform) sample(step);
      observe(step);
      if (step.line_out >= 0) go_on(step);
    }
    for (Index r = 0; r < count; ++r) {
      found[start + r] = space.log_prob[r] + std::log(space.product[r]);
      found[cells.rows + start + r] = space.clipped[r];
      found[2 * cells.rows + start + r] = space.refused[r];
    }
  }
};

// Matrices of inner nodes that have a constant message: that one is multiplied into them.
void prepare(const ChainRuleTree& tree, const ChainRuleStep* steps, Index count, const double* known,
             double* matrices) {
  for (Index s = 0; s < count; ++s) {
    const ChainRuleStep& step = steps[s];
    if (step.column >= 0 || step.line_two >= 0) continue;
    const Port* ports = tree.ports + 3 * step.node;
    const Port &leaving = ports[step.out], &one = ports[step.one], &two = ports[step.two];
    const double* values = tree.values + tree.first_value[step.node];
    for (Index o = 0; o < leaving.size; ++o)
      for (Index i = 0; i < one.size; ++i) {
        double total = 0.0;
        for (Index j = 0; j < two.size; ++j)
          total += values[o * leaving.stride + i * one.stride + j * two.stride] * known[two.entry + j];
        *matrices++ = total;
      }
  }
}

void score(const ChainRuleTree& tree, const ChainRuleStep* steps, std::int64_t count, const double* known,
           const Floor& floor, const CodeTable& cells, const double* uniform, const ChainRuleSpace& space,
           double* found) {
  prepare(tree, steps, count, known, space.matrices);
  for (Index start = 0; start < cells.rows; start += space.block) {
    const Index rows = smaller(Index(space.block), Index(cells.rows - start));
    Block{tree, known, floor, cells, uniform, space, start, rows}.pass(steps, count, found);
  }
}

}  // namespace
}  // namespace LOOPS

const ChainRuleLoops EIGENTREE_JOIN(chain_rule_loops_, EIGENTREE_INSTRUCTIONS) = {LOOPS::constants, LOOPS::score};

}  // namespace eigentree
