// Matrix products of run-time sizes, in tiles that stay in registers.
//
//     result[r][c] = start(r, c) + sum over k of left(r, k) right[k][c]
//
// k runs in order, with fused multiply-add where the processor has it: neither the shape of the tiles nor how a caller
// splits k (from one part of a sum to the next through memory) changes a bit. Columns are whole steps of 16; what is
// right of the real ones is padding.
#pragma once
#include "vector.h"

namespace {

// ---- Left factors: element (r, k) -----------------------------------------------------------------------------------

struct Rows {
  const Real* data;
  int64_t stride;
  INLINE const Real* row(int64_t r) const { return data + r * stride; }
  INLINE Real at(const Real* row, int64_t r, int64_t k) const { return row[r * stride + k]; }
};

struct Columns {  // a transposed matrix: column k of the left factor is a row in memory
  const Real* data;
  int64_t stride;
  INLINE const Real* row(int64_t r) const { return data + r; }
  INLINE Real at(const Real* row, int64_t r, int64_t k) const { return row[r + k * stride]; }
};

// ---- Where a sum starts, and what becomes of it: at row r, for the vector from column c --------------------------------

struct FromZero {
  INLINE V operator()(int64_t, int64_t) const { return V{}; }
};

struct FromZeroFor {  // what `finish` will change, which is on its way while the sum is made
  const Real* data;
  int64_t stride;
  INLINE V operator()(int64_t r, int64_t c) const {
    __builtin_prefetch(data + r * stride + c, 1);
    return V{};
  }
};

struct FromRow {  // the same in each row: a bias
  const Real* row;
  INLINE V operator()(int64_t, int64_t c) const { return load(row + c); }
};

struct FromMatrix {
  const Real* data;
  int64_t stride;
  INLINE V operator()(int64_t r, int64_t c) const { return load(data + r * stride + c); }
};

struct Store {
  Real* data;
  int64_t stride;
  INLINE void operator()(int64_t r, int64_t c, V sum) const { store(data + r * stride + c, sum); }
};

struct Scale {  // data = scale * data + sum: a step of gradient descent, where the sum has the factor -lr already
  Real* data;
  int64_t stride;
  Real scale;
  INLINE void operator()(int64_t r, int64_t c, V sum) const {
    Real* to = data + r * stride + c;
    store(to, load(to) * scale + sum);
  }
};

// ---- Tiles ----------------------------------------------------------------------------------------------------------

constexpr int WIDEST = VECTOR_BYTES == 64 ? 4 : 3;  // vectors in a row of a tile

// Rows of a tile, so that its sums and one row of the right factor fill the registers.
constexpr int tile_rows(int vectors) {
  constexpr int rows[2][4] = {{8, 6, 4, 0}, {16, 12, 8, 6}};
  return rows[VECTOR_BYTES == 64][vectors - 1];
}

template <int ROWS, int VECTORS, class Left, class Start, class Finish>
INLINE void tile(int64_t row, int64_t column, int64_t depth, const Left& left, const Real* right, int64_t stride,
                 const Start& start, const Finish& finish) {
  V sums[ROWS][VECTORS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) sums[r][v] = start(row + r, column + v * LANES);
  const Real* own = left.row(row);
#pragma GCC unroll 1
  for (int64_t k = 0; k < depth; k++) {
    V factors[VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) factors[v] = load(right + k * stride + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++) {
      V factor = all(left.at(own, r, k));
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * factors[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) finish(row + r, column + v * LANES, sums[r][v]);
}

// All rows of one column of tiles.
template <int VECTORS, class Left, class Start, class Finish>
void tiles(int64_t rows, int64_t column, int64_t depth, const Left& left, const Real* right, int64_t stride,
           const Start& start, const Finish& finish) {
  constexpr int ROWS = tile_rows(VECTORS);
  int64_t r = 0;
  for (; r + ROWS <= rows; r += ROWS) tile<ROWS, VECTORS>(r, column, depth, left, right, stride, start, finish);
  if constexpr (ROWS > 8)
    for (; r + 8 <= rows; r += 8) tile<8, VECTORS>(r, column, depth, left, right, stride, start, finish);
  if constexpr (ROWS > 4)
    for (; r + 4 <= rows; r += 4) tile<4, VECTORS>(r, column, depth, left, right, stride, start, finish);
  for (; r < rows; r++) tile<1, VECTORS>(r, column, depth, left, right, stride, start, finish);
}

// ---- Right factors --------------------------------------------------------------------------------------------------

// A column of tiles reads `VECTORS` vectors of each row of the right factor. Where many tiles read many of these rows,
// far from each other in memory, they are copied side by side first.
constexpr int64_t DEEPEST_PANEL = 512;  // rows of the right factor
constexpr int64_t WORTH_PANEL = 4096;   // elements of it
constexpr int64_t WORTH_ROWS = 48;      // rows of the left one

struct Right {
  const Real* data;
  int64_t stride;
  INLINE bool worth_panel(int64_t rows, int64_t depth) const {
    return rows >= WORTH_ROWS && depth <= DEEPEST_PANEL && stride * depth > WORTH_PANEL;
  }
};

template <int VECTORS, class Left, class Start, class Finish>
__attribute__((noinline)) void tiles_of_panel(int64_t rows, int64_t column, int64_t depth, const Left& left,
                                              const Right& right, const Start& start, const Finish& finish) {
  alignas(64) Real panel[DEEPEST_PANEL * VECTORS * LANES];
  for (int64_t k = 0; k < depth; k++)
    for (int v = 0; v < VECTORS * LANES; v += LANES)
      store(panel + k * VECTORS * LANES + v, load(right.data + k * right.stride + column + v));
  tiles<VECTORS>(rows, column, depth, left, panel, VECTORS * LANES, start, finish);
}

template <int VECTORS, class Left, class Start, class Finish>
INLINE void columns_of_tiles(int64_t rows, int64_t column, int64_t depth, const Left& left, const Right& right,
                             const Start& start, const Finish& finish) {
  if (right.worth_panel(rows, depth)) tiles_of_panel<VECTORS>(rows, column, depth, left, right, start, finish);
  else tiles<VECTORS>(rows, column, depth, left, right.data + column, right.stride, start, finish);
}

// The product. `columns` is a multiple of 16.
template <class Left, class Start, class Finish>
__attribute__((noinline)) void product(int64_t rows, int64_t columns, int64_t depth, const Left& left, const Right& right,
                                       const Start& start, const Finish& finish) {
  int64_t c = 0, vectors = columns / LANES;
  auto next = [&](auto width) __attribute__((always_inline)) {
    constexpr int VECTORS = decltype(width)::value;
    columns_of_tiles<VECTORS>(rows, c, depth, left, right, start, finish);
    c += VECTORS * LANES, vectors -= VECTORS;
  };
  while (vectors >= WIDEST && vectors != WIDEST + 1) next(Constant<WIDEST>{});
  if (vectors == WIDEST + 1) next(Constant<WIDEST - 1>{}), next(Constant<2>{});  // not one alone, which is slower
  if constexpr (WIDEST > 3) if (vectors == 3) next(Constant<3>{});
  if (vectors == 2) next(Constant<2>{});
  if (vectors == 1) next(Constant<1>{});
}

}  // namespace
