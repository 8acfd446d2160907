// A number beyond the range of doubles: size · 2^power with 1/2 <= |size| < 1, or 0. Slow, for the few rows that
// underflow could change.
#pragma once
#include <cmath>

#include "vectors.hpp"

namespace eigentree::LOOPS {

struct Extended {
  double size;
  std::int64_t power;
};

INLINE Extended extended(double size, std::int64_t power = 0) {
  int shift = 0;  // not every library sets it for what is no number
  const double fraction = std::frexp(size, &shift);
  return {fraction, fraction == 0.0 ? 0 : power + shift};
}

// number · 2^(its power - power), where the power is at most that far below.
INLINE double relative(Extended number, std::int64_t power) {
  // Beyond so many binary digits nothing of the smaller of two doubles is left in their sum.
  const std::int64_t nothing_left = -2000;
  return std::ldexp(number.size, int(larger(number.power - power, nothing_left)));
}

INLINE Extended operator*(Extended a, Extended b) { return extended(a.size * b.size, a.power + b.power); }

INLINE Extended operator+(Extended a, Extended b) {
  if (a.size == 0.0) return b;
  if (b.size == 0.0) return a;
  const std::int64_t power = larger(a.power, b.power);
  return extended(relative(a, power) + relative(b, power), power);
}

}  // namespace eigentree::LOOPS
