#include "boundary.hpp"

namespace eigentree {

void bind_estep(nb::module_&) {}

}  // namespace eigentree
