#include "chain_rule.hpp"

#include <cstring>
#include <type_traits>
#include <vector>

#include "boundary.hpp"
#include "floor.hpp"

namespace eigentree {
namespace {

using std::int64_t;

// What the messages and the table of one block of rows may take, so that they stay in the first-level cache.
constexpr int64_t block_bytes = 24 * 1024;
constexpr int64_t least_block = 32, most_block = 512;

// A tree whose every index was checked, and a copy of its ports: nobody can change them during a call.
struct CheckedTree {
  std::vector<Port> ports;
  std::vector<int64_t> first_value, states;
  In<double> values;
  int64_t nodes, known;

  CheckedTree(const In<int64_t, 3>& port_table, const In<int64_t>& first, const In<int64_t>& state_counts,
              int64_t constants, const In<double>& node_values)
      : first_value(first.data(), first.data() + first.shape(0)),
        states(state_counts.data(), state_counts.data() + state_counts.shape(0)),
        values(node_values),
        nodes(int64_t(port_table.shape(0))),
        known(constants) {
    check(port_table.shape(1) == 3 && port_table.shape(2) == 4, "three ports per node, of four numbers");
    check(first.shape(0) == port_table.shape(0) && state_counts.shape(0) == port_table.shape(0),
          "as many first values and numbers of states as nodes");
    ports.resize(3 * port_table.shape(0));
    if (nodes) std::memcpy(ports.data(), port_table.data(), port_table.nbytes());
    const int64_t size = int64_t(values.shape(0));
    int64_t most_known = 1;
    for (const Port& port : ports) {
      check(port.size >= 1 && port.size <= size, "size of a port");
      most_known += port.size;
    }
    check(known >= 1 && known <= most_known, "room for the constants of all edges");
    for (int64_t n = 0; n < nodes; ++n) check_node(n, size);
  }

  void check_node(int64_t n, int64_t size) const {
    check(states[n] >= 0 && states[n] < size, "numbers of states");
    check(first_value[n] >= 0 && first_value[n] < size - states[n], "values of a node inside the array");
    int64_t entries = 1, last = first_value[n] + states[n];
    for (const Port* port = ports.data() + 3 * n; port < ports.data() + 3 * n + 3; ++port) {
      check(port->stride >= (port->size > 1) && port->stride <= size, "stride of a port");
      check(port->size <= size / entries, "a node has more entries than there are values");
      entries *= port->size;
      check(port->size - 1 <= (size - 1 - last) / (port->stride ? port->stride : 1),
            "values of a node inside the array");
      last += (port->size - 1) * port->stride;
      check(port->entry >= 0 && port->entry <= known - port->size, "constants that come in inside the array");
      check(port->exit >= 0 && port->exit <= known - port->size, "constants that go out inside the array");
    }
    if (states[n] > 0) {
      check(entries <= (size - first_value[n]) / (states[n] + 1), "values of a leaf inside the array");
    }
  }

  const Port& port(int64_t node, int64_t number) const { return ports[3 * node + number]; }
  ChainRuleTree tree() const { return {ports.data(), first_value.data(), states.data(), values.data()}; }
};

std::vector<int64_t> checked_messages(const CheckedTree& tree, const In<int64_t, 2>& messages) {
  check(messages.shape(1) == 2, "node and port of each constant");
  std::vector<int64_t> found(messages.data(), messages.data() + messages.size());
  for (std::size_t m = 0; m < found.size(); m += 2)
    check(found[m] >= 0 && found[m] < tree.nodes && found[m + 1] >= 0 && found[m + 1] < 3,
          "node and port of each constant");
  return found;
}

void write_constants(In<int64_t, 3> ports, In<int64_t> first_value, In<int64_t> states, In<int64_t, 2> messages,
                     In<double> values, Out<double> known) {
  const CheckedTree tree(ports, first_value, states, int64_t(known.shape(0)), values);
  const std::vector<int64_t> checked = checked_messages(tree, messages);
  nb::gil_scoped_release release;
  chain_rule_loops().constants(tree.tree(), checked.data(), int64_t(checked.size() / 2), known.data());
}

// The steps of the chain rule through a checked tree, and what they need.
struct CheckedSteps {
  std::vector<ChainRuleStep> steps;
  int64_t lines = 0, table = 0, matrices = 0, products = 0;

