// Vectors of floats in the compilers' vector extensions: one source for AVX-512, AVX2, SSE2 and NEON.
//
// V holds LANES floats. Work is done in steps of STEP = 16 floats, which is one V, two or four: a sum over elements
// always runs in 16 lanes, so every instruction set with fused multiply-add gives the same bits.
#pragma once
#include <cstdint>

#define INLINE inline __attribute__((always_inline))

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

// Minimum and maximum of numbers that are not NaN. Where neither is negative, integers compare as the floats do, and
// compilers have one instruction for them.
INLINE V at_most(V x, float bound) { return x > bound ? all(bound) : x; }
INLINE V at_least(V x, float bound) { return x < bound ? all(bound) : x; }
INLINE V positive_at_most(V x, float bound) {
  I limit = bits(all(bound));
  return value(bits(x) > limit ? limit : bits(x));
}
INLINE V at_least_zero(V x) { return value(bits(x) < 0 ? I{} : bits(x)); }

INLINE V fused(V a, V b, V c) {  // a b + c, rounded once
  V y;
  for (int i = 0; i < LANES; i++) y[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return y;
}
INLINE V magnitude(V x) { return value(bits(x) & 0x7fffffff); }
INLINE V with_sign_of(V x, V sign) { return value(bits(x) | (bits(sign) & INT32_MIN)); }  // x >= 0

}  // namespace
