#include "operator_steps.hpp"

#include <limits>
#include <type_traits>
#include <vector>

#include "boundary.hpp"
#include "floor.hpp"

namespace eigentree {
namespace {

using std::int64_t;

// Whole numbers that nobody can change during a call.
std::vector<int64_t> copied(const In<int64_t>& array) { return {array.data(), array.data() + array.shape(0)}; }

// Operators of a step whose every index was checked.
struct CheckedOperators {
  std::vector<int64_t> first_value, first_head, ranks, states, first_pattern, first_match, matches, patterns, first;
  In<double> values, heads, start, clipping;
  In<double, 2> low, high;
  FloorArrays floor_arrays;
  int64_t channels, most_states = 1, largest_rank = 1, most_patterns = 1;

  CheckedOperators(const In<double>& step_values, const In<double>& step_heads, const In<int64_t>& value_starts,
                   const In<int64_t>& head_starts, const In<int64_t>& bond_ranks, const In<int64_t>& state_counts,
                   const In<double>& first_message, const In<double, 2>& least, const In<double, 2>& most,
                   const In<int64_t>& pattern_starts, const In<int64_t>& match_starts,
                   const In<int64_t>& matching_states, const In<int64_t>& state_patterns,
                   const In<double>& clipped_weights, const FloorArrays& floors)
      : first_value(copied(value_starts)),
        first_head(copied(head_starts)),
        ranks(copied(bond_ranks)),
        states(copied(state_counts)),
        first_pattern(copied(pattern_starts)),
        first_match(copied(match_starts)),
        matches(copied(matching_states)),
        patterns(copied(state_patterns)),
        first(copied(floors.first)),
        values(step_values),
        heads(step_heads),
        start(first_message),
        clipping(clipped_weights),
        low(least),
        high(most),
        floor_arrays(floors),
        channels(int64_t(states.size())) {
    const std::size_t count = states.size();
    check(count > 0, "at least one channel");
    check(first_value.size() == count && first_head.size() == count && first.size() == count,
          "as many first values and heads as channels");
    check(ranks.size() == count + 1 && first_pattern.size() == count + 1,
          "one rank and one pattern more than channels");
    check(clipping.shape(0) == count, "a weight of what is clipped for each channel");
    check(ranks[0] == ranks[count], "the bond before a step is that before the next");
    for (int64_t c = 0; c < channels; ++c) check_channel(c);
    check(int64_t(start.shape(0)) == ranks[0], "a first message of the first rank");
    check(low.shape(0) == count && high.shape(0) == count && low.shape(1) == high.shape(1) &&
              int64_t(low.shape(1)) >= largest_rank,
          "bounds of every feature");
    check_patterns();
  }

  void check_channel(int64_t c) {
    const int64_t value_count = int64_t(values.shape(0)), head_count = int64_t(heads.shape(0));
    const int64_t rank = ranks[c], following = ranks[c + 1];
    check(states[c] >= 1 && states[c] <= head_count && rank >= 1 && rank <= head_count / states[c],
          "heads of a channel inside the array");
    check(first_head[c] >= 0 && first_head[c] <= head_count - rank * states[c],
          "heads of a channel inside the array");
    check(following >= 1 && following <= value_count / (states[c] + 1) / rank,
          "values of a channel inside the array");
    check(first_value[c] >= 0 && first_value[c] <= value_count - (states[c] + 1) * rank * following,
          "values of a channel inside the array");
    floor_arrays.check_column(c, states[c]);
    check(first[c] <= int64_t(patterns.size()) - states[c], "patterns of a channel's states inside the array");
    if (states[c] > most_states) most_states = states[c];
    if (rank > largest_rank) largest_rank = rank;
  }

  // Every pattern can be some state of its channel, and every state has a pattern.
  void check_patterns() {
    check(first_pattern[0] == 0, "patterns begin at 0");
    for (int64_t c = 0; c < channels; ++c)
      check(first_pattern[c] < first_pattern[c + 1], "patterns of each channel");
    check(int64_t(first_match.size()) - 1 == first_pattern[channels], "one first match more than patterns");
    check(first_match[0] == 0 && first_match.back() <= int64_t(matches.size()), "matches inside the array");
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = first_pattern[c]; p < first_pattern[c + 1]; ++p) {
        check(first_match[p] < first_match[p + 1] && first_match[p + 1] <= int64_t(matches.size()),
              "at least one state per pattern");
        for (int64_t m = first_match[p]; m < first_match[p + 1]; ++m)
          check(matches[m] >= 0 && matches[m] < states[c], "states of a pattern");
      }
      const int64_t count = first_pattern[c + 1] - first_pattern[c];
      if (count > most_patterns) most_patterns = count;
      for (int64_t s = 0; s < states[c]; ++s)
        check(patterns[first[c] + s] >= 0 && patterns[first[c] + s] < count, "the pattern of a state");
    }
  }