  CheckedSteps(const CheckedTree& tree, const In<int64_t, 2>& given_steps, int64_t columns,
               const FloorArrays& floor) {
    check(given_steps.shape(1) == 8, "eight numbers per step");
    steps.resize(given_steps.shape(0));
    if (!steps.empty()) std::memcpy(steps.data(), given_steps.data(), given_steps.nbytes());
    int64_t most_lines = 0;
    for (const ChainRuleStep& step : steps) {
      check(step.node >= 0 && step.node < tree.nodes, "the node of a step");
      check(step.out >= 0 && step.out < 3, "the ports of a step");
      most_lines += tree.port(step.node, step.out).size;
    }
    // No plan needs more lines than all messages have.
    for (const ChainRuleStep& step : steps) {
      const int64_t leaving = tree.port(step.node, step.out).size;
      check(step.line_out >= -1 && step.line_out <= most_lines - leaving, "lines of a message");
      if (step.line_out + leaving > lines) lines = step.line_out + leaving;
    }
    for (const ChainRuleStep& step : steps)
      step.column < 0 ? add_inner(tree, step) : add_leaf(tree, step, columns, floor);
  }

  void add_leaf(const CheckedTree& tree, const ChainRuleStep& step, int64_t columns, const FloorArrays& floor) {
    const int64_t states = tree.states[step.node], size = tree.port(step.node, step.out).size;
    check(step.column < columns, "the column of a step");
    floor.check_column(step.column, states);
    check(step.line_one >= -1 && step.line_one <= lines - size, "lines of a message");
    if (states + 1 + size > table) table = states + 1 + size;
  }

  void add_inner(const CheckedTree& tree, const ChainRuleStep& step) {
    check(step.one >= 0 && step.one < 3 && step.two >= 0 && step.two < 3, "the ports of a step");
    check(step.one != step.two && step.one != step.out && step.two != step.out, "the ports of a step differ");
    const int64_t leaving = tree.port(step.node, step.out).size;
    const int64_t one = tree.port(step.node, step.one).size, two = tree.port(step.node, step.two).size;
    check(step.line_out >= 0 && step.line_one >= 0 && step.line_one <= lines - one, "lines of a message");
    check(apart(step.line_out, leaving, step.line_one, one), "a message is written over one that is read");
    if (step.line_two < 0) {
      matrices += leaving * one;
    } else {
      check(step.line_two <= lines - two, "lines of a message");
      check(apart(step.line_out, leaving, step.line_two, two), "a message is written over one that is read");
      if (one * two > products) products = one * two;
    }
  }

