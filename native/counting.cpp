#include "counting.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <type_traits>
#include <vector>

#include "code_arrays.hpp"

namespace eigentree {
namespace {

using Integer = std::int64_t;
using Integers = std::vector<Integer>;

std::uint64_t* unsigned_of(Integer* numbers) { return reinterpret_cast<std::uint64_t*>(numbers); }
const std::uint64_t* unsigned_of(const Integer* numbers) { return reinterpret_cast<const std::uint64_t*>(numbers); }

// A product of numbers from 1 on; refused beyond `most`.
Integer product(const Integer* numbers, Integer count, Integer most) {
  Integer found = 1;
  for (Integer k = 0; k < count; ++k) {
    check(numbers[k] >= 1 && numbers[k] <= most / found, "sizes from 1 on, and tables that are not too large");
    found *= numbers[k];
  }
  return found;
}

// A group of columns, their states, and where its table begins among those of all groups.
struct Group {
  Integers columns, states;
  Integer cells, start;
};

// Groups of columns whose tables lie end to end, checked: a column has the same states in all groups.
struct Groups {
  std::vector<Group> all;
  Integers column_states;  // 0 of a column in no group
  Integer cells = 0;       // of all tables
  Integer widest = 0;      // cells of the largest

  Groups(In<Integer> group_start, In<Integer> columns, In<Integer> states, In<Integer> table_start) {
    check(group_start.shape(0) >= 1 && table_start.shape(0) == group_start.shape(0),
          "a start and an end per group");
    check(columns.shape(0) == states.shape(0), "states of each column");
    const Integer *starts = group_start.data(), *tables = table_start.data();
    check(starts[0] == 0 && tables[0] == 0, "groups and tables from 0 on");
    for (std::size_t g = 0; g + 1 < group_start.shape(0); ++g) {
      const Integer begin = starts[g], end = starts[g + 1];
      check(begin < end && end <= Integer(columns.shape(0)), "groups of columns end to end");
      Group group{
          {columns.data() + begin, columns.data() + end}, {states.data() + begin, states.data() + end}, 0, cells};
      group.cells = product(group.states.data(), end - begin, most_cells);
      for (std::size_t k = 0; k < group.columns.size(); ++k) add_column(group.columns[k], group.states[k]);
      check(tables[g + 1] == cells + group.cells, "tables end to end, as large as their states say");
      cells += group.cells;
      widest = std::max(widest, group.cells);
      all.push_back(std::move(group));
    }
  }

  void add_column(Integer column, Integer states) {
    check(column >= 0 && column < most_columns, "columns from 0 on");
    if (column >= Integer(column_states.size())) column_states.resize(column + 1, 0);
    check(column_states[column] == 0 || column_states[column] == states,
          "as many states of a column in all groups");
    column_states[column] = states;
  }

  static constexpr Integer most_columns = 1 << 24;
};

// Codes of some rows, and which columns have a missing cell.
struct CodedRows {
  const std::uint8_t* codes;
  Integer rows;
  int type;
  std::vector<bool> missing;

  // Refuses codes beyond that of a missing cell; the GIL is released around the check.
  CodedRows(const InAny<2>& from, const Groups& groups)
      : codes(static_cast<const std::uint8_t*>(from.data())),
        rows(Integer(from.shape(1))),
        type(code_type(from)),
        missing(from.shape(0), false) {
    check(groups.column_states.size() <= from.shape(0), "codes of all columns");
    bool fit = true;
    {
      nb::gil_scoped_release release;
      for (std::size_t j = 0; j < groups.column_states.size(); ++j)
        if (const Integer states = groups.column_states[j]) {
          const Integer high = loops().largest(codes + Integer(j) * rows * (1 << type), rows);
          fit = fit && high <= states;
          missing[j] = high == states;
        }
    }
    check(fit, "no code beyond that of a missing cell");
  }

  const GroupLoops& loops() const { return counting_loops().groups[type]; }

  bool misses(const Group& group) const {
    return std::any_of(group.columns.begin(), group.columns.end(), [&](Integer j) { return missing[j]; });
  }

