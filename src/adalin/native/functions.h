// Transcendental functions of finite numbers, each within a few units in the last place over its whole range, denormal
// results included. (Infinities and NaNs are the caller's: see layer.cpp.)
#pragma once
#include "vector.h"

namespace {

constexpr float ROUND = 12582912.f;  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits

// c[0] + c[1] x + c[2] x^2 + ..., by Horner's scheme. (Estrin's is no faster: constants no longer come from memory.)
template <int N> INLINE V polynomial(V x, const float (&c)[N]) {
  V y = all(c[N - 1]);
  for (int i = N - 2; i >= 0; i--) y = y * x + c[i];
  return y;
}

// e^-a for a >= 0 as (1 + tail) * power * UNIT, with a power of two that is a normal number even where e^-a is not:
// whoever multiplies by UNIT last rounds a denormal result once.
constexpr float UNIT = 0x1p-64f;
struct Exp {
  V tail, power;
  INLINE V units() const { return power * tail + power; }
  INLINE V exp() const { return units() * UNIT; }
  INLINE V minus_one() const { V whole = power * UNIT; return whole * tail + (whole - 1.f); }
};

// e^-a, a at most 110, where it is 0, and known to a rounding; rest(k) is k + a to the last digit for a k close to -a.
template <class Rest> INLINE Exp exp_of_minus(V a, const Rest& rest) {
  V rounded = ROUND - a * 1.44269504088896341f, n = rounded - ROUND;
  V r = n * 2.12194440e-4f - rest(n * 0.693359375f);  // the second product is exact
  V y = polynomial(r, {0.499999995526f, 0.166665772928f, 0.041666853451f, 0.008363144919f, 0.001390128287f});
  return {y * (r * r) + r, value((bits(rounded) << 23) + ((127 + 64) << 23))};
}
INLINE Exp exp_of_minus(V a, V low) {  // of a + low, where low is the rounding error of a
  return exp_of_minus(a, [&](V k) { return k + a + low; });
}
INLINE Exp exp_of_minus(V a) {
  a = positive_at_most(a, adalin_bounds.exponent);
  return exp_of_minus(a, [&](V k) { return k + a; });
}

// log(1 + x) for 0 <= x <= 1, as 2 atanh(x / (2 + x)).
INLINE V log1p(V x) {
  V s = x / (x + 2.f);
  return s * polynomial(s * s, {2.0f, 0.6666667931f, 0.399986909f, 0.2862072212f, 0.213932505f, 0.2441306869f});
}

// The normal distribution at -|x|: e^(-x^2 / 2), and Mills' ratio, by which it and 1 / sqrt(2 pi) give the left tail. So the
// tail keeps its digits.
struct Normal {
  V exp, mills;
};

INLINE Normal normal(V x) {
  V a = positive_at_most(magnitude(x), adalin_bounds.normal), half = a * 0.5f;
  Exp parts = exp_of_minus(half * a, [&](V k) {
    if constexpr (ROUNDS_ONCE) return multiply_add(half, a, k);
    V high = value(bits(a) & ~0xfff), low = a - high, half_high = high * 0.5f;  // the product of the two highs is exact
    return k + high * half_high + low * (half + half_high);
  });
  V q = 1.f / (a + 2.5f), u = 1.f - 5.f * q;  // (a - 2.5) / (a + 2.5)
  V mills = q * polynomial(u, {7.0665666008e-1f, -4.3369201445e-1f, 1.3198696539e-1f, 9.2359147950e-3f,
                               -1.6386021786e-2f, -1.6009610060e-3f, 2.5232979119e-3f, 6.8434476837e-4f,
                               -3.1086561055e-4f, -1.5726719351e-4f});
  return {parts.exp(), mills};
}

INLINE V sin_of_quarters(V x) {  // sin(pi/2 x) for 0 <= x <= 1
  V w = x * x;
  return x * polynomial(w, {1.57079631845f, -0.6459637106f, 0.0796896789479f, -0.00467376661251f, 0.000151485130781f});
}

struct SinCos { V sin, cos; };

INLINE SinCos sin_cos(V x) {
  V n = x * 0.636619772367581343f + ROUND;
  I quadrant = bits(n);
  D m = widen(n - ROUND);
  V r = narrow(widen(x) - m * 0x1.921fb54400000p0 - m * 0x1.0b4611a626331p-34);  // the first product is exact
  V w = r * r;
  V s = r + r * w * polynomial(w, {-1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f});
  V c = (1.f - 0.5f * w) + w * w * polynomial(w, {4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f});
  I swapped = (quadrant & 1) != 0;
  V sine = value(bits(swapped ? c : s) ^ ((quadrant & 2) << 30));
  V cosine = value(bits(swapped ? s : c) ^ (((quadrant + 1) & 2) << 30));
  if (any(magnitude(x) > 1e5f)) {
    for (int i = 0; i < LANES; i++) {
      if (__builtin_fabsf(x[i]) <= 1e5f) continue;
      sine[i] = static_cast<float>(__builtin_sin(x[i]));
      cosine[i] = static_cast<float>(__builtin_cos(x[i]));
    }
  }
  return {sine, cosine};
}

}  // namespace
