#include "boundary.hpp"

namespace eigentree {

void bind_state_posteriors(nb::module_&) {}

}  // namespace eigentree
