#include <cmath>

#include "code_table.hpp"
#include "operator_steps.hpp"
#include "vectors.hpp"

namespace eigentree {
namespace LOOPS {
namespace {

// sums[n] += factor * weights[k] * matrix[k, n], some columns at a time, rows in their order.
template <int Columns>
INLINE void add_columns(const double* matrix, Index rows, Index columns, const double* weights, double factor,
                        double* sums) {
  using Part = Vector<double, Columns>;
  Part sum = load<Part>(sums);
  for (Index k = 0; k < rows; ++k) sum += (factor * weights[k]) * load<Part>(matrix + k * columns);
  store(sums, sum);
}

void add_product(const double* matrix, Index rows, Index columns, const double* weights, double factor,
                 double* sums) {
  Index n = 0;
  for (; n + 8 <= columns; n += 8) add_columns<8>(matrix + n, rows, columns, weights, factor, sums + n);
  for (; n + 4 <= columns; n += 4) add_columns<4>(matrix + n, rows, columns, weights, factor, sums + n);
  for (; n + 2 <= columns; n += 2) add_columns<2>(matrix + n, rows, columns, weights, factor, sums + n);
  if (n < columns) {
    double sum = sums[n];
    for (Index k = 0; k < rows; ++k) sum += (factor * weights[k]) * matrix[k * columns + n];
    sums[n] = sum;
  }
}

double dot(const double* a, const double* b, Index size) {
  using Part = Vector<double, 4>;
  Part sums{};
  Index n = 0;
  for (; n + 4 <= size; n += 4) sums += load<Part>(a + n) * load<Part>(b + n);
  double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (; n < size; ++n) sum += a[n] * b[n];
  return sum;
}

// What is no number stays none.
INLINE double positive_part(double number) { return number < 0.0 ? 0.0 : number; }

// The table of a cell: the sum of its entries, and that of the positive ones.
struct Sums {
  double positive, total, weight;
  bool usable() const { return positive > least_sum && positive + clipped() < HUGE_VAL; }
  double clipped() const { return weight * (positive - total); }
};

// The states that a pattern can be.
struct Matches {
  const std::int64_t *begin_, *end_;
  const std::int64_t* begin() const { return begin_; }
  const std::int64_t* end() const { return end_; }
  Index count() const { return end_ - begin_; }
};

// A channel's part of the operators.
struct Channel {
  Index rank, following, states, missing;
  const double *values, *heads, *marginals, *low, *high;
  double share, clipping;
  const std::int64_t *first_match, *matches, *patterns;

  Channel(const StepOperators& steps, const Floor& floor, Index c)
      : rank(steps.ranks[c]),
        following(steps.ranks[c + 1]),
        states(steps.states[c]),
        missing(steps.first_pattern[c + 1] - steps.first_pattern[c] - 1),
        values(steps.values + steps.first_value[c]),
        heads(steps.heads + steps.first_head[c]),
        marginals(floor.marginals + floor.first[c]),
        low(steps.low + (c + 1 < steps.channels ? c + 1 : 0) * steps.bounds),
        high(steps.high + (c + 1 < steps.channels ? c + 1 : 0) * steps.bounds),
        share(floor.share),
        clipping(steps.clipping[c]),
        first_match(steps.first_match + steps.first_pattern[c]),
        matches(steps.matches),
        patterns(steps.patterns + floor.first[c]) {}

  Matches can_be(Index pattern) const {
    return {matches + first_match[pattern], matches + first_match[pattern + 1]};
  }

  // Writes the table of a cell given the message before it.
  Sums tabulate(const double* message, double* table) const {
    for (Index s = 0; s < states; ++s) table[s] = 0.0;
    add_product(heads, rank, states, message, 1.0, table);
    Sums sums{0.0, 0.0, clipping};
    for (Index s = 0; s < states; ++s) {
      sums.positive += positive_part(table[s]);
      sums.total += table[s];
    }
    return sums;
  }

  // A state that a pattern can be, sampled from a distribution by what is left of it.
  Index sampled_state(Index pattern, const double* distribution, double left) const {
    const Matches states_of = can_be(pattern);
    Index chosen = *states_of.begin();
    for (const Index s : states_of)
      if (distribution[s] > 0.0) {
        // Rounding may leave a little over: the last state that is possible gets it.
        chosen = s;
        left -= distribution[s];
        if (left < 0.0) break;
      }
    return chosen;
  }

  // A state that a pattern can be, sampled given the message before the cell.
  Index sample(Index pattern, const double* message, double* table, double uniform) const {
    const Sums sums = tabulate(message, table);
    double whole = 0.0;
    for (const Index s : can_be(pattern)) {
      double q = marginals[s];
      if (sums.usable()) {
        const double own = (positive_part(table[s]) + sums.clipped() * q) / (sums.positive + sums.clipped());
        q = (1.0 - share) * own + share * q;
      }
      table[s] = q;
      whole += q;
    }
    return sampled_state(pattern, table, uniform * whole);
  }

