#include "windows.hpp"

#include <algorithm>

#include "code_arrays.hpp"

namespace eigentree {
namespace {

using Integer = std::int64_t;

constexpr Integer most_steps = Integer(1) << 48;  // Sums of some such numbers do not overflow.

// Sequences end to end: where each begins lies within the steps, and none ends before it begins.
SequenceCodes sequence_codes(const void* codes, std::size_t channels, std::size_t steps,
                             const In<Integer>& starts) {
  const auto count = Integer(starts.shape(0)) - 1, all = Integer(steps);
  check(count >= 0, "where each sequence begins, and where the last ends");
  check(starts.data()[0] >= 0 && starts.data()[count] <= all && all <= most_steps &&
            std::is_sorted(starts.data(), starts.data() + count + 1),
        "sequences end to end within the steps");
  return {codes, Integer(channels), all, starts.data(), count};
}

// Returns how many windows were written, from where the cursor stands on; it is moved behind them.
Integer cut_windows(InAny<2> codes, In<Integer> starts, In<Integer, 2> own, Integer reach, In<Integer> lags,
                    In<Integer> channels, InAny<1> missing, Out<Integer> cursor, OutAny<2> found, Out<Integer> of) {
  const int type = code_type(codes);
  const SequenceCodes from = sequence_codes(codes.data(), codes.shape(0), codes.shape(1), starts);
  const auto columns = Integer(lags.shape(0)), most = Integer(found.shape(1));
  check(code_type(missing) == type && code_type(found) == type, "codes of one type");
  check(Integer(channels.shape(0)) == columns && Integer(missing.shape(0)) == columns &&
            Integer(found.shape(0)) == columns,
        "a lag, a channel, a code for missing cells and a line per column");
  check(Integer(of.shape(0)) == most && cursor.shape(0) == 2, "one sequence per window, a sequence and a step");
  check(Integer(own.shape(0)) == from.sequences && own.shape(1) == 2, "the own steps of each sequence");
  const auto in_range = [](Integer number) { return number >= 0 && number <= most_steps; };
  for (Integer k = 0; k < 2 * from.sequences; ++k) check(in_range(own.data()[k]), "steps from 0 on");
  check(in_range(reach), "a reach from 0 on");
  for (Integer j = 0; j < columns; ++j) {
    check(lags.data()[j] >= -most_steps && lags.data()[j] <= most_steps, "lags of steps");
    check(channels.data()[j] >= 0 && channels.data()[j] < from.channels, "channels that are there");
  }
  const auto check_written = [&](const auto& written) {
    check_apart(written, codes, starts, own, lags, channels, missing);
  };
  check_written(found);
  check_written(of);
  Integer sequence = cursor.data()[0], step = cursor.data()[1], written;
  check(in_range(sequence) && in_range(step), "a cursor from 0 on");
  {
    nb::gil_scoped_release release;
    written = windows_loops().codes[type].cut_windows(from, {columns, lags.data(), channels.data(), missing.data()},
                                                      {own.data(), reach, &sequence, &step}, most, found.data(),
                                                      of.data());
  }
  cursor.data()[0] = sequence;
  cursor.data()[1] = step;
  return written;
}

void hash_pieces(InAny<2> codes, In<Integer> starts, Integer length, Integer context, Integer reach,
                 Out<std::uint64_t> hashes, Out<Integer, 2> places) {
  const SequenceCodes from = sequence_codes(codes.data(), codes.shape(0), codes.shape(1), starts);
  check(length >= 1 && length <= most_steps && context >= 0 && context <= most_steps && reach >= 0 &&
            reach <= most_steps,
        "pieces of at least one step");
  Integer count = 0;
  for (Integer k = 0; k < from.sequences; ++k) count += (from.starts[k + 1] - from.starts[k] + length - 1) / length;
  check(Integer(hashes.shape(0)) == count && Integer(places.shape(0)) == count && places.shape(1) == 2,
        "one hash and one place per piece");
  check_apart(hashes, starts);
  check_apart(places, starts);
  const auto loop = windows_loops().codes[code_type(codes)].hash_pieces;
  nb::gil_scoped_release release;
  loop(from, {length, context, reach}, hashes.data(), places.data());
}

void fingerprints(InAny<1> symbols, In<Integer> starts, Out<std::uint64_t> prints) {
  const SequenceCodes from = sequence_codes(symbols.data(), 1, symbols.shape(0), starts);
  check(Integer(prints.shape(0)) == from.sequences, "one number per sequence");
  check_apart(prints, starts);
  const auto loop = windows_loops().codes[code_type(symbols)].fingerprints;
  nb::gil_scoped_release release;
  loop(from, prints.data());
}

void repeats(InAny<1> symbols, In<Integer> starts, In<Integer> order, Out<bool> same) {
  const SequenceCodes from = sequence_codes(symbols.data(), 1, symbols.shape(0), starts);
  const auto count = Integer(order.shape(0));
  check(Integer(same.shape(0)) == count, "one flag per sequence");
  for (Integer k = 0; k < count; ++k)
    check(order.data()[k] >= 0 && order.data()[k] < from.sequences, "sequences that are there");
  check_apart(same, starts, order);
  const auto loop = windows_loops().codes[code_type(symbols)].repeats;
  nb::gil_scoped_release release;
  loop(from, order.data(), count, same.data());
}

}  // namespace

void bind_windows(nb::module_& m) {
  m.def("cut_windows", cut_windows, given("codes"), given("starts"), given("own"), given("reach"), given("lags"),
        given("channels"), given("missing"), given("cursor"), given("found"), given("of"));
  m.def("hash_pieces", hash_pieces, given("codes"), given("starts"), given("length"), given("context"),
        given("reach"), given("hashes"), given("places"));
  m.def("fingerprints", fingerprints, given("symbols"), given("starts"), given("prints"));
  m.def("repeats", repeats, given("symbols"), given("starts"), given("order"), given("same"));
}

}  // namespace eigentree
