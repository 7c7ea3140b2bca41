// The functions of functions.h in double, lane by lane from the mathematical library: what a network computes with them
// differs from torch in float64 by its last digits, whichever of its formulas is right.
#pragma once
#include "vector.h"

namespace {

template <class F> INLINE V lane_by_lane(V x, const F& f) {
  for (int i = 0; i < LANES; i++) x[i] = f(x[i]);
  return x;
}

constexpr Real UNIT = 0x1p-64;
struct Exp {  // e^-a as (1 + tail) * power * UNIT, with power = 1 / UNIT
  V tail;
  INLINE V units() const { return (tail + 1.) / UNIT; }
  INLINE V exp() const { return tail + 1.; }
  INLINE V minus_one() const { return tail; }
};
INLINE Exp exp_of_minus(V a) {
  return {lane_by_lane(a, [](Real own) { return std::expm1(-own); })};
}
INLINE Exp exp_of_minus(V a, V low) { return exp_of_minus(a + low); }

INLINE V log1p(V x) {
  return lane_by_lane(x, [](Real own) { return std::log1p(own); });
}

struct Normal {
  V exp, mills;
};
INLINE Normal normal(V x) {
  V e = lane_by_lane(x, [](Real own) { return std::exp(-own * own / 2); });
  V tail = lane_by_lane(magnitude(x), [](Real own) { return std::erfc(own * 0.70710678118654752440) / 2; });
  return {e, e > 0. ? tail / e : V{}};
}

struct SinCos { V sin, cos; };
INLINE SinCos sin_cos(V x) {
  return {lane_by_lane(x, [](Real own) { return std::sin(own); }), lane_by_lane(x, [](Real own) { return std::cos(own); })};
}
INLINE V sin_of_quarters(V x) {
  return lane_by_lane(x, [](Real own) { return std::sin(own * 1.57079632679489661923); });
}

}  // namespace
