#include "message_passing.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include "operator_tree_owner.hpp"

namespace eigentree {
namespace {

using Int = std::int64_t;

// More than any operator that fits into memory has; products of two of them are far from overflow.
constexpr Int most_size = Int(1) << 31;
constexpr Int most_bond_size = Int(1) << 20;

// Consecutive lines, lent and given back; what is free is lent again, lowest first.
class LinePool {
 public:
  Int lend(Int count) {
    auto found = free_.end();
    for (auto gap = free_.begin(); gap != free_.end(); ++gap)
      if (gap->second >= count && (found == free_.end() || *gap < *found)) found = gap;
    if (found == free_.end()) return std::exchange(end_, end_ + count);
    const Int first = found->first;
    found->first += count;
    found->second -= count;
    if (found->second == 0) free_.erase(found);
    return first;
  }
  void give_back(Int first, Int count) { free_.emplace_back(first, count); }
  Int end() const { return end_; }

 private:
  std::vector<std::pair<Int, Int>> free_;
  Int end_ = 0;
};

}  // namespace

OperatorTree::OperatorTree(In<Int> states, In<Int, 2> nodes, In<Int> children, In<Int> columns, In<Int, 2> index,
                           In<double> values)
    : states_(states.data(), states.data() + states.size()) {
  for (Int size : states_) check(0 < size && size < most_size - 1, "columns have at least one state");
  read_shape(nodes, children, columns);
  read_entries(index, values);
  lay_lines();
  lay_tour();
}

// Nodes, with children after their parents and each child of one parent, and the columns that they hold.
void OperatorTree::read_shape(In<Int, 2> nodes, In<Int> children, In<Int> columns) {
  check(nodes.shape(1) == 4, "a node is its bond and its numbers of children, columns and entries");
  check(0 < nodes.shape(0) && Int(nodes.shape(0)) < most_size, "a tree has at least one node");
  const Int count = Int(nodes.shape(0));
  std::vector<bool> has_parent(std::size_t(count), false);
  for (Int n = 0; n < count; ++n) {
    const Int* given = nodes.data() + 4 * n;
    OperatorNode node = {};
    node.bond = given[0];
    node.children = given[1];
    node.columns = given[2];
    node.entries = given[3];
    check(0 < node.bond && node.bond <= most_bond_size, "the bond of a node has at least one index");
    check(0 <= node.children && node.children <= most_children, "a node has at most three children");
    node.first_child = Int(child_.size());
    node.first_column = Int(columns_.size());
    check(node.children <= Int(children.size()) - node.first_child, "too few children are given");
    check(0 <= node.columns && node.columns <= Int(columns.size()) - node.first_column,
          "too few columns are given");
    check(0 < node.entries && node.entries < most_size, "a node has at least one entry");
    for (Int k = 0; k < node.children; ++k) {
      const Int child = children.data()[node.first_child + k];
      check(n < child && child < count && !has_parent[child], "children come after their one parent");
      has_parent[child] = true;
      child_.push_back(child);
    }
    // Columns of a node are the digits of its joint code; the last one changes fastest.
    Int stride = node.entries + node.entries % 2;
    columns_.resize(std::size_t(node.first_column + node.columns));
    for (Int k = node.columns - 1; k >= 0; --k) {
      const Int column = columns.data()[node.first_column + k];
      check(0 <= column && column < Int(states_.size()), "a node holds a column that there is not");
      columns_[node.first_column + k] = {column, stride, states_[column]};
      most_states_ = std::max(most_states_, states_[column]);
      check(stride <= (most_size - 1) / (states_[column] + 1), "an operator has too many values");
      stride *= states_[column] + 1;
    }
    most_bond_ = std::max(most_bond_, node.bond);
    nodes_.push_back(node);
  }
  check(nodes_[0].bond == 1, "the bond of the root has one index");
  for (Int n = 1; n < count; ++n) check(has_parent[n], "a node has no parent");
  check(child_.size() == children.size(), "more children are given than nodes have");
  check(columns_.size() == columns.size(), "more columns are given than nodes have");
}

// Entries are sorted by the parent's index, and the values of one joint code are made contiguous.
void OperatorTree::read_entries(In<Int, 2> index, In<double> values) {
  check(index.shape(1) == legs, "an entry has an index on each of three bonds with children, and on the parent's");
  Int first_given = 0, first_value = 0;
  std::vector<Int> order;
  for (OperatorNode& node : nodes_) {
    const Int given = node.entries;
    check(given <= Int(index.shape(0)) - first_given, "too few entries are given");
    Int width = 1;
    for (Int k = 0; k < node.columns; ++k) width *= columns_[node.first_column + k].states + 1;
    check(given * width <= Int(values.size()) - first_value, "too few values are given");
    const auto at = [&](Int e, Int leg) {
      return index.data()[legs * (first_given + e) + (leg == 0 ? most_children : leg - 1)];
    };
    Int met = node.bond;
    for (Int k = 0; k < node.children; ++k) met += nodes_[child_[node.first_child + k]].bond;
    most_legs_ = std::max(most_legs_, met);
    order.resize(std::size_t(given));
    for (Int e = 0; e < given; ++e) {
      order[e] = e;
      for (Int leg = 0; leg <= node.children; ++leg) {
        const Int bond = leg == 0 ? node.bond : nodes_[child_[node.first_child + leg - 1]].bond;
        check(0 <= at(e, leg) && at(e, leg) < bond, "an entry lies outside a bond");
      }
    }
    std::stable_sort(order.begin(), order.end(), [&](Int a, Int b) { return at(a, 0) < at(b, 0); });
    // The number of entries is made even by one that is zero.
    node.first_entry = Int(given_entry_.size());
    node.entries = given + given % 2;
    node.given = given;
    node.first_value = Int(values_.size());
    for (Int i = 0; i < node.entries; ++i) {
      const Int e = order[std::min(i, given - 1)];
      given_entry_.push_back(i < given ? e : -1);
      for (Int leg = 0; leg < legs; ++leg)
        index_.push_back(leg <= node.children ? std::int32_t(at(e, leg)) : std::int32_t(0));
    }
    values_.resize(values_.size() + std::size_t(node.entries * width), 0.0);
    double least = 1.0;
    bool negative = false;
    for (Int i = 0; i < given; ++i) {
      const double* from = values.data() + first_value + order[i] * width;
      for (Int joint = 0; joint < width; ++joint) {
        values_[node.first_value + joint * node.entries + i] = from[joint];
        const double size = std::fabs(from[joint]);
        if (size > 0.0 && size < least) least = size;
        negative |= from[joint] < 0.0;
      }
    }
    // Terms of both signs can cancel down to the last digit of the smallest of them.
    node.reach = std::log2(least) - (negative ? 53.0 : 0.0);
    first_given += given;
    first_value += given * width;
  }
  check(first_given == Int(index.shape(0)), "more entries are given than nodes have");
  check(first_value == Int(values.size()), "more values are given than entries have");
}

void OperatorTree::lay_lines() {
  const Int count = Int(nodes_.size());
  reused_line_.resize(std::size_t(count));
  kept_line_.resize(std::size_t(count));
  LinePool pool;
  for (Int n = count - 1; n >= 0; --n) {
    // A message, and a bound on its error.
    reused_line_[n] = pool.lend(nodes_[n].bond + 1);
    for (Int k = 0; k < nodes_[n].children; ++k) {
      const Int child = child_[nodes_[n].first_child + k];
      pool.give_back(reused_line_[child], nodes_[child].bond + 1);
    }
  }
  reused_depth_ = pool.end();
  for (Int n = 0; n < count; ++n) {
    kept_line_[n] = kept_depth_;
    kept_depth_ += nodes_[n].bond + 1;
  }
}

void OperatorTree::lay_tour() {
  std::vector<TourStep> stack = {{0, -1, 0}};
  while (!stack.empty()) {
    const TourStep step = stack.back();
    stack.pop_back();
    tour_.push_back(step);
    if (step.k < 0) continue;
    stack.push_back({step.node, -1, -1});
    const OperatorNode& node = nodes_[step.node];
    for (Int k = node.children - 1; k >= 0; --k) stack.push_back({child_[node.first_child + k], step.node, k});
  }
}

void OperatorTree::check_codes(const CodesView& codes, Int columns) const {
  check(columns == Int(states_.size()), "codes have a line for each column of the tree");
  for (Int column = 0; column < columns; ++column) {
    const Int most = message_passing_loops().largest_code(codes, column);
    if (most > states_[column])
      refuse("column " + std::to_string(column) + " has the code " + std::to_string(most) + ", but " +
             std::to_string(states_[column]) + " states");
  }
}

OperatorTreeView OperatorTree::view(bool kept) const {
  return {nodes_.data(),
          Int(nodes_.size()),
          child_.data(),
          index_.data(),
          columns_.data(),
          values_.data(),
          kept ? kept_line_.data() : reused_line_.data(),
          kept ? kept_depth_ : reused_depth_};
}

namespace {

// What the messages of one block of rows may take, so that they stay in the second-level cache.
constexpr Int cache_bytes = 192 * 1024;

// What the passes of one call write on. Tile and loops are taken together: another thread may choose
// another instruction set meanwhile.
class Space {
 public:
  Space(const OperatorTree& tree, const OperatorTreeView& view, Int tile, Int rows, bool down) {
    const Int lines = down ? 2 * view.depth : view.depth;
    const Int fitting = std::clamp<Int>(cache_bytes / (8 * lines), 32, 512);
    // No more than there are rows; whole tiles.
    space_.block = std::min(std::max(fitting / tile, Int(1)), (rows + tile - 1) / tile) * tile;
    space_.block = std::max(space_.block, tile);
    const Int scratch = down ? entries_at_once + 2 * tree.most_states() + tree.most_legs() : 0;
    numbers_.reset(static_cast<double*>(
        ::operator new(sizeof(double) * std::size_t(lines * space_.block + scratch * tile), std::align_val_t(64))));
    place_.resize(std::size_t(space_.block));
    absent_.resize(std::size_t(space_.block));
    exponent_.resize(std::size_t(space_.block));
    low_.resize(std::size_t(view.count));
    weight_.resize(std::size_t(tree.most_bond()));
    lossy_ = std::make_unique<bool[]>(std::size_t(view.count));
    unsure_ = std::make_unique<bool[]>(std::size_t(rows));
    space_.lines = numbers_.get();
    space_.place = place_.data();
    space_.absent = absent_.data();
    space_.exponent = exponent_.data();
    space_.low = low_.data();
    space_.weight = weight_.data();
    space_.lossy = lossy_.get();
    space_.unsure = unsure_.get();
  }
  const MessageSpace& parts() const { return space_; }

