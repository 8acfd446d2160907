#include "estep.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "boundary.hpp"

namespace eigentree {
namespace {

using Index = std::int64_t;

constexpr Index cache_line = 64;
// What the messages of one block of rows may take; loops over fewer rows cost more than a miss of the cache.
constexpr Index cache_bytes = 4 << 20;
// Fewest and most bytes of a line of a block.
constexpr Index least_line = 1920, most_line = 4032;
// Copies of the counts of leaves: see leaves.hpp.
constexpr Index copies = 4;
// The first section is cut into at most so many stretches of rows for threads, each of at least so much work, and
// of so much work for each number that it adds up: to add one to memory takes as long as hundreds of operations in
// registers. No count of threads changes these, so none changes a bit.
constexpr Index most_stretches = 16, least_work = 1 << 21, work_per_sum = 1024;
// A bound of sizes and places beyond which sums and products of a few of them could overflow.
constexpr Index most = Index(1) << 40;

Index rounded(Index count, Index multiple) { return (count + multiple - 1) / multiple * multiple; }

// Numbers that start with a line of the cache: registers that lie in two lines take twice the time.
template <class T>
class Room {
  struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t(cache_line)); }
  };
  std::unique_ptr<T[], Free> numbers;

 public:
  explicit Room(Index count)
      : numbers(static_cast<T*>(::operator new[](std::size_t(count) * sizeof(T), std::align_val_t(cache_line)))) {}
  T* data() const { return numbers.get(); }
};

// A layout of a tree that is known to lead to no place outside its arrays.
struct CheckedTree {
  std::vector<BlockNode> nodes;
  std::vector<BlockSection> sections;
  std::vector<int> depth;  // of each section
  BlockTree tree;
  Index lines = 0;   // that messages take
  Index leaves = 0;  // where the first values of leaves start
  Index work = 0;    // numbers that one row of the first section reads
  Index tables = 0;  // numbers of all tables
  Index rows = 0;    // of all sections
};

struct Given {
  In<Index, 2> nodes, edges;
  In<Index> places;
  Index ones, down, share;
  In<Index, 2> sections;
};

void check_within(Index start, Index count, Index end, const char* why) {
  check(start >= 0 && count >= 0 && start <= end && count <= end - start, why);
}

// The list of places that starts somewhere: each is one of so many.
void check_places(const In<Index>& places, Index start, Index count, Index bound, const char* why) {
  check_within(start, count, Index(places.shape(0)), why);
  const Index* own = places.data() + start;
  for (Index k = 0; k < count; ++k) check(own[k] >= 0 && own[k] < bound, why);
}

class Checking {
  const Given& given;
  const Index values, codes;
  const BlockEdge* const edges;
  const Index edge_count;
  CheckedTree& found;
  Index lines_end = 0;

  // Lines of messages, which count as lines of the section.
  void check_lines(Index first, Index count) {
    check(first >= 0 && first < most && count >= 1 && count < most, "lines outside the messages");
    lines_end = std::max(lines_end, first + count);
  }