  StepOperators operators() const {
    return {channels,       values.data(),        heads.data(),       first_value.data(),    first_head.data(),
            ranks.data(),   states.data(),        start.data(),       int64_t(low.shape(1)), low.data(),
            high.data(),    first_pattern.data(), first_match.data(), matches.data(),        patterns.data(),
            clipping.data()};
  }
  Floor floor() const { return {floor_arrays.share, floor_arrays.marginals.data(), first.data()}; }
};

// Sequences end to end, every code and start of which was checked.
template <class Code>
struct CheckedSequences {
  std::vector<int64_t> starts;
  Code* codes;
  int64_t steps, longest = 0;

  CheckedSequences(const CheckedOperators& operators,
                   const nb::ndarray<Code, nb::ndim<2>, nb::c_contig, nb::device::cpu>& table,
                   const In<int64_t>& sequence_starts)
      : starts(copied(sequence_starts)), codes(table.data()), steps(int64_t(table.shape(1))) {
    check(int64_t(table.shape(0)) == operators.channels, "a line of codes per channel");
    check(!starts.empty() && starts[0] >= 0 && starts.back() <= steps, "starts of sequences among the steps");
    for (std::size_t i = 1; i < starts.size(); ++i) {
      check(starts[i - 1] <= starts[i], "starts of sequences in order");
      if (starts[i] - starts[i - 1] > longest) longest = starts[i] - starts[i - 1];
    }
    for (int64_t c = 0; c < operators.channels; ++c)
      check_codes(codes + c * steps, steps, operators.first_pattern[c + 1] - operators.first_pattern[c] - 1);
    // Sampled patterns are written among the codes.
    if (!std::is_const_v<Code>)
      check(operators.most_patterns - 1 <= int64_t(std::numeric_limits<Code>::max()),
            "codes too small for patterns");
  }

  StepSequences sequences() const {
    return {{const_cast<std::remove_const_t<Code>*>(codes), int(sizeof(Code)), steps}, starts.data(), count()};
  }
  int64_t count() const { return int64_t(starts.size()) - 1; }

  // How many cells can be more than one state.
  int64_t unknown(const CheckedOperators& operators) const {
    int64_t found = 0;
    for (int64_t c = 0; c < operators.channels; ++c) {
      const int64_t* first = operators.first_match.data() + operators.first_pattern[c];
      for (int64_t t = starts[0]; t < starts.back(); ++t) {
        const int64_t pattern = codes[c * steps + t];
        found += first[pattern + 1] - first[pattern] > 1;
      }
    }
    return found;
  }
};

// Work space for sequences of up to so many cells.
struct Space {
  std::vector<double> table, seen, behind;
  std::vector<CellEffect> effects;
  int64_t line;

  Space(const CheckedOperators& operators, int64_t lines, bool both_ways)
      : table(operators.most_states),
        seen(lines * operators.largest_rank),
        behind(both_ways ? lines * operators.largest_rank : 0),
        effects(both_ways ? lines : 0),
        line(operators.largest_rank) {}

  StepSpace space() { return {table.data(), line, seen.data(), behind.data(), effects.data()}; }
};

// Adds a function whose arguments are those of the operators and the floor, checked once, and `More`.
template <class... More, class Body, class... Names>
void bind(nb::module_& m, const char* name, const Body& body, const Names&... names) {
  using Ints = In<int64_t>;
  using Floats = In<double>;
  m.def(
      name,
      [body](Floats values, Floats heads, Ints first_value, Ints first_head, Ints ranks, Ints states, Floats start,
             In<double, 2> low, In<double, 2> high, Ints first_pattern, Ints first_match, Ints matches,
             Ints patterns, Floats clipping, double share, Floats marginals, Ints first, const More&... more) {
        body(CheckedOperators(values, heads, first_value, first_head, ranks, states, start, low, high,
                              first_pattern, first_match, matches, patterns, clipping, {share, marginals, first}),
             more...);
      },
      given("values"), given("heads"), given("first_value"), given("first_head"), given("ranks"), given("states"),
      given("start"), given("low"), given("high"), given("first_pattern"), given("first_match"), given("matches"),
      given("patterns"), given("clipping"), nb::arg("share"), given("marginals"), given("first"), given(names)...);
}

