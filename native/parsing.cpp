#include "parsing.hpp"

#include <algorithm>
#include <vector>

#include "boundary.hpp"

namespace eigentree {
namespace {

using std::int64_t;

constexpr int64_t most_places = (int64_t(1) << 31) - 1;

// A grammar whose every index was checked, and which nobody can change.
class ChartGrammar {
 public:
  ChartGrammar(In<int64_t> states, In<int64_t, 2> rules, In<double> values, In<double> root, In<double> pair,
               In<double> children)
      : states_(states.data(), states.data() + states.size()),
        state_at_{0},
        first_pair_(states.size() + 1, 0),
        values_(values.data(), values.data() + values.size()),
        root_(root.data(), root.data() + root.size()),
        pair_(pair.data(), pair.data() + pair.size()),
        children_(children.data(), children.data() + children.size()) {
    const int64_t labels = int64_t(states_.size());
    check(labels > 0, "a label at least");
    for (const int64_t each : states_) {
      check(each > 0 && each <= 1 << 15 && state_at_.back() <= most_places, "states of each label");
      state_at_.push_back(state_at_.back() + each);
    }
    check(int64_t(root_.size()) == state_at_.back() && children_.size() == root_.size() &&
              pair_.size() == root_.size(),
          "a number for each state");
    check(rules.shape(1) == 3, "a rule has three labels");
    read_rules(rules);
  }

  ChartRules rules() const {
    return {int64_t(states_.size()), state_at_.back(), most_pairs_,   states_.data(),  state_at_.data(),
            first_pair_.data(),      right_.data(),    first_.data(), parents_.data(), first_value_.data(),
            values_.data(),          root_.data(),     pair_.data(),  children_.data()};
  }

 private:
  void read_rules(In<int64_t, 2> rules) {
    const int64_t labels = int64_t(states_.size()), count = int64_t(rules.shape(0));
    int64_t at = 0, last_left = -1, last_right = -1;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t rule[] = {rules.data()[3 * r], rules.data()[3 * r + 1], rules.data()[3 * r + 2]};
      for (const int64_t label : rule) check(label >= 0 && label < labels, "labels of a rule");
      const int64_t left = rule[0], right = rule[1];
      const bool same = last_left == left && last_right == right;
      check(same || last_left < left || (last_left == left && last_right < right), "rules in order");
      if (!same) {
        ++first_pair_[std::size_t(left) + 1];
        right_.push_back(right);
        first_.push_back(r);
      }
      last_left = left;
      last_right = right;
      const int64_t pairs = states_[std::size_t(left)] * states_[std::size_t(right)];
      most_pairs_ = std::max(most_pairs_, pairs);
      parents_.push_back(rule[2]);
      first_value_.push_back(at);
      at += pairs * states_[std::size_t(rule[2])];
      check(at <= int64_t(values_.size()), "values of each rule");
    }
    check(at == int64_t(values_.size()), "values of each rule");
    first_.push_back(count);
    for (std::size_t label = 1; label < first_pair_.size(); ++label) first_pair_[label] += first_pair_[label - 1];
  }

  std::vector<int64_t> states_, state_at_, first_pair_, right_, first_, parents_, first_value_;
  std::vector<double> values_, root_, pair_, children_;
  int64_t most_pairs_ = 1;
};

// Fills the posterior of each cell; returns the log probability of the words.
double fill_chart(const ChartGrammar& grammar, In<double, 2> emissions, In<int64_t> first_cell,
                  In<std::int32_t> labels, Out<double> posteriors) {
  const ChartRules rules = grammar.rules();
  const int64_t words = int64_t(emissions.shape(0)), ends = words + 1;
  check(int64_t(emissions.shape(1)) == rules.all_states, "the probability of each word in each state");
  check(words > 0 && words < 1 << 15, "a word at least, and not too many");
  check(rules.labels * ends <= most_places / ends, "too many labels and words");
  const std::vector<int64_t> first(first_cell.data(), first_cell.data() + first_cell.size());
  const std::vector<std::int32_t> cells(labels.data(), labels.data() + labels.size());
  check(int64_t(first.size()) == words * ends / 2 + 1 && first[0] == 0 && first.back() == int64_t(cells.size()),
        "the first cell of each span");
  check(posteriors.size() == cells.size(), "a posterior for each cell");
  int64_t numbers = 0;
  for (std::size_t span = 0; span + 1 < first.size(); ++span) {
    check(first[span] <= first[span + 1] && first[span + 1] <= int64_t(cells.size()),
          "the first cell of each span");
    for (int64_t n = first[span]; n < first[span + 1]; ++n) {
      const std::int32_t label = cells[std::size_t(n)];
      check(label >= 0 && label < rules.labels && (n == first[span] || cells[std::size_t(n) - 1] < label),
            "the labels of each span, in order");
      numbers += rules.states[label];
      check(numbers <= most_places, "too many cells");
    }
  }
  nb::gil_scoped_release release;
  const std::size_t square = std::size_t(ends * ends), lines = std::size_t(rules.labels * ends);
  const std::size_t bits = std::size_t(words / 64 + 1);
  std::vector<std::int32_t> place(std::size_t(rules.labels) * square);
  std::vector<double> inside(numbers), outside(numbers), any(2 * square), pairs(rules.most_pairs), weights(ends);
  std::vector<std::uint64_t> possible(2 * lines * bits);
  std::vector<int64_t> power(square);
  return parsing_loops().fill(
      rules, {words, emissions.data(), first.data(), cells.data(), posteriors.data(), int64_t(bits), place.data(),
              inside.data(), outside.data(), possible.data(), possible.data() + lines * bits, power.data(),
              any.data(), any.data() + square, pairs.data(), weights.data()});
}

}  // namespace

void bind_parsing(nb::module_& m) {
  nb::class_<ChartGrammar>(m, "ChartGrammar")
      .def(nb::init<In<int64_t>, In<int64_t, 2>, In<double>, In<double>, In<double>, In<double>>(), given("states"),
           given("rules"), given("values"), given("root"), given("pair"), given("children"));
  m.def("fill_chart", fill_chart, nb::arg("grammar"), given("emissions"), given("first_cell"), given("labels"),
        given("posteriors"));
}

}  // namespace eigentree