  void check_inner(const BlockNode& node, Index number, const BlockSection& section) {
    check(node.terms >= 1 && node.blocks >= 1 && node.rows >= 1 && node.columns >= 1, "an empty matrix");
    check(node.bond <= Index(given.places.shape(0)) && node.terms <= Index(given.places.shape(0)),
          "a matrix beyond its places");
    check(node.blocks <= node.bond && node.rows <= node.bond && node.blocks * node.rows == node.bond,
          "blocks whose rows are not the bond");
    check(node.blocks <= node.terms && node.columns <= node.terms && node.blocks * node.columns == node.terms,
          "blocks whose columns are not the products");
    check_places(given.places, node.row, node.bond, node.bond, "rows outside the bond");
    check_places(given.places, node.column, node.terms, node.terms, "columns outside the products");
    check(node.rows <= most / node.terms, "a matrix beyond its values");
    check_within(node.value, node.rows * node.terms, values, "values of a matrix outside all values");
    check_lines(node.message, node.bond);
    check_lines(node.outside, node.bond);
    check_lines(node.product, node.terms);
    check_lines(node.down, node.terms);
    if (node.factor >= 0) check_lines(node.factor, 1);
    check(node.first_edge >= 0 && node.first_edge <= node.first_leaf && node.first_leaf <= node.last_edge &&
              node.last_edge <= edge_count,
          "edges outside all edges");
    bool stored = false;
    for (Index k = node.first_edge; k < node.last_edge; ++k) {
      check(edges[k].child > number && edges[k].child < section.end, "a child that does not follow its parent");
      const BlockNode& child = found.nodes[edges[k].child];
      check((child.leaf >= 0) == (k >= node.first_leaf), "inner children come before leaves");
      check(child.bond >= 1 && child.bond <= node.terms, "a child of more states than products");
      check_places(given.places, edges[k].pick, node.terms, child.bond, "picks outside a child's bond");
      check_places(given.places, edges[k].pick + node.terms, node.terms, node.terms, "picks outside the products");
      if (child.leaf >= 0) {
        stored |= child.message >= 0;
        check(child.message >= 0 || child.bond == node.terms, "a leaf over other products");
        check_lines(given.share, child.bond);
      } else if (child.before >= 0) {
        check_lines(child.before, node.terms);
      } else {
        check(k == node.first_edge, "an inner child without the products before it");
      }
    }
    if (stored && node.first_edge < node.first_leaf)
      check(found.nodes[edges[node.first_edge].child].before >= 0, "an inner child without the products before it");
    if (&section == &found.sections[0]) found.work += node.rows * node.terms;
  }

  void check_leaf(BlockNode& leaf, BlockSection& section, int depth) {
    check(leaf.leaf < most && section.rows < most, "codes outside all codes");
    check_within(section.codes, 0, codes, "codes outside all codes");
    check(section.rows == 0 || leaf.leaf < (codes - section.codes) / section.rows, "codes outside all codes");
    if (leaf.message >= 0) check_lines(leaf.message, leaf.bond);
    if (leaf.section >= 0) {
      check(leaf.section < Index(found.sections.size()) && &found.sections[leaf.section] > &section,
            "a leaf reads a section that does not follow");
      check(found.depth[leaf.section] == 0, "a section that two leaves read");
      const BlockSection& below = found.sections[leaf.section];
      check(below.first >= 0 && below.first < Index(found.nodes.size()), "a section without nodes");
      check(found.nodes[below.first].bond == leaf.bond, "a section of another bond");
      found.depth[leaf.section] = depth + 1;
    } else {
      check_within(leaf.value, leaf.bond, values, "values of a leaf outside all values");
      found.leaves = std::min(found.leaves, leaf.value);
    }
    if (&section == &found.sections[0]) found.work += leaf.bond;
  }

 public:
  Checking(const Given& layout, Index value_count, Index code_count, CheckedTree& checked)
      : given(layout),
        values(value_count),
        codes(code_count),
        edges(reinterpret_cast<const BlockEdge*>(layout.edges.data())),
        edge_count(Index(layout.edges.shape(0))),
        found(checked) {}

