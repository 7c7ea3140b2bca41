// Transposed copies of small matrices, four by four.
#pragma once
#include "vector.h"

namespace {

typedef Real Four __attribute__((vector_size(4 * sizeof(Real))));
typedef Real UnalignedFour __attribute__((vector_size(4 * sizeof(Real)), aligned(sizeof(Real)), may_alias));
typedef Integer FourPlaces __attribute__((vector_size(4 * sizeof(Real))));

template <int I0, int I1, int I2, int I3> INLINE Four picked(Four a, Four b) {  // of a's four and b's
#if defined(__clang__)
  return __builtin_shufflevector(a, b, I0, I1, I2, I3);
#else
  return __builtin_shuffle(a, b, FourPlaces{I0, I1, I2, I3});
#endif
}

INLINE void transpose_four(Real* to, int64_t to_stride, const Real* from, int64_t from_stride) {
  auto row = [&](int i) { return static_cast<Four>(*reinterpret_cast<const UnalignedFour*>(from + i * from_stride)); };
  Four a = row(0), b = row(1), c = row(2), d = row(3);
  Four ab = picked<0, 4, 1, 5>(a, b), cd = picked<0, 4, 1, 5>(c, d);
  Four ab_after = picked<2, 6, 3, 7>(a, b), cd_after = picked<2, 6, 3, 7>(c, d);
  const Four columns[4] = {picked<0, 1, 4, 5>(ab, cd), picked<2, 3, 6, 7>(ab, cd), picked<0, 1, 4, 5>(ab_after, cd_after),
                           picked<2, 3, 6, 7>(ab_after, cd_after)};
  for (int j = 0; j < 4; j++) *reinterpret_cast<UnalignedFour*>(to + j * to_stride) = columns[j];
}

// to[j][i] = from[i][j]. Sixteen columns at a time: rows a power of two apart would push each other out of the cache.
inline void transpose(Real* to, int64_t to_stride, const Real* from, int64_t from_stride, int64_t rows, int64_t columns) {
  int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (int64_t first = 0; first < whole_columns; first += STEP)
    for (int64_t i = 0; i < whole_rows; i += 4)
      for (int64_t j = first; j < whole_columns && j < first + STEP; j += 4)
        transpose_four(to + j * to_stride + i, to_stride, from + i * from_stride + j, from_stride);
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; i++) to[j * to_stride + i] = from[i * from_stride + j];
}

}  // namespace