 private:
  struct Release {
    void operator()(double* numbers) const { ::operator delete(numbers, std::align_val_t(64)); }
  };
  std::unique_ptr<double, Release> numbers_;
  std::vector<std::int32_t> place_, absent_;
  std::vector<Int> exponent_;
  std::vector<double> low_, weight_;
  std::unique_ptr<bool[]> lossy_, unsure_;
  MessageSpace space_ = {};
};

template <class Code>
void tree_log_prob(const OperatorTree& tree, In<Code, 2> codes, Out<double> log_size, Out<std::int8_t> sign) {
  check(log_size.shape(0) == codes.shape(1) && sign.shape(0) == codes.shape(1), "one probability per row");
  check_apart(codes, log_size, sign);
  const nb::gil_scoped_release release;
  const CodesView view = tree.checked_codes(codes);
  const OperatorTreeView tree_view = tree.view(false);
  const MessagePassingLoops& loops = message_passing_loops();
  const Space space(tree, tree_view, loops.rows_of_tile, view.rows, false);
  loops.score(tree_view, view, space.parts(), log_size.data(), sign.data());
}

template <class Code>
void tree_tables(const OperatorTree& tree, In<Code, 2> codes, In<Int> offset, Out<double, 2> tables) {
  const auto& states = tree.states();
  check(tables.shape(0) == codes.shape(1), "one line of tables per row");
  check(offset.size() == states.size(), "one offset per column");
  const Int width = Int(tables.shape(1));
  for (std::size_t c = 0; c < states.size(); ++c)
    check(offset.data()[c] < 0 || (states[c] <= width && offset.data()[c] <= width - states[c]),
          "a column's states end outside of the tables");
  check_apart(tables, codes, offset);
  const nb::gil_scoped_release release;
  const CodesView view = tree.checked_codes(codes);
  const OperatorTreeView tree_view = tree.view(true);
  if (states.empty()) return;  // However many rows, which then take no memory.
  const MessagePassingLoops& loops = message_passing_loops();
  const Space space(tree, tree_view, loops.rows_of_tile, view.rows, true);
  loops.tables(tree_view, view, space.parts(), offset.data(), tables.data(), width);
}

template <class Code>
void tree_draw(const OperatorTree& tree, Out<Code, 2> codes, In<double, 2> uniform) {
  check(uniform.shape(0) == codes.shape(1) && uniform.shape(1) == codes.shape(0), "one uniform number per cell");
  const nb::gil_scoped_release release;
  const CodesView view = tree.checked_codes(codes);
  const OperatorTreeView tree_view = tree.view(true);
  if (tree.states().empty()) return;  // However many rows, which then take no memory.
  const MessagePassingLoops& loops = message_passing_loops();
  const Space space(tree, tree_view, loops.rows_of_tile, view.rows, true);
  loops.draw(tree_view, view, space.parts(), tree.tour().data(), Int(tree.tour().size()), uniform.data(),
             Int(uniform.shape(1)));
}

template <class Code>
void bind_codes(nb::module_& m) {
  m.def("tree_log_prob", tree_log_prob<Code>, given("tree"), given("codes"), given("log_size"), given("sign"));
  m.def("tree_tables", tree_tables<Code>, given("tree"), given("codes"), given("offset"), given("tables"));
  m.def("tree_draw", tree_draw<Code>, given("tree"), given("codes"), given("uniform"));
}

}  // namespace

void bind_message_passing(nb::module_& m) {
  m.attr("MOST_CHILDREN") = most_children;
  nb::class_<OperatorTree>(m, "OperatorTree")
      .def(nb::init<In<Int>, In<Int, 2>, In<Int>, In<Int>, In<Int, 2>, In<double>>(), given("states"),
           given("nodes"), given("children"), given("columns"), given("index"), given("values"));
  bind_codes<std::uint8_t>(m);
  bind_codes<std::uint16_t>(m);
  bind_codes<std::uint32_t>(m);
}

}  // namespace eigentree