  // A cell's probability given those before it, after writing its table and its effect on those after it.
  double observe(Index pattern, const double* message, double* table, CellEffect& effect) const {
    const Sums sums = tabulate(message, table);
    const bool usable = sums.usable();
    const double clipped = sums.clipped(), trust = usable ? (1.0 - share) / (sums.positive + clipped) : 0.0;
    double q = 0.0, seen = 0.0;
    for (const Index s : can_be(pattern)) {
      if (usable) {
        const double own = positive_part(table[s]);
        seen += own;
        q += trust * (own + clipped * marginals[s]) + share * marginals[s];
      } else {
        q += marginals[s];
      }
    }
    effect = {0.0, 1.0, 0.0, 0.0};
    if (usable && clipped > 0.0) effect.clipped = clipped / (sums.positive + clipped);
    if (usable && seen > 0.0) {
      effect.own = trust / q;
      effect.missing = 1.0 - effect.own * seen;
    } else if (usable) {
      effect.refused = 1.0;
    }
    return q;
  }

  // The message behind a cell: partly that of what it can be, partly that of a missing one.
  void advance(Index pattern, const CellEffect& effect, const double* table, const double* message,
               double* behind) const {
    const Index size = rank * following;
    for (Index n = 0; n < following; ++n) behind[n] = 0.0;
    if (effect.own != 0.0)
      for (const Index s : can_be(pattern))
        if (table[s] > 0.0) add_product(values + s * size, rank, following, message, effect.own, behind);
    if (effect.missing != 0.0)
      add_product(values + states * size, rank, following, message, effect.missing, behind);
    behind[0] = 1.0;
    for (Index n = 1; n < following; ++n) behind[n] = smaller(larger(behind[n], low[n]), high[n]);
  }

  // The distribution of a cell over what its pattern can be, given the messages from both sides.
  void smooth(Index pattern, const double* message, const double* behind, double* distribution) const {
    const Matches states_of = can_be(pattern);
    Sums sums{0.0, 0.0, clipping};
    double alone = 0.0;
    for (const Index s : states_of) {
      double own = 0.0;
      for (Index k = 0; k < rank; ++k)
        own += dot(values + (s * rank + k) * following, behind, following) * message[k];
      distribution[s] = own;
      sums.positive += positive_part(own);
      sums.total += own;
      alone += marginals[s];
    }
    for (const Index s : states_of) {
      double q = alone > 0.0 ? marginals[s] / alone : 1.0 / double(states_of.count());
      if (sums.usable()) {
        const double own = (positive_part(distribution[s]) + sums.clipped() * q) / (sums.positive + sums.clipped());
        q = (1.0 - share) * own + share * q;
      }
      distribution[s] = q;
    }
  }

  // The message from the cells behind one, that one included, divided by its largest entry.
  void backward(Index pattern, const CellEffect& effect, const double* table, const double* behind,
                double* message) const {
    for (Index k = 0; k < rank; ++k) message[k] = 0.0;
    const auto add = [&](Index state, double factor) {
      for (Index k = 0; k < rank; ++k)
        message[k] += factor * dot(values + (state * rank + k) * following, behind, following);
    };
    if (effect.own != 0.0)
      for (const Index s : can_be(pattern))
        if (table[s] > 0.0) add(s, effect.own);
    if (effect.missing != 0.0) add(states, effect.missing);
    double largest = 0.0;
    for (Index k = 0; k < rank; ++k) largest = larger(largest, std::fabs(message[k]));
    if (largest > 0.0)
      for (Index k = 0; k < rank; ++k) message[k] /= largest;
  }
};

void score(const StepOperators& steps, const Floor& floor, const StepSequences& sequences, const bool* begins,
           const double* uniform, const StepSpace& space, const ScoreResults& results) {
  const CodeTable& codes = sequences.codes;
  const Index rank = steps.ranks[0];
  double *message = space.seen, *behind = space.seen + space.line;
  for (Index i = 0; i < sequences.count; ++i) {
    for (Index k = 0; k < rank; ++k) message[k] = !begins || begins[i] ? steps.start[k] : double(k == 0);
    double log_prob = 0.0, product = 1.0, clipped = 0.0, refused = 0.0;
    for (Index t = sequences.starts[i]; t < sequences.starts[i + 1]; ++t) {
      if (results.messages)
        for (Index k = 0; k < rank; ++k) results.messages[t * rank + k] = message[k];
      double own = 1.0;
      for (Index c = 0; c < steps.channels; ++c) {
        const Channel channel(steps, floor, c);
        const Index at = c * codes.rows + t;
        Index pattern = code_at(codes, at);
        if (uniform) {
          pattern = channel.patterns[channel.sample(pattern, message, space.table, uniform[at])];
          put_code(codes, at, pattern);
        }
        CellEffect effect{0.0, 1.0, 0.0, 0.0};
        if (pattern != channel.missing) own *= channel.observe(pattern, message, space.table, effect);
        clipped += effect.clipped;
        refused += effect.refused;
        channel.advance(pattern, effect, space.table, message, behind);
        double* const old = message;
        message = behind;
        behind = old;
      }
      if (results.each) results.each[t] = std::log(own);
      product *= own;
      if (product < least_product) {
        log_prob += std::log(product);
        product = 1.0;
      }
    }
    if (results.found) {
      results.found[i] = log_prob + std::log(product);
      results.found[sequences.count + i] = clipped;
      results.found[2 * sequences.count + i] = refused;
    }
    if (results.last)
      for (Index k = 0; k < rank; ++k) results.last[i * rank + k] = message[k];
  }
}

// The cells of one sequence, step after step, the channels of a step in their order.
struct Cells {
  const StepOperators& steps;
  const Floor& floor;
  const CodeTable& codes;
  const StepSpace& space;
  Index first, count;