  void run() {
    check(given.nodes.shape(1) == BlockNode::given, "nodes of other fields");
    check(given.edges.shape(1) == 2, "edges of other fields");
    check(given.sections.shape(1) == BlockSection::given, "sections of other fields");
    check(given.sections.shape(0) >= 1, "a tree has a section");
    found.nodes.resize(given.nodes.shape(0));
    for (std::size_t i = 0; i < found.nodes.size(); ++i)
      std::memcpy(&found.nodes[i], given.nodes.data() + i * BlockNode::given, BlockNode::given * sizeof(Index));
    found.sections.resize(given.sections.shape(0));
    for (std::size_t s = 0; s < found.sections.size(); ++s)
      std::memcpy(&found.sections[s], given.sections.data() + s * BlockSection::given,
                  BlockSection::given * sizeof(Index));
    found.depth.assign(found.sections.size(), 0);
    found.leaves = values;
    found.tree = {found.nodes.data(), edges, given.places.data(), given.ones, given.down, given.share};
    check(given.down >= 0 && given.down < most, "lines outside the messages");
    for (std::size_t s = 0; s < found.sections.size(); ++s) {
      BlockSection& section = found.sections[s];
      check(section.first == (s ? found.sections[s - 1].end : 0), "sections follow each other");
      check(section.first < section.end && section.end <= Index(found.nodes.size()), "a section without nodes");
      check(found.nodes[section.first].leaf < 0, "the root of a section is no leaf");
      check(s == 0 || found.depth[s] > 0, "a section that no leaf reads");
      check(section.rows >= 0, "sections have rows");
      lines_end = 0;
      check_lines(given.ones, 1);
      for (Index i = section.first; i < section.end; ++i) {
        BlockNode& node = found.nodes[i];
        check(node.bond >= 1 && node.bond < most, "a node has states");
        if (node.leaf >= 0)
          check_leaf(node, section, found.depth[s]);
        else
          check_inner(node, i, section);
      }
      section.lines = lines_end;
      found.lines = std::max(found.lines, lines_end);
      section.first_row = found.rows;
      check(section.rows < most, "rows without weights");
      found.rows += section.rows;
    }
    check(found.nodes[0].bond == 1, "the root has one state");
    check(found.sections.back().end == Index(found.nodes.size()), "nodes without a section");
    // So that a wrong number cannot take all memory: each node has a few lines for each of its states and products.
    Index enough = 1;
    for (const BlockNode& node : found.nodes)
      enough += node.leaf >= 0 ? node.bond : 3 * node.bond + 3 * node.terms + 1;
    for (const BlockNode& node : found.nodes)
      if (node.leaf < 0) enough += node.terms * (node.first_leaf - node.first_edge);
    Index terms = 1, bond = 1;
    for (const BlockNode& node : found.nodes) {
      bond = std::max(bond, node.bond);
      if (node.leaf < 0) terms = std::max(terms, node.terms);
    }
    check(found.lines <= enough + terms + bond, "more lines than messages");
  }
};

// Where tables and sums stand: values, then tables; sums of values, then copies of those of leaves, then what comes
// down to tables. Neighbouring rows seldom agree in what they read of tables, so these have no copies.
struct Placed {
  Index tables, apart, above, end;

  Placed(CheckedTree& found, Index values) {
    tables = rounded(values, 16);
    apart = rounded(values - found.leaves, 8);
    above = rounded(values, 8) + (copies - 1) * apart;
    for (std::size_t s = 1; s < found.sections.size(); ++s) {
      BlockSection& section = found.sections[s];
      section.table = tables + found.tables;
      section.above = above + found.tables;
      found.tables += section.rows * found.nodes[section.first].bond;
      check(found.tables < most, "too many rows");
    }
    end = above + found.tables;
    for (BlockNode& node : found.nodes) {
      node.sums = node.value;
      node.apart = apart;
      if (node.leaf >= 0 && node.section >= 0) {
        node.value = found.sections[node.section].table;
        node.sums = found.sections[node.section].above;
        node.apart = 0;
      }
    }
  }
};

// Calls work(worker, task) for each task, by some threads.
template <class F>
void in_threads(Index tasks, Index threads, F work) {
  std::atomic<Index> next{0};
  const auto run = [&](Index worker) {
    for (Index task = next++; task < tasks; task = next++) work(worker, task);
  };
  std::vector<std::thread> others;
  threads = std::min(threads, tasks);
  try {
    for (Index worker = 1; worker < threads; ++worker) others.emplace_back(run, worker);
  } catch (const std::exception&) {
    // Where the system has no more threads or memory, those that there are do the work.
  }
  run(0);
  for (std::thread& other : others) other.join();
}

template <class T>
const TreeLoops<T>& loops_of() {
  if constexpr (std::is_same_v<T, double>)
    return estep_loops().in_double;
  else
    return estep_loops().in_single;
}

// The blocks of inner nodes as (column, row).
template <class T>
void transpose_blocks(const CheckedTree& found, const T* values, T* transposed) {
  for (const BlockNode& node : found.nodes) {
    if (node.leaf >= 0) continue;
    for (Index b = 0, start = node.value; b < node.blocks; ++b, start += node.rows * node.columns)
      for (Index i = 0; i < node.rows; ++i)
        for (Index j = 0; j < node.columns; ++j)
          transposed[start + j * node.rows + i] = values[start + i * node.columns + j];
  }
}

