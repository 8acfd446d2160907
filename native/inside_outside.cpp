#include "inside_outside.hpp"

#include <algorithm>
#include <vector>

#include "boundary.hpp"

namespace eigentree {
namespace {

using Int = std::int64_t;
using Node = std::int32_t;

// Most states of a label: products of those of two children stay whole numbers of 32 bits.
constexpr Int most_states = 1 << 15;

struct GrammarArrays {
  In<Int> states, widths;
  In<Int, 2> rules, lexicon;
  In<double> values;
  In<double, 2> unseen;
  In<double> children, words;
};

struct TreeArrays {
  In<Node> labels, left, words, rule;
  In<Int> offsets;
};

// A grammar and trees that are known to lead to no place outside their arrays.
class Checked {
  std::vector<Int> states, widths, state_at, node_at;
  std::vector<GrammarRule> rules;
  std::vector<GrammarWord> lexicon;
  std::vector<double> any_word, pair, word;
  Int largest_tree_states = 1, largest_tree = 1, largest_pairs = 1;

 public:
  GrammarView grammar;
  TreesView trees;

  // What is written must not change what is checked.
  template <class Written>
  static void check_written(const Written& written, const TreeArrays& t) {
    check_apart(written, t.labels, t.left, t.words, t.rule, t.offsets);
  }

  Checked(const GrammarArrays& g, const TreeArrays& t)
      : states(g.states.data(), g.states.data() + g.states.shape(0)),
        widths(g.widths.data(), g.widths.data() + g.widths.shape(0)),
        state_at(1, 0),
        node_at(1, 0) {
    check_grammar(g);
    check_trees(g, t);
    grammar = {states.data(),   state_at.data(), widths.data(), rules.data(),      lexicon.data(), g.values.data(),
               any_word.data(), pair.data(),     word.data(),   g.children.data(), g.words.data()};
    trees = {t.labels.data(),
             t.left.data(),
             t.words.data(),
             t.rule.data(),
             t.offsets.data(),
             node_at.data(),
             Int(t.offsets.shape(0)) - 1};
  }

  Int nodes() const { return Int(node_at.size()) - 1; }
  Int all_states() const { return node_at.back(); }
  Int grammar_states() const { return state_at.back(); }

  // Work space for any one tree.
  struct Space {
    std::vector<double> inside, outside, pairs;
    std::vector<Int> exponent;
    std::vector<Node> best;
    TreeMessages messages;
  };
  Space space(bool with_outside, bool with_best) const {
    const auto size = std::size_t(largest_tree_states);
    Space found{std::vector<double>(size),
                std::vector<double>(with_outside ? size : 0),
                std::vector<double>(std::size_t(2 * largest_pairs)),
                std::vector<Int>(std::size_t(largest_tree)),
                std::vector<Node>(with_best ? size : 0),
                {}};
    found.messages = {found.inside.data(), found.outside.data(), found.exponent.data(), found.pairs.data(),
                      found.best.data()};
    return found;
  }

 private:
  void check_grammar(const GrammarArrays& g) {
    const Int size = Int(g.values.shape(0));
    check(!states.empty() && widths.size() == states.size(), "states and widths of the same labels");
    Int first = 0;
    for (Int count : states) {
      check(count >= 1 && count <= most_states, "a label has states, and not too many");
      state_at.push_back(state_at.back() + count);
    }
    first = state_at.back();
    std::vector<Int> begin;
    for (std::size_t a = 0; a < states.size(); ++a) {
      check(widths[a] >= 0 && first <= size && widths[a] <= (size - first) / states[a], "widths beyond the values");
      begin.push_back(first);
      first += states[a] * widths[a];
    }
    check(first == size, "values of all labels and no others");
    const auto within = [&](Int label, Int at, Int count) {
      const Int shift = at - begin[std::size_t(label)];
      return at >= begin[std::size_t(label)] && count <= widths[std::size_t(label)] &&
             shift <= widths[std::size_t(label)] - count;
    };
    check(g.rules.shape(1) == 4 && g.lexicon.shape(1) == 2, "rules have four numbers, pairs of the lexicon two");
    for (std::size_t r = 0; r < g.rules.shape(0); ++r) {
      const Int* rule = g.rules.data() + 4 * r;
      check(is_label(rule[0]) && is_label(rule[1]) && is_label(rule[2]), "a rule of labels that there are not");
      const Int pairs = states[std::size_t(rule[1])] * states[std::size_t(rule[2])];
      check(within(rule[0], rule[3], pairs), "a rule beyond the values of its label");
      rules.push_back({rule[0], rule[1], rule[2], rule[3]});
    }
    any_word.assign(std::size_t(state_at.back()), 0.0);
    for (std::size_t k = 0; k < g.lexicon.shape(0); ++k) {
      const Int label = g.lexicon.data()[2 * k], at = g.lexicon.data()[2 * k + 1];
      check(is_label(label) && within(label, at, 1), "a word beyond the values of its label");
      lexicon.push_back({label, at});
      for (Int h = 0; h < states[std::size_t(label)]; ++h)
        any_word[std::size_t(state_at[std::size_t(label)] + h)] +=
            g.values.data()[at + h * widths[std::size_t(label)]];
    }
    check(g.unseen.shape(0) == states.size() && g.unseen.shape(1) == 2, "two rates of what is unseen per label");
    check(Int(g.children.shape(0)) == state_at.back(), "one number of unseen children per state");
    for (std::size_t a = 0; a < states.size(); ++a) {
      pair.push_back(g.unseen.data()[2 * a]);
      word.push_back(g.unseen.data()[2 * a + 1]);
    }
  }