  GroupRows of(const Group& group) const {
    return {
        codes,       rows,         rows, group.columns.data(), group.states.data(), Integer(group.columns.size()),
        group.cells, misses(group)};
  }
};

// Room for joint codes, and for counts of 32 bits of tables of up to so many cells.
struct Work {
  std::vector<std::uint32_t> joint, counts;

  explicit Work(Integer cells) : joint(block_rows), counts(turn_cells(cells + 1), 0) {}

  CountWork get() { return {joint.data(), counts.data()}; }
};

// Groups that have columns in common are counted as one, and marginalised in the end: to count a row takes as long
// in a table of a few thousand cells as in one of ten, as long as the table stays in the first cache.
struct MergedGroup {
  Group whole;
  std::vector<std::size_t> members;
};

constexpr Integer merged_cells = 4096;         // most cells of a merged table
constexpr Integer all_merged_cells = 1 << 21;  // most of all of them
constexpr std::size_t candidates = 32;         // merged groups of a column that are looked at, the latest first
constexpr Integer merged_from = 16'384;        // rows from which merging pays for marginalising
constexpr Integer merged_rows = 2'048;         // fewest rows at a time

bool has(const Group& group, Integer column) {
  return std::binary_search(group.columns.begin(), group.columns.end(), column);
}

// Which groups are merged, at least two each. The largest come first; each joins the merged group that it shares a
// column with and widens least.
std::vector<MergedGroup> merged(const Groups& groups, Integer most) {
  const auto rising = [](const Integers& columns) {
    return std::adjacent_find(columns.begin(), columns.end(), std::greater_equal<Integer>()) == columns.end();
  };
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < groups.all.size(); ++g)
    if (groups.all[g].cells <= most && rising(groups.all[g].columns)) order.push_back(g);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups.all[a].cells > groups.all[b].cells; });
  std::vector<MergedGroup> found;
  std::vector<std::vector<std::size_t>> holding(groups.column_states.size());  // merged groups of each column
  for (const std::size_t g : order) {
    const Group& group = groups.all[g];
    std::size_t best = found.size();
    Integer least = most + 1;
    for (const Integer column : group.columns) {
      const auto& near = holding[column];
      for (std::size_t n = near.size(); n > 0 && near.size() - n < candidates; --n) {
        const Group& whole = found[near[n - 1]].whole;
        Integer wider = 1;
        for (std::size_t k = 0; k < group.columns.size(); ++k)
          if (!has(whole, group.columns[k])) wider *= group.states[k];
        if (whole.cells * wider <= most && wider < least) least = wider, best = near[n - 1];
      }
    }
    if (best == found.size()) found.push_back({{{}, {}, 1, 0}, {}});
    found[best].members.push_back(g);
    Group& whole = found[best].whole;
    for (std::size_t k = 0; k < group.columns.size(); ++k) {
      const auto at = std::lower_bound(whole.columns.begin(), whole.columns.end(), group.columns[k]);
      if (at != whole.columns.end() && *at == group.columns[k]) continue;
      whole.states.insert(whole.states.begin() + (at - whole.columns.begin()), group.states[k]);
      whole.columns.insert(at, group.columns[k]);
      whole.cells *= group.states[k];
      holding[group.columns[k]].push_back(best);
    }
  }
  const auto single = [](const MergedGroup& each) { return each.members.size() < 2; };
  found.erase(std::remove_if(found.begin(), found.end(), single), found.end());
  return found;
}

// Joint counts of groups of columns, to which rows are added.
class GroupCounter {
 public:
  GroupCounter(In<Integer> group_start, In<Integer> columns, In<Integer> states, In<Integer> table_start)
      : groups_(group_start, columns, states, table_start),
        work_(std::max(groups_.widest, merged_cells)),
        tables_(groups_.cells, 0) {}

  // Counts rows once each.
  void add(InAny<2> codes) {
    add_rows(codes, [](const GroupLoops& loops, const GroupRows& rows, CountWork work, Integer* table) {
      loops.count(rows, work, table);
    });
  }

