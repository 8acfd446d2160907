#include "boundary.hpp"

namespace eigentree {

void bind_windows(nb::module_&) {}

}  // namespace eigentree
