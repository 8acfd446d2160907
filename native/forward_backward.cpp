#include "boundary.hpp"

namespace eigentree {

void bind_forward_backward(nb::module_&) {}

}  // namespace eigentree