  // Counts each row as often as its weight says.
  void add_weighted(InAny<2> codes, In<Integer> weights) {
    check(weights.shape(0) == codes.shape(1), "one weight per row");
    const std::uint64_t* often = unsigned_of(weights.data());
    add_rows(codes, [often](const GroupLoops& loops, const GroupRows& rows, CountWork work, Integer* table) {
      loops.weigh_whole(rows, often, work, unsigned_of(table));
    });
  }

  // Adds all counts to tables that lie end to end.
  void add_to(Out<Integer> tables) {
    check(Integer(tables.shape(0)) == groups_.cells, "tables of all groups");
    nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(used_);
    std::uint64_t* sums = unsigned_of(tables.data());
    for (Integer k = 0; k < groups_.cells; ++k) sums[k] += std::uint64_t(tables_[k]);
    Integers table;
    std::vector<std::uint8_t> kept;
    for (const MergedGroup& each : merged_)
      for (const std::size_t g : each.members) {
        const Group &whole = each.whole, &member = groups_.all[g];
        table.assign(merged_tables_.begin() + whole.start, merged_tables_.begin() + whole.start + whole.cells);
        kept.clear();
        for (const Integer column : whole.columns) kept.push_back(has(member, column));
        counting_loops().marginalise(table.data(), Integer(kept.size()), whole.states.data(), kept.data());
        for (Integer k = 0; k < member.cells; ++k) sums[member.start + k] += std::uint64_t(table[k]);
      }
  }

 private:
  Groups groups_;
  Work work_;
  Integers tables_, merged_tables_;
  bool planned_ = false;
  std::vector<MergedGroup> merged_;
  std::vector<std::size_t> alone_;
  Integer rows_ = 0;
  std::mutex used_;

  void plan() {
    Integer cells = 0;
    for (Integer most = merged_cells; most > 0; most /= 2) {
      merged_ = merged(groups_, most);
      cells = 0;
      for (MergedGroup& each : merged_) {
        each.whole.start = cells;
        cells += each.whole.cells;
      }
      if (cells <= all_merged_cells) break;
    }
    merged_tables_.assign(cells, 0);
    std::vector<bool> taken(groups_.all.size(), false);
    for (const MergedGroup& each : merged_)
      for (const std::size_t g : each.members) taken[g] = true;
    for (std::size_t g = 0; g < taken.size(); ++g)
      if (!taken[g]) alone_.push_back(g);
    planned_ = true;
  }

  template <class Count>
  void add_rows(const InAny<2>& codes, Count count) {
    const CodedRows rows(codes, groups_);
    nb::gil_scoped_release release;
    const std::lock_guard<std::mutex> lock(used_);
    const auto add_to = [&](Integers& tables, const Group& group) {
      count(rows.loops(), rows.of(group), work_.get(), tables.data() + group.start);
    };
    if (rows_ < merged_from || rows.rows < merged_rows) {
      for (const Group& group : groups_.all) add_to(tables_, group);
    } else {
      if (!planned_) plan();
      for (const MergedGroup& each : merged_) {
        // Rows that miss a cell of the merged group may miss none of a member.
        if (!rows.misses(each.whole))
          add_to(merged_tables_, each.whole);
        else
          for (const std::size_t g : each.members) add_to(tables_, groups_.all[g]);
      }
      for (const std::size_t g : alone_) add_to(tables_, groups_.all[g]);
    }
    rows_ += std::min(rows.rows, merged_from);
  }
};

// Adds weights that are not whole, in the order of the rows: merged, sums would be rounded in another way.
void weigh_groups(InAny<2> codes, In<double> weights, In<Integer> group_start, In<Integer> columns,
                  In<Integer> states, In<Integer> table_start, Out<double> tables) {
  const Groups groups(group_start, columns, states, table_start);
  check(weights.shape(0) == codes.shape(1), "one weight per row");
  check(Integer(tables.shape(0)) == groups.cells, "tables of all groups");
  check_apart(tables, codes);
  const CodedRows rows(codes, groups);
  Work work(0);
  nb::gil_scoped_release release;
  for (const Group& group : groups.all)
    rows.loops().weigh(rows.of(group), weights.data(), work.get(), tables.data() + group.start);
}