template <class Code>
void check_codes(const CheckedTree& found, const Code* codes, Index values) {
  for (const BlockSection& section : found.sections) {
    if (section.rows == 0) continue;
    for (Index i = section.first; i < section.end; ++i) {
      const BlockNode& leaf = found.nodes[i];
      if (leaf.leaf < 0) continue;
      const Code* own = codes + section.codes + leaf.leaf * section.rows;
      Index largest;
      if constexpr (sizeof(Code) == 2)
        largest = estep_loops().largest_code_16(own, section.rows);
      else
        largest = estep_loops().largest_code_32(own, section.rows);
      const Index known = leaf.section >= 0 ? found.sections[leaf.section].rows : (values - leaf.value) / leaf.bond;
      check(largest < known, "a code that its leaf has no values of");
    }
  }
}

// An E-step: what is read, the room for what is written, and the order in which sections are passed.
template <class T>
class Estep {
  const CheckedTree& found;
  const Placed placed;
  const TreeLoops<T>& loops = loops_of<T>();
  const Index threads;
  Index stretches, block, width;
  Room<T> values, transposed;
  Room<Index> exponents;
  std::vector<Room<T>> lines;
  std::vector<Room<Index>> exponent;
  std::vector<std::vector<const BlockSection*>> levels;

  // Rows of a block: those whose messages fit into the cache.
  Index usual_block() const {
    const Index fitting = cache_bytes / Index(sizeof(T)) / found.lines;
    return rounded(std::clamp(fitting, least_line / Index(sizeof(T)), most_line / Index(sizeof(T))),
                   192 / sizeof(T));
  }

  Index usual_stretches() const {
    const double work = double(found.sections[0].rows) * double(found.work);
    const double each = std::max(double(least_work), double(work_per_sum) * double(placed.end));
    const Index usual = usual_block(), blocks = (found.sections[0].rows + usual - 1) / usual;
    return std::clamp(Index(std::min(work / each, double(most_stretches))), Index(1), std::max(blocks, Index(1)));
  }

  TreeSpace<T> space(Index worker) const { return {lines[worker].data(), exponent[worker].data()}; }

 public:
  Estep(const CheckedTree& checked, Placed places, const T* given, Index value_count, Index rows_of_block,
        Index most_threads)
      : found(checked),
        placed(places),
        threads(std::min(most_threads, Index(std::max(std::size_t(most_stretches), checked.sections.size())))),
        values(placed.tables + checked.tables),
        transposed(value_count),
        exponents(checked.rows) {
    std::memcpy(values.data(), given, std::size_t(value_count) * sizeof(T));
    transpose_blocks(found, given, transposed.data());
    block = rows_of_block ? std::min(rows_of_block, most) : usual_block();
    stretches = usual_stretches();
    Index longest = 1, deepest = 0;
    for (std::size_t s = 0; s < found.sections.size(); ++s) {
      longest =
          std::max(longest, s ? found.sections[s].rows : (found.sections[s].rows + stretches - 1) / stretches);
      deepest = std::max<Index>(deepest, found.depth[s]);
    }
    // An uneven number of lines of the cache: else messages would all fall into the same few places of it.
    block = std::min(block, longest);
    width = rounded(rounded(block, loops.tile) * sizeof(T), cache_line);
    width = (width / cache_line | 1) * cache_line / sizeof(T);
    levels.resize(deepest + 1);
    for (std::size_t s = 0; s < found.sections.size(); ++s) levels[found.depth[s]].push_back(&found.sections[s]);
    Index tasks = stretches;
    for (const auto& level : levels) tasks = std::max(tasks, Index(level.size()));
    for (Index worker = 0; worker < std::min(threads, tasks); ++worker) {
      lines.emplace_back(found.lines * width);
      exponent.emplace_back(width);
    }
  }

