#include "boundary.hpp"

namespace eigentree {

void bind_chain_rule(nb::module_&) {}

}  // namespace eigentree