// Adds the weights of the rows to the table of each pair of columns of which at least one is wide.
template <class Weight, class Number>
void count_pairs(InAny<2> codes, In<Weight> weights, In<bool> wide, In<Integer> states, In<Integer> start,
                 In<Integer> kept, Out<Number, 2> matrix) {
  const auto columns = Integer(codes.shape(0)), rows = Integer(codes.shape(1)), size = Integer(matrix.shape(0));
  const int type = code_type(codes);
  for (const std::size_t count : {wide.shape(0), states.shape(0), start.shape(0), kept.shape(0)})
    check(Integer(count) == columns, "one number per column");
  check(Integer(weights.shape(0)) == rows, "one weight per row");
  check(Integer(matrix.shape(1)) == size, "a square matrix");
  check_apart(matrix, codes, states, start, kept);
  const Integer code_bytes = 1 << type;
  const auto column = [&](Integer j) {
    return static_cast<const std::uint8_t*>(codes.data()) + j * rows * code_bytes;
  };
  const CountingLoops& loops = counting_loops();
  for (Integer j = 0; j < columns; ++j) {
    const Integer own = states.data()[j], counted = kept.data()[j], first = start.data()[j];
    check(own >= 0 && own < Integer(1) << 32 && counted >= 0 && counted <= own,
          "states, and at most all of them kept");
    check(first >= 0 && first <= size && counted <= size - first, "states within the matrix");
  }
  bool fit = true;
  {
    nb::gil_scoped_release release;
    for (Integer j = 0; j < columns; ++j)
      fit = fit && loops.groups[type].largest(column(j), rows) <= states.data()[j];
  }
  check(fit, "no code beyond that of a missing cell");
  using Sum = std::conditional_t<std::is_floating_point_v<Weight>, double, std::uint64_t>;
  std::vector<Sum> scratch(std::size_t(rows), Sum(0));
  const auto is_wide = copied_flags(wide);
  nb::gil_scoped_release release;
  for (Integer i = 0; i < columns; ++i)
    for (Integer j = i; j < columns; ++j) {
      if (!is_wide[i] && !is_wide[j]) continue;
      const Integer ones = states.data()[i], others = states.data()[j];
      const PairRows pair{column(i), column(j), rows, ones, others, kept.data()[i], kept.data()[j], size};
      Sum* room_of_pair = others + 1 <= rows && ones + 1 <= rows / (others + 1) ? scratch.data() : nullptr;
      Number* part = matrix.data() + start.data()[i] * size + start.data()[j];
      if constexpr (std::is_floating_point_v<Number>)
        loops.pairs[type].to_float(pair, weights.data(), room_of_pair, part);
      else if constexpr (sizeof(Number) == 4)
        loops.pairs[type].to_int32(pair, unsigned_of(weights.data()), room_of_pair,
                                   reinterpret_cast<std::uint32_t*>(part));
      else
        loops.pairs[type].to_int64(pair, unsigned_of(weights.data()), room_of_pair, unsigned_of(part));
    }
}

template <class Number>
void add_common_bits(In<std::uint64_t, 2> planes, In<Integer> places, Out<Number, 2> matrix) {
  const auto count = Integer(planes.shape(0)), size = Integer(matrix.shape(0));
  check(Integer(places.shape(0)) == count && Integer(matrix.shape(1)) == size,
        "one place per plane, a square matrix");
  check_apart(matrix, places);
  for (Integer k = 0; k < count; ++k)
    check(places.data()[k] >= 0 && places.data()[k] < size, "places within the matrix");
  const BitPlanes bits{planes.data(), count, Integer(planes.shape(1)), places.data(), size};
  nb::gil_scoped_release release;
  if constexpr (sizeof(Number) == 4)
    counting_loops().common_bits_32(bits, reinterpret_cast<std::uint32_t*>(matrix.data()));
  else
    counting_loops().common_bits_64(bits, unsigned_of(matrix.data()));
}

