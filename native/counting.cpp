#include "boundary.hpp"

namespace eigentree {

void bind_counting(nb::module_&) {}

}  // namespace eigentree
