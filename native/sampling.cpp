#include "boundary.hpp"

namespace eigentree {

void bind_sampling(nb::module_&) {}

}  // namespace eigentree