  bool is_label(Int label) const { return label >= 0 && label < Int(states.size()); }

  void check_trees(const GrammarArrays& g, const TreeArrays& t) {
    const Int count = Int(t.labels.shape(0)), trees_end = Int(t.offsets.shape(0)) - 1;
    check(Int(t.left.shape(0)) == count && Int(t.words.shape(0)) == count && Int(t.rule.shape(0)) == count,
          "labels, left children, words and rules of the same nodes");
    check(trees_end >= 0 && t.offsets.data()[0] == 0 && t.offsets.data()[trees_end] == count,
          "offsets are of all nodes");
    std::vector<Int> start(static_cast<std::size_t>(count));
    for (Int tree = 0; tree < trees_end; ++tree) {
      const Int begin = t.offsets.data()[tree], end = t.offsets.data()[tree + 1];
      check(begin >= 0 && begin < end && end <= count, "a tree has nodes, and they follow those of the one before");
      const Int first_state = node_at.back();
      for (Int n = begin; n < end; ++n) check_node(g, t, n, begin, start);
      check(start[std::size_t(end - 1)] == begin, "the last node of a tree is the root of all its nodes");
      largest_tree_states = std::max(largest_tree_states, node_at.back() - first_state);
      largest_tree = std::max(largest_tree, end - begin);
    }
  }