  Index at(Index cell) const { return cell % steps.channels * codes.rows + first + cell / steps.channels; }
  Index pattern(Index cell) const { return code_at(codes, at(cell)); }
  Channel channel(Index cell) const { return Channel(steps, floor, cell % steps.channels); }
  double* seen(Index cell) const { return space.seen + cell * space.line; }
  double* behind(Index cell) const { return space.behind + cell * space.line; }

  bool any_unknown() const {
    for (Index cell = 0; cell < count; ++cell)
      if (channel(cell).can_be(pattern(cell)).count() > 1) return true;
    return false;
  }

  // The messages before each cell, the effect of each, and the messages from behind each.
  void pass_messages() const {
    for (Index k = 0; k < steps.ranks[0]; ++k) {
      seen(0)[k] = steps.start[k];
      behind(count)[k] = double(k == 0);
    }
    for (Index cell = 0; cell < count; ++cell) {
      const Channel own = channel(cell);
      CellEffect& effect = space.effects[cell] = {0.0, 1.0, 0.0, 0.0};
      if (pattern(cell) != own.missing) own.observe(pattern(cell), seen(cell), space.table, effect);
      own.advance(pattern(cell), effect, space.table, seen(cell), seen(cell + 1));
    }
    for (Index cell = count - 1; cell >= 0; --cell) {
      const Channel own = channel(cell);
      own.tabulate(seen(cell), space.table);
      own.backward(pattern(cell), space.effects[cell], space.table, behind(cell + 1), behind(cell));
    }
  }

  // A missing cell that can be one state only is in that one.
  void settle() const {
    for (Index cell = 0; cell < count; ++cell) {
      const Channel own = channel(cell);
      put_code(codes, at(cell), own.patterns[*own.can_be(pattern(cell)).begin()]);
    }
  }

  // Puts a state into a cell; the cells behind are then sampled given this one too.
  void fill(Index cell, Index state) const {
    const Channel own = channel(cell);
    const Index known = own.patterns[state];
    put_code(codes, at(cell), known);
    CellEffect effect;
    own.observe(known, seen(cell), space.table, effect);
    own.advance(known, effect, space.table, seen(cell), seen(cell + 1));
  }
};

void smooth(const StepOperators& steps, const Floor& floor, const StepSequences& sequences, const double* uniform,
            const StepSpace& space, double* found, std::int64_t width) {
  for (Index i = 0; i < sequences.count; ++i) {
    const Index first = sequences.starts[i];
    const Cells cells{steps, floor, sequences.codes,
                      space, first, (sequences.starts[i + 1] - first) * steps.channels};
    if (!cells.any_unknown()) {
      if (uniform) cells.settle();
      continue;
    }
    cells.pass_messages();
    for (Index cell = 0; cell < cells.count; ++cell) {
      const Channel channel = cells.channel(cell);
      const Index pattern = cells.pattern(cell);
      const bool known = channel.can_be(pattern).count() == 1;
      if (!known) channel.smooth(pattern, cells.seen(cell), cells.behind(cell + 1), found);
      if (uniform)
        cells.fill(cell, known ? *channel.can_be(pattern).begin()
                               : channel.sampled_state(pattern, found, uniform[cells.at(cell)]));
      else if (!known)
        found += width;
    }
  }
}

}  // namespace
}  // namespace LOOPS

const OperatorStepsLoops EIGENTREE_JOIN(operator_steps_loops_, EIGENTREE_INSTRUCTIONS) = {LOOPS::score,
                                                                                          LOOPS::smooth};

}  // namespace eigentree
