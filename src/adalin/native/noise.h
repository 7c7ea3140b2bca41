// Weights of newly initialised networks, which any place of any step has by itself.
//
// Word i of a sequence is SplitMix64's: a few mixings of key + (i + 1) * GOLDEN. It has four numbers of 16 bits, whose last
// bits become 1: odd numbers from -32767 to 32767, with the mean 0. So noise may be made in any order, in small parts that
// are in a cache already.
#pragma once
#include <cstring>

#include "network.h"

namespace {

struct Region {  // weights of one layer, or its biases: rows with padding, uniform from -bound to bound
  int64_t offset, rows, columns;
  double bound;
};

struct Perturbation {  // Shrink & Perturb: weights = shrink * weights + noise * new ones
  double shrink, noise;
  uint64_t key;  // where the words of this step begin; a step moves it on
  int64_t words_per_step, count;
  const Region* regions;
};

constexpr uint64_t GOLDEN = 0x9e3779b97f4a7c15;
typedef uint64_t Words __attribute__((vector_size(STEP * sizeof(int16_t))));  // of 16 numbers
typedef int16_t Halves __attribute__((vector_size(LANES * sizeof(int16_t))));

// The words for the 16 numbers from a place on.
INLINE Words words_at(uint64_t key, int64_t place) {
  key += (place / 4 + 1) * GOLDEN;
  Words z = Words{0, GOLDEN, 2 * GOLDEN, 3 * GOLDEN} + key;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return (z ^ z >> 31) | 0x0001000100010001;
}

// Weights first ... last - 1: whole rows.
inline void perturb(Real* weights, const Perturbation& own, int64_t first, int64_t last) {
  Real shrink = static_cast<Real>(own.shrink);
  for (int64_t i = 0; i < own.count; i++) {
    const Region& region = own.regions[i];
    Real size = static_cast<Real>(own.noise * region.bound / 32768);
    int64_t stride = whole_steps(region.columns), end = smaller(last, region.offset + region.rows * stride);
    for (int64_t row = larger(first, region.offset); row < end; row += stride)
      for (int64_t c = 0; c < stride; c += STEP) {
        Words words = words_at(own.key, row + c);
        for (int64_t v = 0; v < STEP; v += LANES) {
          Halves numbers;
          std::memcpy(&numbers, reinterpret_cast<const char*>(&words) + v * sizeof(int16_t), sizeof numbers);
          V fresh = __builtin_convertvector(numbers, V) * size;
          Real* to = weights + row + c + v;
          store(to, load(to) * shrink + (is_real(c + v, region.columns) ? fresh : V{}));
        }
      }
  }
}

INLINE void next_step(Perturbation& own) { own.key += own.words_per_step * GOLDEN; }

}  // namespace
