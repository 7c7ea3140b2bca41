// Vectors of floats in the compilers' vector extensions: one source for AVX-512, AVX2, SSE2 and NEON.
//
// V holds LANES floats. Work is done in steps of STEP = 16 floats, which is one V, two or four: a sum over elements
// always runs in 16 lanes, so every instruction set with fused multiply-add gives the same bits.
//
// With ADALIN_DOUBLE, Real is double: by this build of networks tests tell formulas from rounding.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#define INLINE inline __attribute__((always_inline))

#ifdef ADALIN_DOUBLE
typedef double Real;
typedef int64_t Integer;
#else
typedef float Real;
typedef int32_t Integer;
#endif

// Bounds that compilers must not know, or they compare and blend where one instruction is enough: see positive_at_most.
struct Bounds { Real zero, one, exponent, normal; };
extern "C" __attribute__((visibility("hidden"))) const Bounds adalin_bounds;

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif
constexpr int LANES = VECTOR_BYTES / sizeof(Real);
constexpr int STEP = 16;

typedef Real V __attribute__((vector_size(VECTOR_BYTES)));
typedef Integer I __attribute__((vector_size(VECTOR_BYTES)));
typedef Real Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(Real)), may_alias));
typedef double D __attribute__((vector_size(LANES * sizeof(double))));  // one double for each number of a V

template <int N> struct Constant { static constexpr int value = N; };

INLINE V load(const Real* from) { return *reinterpret_cast<const Unaligned*>(from); }
INLINE void store(Real* to, V v) { *reinterpret_cast<Unaligned*>(to) = v; }
INLINE V all(Real x) { return x - V{}; }
INLINE I bits(V x) { return reinterpret_cast<I>(x); }
INLINE V value(I x) { return reinterpret_cast<V>(x); }
INLINE D widen(V x) { return __builtin_convertvector(x, D); }
INLINE V narrow(D x) { return __builtin_convertvector(x, V); }
INLINE bool any(I mask) {
  Integer found = 0;
  for (int i = 0; i < LANES; i++) found |= mask[i];
  return found != 0;
}

// Minimum and maximum of numbers that are not NaN.
INLINE V at_most(V x, Real bound) { return x > bound ? all(bound) : x; }
INLINE V at_least(V x, Real bound) { return x < bound ? all(bound) : x; }

// Integers compare as the floats do where neither is negative, or one is 0, and their minimum is one instruction.
INLINE I smaller_of(I a, I b) { return a < b ? a : b; }
INLINE I larger_of(I a, I b) { return a > b ? a : b; }
INLINE V positive_at_most(V x, const Real& bound) { return value(smaller_of(bits(x), bits(all(bound)))); }
INLINE V at_least_zero(V x) { return value(larger_of(bits(x), bits(all(adalin_bounds.zero)))); }

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool ROUNDS_ONCE = true;
#else
constexpr bool ROUNDS_ONCE = false;
#endif
INLINE V multiply_add(V a, V b, V c) {  // a b + c, whatever compilers make of products and sums that stand apart
  if constexpr (!ROUNDS_ONCE) return a * b + c;
  V y;
  for (int i = 0; i < LANES; i++) y[i] = std::fma(a[i], b[i], c[i]);
  return y;
}
constexpr Integer SIGN = std::numeric_limits<Integer>::min();
INLINE V magnitude(V x) { return value(bits(x) & ~SIGN); }
INLINE V with_sign_of(V x, V sign) { return value(bits(x) | (bits(sign) & SIGN)); }  // x >= 0

}  // namespace
