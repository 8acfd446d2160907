// The module that Python imports. No loop is here: each phase adds its functions, and each of these picks the loops
// of the instruction set in use.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <string>
#include <vector>

#include "boundary.hpp"

#if defined(EIGENTREE_X86)
#include <cpuid.h>
#endif

namespace eigentree {

void bind_encoding(nb::module_&);
void bind_counting(nb::module_&);
void bind_windows(nb::module_&);
void bind_estep(nb::module_&);
void bind_forward_backward(nb::module_&);
void bind_state_posteriors(nb::module_&);
void bind_message_passing(nb::module_&);
void bind_sampling(nb::module_&);
void bind_chain_rule(nb::module_&);
void bind_operator_steps(nb::module_&);
void bind_inside_outside(nb::module_&);
void bind_parsing(nb::module_&);

namespace {

const char* const names[] = {"baseline", "avx2", "avx512"};

#if defined(EIGENTREE_X86)
// Asked of the processor and of the system, which has to save the registers: bits of leaf 7's ebx, bits of XCR0.
bool has(unsigned features, unsigned registers) {
  unsigned a, b, c, d;
  const unsigned needed = 1u << 27 | 1u << 12 | 1u << 23;  // OSXSAVE, FMA, POPCNT
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed) return false;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & registers) != registers || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (b & features) == features;
}
#endif

Instructions best() {
#if defined(EIGENTREE_X86)
  const unsigned avx2_bits = 1u << 5 | 1u << 8;                                        // AVX2, BMI2
  const unsigned avx512_bits = avx2_bits | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  if (has(avx512_bits, 0xe6)) return avx512;
  if (has(avx2_bits, 0x6)) return avx2;
#endif
  return baseline;
}

std::atomic<Instructions> used = best();

}  // namespace

Instructions instructions() { return used; }

}  // namespace eigentree

NB_MODULE(_native, m) {
  using namespace eigentree;
  // Layouts that are kept on graphs to the end of the process are no leak.
  nb::set_leak_warnings(false);
  m.def("instructions", [] { return std::string(names[used]); });
  m.def("all_instructions", [] { return std::vector<std::string>(names, names + best() + 1); });
  m.def("use_instructions", [](const std::string& name) {
    for (int k = 0; k <= best(); ++k)
      if (name == names[k]) {
        used = Instructions(k);
        return;
      }
    refuse("this processor has no instruction set " + name);
  });
  bind_encoding(m);
  bind_counting(m);
  bind_windows(m);
  bind_estep(m);
  bind_forward_backward(m);
  bind_state_posteriors(m);
  bind_message_passing(m);
  bind_sampling(m);
  bind_chain_rule(m);
  bind_operator_steps(m);
  bind_inside_outside(m);
  bind_parsing(m);
}
