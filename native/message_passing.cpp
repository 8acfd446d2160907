#include "boundary.hpp"

namespace eigentree {

void bind_message_passing(nb::module_&) {}

}  // namespace eigentree
