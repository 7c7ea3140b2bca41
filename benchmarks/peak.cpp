// What the processor can do: fused multiply-adds on numbers that never leave the registers.
#include <cstdint>

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX2__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif
constexpr int LANES = BYTES / sizeof(float), CHAINS = 12;  // latency times width of the two units, and some more
typedef float V __attribute__((vector_size(BYTES)));

// Gives the number of multiply-adds; `seed` keeps compilers from knowing the result.
extern "C" int64_t multiply_add(int64_t rounds, float seed, float* sink) {
  V sums[CHAINS], factor = seed - V{}, addend = factor * 0.5f;
  for (V& sum : sums) sum = factor;
  for (int64_t i = 0; i < rounds; i++)
#pragma GCC unroll 12
    for (V& sum : sums) sum = sum * factor + addend;
  V total{};
  for (V& sum : sums) total += sum;
  for (int i = 0; i < LANES; i++) *sink += total[i];
  return rounds * CHAINS * LANES;
}
