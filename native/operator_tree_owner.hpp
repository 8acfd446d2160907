// The tree of operators that Python holds: checked once when it is made, and then only read.
#pragma once
#include <vector>

#include "boundary.hpp"
#include "operator_tree.hpp"

namespace eigentree {

class OperatorTree {
 public:
  // `states` (columns,); `nodes` (nodes, 4): bond with the parent, and numbers of children, own columns and
  // entries; `children`, `columns`: those of all nodes; `index` (entries, 4): on the bond of each child, 0 where
  // there is none, and then on that with the parent; `values`: for each entry of a node, its value at each joint
  // code of the node's columns, in C order, the last code of a column standing for a missing cell.
  OperatorTree(In<std::int64_t> states, In<std::int64_t, 2> nodes, In<std::int64_t> children,
               In<std::int64_t> columns, In<std::int64_t, 2> index, In<double> values);

  // `kept`: whether every message has lines of its own, or lines are used again once the parent has read them.
  OperatorTreeView view(bool kept) const;

  // The codes (columns, rows), once no cell is beyond the code of a missing one.
  template <class Array>
  CodesView checked_codes(const Array& codes) const {
    using Code = std::remove_const_t<typename Array::Scalar>;
    const CodesView view = {const_cast<Code*>(codes.data()), int(sizeof(Code)), std::int64_t(codes.shape(1))};
    check_codes(view, std::int64_t(codes.shape(0)));
    return view;
  }

  const std::vector<std::int64_t>& states() const { return states_; }
  const std::vector<TourStep>& tour() const { return tour_; }
  // The number of each entry of a node among those given, or -1 for one that only makes their number even.
  const std::vector<std::int64_t>& given_entry() const { return given_entry_; }
  std::int64_t most_bond() const { return most_bond_; }
  std::int64_t most_states() const { return most_states_; }
  std::int64_t most_legs() const { return most_legs_; }

 private:
  void check_codes(const CodesView& codes, std::int64_t columns) const;
  void read_shape(In<std::int64_t, 2> nodes, In<std::int64_t> children, In<std::int64_t> columns);
  void read_entries(In<std::int64_t, 2> index, In<double> values);
  void lay_lines();
  void lay_tour();

  std::vector<std::int64_t> states_;
  std::vector<OperatorNode> nodes_;
  std::vector<std::int64_t> child_;
  std::vector<OwnColumn> columns_;
  std::vector<std::int32_t> index_;
  std::vector<double> values_;
  std::vector<std::int64_t> given_entry_;
  std::vector<std::int64_t> reused_line_, kept_line_;
  std::int64_t reused_depth_ = 0, kept_depth_ = 0;
  std::vector<TourStep> tour_;
  std::int64_t most_bond_ = 1, most_states_ = 1, most_legs_ = 1;
};

}  // namespace eigentree
