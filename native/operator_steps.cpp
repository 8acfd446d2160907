#include "boundary.hpp"

namespace eigentree {

void bind_operator_steps(nb::module_&) {}

}  // namespace eigentree
