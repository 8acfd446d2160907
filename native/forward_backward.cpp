#include "forward_backward.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chain_boundary.hpp"

namespace eigentree {
namespace {

// Numbers of a block of messages, which stays in cache, and the fewest steps of a block.
constexpr std::int64_t block_numbers = 1 << 14, fewest_steps = 32;
// Numbers of the emissions up to which each lane has counts of its own: a sum that waits for that of the lane
// before would be slow.
constexpr std::int64_t most_apart = 1 << 11;
// Bits that messages may lose between two checks, and the most steps between them.
constexpr double bits_unchecked = 200.0;
constexpr std::int64_t most_unchecked = 16;

// Messages shrink in a step by no more than the smallest link times the smallest emission.
std::int64_t steps_between_checks(const double* links, std::int64_t link_numbers, const In<double, 2>& emissions) {
  const auto smallest = [](const double* numbers, std::int64_t count) {
    double found = 1.0;
    for (std::int64_t k = 0; k < count; ++k)
      if (numbers[k] > 0.0 && numbers[k] < found) found = numbers[k];
    return found;
  };
  const double bits = 1.0 - std::log2(smallest(links, link_numbers)) -
                      std::log2(smallest(emissions.data(), std::int64_t(emissions.size())));
  return std::clamp(std::int64_t(bits_unchecked / bits), std::int64_t(1), most_unchecked);
}

template <class Symbol>
void run(const In<Symbol>& symbols, const In<std::int64_t>& starts, const In<std::int64_t>& numbers,
         const In<double>& weights, const In<double, 2>& emissions, const In<double>& links, std::int64_t order,
         const Out<double>& log_prob, double* link_counts, double* symbol_counts) {
  const std::int64_t states = std::int64_t(emissions.shape(1)), symbol_count = std::int64_t(emissions.shape(0));
  const std::int64_t steps = std::int64_t(symbols.shape(0)), sequences = std::int64_t(log_prob.shape(0));
  const HiddenChain chain = checked_chain(links, states, order);
  check(std::int64_t(starts.shape(0)) == sequences + 1 && std::int64_t(weights.shape(0)) == sequences,
        "starts, weights and log probabilities are of the same sequences");

  // Copied, so that nothing that is written can change what was checked.
  std::vector<SequencePlace> taken(numbers.shape(0));
  std::int64_t longest = 1;
  for (std::size_t k = 0; k < taken.size(); ++k) {
    const std::int64_t number = numbers(k);
    check(number >= 0 && number < sequences, "no sequence has this number");
    const std::int64_t begin = starts(number), end = starts(number + 1);
    check(begin >= 0 && begin <= end && end <= steps, "a sequence is not within the steps");
    taken[k] = {begin, end - begin, weights(number), log_prob.data() + number};
    longest = std::max(longest, end - begin);
  }

  nb::gil_scoped_release release;
  constexpr std::int64_t lanes = sequence_lanes;
  const std::int64_t padded = (states + 3) / 4 * 4, table = (symbol_count + 1) * padded;
  const std::int64_t block = std::min(longest, std::max(fewest_steps, block_numbers / (chain.widest * lanes)));
  std::vector<double> lines(std::size_t(table), 0.0);
  const std::vector<double> turned = turned_links(chain);
  for (std::int64_t symbol = 0; symbol < symbol_count; ++symbol)
    std::copy_n(emissions.data() + symbol * states, states, lines.data() + symbol * padded);
  std::fill_n(lines.data() + symbol_count * padded, states, 1.0);
  const bool counted = link_counts != nullptr;
  const std::int64_t message = chain.widest * lanes, copies = counted && table <= most_apart ? lanes : 1;
  const std::int64_t pieces = longest >= shortest_cut ? pieces_of(longest, order, block).count * chain.widest : 0;
  const Space<std::int64_t> rows(block * lanes);
  const Space<double> shown(block * states * lanes), messages((block + 1) * message), later(stretch * message);
  const Space<double> ends(message), ahead(message), seen(message), factors((block + 1) * lanes);
  const Space<bool> scaled(block + 1);
  const Space<double> restarts((longest + block - 1) / block * message);
  const Space<double> single(4 * chain.widest), before(pieces), after(pieces);
  std::vector<double> link_lanes(counted ? std::size_t(chain.link_numbers * lanes) : 0, 0.0);
  std::vector<double> symbol_copies(counted ? std::size_t(copies * table) : 0, 0.0);

  SequencePass pass{};
  pass.chain = chain;
  pass.turned = turned.data();
  pass.symbols = symbols.data();
  pass.symbol_bytes = int(sizeof(Symbol));
  pass.sequences = taken.data();
  pass.count = std::int64_t(taken.size());
  pass.emissions = lines.data();
  pass.unobserved = symbol_count;
  pass.padded = padded;
  pass.block = block;
  pass.checked_every = steps_between_checks(chain.links, chain.link_numbers, emissions);
  pass.rows = rows;
  pass.shown = shown;
  pass.messages = messages;
  pass.later = later;
  pass.ends = ends;
  pass.ahead = ahead;
  pass.seen = seen;
  pass.factors = factors;
  pass.scaled = scaled;
  pass.restarts = restarts;
  pass.single = single;
  pass.before = before;
  pass.after = after;
  pass.link_counts = link_lanes.data();
  pass.symbol_counts = symbol_copies.data();
  pass.copies = copies;
  if (!counted)
    forward_backward_loops().log_prob(pass);
  else
    forward_backward_loops().expected_counts(pass);
  check(!pass.unknown_symbol, "a symbol has no emissions");
  if (!counted) return;
  for (std::int64_t k = 0; k < chain.link_numbers; ++k) {
    double total = 0.0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) total += link_lanes[std::size_t(k * lanes + lane)];
    link_counts[k] = k < states ? total : total * chain.links[k];
  }
  for (std::int64_t symbol = 0; symbol < symbol_count; ++symbol)
    for (std::int64_t j = 0; j < states; ++j) {
      double total = 0.0;
      for (std::int64_t copy = 0; copy < copies; ++copy)
        total += symbol_copies[std::size_t(copy * table + symbol * padded + j)];
      symbol_counts[symbol * states + j] = total;
    }
}

template <class Symbol>
void sequence_log_prob(In<Symbol> symbols, In<std::int64_t> starts, In<std::int64_t> numbers, In<double> weights,
                       In<double, 2> emissions, In<double> links, std::int64_t order, Out<double> log_prob) {
  run<Symbol>(symbols, starts, numbers, weights, emissions, links, order, log_prob, nullptr, nullptr);
}

template <class Symbol>
void sequence_counts(In<Symbol> symbols, In<std::int64_t> starts, In<std::int64_t> numbers, In<double> weights,
                     In<double, 2> emissions, In<double> links, std::int64_t order, Out<double> log_prob,
                     Out<double> link_counts, Out<double, 2> symbol_counts) {
  check(link_counts.shape(0) == links.shape(0), "one count per number of the links");
  check(symbol_counts.shape(0) == emissions.shape(0) && symbol_counts.shape(1) == emissions.shape(1),
        "one count per symbol and state");
  run<Symbol>(symbols, starts, numbers, weights, emissions, links, order, log_prob, link_counts.data(),
              symbol_counts.data());
}

template <class Symbol>
void bind_for(nb::module_& m) {
  m.def("sequence_log_prob", sequence_log_prob<Symbol>, given("symbols"), given("starts"), given("numbers"),
        given("weights"), given("emissions"), given("links"), nb::arg("order"), given("log_prob"));
  m.def("sequence_counts", sequence_counts<Symbol>, given("symbols"), given("starts"), given("numbers"),
        given("weights"), given("emissions"), given("links"), nb::arg("order"), given("log_prob"),
        given("link_counts"), given("symbol_counts"));
}

}  // namespace

void bind_forward_backward(nb::module_& m) {
  m.attr("LANES") = sequence_lanes;
  bind_for<std::uint8_t>(m);
  bind_for<std::uint16_t>(m);
  bind_for<std::uint32_t>(m);
}

}  // namespace eigentree
