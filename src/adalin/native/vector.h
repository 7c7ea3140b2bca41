// Vectors of floats in the compilers' vector extensions: one source for AVX-512, AVX2, SSE2 and NEON.
//
// V holds LANES floats. Work is done in steps of STEP = 16 floats, which is one V, two or four: a sum over elements
// always runs in 16 lanes, so every instruction set with fused multiply-add gives the same bits.
#pragma once
#include <cstdint>

#define INLINE inline __attribute__((always_inline))

// Bounds that compilers must not know, or they compare and blend where one instruction is enough: see positive_at_most.
struct Bounds { float zero, one, exponent, normal; };
extern "C" __attribute__((visibility("hidden"))) const Bounds adalin_bounds;

namespace {

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX2__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif
constexpr int LANES = VECTOR_BYTES / 4;
constexpr int STEP = 16;

typedef float V __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t I __attribute__((vector_size(VECTOR_BYTES)));
typedef float Unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
typedef double D __attribute__((vector_size(2 * VECTOR_BYTES)));  // one double for each float of a V

INLINE V load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
INLINE void store(float* to, V v) { *reinterpret_cast<Unaligned*>(to) = v; }
INLINE V all(float x) { return x - V{}; }
INLINE I bits(V x) { return reinterpret_cast<I>(x); }
INLINE V value(I x) { return reinterpret_cast<V>(x); }
INLINE D widen(V x) { return __builtin_convertvector(x, D); }
INLINE V narrow(D x) { return __builtin_convertvector(x, V); }
INLINE bool any(I mask) {
  int32_t found = 0;
  for (int i = 0; i < LANES; i++) found |= mask[i];
  return found != 0;
}

// Minimum and maximum of numbers that are not NaN.
INLINE V at_most(V x, float bound) { return x > bound ? all(bound) : x; }
INLINE V at_least(V x, float bound) { return x < bound ? all(bound) : x; }

// Integers compare as the floats do where neither is negative, or one is 0, and their minimum is one instruction.
INLINE I smaller_of(I a, I b) { return a < b ? a : b; }
INLINE I larger_of(I a, I b) { return a > b ? a : b; }
INLINE V positive_at_most(V x, const float& bound) { return value(smaller_of(bits(x), bits(all(bound)))); }
INLINE V at_least_zero(V x) { return value(larger_of(bits(x), bits(all(adalin_bounds.zero)))); }

INLINE V fused(V a, V b, V c) {  // a b + c, rounded once
  V y;
  for (int i = 0; i < LANES; i++) y[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return y;
}
INLINE V magnitude(V x) { return value(bits(x) & 0x7fffffff); }
INLINE V with_sign_of(V x, V sign) { return value(bits(x) | (bits(sign) & INT32_MIN)); }  // x >= 0

}  // namespace