  LogLikelihood run(const void* codes, int code_bytes, const double* weights, double* sums_of_values,
                    Index value_count) {
    const TreePass<T> pass{found.tree,    found.sections.data(),
                           values.data(), transposed.data(),
                           codes,         code_bytes,
                           weights,       exponents.data(),
                           width,         block};
    const Index workers = Index(lines.size());
    for (std::size_t depth = levels.size() - 1; depth > 0; --depth)
      in_threads(Index(levels[depth].size()), workers,
                 [&](Index worker, Index task) { loops.messages(pass, space(worker), *levels[depth][task]); });

    const Index size = sums_of_values ? placed.end : 0, rows = found.sections[0].rows;
    const Room<double> room(stretches * size);
    double* const sums = sums_of_values ? room.data() : nullptr;
    std::vector<LogLikelihood> of_stretch(stretches);
    in_threads(stretches, workers, [&](Index worker, Index task) {
      const Index start = rows * task / stretches, stop = rows * (task + 1) / stretches;
      double* const own = sums ? sums + task * size : nullptr;
      if (own) std::memset(own, 0, std::size_t(size) * sizeof(double));
      of_stretch[task] = loops.first(pass, space(worker), start, stop, own);
    });
    LogLikelihood all{0.0, -1};
    for (const LogLikelihood& each : of_stretch) {
      all.sum += each.sum;
      all.impossible = std::max(all.impossible, each.impossible);
    }
    double power = 0.0;
    for (Index r = rows; r < found.rows; ++r) power += weights[r] * double(exponents.data()[r]);
    all.sum += log_2 * power;
    if (!sums) return all;

    for (Index stretch = 1; stretch < stretches; ++stretch)
      for (Index k = 0; k < size; ++k) sums[k] += sums[stretch * size + k];
    for (std::size_t depth = 1; depth < levels.size(); ++depth)
      in_threads(Index(levels[depth].size()), workers,
                 [&](Index worker, Index task) { loops.counts(pass, space(worker), *levels[depth][task], sums); });
    for (Index copy = 1; copy < copies; ++copy)
      for (Index k = found.leaves; k < value_count; ++k) sums[k] += sums[k + copy * placed.apart];
    std::memcpy(sums_of_values, sums, std::size_t(value_count) * sizeof(double));
    return all;
  }
};

template <class T, class Code>
std::pair<double, Index> expected_counts(In<Index, 2> nodes, In<Index, 2> edges, In<Index> places, Index ones,
                                         Index down, Index share, In<Index, 2> sections, In<T> values,
                                         In<Code> codes, In<double> weights, Out<double> sums, Index threads,
                                         Index block) {
  const Index value_count = Index(values.shape(0));
  CheckedTree found;
  const Given given{nodes, edges, places, ones, down, share, sections};
  Checking(given, value_count, Index(codes.shape(0)), found).run();
  check(Index(weights.shape(0)) == found.rows, "one weight for each row of each section");
  check(sums.shape(0) == 0 || Index(sums.shape(0)) == value_count, "one sum for each value, or none");
  check(threads >= 1, "at least one thread");
  check(block >= 0, "blocks have rows");
  const nb::gil_scoped_release release;
  check_codes(found, codes.data(), value_count);
  const Placed placed(found, value_count);
  Estep<T> estep(found, placed, values.data(), value_count, block, threads);
  double* const to = sums.shape(0) ? sums.data() : nullptr;
  const LogLikelihood all = estep.run(codes.data(), int(sizeof(Code)), weights.data(), to, value_count);
  return {all.sum, all.impossible};
}

template <class T, class Code>
void bind(nb::module_& m) {
  m.def("expected_counts", expected_counts<T, Code>, given("nodes"), given("edges"), given("places"), given("ones"),
        given("down"), given("share"), given("sections"), given("values"), given("codes"), given("weights"),
        given("sums"), given("threads"), given("block"));
}

}  // namespace

void bind_estep(nb::module_& m) {
  bind<double, std::uint16_t>(m);
  bind<float, std::uint16_t>(m);
  bind<double, std::uint32_t>(m);
  bind<float, std::uint32_t>(m);
}

}  // namespace eigentree
