// Codes of any unsigned type as whole numbers. Included by loops only.
#pragma once
#include "chain_rule.hpp"
#include "vectors.hpp"

namespace eigentree::LOOPS {

INLINE Index code_at(const CodeTable& table, Index at) {
  if (table.bytes == 1) return static_cast<const std::uint8_t*>(table.codes)[at];
  if (table.bytes == 2) return static_cast<const std::uint16_t*>(table.codes)[at];
  return static_cast<const std::uint32_t*>(table.codes)[at];
}

INLINE void put_code(const CodeTable& table, Index at, Index code) {
  if (table.bytes == 1)
    static_cast<std::uint8_t*>(table.codes)[at] = std::uint8_t(code);
  else if (table.bytes == 2)
    static_cast<std::uint16_t*>(table.codes)[at] = std::uint16_t(code);
  else
    static_cast<std::uint32_t*>(table.codes)[at] = std::uint32_t(code);
}

}  // namespace eigentree::LOOPS
