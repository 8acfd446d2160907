#include "state_posteriors.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chain_boundary.hpp"

namespace eigentree {
namespace {

// What all passes read. Copied where it leads to places, so that nothing that is written can change what was
// checked.
struct Known {
  HiddenChain chain;
  std::vector<std::int64_t> starts;
  std::vector<std::uint32_t> steps;
  std::vector<double> turned;
  const double* emissions = nullptr;
  std::int64_t longest = 0, message_numbers = 0;

  Known(const In<double>& links, std::int64_t states, std::int64_t order, const In<std::int64_t>& given_starts,
        std::size_t count)
      : chain(checked_chain(links, states, order)),
        starts(given_starts.data(), given_starts.data() + given_starts.shape(0)) {
    check(!starts.empty() && starts.front() == 0 && starts.back() == std::int64_t(count),
          "starts go from 0 to the number of steps");
    for (std::size_t k = 1; k < starts.size(); ++k) {
      check(starts[k] >= starts[k - 1], "starts never fall");
      longest = std::max(longest, starts[k] - starts[k - 1]);
    }
    check(longest < (std::int64_t(1) << 50) / chain.widest, "the longest sequence has too many messages");
    message_numbers = longest * chain.widest;
  }

  template <class Symbol>
  void show(const In<Symbol>& symbols, const In<double, 2>& given_emissions) {
    steps.assign(symbols.data(), symbols.data() + symbols.shape(0));
    for (const std::uint32_t symbol : steps) check(symbol < given_emissions.shape(0), "a symbol has no emissions");
    emissions = given_emissions.data();
  }

  std::int64_t count() const { return std::int64_t(starts.size()) - 1; }

  StatePass pass() const {
    StatePass found{};
    found.chain = chain;
    found.turned = turned.data();
    found.steps = steps.data();
    found.starts = starts.data();
    found.count = count();
    found.emissions = emissions;
    return found;
  }
};

template <class Symbol>
Known known(const In<Symbol>& symbols, const In<std::int64_t>& starts, const In<double, 2>& emissions,
            const In<double>& links, std::int64_t order) {
  Known found(links, std::int64_t(emissions.shape(1)), order, starts, symbols.shape(0));
  found.show(symbols, emissions);
  return found;
}

void check_proba(const Known& given, const Out<double, 2>& proba) {
  check(proba.shape(0) == std::size_t(given.starts.back()) && proba.shape(1) == std::size_t(given.chain.states),
        "one probability per step and state");
}

void check_states(const Known& given, const Out<std::int64_t>& states) {
  check(states.shape(0) == std::size_t(given.starts.back()), "one state per step");
}

template <class Symbol>
void filter_steps(In<Symbol> symbols, In<std::int64_t> starts, In<double, 2> emissions, In<double> links,
                  std::int64_t order, Out<double, 2> proba, Out<double, 2> ends) {
  const Known given = known(symbols, starts, emissions, links, order);
  check_proba(given, proba);
  check(ends.shape(0) == std::size_t(given.count()) && ends.shape(1) == std::size_t(given.chain.widest),
        "one full message per sequence");
  nb::gil_scoped_release release;
  const Space<double> messages(given.message_numbers);
  StatePass pass = given.pass();
  pass.messages = messages;
  pass.proba = proba.data();
  pass.ends = ends.data();
  state_posteriors_loops().filter(pass);
}

template <class Symbol>
void smooth_steps(In<Symbol> symbols, In<std::int64_t> starts, In<double, 2> emissions, In<double> links,
                  std::int64_t order, Out<double, 2> proba) {
  Known given = known(symbols, starts, emissions, links, order);
  check_proba(given, proba);
  nb::gil_scoped_release release;
  given.turned = turned_links(given.chain);
  const Space<double> messages(given.message_numbers), ahead(2 * given.chain.widest);
  StatePass pass = given.pass();
  pass.messages = messages;
  pass.ahead = ahead;
  pass.proba = proba.data();
  state_posteriors_loops().smooth(pass);
}

template <class Symbol>
void decode_steps(In<Symbol> symbols, In<std::int64_t> starts, In<double, 2> emissions, In<double> links,
                  std::int64_t order, Out<std::int64_t> states, Out<double> log_prob) {
  Known given = known(symbols, starts, emissions, links, order);
  check_states(given, states);
  check(log_prob.shape(0) == std::size_t(given.count()), "one log probability per sequence");
  check(given.chain.states <= 1 << 16, "decoding knows up to 65,536 states");
  nb::gil_scoped_release release;
  const auto logarithms = [](const double* numbers, std::int64_t count) {
    std::vector<double> found(numbers, numbers + count);
    for (double& each : found) each = std::log(each);
    return found;
  };
  const std::vector<double> log_links = logarithms(given.chain.links, given.chain.link_numbers);
  const std::vector<double> log_emissions = logarithms(given.emissions, std::int64_t(emissions.size()));
  const Space<double> scores(2 * given.chain.widest);
  const Space<std::uint16_t> back(given.message_numbers);
  StatePass pass = given.pass();
  pass.chain.links = log_links.data();
  pass.emissions = log_emissions.data();
  pass.ahead = scores;
  pass.back = back;
  pass.states = states.data();
  pass.log_prob = log_prob.data();
  state_posteriors_loops().decode(pass);
}

void sample_steps(In<std::int64_t> starts, In<double> links, std::int64_t states_count, std::int64_t order,
                  In<double> uniform, Out<std::int64_t> states) {
  const Known given(links, states_count, order, starts, uniform.shape(0));
  check_states(given, states);
  nb::gil_scoped_release release;
  StatePass pass = given.pass();
  pass.uniform = uniform.data();
  pass.states = states.data();
  state_posteriors_loops().sample(pass);
}

template <class Symbol>
void sample_given_steps(In<Symbol> symbols, In<std::int64_t> starts, In<double, 2> emissions, In<double> links,
                        std::int64_t order, In<double> uniform, Out<std::int64_t> states) {
  Known given = known(symbols, starts, emissions, links, order);
  check_states(given, states);
  check(uniform.shape(0) == symbols.shape(0), "one uniform number per step");
  nb::gil_scoped_release release;
  given.turned = turned_links(given.chain);
  const Space<double> messages(given.message_numbers);
  StatePass pass = given.pass();
  pass.messages = messages;
  pass.uniform = uniform.data();
  pass.states = states.data();
  state_posteriors_loops().sample_given(pass);
}

template <class Symbol>
void bind_for(nb::module_& m) {
  m.def("filter_steps", filter_steps<Symbol>, given("symbols"), given("starts"), given("emissions"), given("links"),
        nb::arg("order"), given("proba"), given("ends"));
  m.def("smooth_steps", smooth_steps<Symbol>, given("symbols"), given("starts"), given("emissions"), given("links"),
        nb::arg("order"), given("proba"));
  m.def("decode_steps", decode_steps<Symbol>, given("symbols"), given("starts"), given("emissions"), given("links"),
        nb::arg("order"), given("states"), given("log_prob"));
  m.def("sample_given_steps", sample_given_steps<Symbol>, given("symbols"), given("starts"), given("emissions"),
        given("links"), nb::arg("order"), given("uniform"), given("states"));
}

}  // namespace

void bind_state_posteriors(nb::module_& m) {
  bind_for<std::uint8_t>(m);
  bind_for<std::uint16_t>(m);
  bind_for<std::uint32_t>(m);
  m.def("sample_steps", sample_steps, given("starts"), given("links"), nb::arg("states_count"), nb::arg("order"),
        given("uniform"), given("states"));
}

}  // namespace eigentree
