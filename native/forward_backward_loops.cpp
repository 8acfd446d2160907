// Eight sequences of about the same length are computed together, each in a lane of the vectors, so that a step is
// a product of a small matrix with eight messages:
//
//   forward   m_t(z')  = p(x_t | z') sum_z m_{t-1}(z) p(z' | z)
//   backward  a_{t-1}(z) = sum_z' p(z' | z) p(x_t | z') a_t(z')
//   counts    P(z_t = z | x) = m_t(z) a_t(z) / P(x),
//             P(z_{t-1} = z, z_t = z' | x) = m_{t-1}(z) p(z' | z) p(x_t | z') a_t(z') / P(x)
//
// where z, under a chain of order 2 and more, are the values of the latest states. A lane whose sequence has ended
// goes on with an unobserved symbol, and counts nothing. P(x) = sum_z m_t(z) a_t(z) at any step, so it is computed
// where messages were scaled, and no other step has to divide. Of a long sequence only a block of messages is kept,
// and one message per block to start it again from.
#include <cmath>

#include "chain_steps.hpp"
#include "forward_backward.hpp"

namespace eigentree::LOOPS {
namespace {

constexpr int Lanes = sequence_lanes;
using V = Register<double>;
// Registers of a line of lanes, and lines of a tile of a product: its sums stay in registers.
constexpr int Parts = Lanes / lanes<double>;
constexpr int Tile = 8 / Parts;
using V4 = Vector<double, 4>;

// Messages whose total is less are multiplied by a power of two.
constexpr double Tiny = 0x1p-200;
constexpr Index Never = INT64_MAX;

INLINE void transpose(V4& a, V4& b, V4& c, V4& d) {
  const V4 ab_low = __builtin_shufflevector(a, b, 0, 4, 2, 6), ab_high = __builtin_shufflevector(a, b, 1, 5, 3, 7);
  const V4 cd_low = __builtin_shufflevector(c, d, 0, 4, 2, 6), cd_high = __builtin_shufflevector(c, d, 1, 5, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  c = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// The passes for a known number of states, or any (0), and for order 1, or any (0).
template <int K, int Order>
class Passes {
 public:
  explicit Passes(SequencePass& all) : pass(all) {}

  void run(bool counted) {
    for (Index k = 0; k < line(widest()); ++k) pass.ends[k] = 1.0;
    for (Index begin = 0; begin < pass.count; begin += Lanes) {
      const SequencePlace* group = pass.sequences + begin;
      const Index size = smaller<Index>(Lanes, pass.count - begin);
      Index longest = 0, steps = 0, whole = Never;
      for (Index lane = 0; lane < size; ++lane) {
        longest = larger(longest, group[lane].length);
        steps += group[lane].length;
      }
      // The first piece, of as many steps as the order, has to fit into a block too.
      if (longest >= shortest_cut && steps < most_beside_cut * longest && pass.chain.order <= pass.block) {
        whole = larger<Index>(shortest_cut, pass.chain.order + 1);
        for (Index lane = 0; lane < size; ++lane)
          if (group[lane].length >= whole) pass_in_pieces(group[lane], counted);
      }
      pass_together(group, size, whole, counted);
    }
  }

 private:
  SequencePass& pass;
  Index first[Lanes], last[Lanes];
  double share[Lanes], logs[Lanes], exponent[Lanes], scale[Lanes];

  INLINE Index states() const { return K ? K : pass.chain.states; }
  INLINE Index widest() const { return K && Order == 1 ? K : pass.chain.widest; }
  INLINE Link link_at(Index t) const {
    if (Order == 1 && t > 0) return {states(), states(), 1};
    return link_of(t, states(), Order ? Order : pass.chain.order);
  }
  static INLINE Index line(Index number) { return number * Lanes; }
  INLINE void copy_lines(double* to, const double* from) {
    for (Index k = 0; k < line(widest()); k += lanes<double>) store(to + k, load<V>(from + k));
  }

  void set_lane(int lane, Index first_step, Index steps, double weight) {
    first[lane] = first_step;
    last[lane] = steps - 1;
    share[lane] = weight;
    logs[lane] = exponent[lane] = 0.0;
  }

  // The sequences of a group that are shorter than a limit, each in its lane.
  void pass_together(const SequencePlace* group, Index size, Index limit, bool counted) {
    Index longest = 0;
    for (int lane = 0; lane < Lanes; ++lane) set_lane(lane, 0, 0, 0.0);
    for (int lane = 0; lane < size; ++lane)
      if (group[lane].length < limit) {
        set_lane(lane, group[lane].begin, group[lane].length, group[lane].weight);
        longest = larger<Index>(longest, group[lane].length);
      }
    const Index blocks = (longest + pass.block - 1) / pass.block;
    for (Index b = 0; b < blocks; ++b) {
      double* restart = pass.restarts + b * line(widest());
      if (b > 0) {
        copy_lines(restart, pass.messages + line(pass.block * widest()));
        copy_lines(pass.messages, restart);
      }
      forward(b * pass.block, smaller((b + 1) * pass.block, longest));
    }
    for (int lane = 0; lane < size; ++lane)
      if (group[lane].length < limit) *group[lane].log_prob = logs[lane];
    if (!counted) return;
    copy_lines(pass.ahead, pass.ends);
    for (Index b = blocks - 1; b >= 0; --b) {
      const Index start = b * pass.block, stop = smaller(start + pass.block, longest);
      if (b < blocks - 1) {
        copy_lines(pass.messages, pass.restarts + b * line(widest()));
        forward(start, stop);
      }
      backward(start, stop);
    }
  }

  // One long sequence: by itself only the messages before and after its pieces, then all pieces in lanes.
  void pass_in_pieces(const SequencePlace& own, bool counted) {
    const Index order = pass.chain.order;
    const Pieces pieces = pieces_of(own.length, order, pass.block);
    *own.log_prob = pass_single(own, pieces, counted);
    if (!counted) return;
    pass_pieces(own, 0, 1, 0, order);
    // As if as many steps as the order had been before: that makes the first step of a piece like all others.
    for (Index piece = 1; piece < pieces.count; piece += Lanes)
      pass_pieces(own, piece, smaller<Index>(Lanes, pieces.count - piece), order, pieces.steps);
    for (Index k = 0; k < line(widest()); ++k) pass.ends[k] = 1.0;
  }

  void pass_pieces(const SequencePlace& own, Index piece, Index count, Index start, Index steps) {
    for (int lane = 0; lane < Lanes; ++lane) {
      const Index number = piece + lane, begin = start + (start > 0 ? (number - 1) * steps : 0);
      const Index known = lane < count ? larger<Index>(0, smaller(steps, own.length - begin)) : 0;
      set_lane(lane, own.begin + begin - start, known ? start + known : 0, own.weight);
      for (Index z = 0; z < widest(); ++z) {
        pass.messages[line(z) + lane] = known ? pass.before[number * widest() + z] : 1.0;
        pass.ends[line(z) + lane] = known ? pass.after[number * widest() + z] : 1.0;
      }
    }
    forward(start, start + steps);
    copy_lines(pass.ahead, pass.ends);
    backward(start, start + steps);
  }

  const double* emissions_at(Index step) {
    Index symbol;
    if (pass.symbol_bytes == 1)
      symbol = static_cast<const std::uint8_t*>(pass.symbols)[step];
    else if (pass.symbol_bytes == 2)
      symbol = static_cast<const std::uint16_t*>(pass.symbols)[step];
    else
      symbol = static_cast<const std::uint32_t*>(pass.symbols)[step];
    pass.unknown_symbol |= symbol >= pass.unobserved;
    return pass.emissions + smaller<Index>(symbol, pass.unobserved) * pass.padded;
  }

  // From both ends of a sequence at once, since a step waits for the one before: writes what comes to each piece,
  // up to a factor, and returns log P(x). Where nothing is counted, both meet in the middle: P(x) = sum_z m_t(z)
  // a_t(z).
  double pass_single(const SequencePlace& own, Pieces pieces, bool counted) {
    double *here = pass.single, *next = here + widest(), *ahead = next + widest(), *seen = ahead + widest();
    const Index order = pass.chain.order, steps = counted ? own.length : (own.length + 1) / 2;
    Index begins = order, begun = 0, ended = pieces.count, ends = own.length - 1, checked = pass.checked_every;
    double exponents = 0.0;
    for (Index z = 0; z < widest(); ++z) ahead[z] = here[z] = pass.before[z] = 1.0;
    while (order + (ended - 2) * pieces.steps >= own.length) --ended;  // the last pieces may be empty
    for (Index done = 0; done < steps; ++done) {
      const Index t = own.length - 1 - done;
      if (done == begins && counted) {
        ++begun;
        begins += pieces.steps;
        for (Index z = 0; z < widest(); ++z) pass.before[begun * widest() + z] = here[z];
      }
      if (t == ends && ended > 0 && counted) {  // nothing is before the first piece, however long it is
        --ended;
        ends = order + (ended - 1) * pieces.steps - 1;
        for (Index z = 0; z < widest(); ++z) pass.after[ended * widest() + z] = ahead[z];
      }
      step_on<K>(pass.chain, done, here, emissions_at(own.begin + done), next);
      double* other = here;
      here = next, next = other;
      if (t > 0 && (counted || t > done)) {
        const double* emission = emissions_at(own.begin + t);
        for (Index z = 0; z < size_at(t); z += states())
          for (Index j = 0; j < states(); ++j) seen[z + j] = emission[j] * ahead[z + j];
        step_back<K>(pass.chain, pass.turned, t, seen, ahead);
      }
      if (--checked == 0) {
        checked = pass.checked_every;
        const double taken = rescale(here, size_at(done)), taken_ahead = rescale(ahead, widest());
        exponents += counted ? taken : taken + taken_ahead;
      }
    }
    double total = 0.0;
    for (Index z = 0; z < size_at(steps - 1); ++z) total += counted ? here[z] : here[z] * ahead[z];
    return total > 0.0 ? std::log(total) + exponents * std::log(2.0) : -HUGE_VAL;
  }

  // Numbers of the message of a step.
  INLINE Index size_at(Index t) const { return link_at(t).rest * states(); }

  // Multiply a message that has become small by a power of two; return the exponent that was taken away.
  static double rescale(double* message, Index size) {
    const double total = total_of(message, size);
    if (!(0.0 < total && total < Tiny)) return 0.0;
    int exponent_of_two;
    std::frexp(total, &exponent_of_two);
    const double factor = std::ldexp(1.0, -exponent_of_two);
    for (Index z = 0; z < size; ++z) message[z] *= factor;
    return exponent_of_two;
  }

  template <class Symbol>
  void read_rows(const Symbol* symbols, Index start, Index stop) {
    for (int lane = 0; lane < Lanes; ++lane) {
      const Index known = larger(start, smaller(stop, last[lane] + 1));
      std::int64_t* row = pass.rows + lane;
      bool unknown = false;
      for (Index t = start; t < known; ++t, row += Lanes) {
        const Index symbol = Index(symbols[first[lane] + t]);
        unknown |= symbol >= pass.unobserved;
        *row = smaller(symbol, Index(pass.unobserved)) * pass.padded;
      }
      for (Index t = known; t < stop; ++t, row += Lanes) *row = pass.unobserved * pass.padded;
      pass.unknown_symbol |= unknown;
    }
  }

  // Write the emissions of the symbols of a block: the lines of eight symbols, transposed.
  void look_up(Index start, Index stop) {
    if (pass.symbol_bytes == 1)
      read_rows(static_cast<const std::uint8_t*>(pass.symbols), start, stop);
    else if (pass.symbol_bytes == 2)
      read_rows(static_cast<const std::uint16_t*>(pass.symbols), start, stop);
    else
      read_rows(static_cast<const std::uint32_t*>(pass.symbols), start, stop);
    const std::int64_t* row = pass.rows;
    double* shown = pass.shown;
    for (Index t = start; t < stop; ++t, row += Lanes, shown += line(states()))
      for (int lane = 0; lane < Lanes; lane += 4)
        for (Index j = 0; j < states(); j += 4) {
          V4 a = load<V4>(pass.emissions + row[lane] + j), b = load<V4>(pass.emissions + row[lane + 1] + j);
          V4 c = load<V4>(pass.emissions + row[lane + 2] + j), d = load<V4>(pass.emissions + row[lane + 3] + j);
          transpose(a, b, c, d);
          const Index known = states() - j;
          store(shown + line(j) + lane, a);
          if (known > 1) store(shown + line(j + 1) + lane, b);
          if (known > 2) store(shown + line(j + 2) + lane, c);
          if (known > 3) store(shown + line(j + 3) + lane, d);
        }
  }

  // Add P(state) of the steps of a block to the counts of their symbols.
  void count_symbols(Index steps) {
    const std::int64_t* row = pass.rows;
    const double* used = pass.shown;
    const Index apart = pass.copies > 1 ? (pass.unobserved + 1) * pass.padded : 0;
    for (Index t = 0; t < steps; ++t, row += Lanes, used += line(states()))
      for (int lane = 0; lane < Lanes; lane += 4)
        for (Index j = 0; j < states(); j += 4) {
          const Index known = states() - j;
          V4 found[4] = {load<V4>(used + line(j) + lane)};
          if (known > 1) found[1] = load<V4>(used + line(j + 1) + lane);
          if (known > 2) found[2] = load<V4>(used + line(j + 2) + lane);
          if (known > 3) found[3] = load<V4>(used + line(j + 3) + lane);
          transpose(found[0], found[1], found[2], found[3]);
          for (int k = 0; k < 4; ++k) {
            double* sums = pass.symbol_counts + (lane + k) * apart + row[lane + k] + j;
            store(sums, V4(load<V4>(sums) + found[k]));
          }
        }
  }

  // R sums of products: sum_k table[k * stride + i] lines[k * apart], and put(i, part, sum) for each.
  template <int R, class Put>
  static INLINE void product_tile(const double* table, Index stride, Index count, const double* lines, Index apart,
                                  Put put) {
    V sum[R][Parts] = {};
    for (Index k = 0; k < count; ++k)
      for (int w = 0; w < Parts; ++w) {
        const V number = load<V>(lines + k * apart + w * lanes<double>);
        for (int i = 0; i < R; ++i) sum[i][w] += spread<V>(table[k * stride + i]) * number;
      }
    for (int i = 0; i < R; ++i)
      for (int w = 0; w < Parts; ++w) put(i, w * lanes<double>, sum[i][w]);
  }

  template <class Put>
  static INLINE void product(const double* table, Index stride, Index size, Index count, const double* lines,
                             Index apart, Put put) {
    Index done = 0;
    const auto further = [&](Index i, int part, V sum) { put(done + i, part, sum); };
    for (; done + Tile <= size; done += Tile)
      product_tile<Tile>(table + done, stride, count, lines, apart, further);
    if constexpr (Tile > 4)
      if (size - done >= 4) product_tile<4>(table + done, stride, count, lines, apart, further), done += 4;
    if constexpr (Tile > 3)
      if (size - done == 3) product_tile<3>(table + done, stride, count, lines, apart, further), done += 3;
    if constexpr (Tile > 2)
      if (size - done >= 2) product_tile<2>(table + done, stride, count, lines, apart, further), done += 2;
    if (size - done >= 1) product_tile<1>(table + done, stride, count, lines, apart, further);
  }

  // The messages of the steps of a block, given that of the step before it.
  void forward(Index start, Index stop) {
    look_up(start, stop);
    Index ending = next_end(start), checked = pass.checked_every;
    const double* shown = pass.shown;
    double* here = pass.messages + line(widest());
    for (Index t = start; t < stop; ++t, shown += line(states()), here += line(widest())) {
      const Link link = link_at(t);
      Index size = states();
      V total[Parts] = {};
      if (t == 0) {
        for (Index k = 0; k < line(states()); ++k) here[k] = shown[k] * pass.chain.links[k / Lanes];
        for (Index j = 0; j < states(); ++j)
          for (int w = 0; w < Parts; ++w) total[w] += load<V>(here + line(j) + w * lanes<double>);
      } else {
        size = link.rest * states();
        const double* before = here - line(widest());
        for (Index r = 0; r < link.rest; ++r)
          product(pass.chain.links + link.offset + r * states(), size, states(), link.dropped, before + line(r),
                  line(link.rest), [&](Index j, int part, V sum) {
                    const V number = sum * load<V>(shown + line(j) + part);
                    store(here + line(r * states() + j) + part, number);
                    total[part / lanes<double>] += number;
                  });
      }
      const Index place = t - start + 1;
      pass.scaled[place] = false;
      if (--checked == 0 || t == stop - 1) {
        checked = pass.checked_every;
        if (any_small(total)) {
          pass.scaled[place] = true;
          double* factors = pass.factors + line(place);
          rescale_lanes(here, size, factors);
          for (int lane = 0; lane < Lanes; ++lane) exponent[lane] -= std::log2(factors[lane]);
        }
      }
      if (t == ending) {
        for (int lane = 0; lane < Lanes; ++lane)
          if (t == last[lane]) {
            double sum = 0.0;
            for (Index z = 0; z < size; ++z) sum += here[line(z) + lane];
            // The power of two apart: whether a message was scaled before, for the sake of its neighbours, must
            // change no bit.
            int power = 0;
            const double fraction = std::frexp(sum, &power);
            logs[lane] = sum > 0.0 ? std::log(fraction) + (exponent[lane] + power) * std::log(2.0) : -HUGE_VAL;
          }
        ending = next_end(t + 1);
      }
    }
  }

  // Back through a block: adds how often links and symbols are expected to be used.
  void backward(Index start, Index stop) {
    bool unweighed = true;
    Index ending = last_end(stop - 1), steps = 0, checked = pass.checked_every;
    for (Index t = stop - 1; t >= start; --t) {
      const double* here = pass.messages + line((t - start + 1) * widest());
      double* shown = pass.shown + line((t - start) * states());
      if (t == ending) {
        for (int lane = 0; lane < Lanes; ++lane)
          if (t == last[lane])
            for (Index z = 0; z < widest(); ++z) pass.ahead[line(z) + lane] = pass.ends[line(z) + lane];
        unweighed = true;
        ending = last_end(t - 1);
      }
      const Link link = link_at(t);
      const Index rest = t > 0 ? link.rest : 1, size = rest * states();
      if (unweighed) weigh(here, size, t);
      V by[Parts], by_before[Parts];
      for (int w = 0; w < Parts; ++w) by[w] = by_before[w] = load<V>(scale + w * lanes<double>);
      unweighed = pass.scaled[t - start + 1];
      if (unweighed)
        for (int w = 0; w < Parts; ++w)
          by_before[w] *= load<V>(pass.factors + line(t - start + 1) + w * lanes<double>);
      double* later = pass.later + line(steps * widest());
      for (Index j = 0; j < states(); ++j)
        for (int w = 0; w < Parts; ++w) {
          const int part = w * lanes<double>;
          const V emission = load<V>(shown + line(j) + part);
          V used = {};
          for (Index r = 0; r < rest; ++r) {
            const Index z = line(r * states() + j) + part;
            const V number = load<V>(pass.ahead + z), both = emission * number;
            used += load<V>(here + z) * number;
            store(pass.seen + z, both);
            store(later + z, V(both * by_before[w]));
          }
          store(shown + line(j) + part, V(used * by[w]));
        }
      if (t == 0) {
        for (Index k = 0; k < line(states()); ++k) pass.link_counts[k] += shown[k];
        break;
      }
      ++steps;
      V total[Parts] = {};
      for (Index r = 0; r < rest; ++r)
        product(pass.turned + link.offset + r * states() * link.dropped, link.dropped, link.dropped, states(),
                pass.seen + line(r * states()), Lanes, [&](Index d, int part, V sum) {
                  store(pass.ahead + line(d * rest + r) + part, sum);
                  total[part / lanes<double>] += sum;
                });
      if (steps == stretch || t == start || t <= pass.chain.order) {
        count_links(here + line((steps - 2) * widest()), steps, link);
        steps = 0;
      }
      if (--checked == 0 || t == start) {
        checked = pass.checked_every;
        if (any_small(total)) {
          double factors[Lanes];
          rescale_lanes(pass.ahead, link.dropped * rest, factors);
          unweighed = true;
        }
      }
    }
    count_symbols(stop - start);
  }

  // Add a stretch of steps to the counts of a link, the last step first.
  void count_links(const double* before, Index steps, Link link) {
    for (Index r = 0; r < link.rest; ++r)
      for (Index d = 0; d < link.dropped; d += 4) {
        const double* above = before + line(d * link.rest + r);
        double* sums = pass.link_counts + line(link.offset + (d * link.rest + r) * states());
        switch (smaller<Index>(link.dropped - d, 4)) {
          case 1:
            dot_lines<1>(above, r, steps, link.rest, sums);
            break;
          case 2:
            dot_lines<2>(above, r, steps, link.rest, sums);
            break;
          case 3:
            dot_lines<3>(above, r, steps, link.rest, sums);
            break;
          default:
            dot_lines<4>(above, r, steps, link.rest, sums);
        }
      }
  }
  template <int R>
  INLINE void dot_lines(const double* above, Index r, Index steps, Index rest, double* sums) {
    constexpr int C = EIGENTREE_REGISTER_BYTES == 64 ? 4 : R > 2 ? 3 : 4;
    Index j = 0;
    const auto below = [&] { return pass.later + line(r * states() + j); };
    for (; j + C <= states(); j += C) dot_tile<R, C>(above, below(), steps, rest, sums + line(j));
    switch (states() - j) {
      case 3:
        dot_tile<R, 3>(above, below(), steps, rest, sums + line(j));
        break;
      case 2:
        dot_tile<R, 2>(above, below(), steps, rest, sums + line(j));
        break;
      case 1:
        dot_tile<R, 1>(above, below(), steps, rest, sums + line(j));
        break;
    }
  }
  template <int R, int C>
  INLINE void dot_tile(const double* above, const double* below, Index steps, Index rest, double* sums) {
    V sum[R][C] = {};
    for (Index step = 0; step < steps; ++step, above -= line(widest()), below += line(widest()))
      for (int part = 0; part < Lanes; part += lanes<double>) {
        V x[R];
        for (int i = 0; i < R; ++i) x[i] = load<V>(above + line(i * rest) + part);
        for (int j = 0; j < C; ++j) {
          const V y = load<V>(below + line(j) + part);
          for (int i = 0; i < R; ++i) sum[i][j] += x[i] * y;
        }
      }
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < C; ++j) {
        double* own = sums + line(i * rest * states() + j);
        store(own, V(load<V>(own) + sum[i][j]));
      }
  }

  // By what a product of messages is to be multiplied to count a lane's sequence: its weight / P(x).
  void weigh(const double* here, Index size, Index t) {
    for (int lane = 0; lane < Lanes; ++lane) {
      double total = 0.0;
      for (Index z = 0; z < size; ++z) total += here[line(z) + lane] * pass.ahead[line(z) + lane];
      scale[lane] = t <= last[lane] && total > 0.0 ? share[lane] / total : 0.0;
    }
  }

  static INLINE bool any_small(const V (&total)[Parts]) {
    double found[Lanes];
    for (int w = 0; w < Parts; ++w) store(found + w * lanes<double>, total[w]);
    bool small = false;
    for (const double each : found) small |= each < Tiny;
    return small;
  }

  // Multiply the lanes that have become small by the power of two that takes their total to 1/2 ... 1.
  static void rescale_lanes(double* lines, Index size, double* factors) {
    for (int lane = 0; lane < Lanes; ++lane) {
      double total = 0.0;
      factors[lane] = 1.0;
      for (Index z = 0; z < size; ++z) total += lines[line(z) + lane];
      if (!(0.0 < total && total < Tiny)) continue;
      int exponent_of_two;
      std::frexp(total, &exponent_of_two);
      factors[lane] = std::ldexp(1.0, -exponent_of_two);
      for (Index z = 0; z < size; ++z) lines[line(z) + lane] *= factors[lane];
    }
  }

  // The first step from t on, and the last step up to t, at which a lane ends.
  Index next_end(Index t) const {
    Index found = Never;
    for (const Index end : last)
      if (end >= t) found = smaller(found, end);
    return found;
  }
  Index last_end(Index t) const {
    Index found = -1;
    for (const Index end : last)
      if (end <= t) found = larger(found, end);
    return found;
  }
};

template <int K>
void run_order(SequencePass& pass, bool counted) {
  if (pass.chain.order == 1)
    Passes<K, 1>(pass).run(counted);
  else
    Passes<K, 0>(pass).run(counted);
}

void run(SequencePass& pass, bool counted) {
  switch (pass.chain.states) {
    case 2:
      run_order<2>(pass, counted);
      break;
    case 3:
      run_order<3>(pass, counted);
      break;
    case 4:
      run_order<4>(pass, counted);
      break;
    case 8:
      run_order<8>(pass, counted);
      break;
    default:
      run_order<0>(pass, counted);
  }
}

void log_prob(SequencePass& pass) { run(pass, false); }
void expected_counts(SequencePass& pass) { run(pass, true); }

}  // namespace
}  // namespace eigentree::LOOPS

const eigentree::ForwardBackwardLoops eigentree::EIGENTREE_JOIN(forward_backward_loops_, EIGENTREE_INSTRUCTIONS) = {
    eigentree::LOOPS::log_prob, eigentree::LOOPS::expected_counts};
