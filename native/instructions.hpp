// Which instruction set the loops use: the best that the processor has, or the one that a test forces.
#pragma once

namespace eigentree {

enum Instructions : int { baseline, avx2, avx512, instruction_sets };

// What all loops are called through: table[instructions()].
Instructions instructions();

}  // namespace eigentree

// A phase declares its table for every instruction set, and picks the one in use:
//   struct EncodingLoops {...};  EIGENTREE_TABLES(EncodingLoops, encoding_loops)
// declares encoding_loops_baseline, encoding_loops_avx2, ... and the function encoding_loops().
#if defined(EIGENTREE_X86)
#define EIGENTREE_TABLES(Type, name)                                         \
  extern const Type name##_baseline, name##_avx2, name##_avx512;             \
  inline const Type& name() {                                                \
    const Type* tables[] = {&name##_baseline, &name##_avx2, &name##_avx512}; \
    return *tables[instructions()];                                          \
  }
#else
#define EIGENTREE_TABLES(Type, name) \
  extern const Type name##_baseline; \
  inline const Type& name() { return name##_baseline; }
#endif