template <class Code>
void score_sequences(const CheckedOperators& operators, const In<Code, 2>& codes, const In<int64_t>& starts,
                     const In<bool>& begins, const Out<double, 2>& found, const Out<double>& each,
                     const Out<double, 2>& messages, const Out<double, 2>& last) {
  const CheckedSequences<const Code> sequences(operators, codes, starts);
  const std::size_t count = sequences.count(), steps = sequences.steps, rank = operators.ranks[0];
  check(begins.shape(0) == count, "whether each sequence begins");
  const auto check_written = [&](const auto& written) { check_apart(written, codes); };
  check_written(found);
  check_written(each);
  check_written(messages);
  check_written(last);
  const auto first_steps = copied_flags(begins);
  check(found.shape(0) == 3 && found.shape(1) == count, "three numbers per sequence");
  check(each.shape(0) == steps || each.shape(0) == 0, "a log probability per step");
  check((messages.shape(0) == steps && messages.shape(1) == rank) || messages.shape(0) == 0, "a message per step");
  check((last.shape(0) == count && last.shape(1) == rank) || last.shape(0) == 0, "a message per sequence");
  const auto wanted = [](const auto& array) { return array.shape(0) ? array.data() : nullptr; };
  const ScoreResults results{found.data(), wanted(each), wanted(messages), wanted(last)};
  Space space(operators, 2, false);
  nb::gil_scoped_release release;
  operator_steps_loops().score(operators.operators(), operators.floor(), sequences.sequences(), first_steps.get(),
                               nullptr, space.space(), results);
}

template <class Code>
void sample_sequences(const CheckedOperators& operators, const Out<Code, 2>& codes, const In<int64_t>& starts,
                      const In<double, 2>& uniform) {
  const CheckedSequences<Code> sequences(operators, codes, starts);
  check(uniform.shape(0) == codes.shape(0) && uniform.shape(1) == codes.shape(1), "a random number per cell");
  Space space(operators, 2, false);
  nb::gil_scoped_release release;
  operator_steps_loops().score(operators.operators(), operators.floor(), sequences.sequences(), nullptr,
                               uniform.data(), space.space(), {});
}

template <class Code>
void smooth_sequences(const CheckedOperators& operators, const In<Code, 2>& codes, const In<int64_t>& starts,
                      const Out<double, 2>& found) {
  const CheckedSequences<const Code> sequences(operators, codes, starts);
  check(int64_t(found.shape(0)) == sequences.unknown(operators), "a line per cell that is not known");
  check(int64_t(found.shape(1)) >= operators.most_states, "a number per state");
  check_apart(found, codes);
  Space space(operators, sequences.longest * operators.channels + 1, true);
  nb::gil_scoped_release release;
  operator_steps_loops().smooth(operators.operators(), operators.floor(), sequences.sequences(), nullptr,
                                space.space(), found.data(), int64_t(found.shape(1)));
}

template <class Code>
void sample_unknown(const CheckedOperators& operators, const Out<Code, 2>& codes, const In<int64_t>& starts,
                    const In<double, 2>& uniform) {
  const CheckedSequences<Code> sequences(operators, codes, starts);
  check(uniform.shape(0) == codes.shape(0) && uniform.shape(1) == codes.shape(1), "a random number per cell");
  Space space(operators, sequences.longest * operators.channels + 1, true);
  std::vector<double> distribution(operators.most_states);
  nb::gil_scoped_release release;
  operator_steps_loops().smooth(operators.operators(), operators.floor(), sequences.sequences(), uniform.data(),
                                space.space(), distribution.data(), 0);
}

template <class Code>
void bind_codes(nb::module_& m) {
  using Starts = In<int64_t>;
  using Numbers = Out<double, 2>;
  bind<In<Code, 2>, Starts, In<bool>, Numbers, Out<double>, Numbers, Numbers>(
      m, "score_sequences", score_sequences<Code>, "codes", "starts", "begins", "found", "each", "messages",
      "last");
  bind<Out<Code, 2>, Starts, In<double, 2>>(m, "sample_sequences", sample_sequences<Code>, "codes", "starts",
                                            "uniform");
  bind<In<Code, 2>, Starts, Numbers>(m, "smooth_sequences", smooth_sequences<Code>, "codes", "starts", "found");
  bind<Out<Code, 2>, Starts, In<double, 2>>(m, "sample_unknown", sample_unknown<Code>, "codes", "starts",
                                            "uniform");
}

}  // namespace

void bind_operator_steps(nb::module_& m) {
  bind_codes<std::uint8_t>(m);
  bind_codes<std::uint16_t>(m);
  bind_codes<std::uint32_t>(m);
}

}  // namespace eigentree