  void check_node(const GrammarArrays& g, const TreeArrays& t, Int n, Int begin, std::vector<Int>& start) {
    const Int label = t.labels.data()[n], left = t.left.data()[n], rule = t.rule.data()[n];
    check(is_label(label), "a node has a label that there is not");
    node_at.push_back(node_at.back() + states[std::size_t(label)]);
    if (left < 0) {
      start[std::size_t(n)] = n;
      const Node shown = t.words.data()[n];
      check(shown == missing_word || (shown >= 0 && shown < Int(g.words.shape(0))),
            "a node has a word that there is not");
      check(rule < Int(lexicon.size()), "a node has a pair of the lexicon that there is not");
      if (rule >= 0)
        check(lexicon[std::size_t(rule)].label == label, "a node's pair of the lexicon is of its label");
      return;
    }
    check(n > begin && start[std::size_t(n - 1)] > begin && left == start[std::size_t(n - 1)] - 1,
          "children stand before their parent: the left one, then the subtree of the right one");
    start[std::size_t(n)] = start[std::size_t(left)];
    check(rule < Int(rules.size()), "a node has a rule that there is not");
    const Int lefts = t.labels.data()[left], rights = t.labels.data()[n - 1];
    if (rule >= 0) {
      const GrammarRule& own = rules[std::size_t(rule)];
      check(own.parent == label && own.left == lefts && own.right == rights, "a node's rule is of other labels");
    }
    largest_pairs = std::max(largest_pairs, states[std::size_t(lefts)] * states[std::size_t(rights)]);
  }
};

void check_results(const Checked& known, const TreeArrays& t, const Out<double>& mantissa,
                   const Out<Int>& exponent) {
  check(Int(mantissa.shape(0)) == known.trees.count && Int(exponent.shape(0)) == known.trees.count,
        "one probability per tree");
  Checked::check_written(mantissa, t);
  Checked::check_written(exponent, t);
  check(apart(mantissa, exponent), "results share memory");
}

void inside_probabilities(In<Int> states, In<Int> widths, In<Int, 2> rules, In<Int, 2> lexicon, In<double> values,
                          In<double, 2> unseen, In<double> children, In<double> words, In<Node> labels,
                          In<Node> left, In<Node> node_words, In<Node> rule, In<Int> offsets, Out<double> mantissa,
                          Out<Int> exponent) {
  const TreeArrays t{labels, left, node_words, rule, offsets};
  const nb::gil_scoped_release release;
  const Checked known({states, widths, rules, lexicon, values, unseen, children, words}, t);
  check_results(known, t, mantissa, exponent);
  const Checked::Space space = known.space(false, false);
  const InsideOutsideLoops& loops = inside_outside_loops();
  for (Int tree = 0; tree < known.trees.count; ++tree)
    loops.inside(known.grammar, known.trees, tree, space.messages, mantissa.data() + tree, exponent.data() + tree);
}

void expected_rules(In<Int> states, In<Int> widths, In<Int, 2> rules, In<Int, 2> lexicon, In<double> values,
                    In<double, 2> unseen, In<double> children, In<double> words, In<Node> labels, In<Node> left,
                    In<Node> node_words, In<Node> rule, In<Int> offsets, In<double> weights, Out<double> mantissa,
                    Out<Int> exponent, Out<double> counts, Out<double> any) {
  const TreeArrays t{labels, left, node_words, rule, offsets};
  const nb::gil_scoped_release release;
  const Checked known({states, widths, rules, lexicon, values, unseen, children, words}, t);
  check_results(known, t, mantissa, exponent);
  check(Int(weights.shape(0)) == known.trees.count, "one weight per tree");
  check(counts.shape(0) == values.shape(0) && Int(any.shape(0)) == known.grammar_states(),
        "one count per value, and one per state");
  Checked::check_written(counts, t);
  Checked::check_written(any, t);
  const Checked::Space space = known.space(true, false);
  const InsideOutsideLoops& loops = inside_outside_loops();
  std::fill_n(counts.data(), counts.shape(0), 0.0);
  std::fill_n(any.data(), any.shape(0), 0.0);
  for (Int tree = 0; tree < known.trees.count; ++tree) {
    loops.inside(known.grammar, known.trees, tree, space.messages, mantissa.data() + tree, exponent.data() + tree);
    const double weight = weights.data()[tree];
    if (weight != 0.0)
      loops.outside(known.grammar, known.trees, tree, space.messages, weight, counts.data(), any.data());
  }
}

void tree_messages(In<Int> states, In<Int> widths, In<Int, 2> rules, In<Int, 2> lexicon, In<double> values,
                   In<double, 2> unseen, In<double> children, In<double> words, In<Node> labels, In<Node> left,
                   In<Node> node_words, In<Node> rule, In<Int> offsets, Out<double> mantissa, Out<Int> exponent,
                   Out<double> inside, Out<double> outside, Out<Int> node_exponent) {
  const TreeArrays t{labels, left, node_words, rule, offsets};
  const nb::gil_scoped_release release;
  const Checked known({states, widths, rules, lexicon, values, unseen, children, words}, t);
  check_results(known, t, mantissa, exponent);
  check(Int(inside.shape(0)) == known.all_states() && Int(outside.shape(0)) == known.all_states() &&
            Int(node_exponent.shape(0)) == known.nodes(),
        "messages of all nodes");
  Checked::check_written(inside, t);
  Checked::check_written(outside, t);
  Checked::check_written(node_exponent, t);
  const Checked::Space space = known.space(false, false);
  const InsideOutsideLoops& loops = inside_outside_loops();
  for (Int tree = 0; tree < known.trees.count; ++tree) {
    const Int node = known.trees.offsets[tree], at = known.trees.node_at[node];
    TreeMessages own = space.messages;
    own.inside = inside.data() + at;
    own.outside = outside.data() + at;
    own.exponent = node_exponent.data() + node;
    loops.inside(known.grammar, known.trees, tree, own, mantissa.data() + tree, exponent.data() + tree);
    loops.outside(known.grammar, known.trees, tree, own, 0.0, nullptr, nullptr);
  }
}

void decode_trees(In<Int> states, In<Int> widths, In<Int, 2> rules, In<Int, 2> lexicon, In<double> values,
                  In<double, 2> unseen, In<double> children, In<double> words, In<Node> labels, In<Node> left,
                  In<Node> node_words, In<Node> rule, In<Int> offsets, Out<double> mantissa, Out<Int> exponent,
                  Out<Node> decoded) {
  const TreeArrays t{labels, left, node_words, rule, offsets};
  const nb::gil_scoped_release release;
  const Checked known({states, widths, rules, lexicon, values, unseen, children, words}, t);
  check_results(known, t, mantissa, exponent);
  check(Int(decoded.shape(0)) == known.nodes(), "one state per node");
  Checked::check_written(decoded, t);
  const Checked::Space space = known.space(false, true);
  const InsideOutsideLoops& loops = inside_outside_loops();
  for (Int tree = 0; tree < known.trees.count; ++tree)
    loops.decode(known.grammar, known.trees, tree, space.messages, decoded.data(), mantissa.data() + tree,
                 exponent.data() + tree);
}

#define GRAMMAR_ARGUMENTS                                                                                    \
  given("states"), given("widths"), given("rules"), given("lexicon"), given("values"), given("unseen"),      \
      given("children"), given("words"), given("labels"), given("left"), given("node_words"), given("rule"), \
      given("offsets")

}  // namespace

void bind_inside_outside(nb::module_& m) {
  m.def("inside_probabilities", inside_probabilities, GRAMMAR_ARGUMENTS, given("mantissa"), given("exponent"));
  m.def("expected_rules", expected_rules, GRAMMAR_ARGUMENTS, given("weights"), given("mantissa"), given("exponent"),
        given("counts"), given("any"));
  m.def("tree_messages", tree_messages, GRAMMAR_ARGUMENTS, given("mantissa"), given("exponent"), given("inside"),
        given("outside"), given("node_exponent"));
  m.def("decode_trees", decode_trees, GRAMMAR_ARGUMENTS, given("mantissa"), given("exponent"), given("decoded"));
}

}  // namespace eigentree