  static bool apart(int64_t a, int64_t a_size, int64_t b, int64_t b_size) {
    return a + a_size <= b || b + b_size <= a;
  }
};

// How many rows go through the tree together: what they need stays in a cache, and is whole registers.
int64_t block_of(int64_t lines, int64_t rows) {
  int64_t block = block_bytes / (int64_t(sizeof(double)) * lines);
  block = block < least_block ? least_block : block > most_block ? most_block : block;
  if (block > rows) block = rows;
  return (block + most_rows_at_a_time - 1) / most_rows_at_a_time * most_rows_at_a_time;
}

// Scores rows; with uniform numbers, states are sampled into missing cells.
template <class Codes>
void chain_rule(const CheckedTree& checked, const std::vector<int64_t>& constants,
                const In<int64_t, 2>& given_steps, const FloorArrays& floor, const Codes& codes,
                const double* uniform, const Out<double, 2>& found) {
  using Code = std::remove_const_t<typename Codes::Scalar>;
  const int64_t columns = int64_t(codes.shape(0)), rows = int64_t(codes.shape(1));
  const CheckedSteps steps(checked, given_steps, columns, floor);
  check(found.shape(0) == 3 && found.shape(1) == codes.shape(1), "three numbers per row");
  check_apart(found, codes, floor.first);
  for (const ChainRuleStep& step : steps.steps)
    if (step.column >= 0) check_codes(codes.data() + step.column * rows, rows, checked.states[step.node]);

  nb::gil_scoped_release release;
  const int64_t lines = steps.lines + steps.table, block = block_of(lines + 8, rows);
  std::vector<double> known(checked.known), numbers((lines + 8) * block), matrices(steps.matrices),
      products(steps.products * most_rows_at_a_time);
  std::vector<int64_t> place(block);
  double* per_row = numbers.data() + lines * block;
  const ChainRuleSpace space{block,
                             numbers.data(),
                             numbers.data() + steps.lines * block,
                             matrices.data(),
                             products.data(),
                             per_row,
                             per_row + block,
                             per_row + 2 * block,
                             per_row + 3 * block,
                             per_row + 4 * block,
                             per_row + 5 * block,
                             per_row + 6 * block,
                             per_row + 7 * block,
                             place.data()};
  const ChainRuleTree tree = checked.tree();
  chain_rule_loops().constants(tree, constants.data(), int64_t(constants.size() / 2), known.data());
  // Codes are written where cells are sampled only.
  const CodeTable cells{const_cast<Code*>(codes.data()), int(sizeof(Code)), rows};
  chain_rule_loops().score(tree, steps.steps.data(), int64_t(steps.steps.size()), known.data(), floor.floor(),
                           cells, uniform, space, found.data());
}

// Adds a function whose arguments are those of the plan, the values and the floor, and `More`.
template <class... More, class Body, class... Names>
void bind(nb::module_& m, const char* name, const Body& body, const Names&... names) {
  m.def(
      name,
      [body](In<int64_t, 3> ports, In<int64_t> first_value, In<int64_t> states, In<int64_t, 2> constants,
             int64_t size, In<int64_t, 2> steps, In<double> values, double share, In<double> marginals,
             In<int64_t> first, const More&... more) {
        const CheckedTree tree(ports, first_value, states, size, values);
        body(tree, checked_messages(tree, constants), steps, FloorArrays{share, marginals, first}, more...);
      },
      given("ports"), given("first_value"), given("states"), given("constants"), nb::arg("size"), given("steps"),
      given("values"), nb::arg("share"), given("marginals"), given("first"), given(names)...);
}

template <class Code>
void score_rows(const CheckedTree& tree, const std::vector<int64_t>& constants, const In<int64_t, 2>& steps,
                const FloorArrays& floor, const In<Code, 2>& codes, const Out<double, 2>& found) {
  chain_rule(tree, constants, steps, floor, codes, nullptr, found);
}

template <class Code>
void sample_rows(const CheckedTree& tree, const std::vector<int64_t>& constants, const In<int64_t, 2>& steps,
                 const FloorArrays& floor, const Out<Code, 2>& codes, const In<double, 2>& uniform,
                 const Out<double, 2>& found) {
  check(uniform.shape(0) == codes.shape(0) && uniform.shape(1) == codes.shape(1), "a random number per cell");
  chain_rule(tree, constants, steps, floor, codes, uniform.data(), found);
}

template <class Code>
void bind_codes(nb::module_& m) {
  bind<In<Code, 2>, Out<double, 2>>(m, "chain_rule_score", score_rows<Code>, "codes", "found");
  bind<Out<Code, 2>, In<double, 2>, Out<double, 2>>(m, "chain_rule_sample", sample_rows<Code>, "codes", "uniform",
                                                    "found");
}

}  // namespace

void bind_chain_rule(nb::module_& m) {
  m.attr("CLIPPED") = clipped_weight;
  m.def("chain_rule_constants", write_constants, given("ports"), given("first_value"), given("states"),
        given("constants"), given("values"), given("known"));
  bind_codes<std::uint8_t>(m);
  bind_codes<std::uint16_t>(m);
  bind_codes<std::uint32_t>(m);
}

}  // namespace eigentree
