#include "sampling.hpp"

#include <vector>

#include "operator_tree_owner.hpp"

namespace eigentree {
namespace {

using Int = std::int64_t;

template <class Code>
void tree_decode(const OperatorTree& tree, Out<Code, 2> codes, In<bool> decoded, Out<Int, 2> entries,
                 Out<double> log_prob) {
  const OperatorTreeView view = tree.view(true);
  const Int rows = Int(codes.shape(1));
  check(decoded.size() == tree.states().size(), "one flag per column");
  check(Int(entries.shape(0)) == view.count && Int(entries.shape(1)) == rows, "one entry per node and row");
  check(Int(log_prob.shape(0)) == rows, "one log probability per row");
  for (Int n = 0; n < view.count; ++n) check(view.nodes[n].columns <= 1, "a decoded node holds one column at most");
  check_apart(codes, entries, log_prob);
  const auto is_decoded = copied_flags(decoded);
  const nb::gil_scoped_release release;
  const CodesView cells = tree.checked_codes(codes);
  std::vector<double> score(static_cast<std::size_t>(view.depth));
  std::vector<Int> entry(score.size()), state(score.size()), chosen(static_cast<std::size_t>(view.count));
  sampling_loops().decode(view, cells, {score.data(), entry.data(), state.data(), chosen.data()}, is_decoded.get(),
                          tree.given_entry().data(), entries.data(), log_prob.data());
}

void choose_states(In<double, 2> cumulative, In<Int> chosen_line, In<double> uniform, Out<Int> chosen) {
  const Int lines = Int(cumulative.shape(0)), rows = Int(chosen_line.shape(0));
  check(cumulative.shape(1) > 0, "a distribution has at least one state");
  check(Int(uniform.shape(0)) == rows && Int(chosen.shape(0)) == rows, "one uniform number and one state per row");
  check_apart(chosen, chosen_line);
  const nb::gil_scoped_release release;
  for (Int r = 0; r < rows; ++r)
    check(0 <= chosen_line.data()[r] && chosen_line.data()[r] < lines,
          "a row is given a distribution that there is not");
  sampling_loops().choose(cumulative.data(), Int(cumulative.shape(1)), chosen_line.data(), uniform.data(), rows,
                          chosen.data());
}

template <class Code>
void bind_decode(nb::module_& m) {
  m.def("tree_decode", tree_decode<Code>, given("tree"), given("codes"), given("decoded"), given("entries"),
        given("log_prob"));
}

}  // namespace

void bind_sampling(nb::module_& m) {
  bind_decode<std::uint8_t>(m);
  bind_decode<std::uint16_t>(m);
  bind_decode<std::uint32_t>(m);
  m.def("choose_states", choose_states, given("cumulative"), given("given"), given("uniform"), given("chosen"));
}

}  // namespace eigentree
