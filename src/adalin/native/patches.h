// Sums over patches of an image: to = plus + left right, where the rows of `left` overlap and a sum has several segments.
//
// Unlike the rows of product.h, which are a batch, these are the pixels of a row of an image, or the numbers of a row of a
// patch: any number of them. They are shared out evenly among tiles that fit into the registers, so that none is small.
// The sum of an element starts from 0 and runs over the terms in order, and then `plus` is added: its bits depend neither
// on the tile nor on the instruction set.
#pragma once
#include "vector.h"

namespace {

// Element (row, term) of segment s stands at[row * .row + s * .segment + term * .term].
struct Patch { const Real* at; int64_t row, term, segment; };
// A vector of columns of (segment s, term) begins at[s * .segment + term * .term].
struct Weights { const Real* at; int64_t term, segment; };
// A sum over segments * terms products.
struct Depth { int64_t segments, terms; };
// Rows of columns; `plus` may be `to` itself, and its rows may be one.
struct Target { Real* to; int64_t row; const Real* plus; int64_t plus_row; };

template <int ROWS, int VECTORS> void patch_tile(Target target, Patch left, Weights right, Depth depth) {
  constexpr int GROUPS = (ROWS + 3) / 4;  // a pointer for four rows: address = pointer + {0, 1, 2, 3} * row
  V sums[ROWS][VECTORS] = {};
  for (int64_t s = 0; s < depth.segments; s++) {
    const Real *group[GROUPS], *from = right.at + s * right.segment;
    for (int g = 0; g < GROUPS; g++) group[g] = left.at + s * left.segment + 4 * g * left.row;
#pragma GCC unroll 1
    for (int64_t k = 0; k < depth.terms; k++) {
      V own[VECTORS];
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++) own[v] = load(from + v * LANES);
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; r++) {
        V factor = all(group[r / 4][r % 4 * left.row]);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) sums[r][v] += factor * own[v];
      }
#pragma GCC unroll 4
      for (int g = 0; g < GROUPS; g++) group[g] += left.term;
      from += right.term;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      int64_t at = v * LANES;
      store(target.to + r * target.row + at, load(target.plus + r * target.plus_row + at) + sums[r][v]);
    }
}

constexpr int MOST_VECTORS = 3;

// Rows of the largest tile: what 16 registers hold, or 32.
template <int VECTORS> constexpr int most_rows() {
  constexpr bool MANY = VECTOR_BYTES == 64;
  return VECTORS == 1 ? (MANY ? 16 : 12) : VECTORS == 2 ? (MANY ? 12 : 6) : (MANY ? 8 : 4);
}

template <int VECTORS, int ROWS = most_rows<VECTORS>()>
INLINE void patch_tile_of(int64_t rows, const Target& target, const Patch& left, const Weights& right,
                          const Depth& depth) {
  if (rows == ROWS) return patch_tile<ROWS, VECTORS>(target, left, right, depth);
  if constexpr (ROWS > 1) patch_tile_of<VECTORS, ROWS - 1>(rows, target, left, right, depth);
}

template <int VECTORS>
void patch_panel(Target target, Patch left, const Weights& right, const Depth& depth, int64_t rows) {
  constexpr int64_t MOST = most_rows<VECTORS>();
  for (int64_t tiles = (rows + MOST - 1) / MOST; tiles > 0; tiles--) {
    int64_t own = (rows + tiles - 1) / tiles;
    patch_tile_of<VECTORS>(own, target, left, right, depth);
    target.to += own * target.row;
    target.plus += own * target.plus_row;
    left.at += own * left.row;
    rows -= own;
  }
}

// columns: a multiple of STEP
__attribute__((noinline)) inline void patches(Target target, const Patch& left, Weights right, const Depth& depth,
                                              int64_t rows, int64_t columns) {
  for (int64_t vectors = columns / LANES, own; vectors > 0; vectors -= own) {
    own = vectors == 4 ? 2 : vectors < MOST_VECTORS ? vectors : MOST_VECTORS;
    if (own == 3) patch_panel<3>(target, left, right, depth, rows);
    if (own == 2) patch_panel<2>(target, left, right, depth, rows);
    if (own == 1) patch_panel<1>(target, left, right, depth, rows);
    target.to += own * LANES;
    target.plus += own * LANES;
    right.at += own * LANES;
  }
}

}  // namespace