// Writes the sum over the cells of each table of count times product of features.
template <class Number>
void feature_sums(In<Number> dense, In<Integer> start, In<Integer> states, In<Integer> widths, In<bool> whole,
                  In<double, 4> matrices, Out<double, 2> sums) {
  const auto axes = Integer(states.shape(0)), tables = Integer(start.shape(0));
  const Integer most = Integer(1) << 32;
  check(Integer(widths.shape(0)) == axes && Integer(whole.shape(0)) == axes && Integer(matrices.shape(1)) == axes,
        "one number per axis");
  check(Integer(matrices.shape(0)) == tables && Integer(sums.shape(0)) == tables,
        "features and sums of each table");
  check_apart(sums, start, states, widths);
  if (tables == 0) return;
  const auto is_whole = copied_flags(whole);
  const FeatureAxes shape{axes,
                          states.data(),
                          widths.data(),
                          is_whole.get(),
                          Integer(matrices.shape(2)),
                          Integer(matrices.shape(3)),
                          product(states.data(), axes, most)};
  check(shape.cells <= Integer(dense.shape(0)), "tables within their array");
  check(product(widths.data(), axes, most) == Integer(sums.shape(1)), "sums of all products of features");
  Integer largest = shape.cells, work = shape.cells;
  for (Integer axis = 0; axis < axes; ++axis) {
    const Integer own = states.data()[axis], width = widths.data()[axis];
    check(is_whole[axis] ? own == width : own <= shape.matrix_states && width <= shape.matrix_widths,
          "features of all states");
    work /= own;
    check(width <= most / work, "tables that are not too large");
    work *= width;
    largest = std::max(largest, work);
  }
  for (Integer k = 0; k < tables; ++k)
    check(start.data()[k] >= 0 && start.data()[k] <= Integer(dense.shape(0)) - shape.cells,
          "tables within their array");
  std::vector<double> lines(2 * std::size_t(largest));
  double* const both[2] = {lines.data(), lines.data() + largest};
  const Integer step = axes * shape.matrix_states * shape.matrix_widths;
  nb::gil_scoped_release release;
  for (Integer k = 0; k < tables; ++k) {
    const Number* table = dense.data() + start.data()[k];
    double* out = sums.data() + k * Integer(sums.shape(1));
    if constexpr (std::is_floating_point_v<Number>)
      counting_loops().feature_sums(shape, table, matrices.data() + k * step, both, out);
    else
      counting_loops().feature_sums_whole(shape, table, matrices.data() + k * step, both, out);
  }
}

}  // namespace

void bind_counting(nb::module_& m) {
  nb::class_<GroupCounter>(m, "GroupCounter")
      .def(nb::init<In<Integer>, In<Integer>, In<Integer>, In<Integer>>(), given("group_start"), given("columns"),
           given("states"), given("table_start"))
      .def("add", &GroupCounter::add, given("codes"))
      .def("add_weighted", &GroupCounter::add_weighted, given("codes"), given("weights"))
      .def("add_to", &GroupCounter::add_to, given("tables"));
  m.def("weigh_groups", weigh_groups, given("codes"), given("weights"), given("group_start"), given("columns"),
        given("states"), given("table_start"), given("tables"));
  const auto pairs = [&](auto loop) {
    m.def("count_pairs", loop, given("codes"), given("weights"), given("wide"), given("states"), given("start"),
          given("kept"), given("matrix"));
  };
  pairs(count_pairs<Integer, std::int32_t>);
  pairs(count_pairs<Integer, Integer>);
  pairs(count_pairs<double, double>);
  m.def("add_common_bits", add_common_bits<std::int32_t>, given("planes"), given("places"), given("matrix"));
  m.def("add_common_bits", add_common_bits<Integer>, given("planes"), given("places"), given("matrix"));
  const auto sums = [&](auto loop) {
    m.def("feature_sums", loop, given("dense"), given("start"), given("states"), given("widths"), given("whole"),
          given("matrices"), given("sums"));
  };
  sums(feature_sums<Integer>);
  sums(feature_sums<double>);
}

}  // namespace eigentree
