// AdaLin layers: forward, and backward with alpha's gradient, over a tensor seen as [n][c][s], alpha along c.
//
// Where s is long, a row of s elements has one alpha, and pieces of a row are summed on their own. Where s is short, one
// long row holds whole samples, and each of its elements has its alpha: `Columns`. Either way sums run in floats over at
// most 64 numbers, and those in doubles, over pieces that depend on the shape alone: not on threads, not on lanes.
//
// x is finite. The forward pass says where it is not, and the caller puts right what concerns those elements.
#include <cstdlib>
#include <cstring>

#include "adalin.h"
#include "exported.h"
#include "parallel.h"

namespace {

constexpr int64_t PIECE = 1024;       // elements of a row, or columns, that are summed up at once: 64 x 16
constexpr int64_t ROWS = 64;          // of `Columns`, summed up in floats
constexpr int64_t MOST_BLOCKS = 32;   // of such rows
constexpr int64_t SHORT = 64;         // where s is below
constexpr int64_t LONGEST_ROW = 4096; // to which samples are joined so that a row is whole steps
constexpr int64_t WORTH_THREADS = 1 << 16;  // elements

enum Outcome : int { NO_MEMORY = -1, ZERO = 0, FINITE = 1, NOT_FINITE = 2 };
inline void set(Outcome& shared, Outcome value) { __atomic_store_n(&shared, value, __ATOMIC_RELAXED); }

struct Shape { int64_t n, c, s; };

struct Buffer {  // aligned memory; `data` is null where there is none
  void* data;
  explicit Buffer(int64_t bytes) : data(std::aligned_alloc(64, (bytes + 64) / 64 * 64)) {}
  Buffer(const Buffer&) = delete;
  ~Buffer() { std::free(data); }
  float* floats() const { return static_cast<float*>(data); }
  double* doubles() const { return static_cast<double*>(data); }
};

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t parts_of(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Up to 16 numbers in memory that is a whole step long, with zeros behind.
struct Tail {
  alignas(64) float values[STEP] = {};
  INLINE Tail(const float* from, int64_t count) { std::memcpy(values, from, count * sizeof(float)); }
};

// Notes whether all x of a pass are finite.
struct Finite {
  I largest = {};  // of their bits without sign
  template <class F> INLINE void look_at(V x) {
    if constexpr (F::any_x) return;
    I own = bits(magnitude(x));
    largest = own > largest ? own : largest;
  }
  INLINE bool yes() const { return !any(largest >= 0x7f800000); }
};

// f of N vectors. They are read before anything is written, so that the processor can turn from one that waits to another.
template <class F, int N, class Alpha>
INLINE void forward_vectors(const float* x, const Alpha& alpha, float* y, const Settings& s, Finite& finite) {
  V own[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) own[v] = load(x + v * LANES);
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) finite.look_at<F>(own[v]), own[v] = F::forward(own[v], alpha(v), s);
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) store(y + v * LANES, own[v]);
}

// Gradients of N vectors that are `distance` apart, with one alpha for each lane; those for alphas are added to `sums`.
template <class F, int N, int SUMS>
INLINE void backward_vectors(const float* x, V alpha, const float* grad, float* grad_x, int64_t distance, V (&sums)[SUMS],
                             const Settings& s) {
  V own[N], grads[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) own[v] = load(x + v * distance), grads[v] = load(grad + v * distance);
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) own[v] = F::backward(own[v], alpha, grads[v], s, sums[v % SUMS]);
#pragma GCC unroll 4
  for (int v = 0; v < N; v++) store(grad_x + v * distance, own[v]);
}

// ---- Rows of one alpha ----------------------------------------------------------------------------------------------

template <class F> bool forward_row(const float* x, V alpha, float* y, int64_t count, const Settings& s) {
  Finite finite;
  auto same = [&](int) { return alpha; };
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES) forward_vectors<F, 4>(x + i, same, y + i, s, finite);
  for (; i + LANES <= count; i += LANES) forward_vectors<F, 1>(x + i, same, y + i, s, finite);
  if (i < count) {
    Tail last(x + i, count - i);
    forward_vectors<F, 1>(last.values, same, last.values, s, finite);
    std::memcpy(y + i, last.values, (count - i) * sizeof(float));
  }
  return finite.yes();
}

template <class F> double backward_row(const float* x, V alpha, const float* grad, float* grad_x, int64_t count, const Settings& s) {
  constexpr int VECTORS = STEP / LANES;
  V sums[VECTORS] = {};
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES)
    backward_vectors<F, 4>(x + i, alpha, grad + i, grad_x + i, LANES, sums, s);
  for (; i + STEP <= count; i += STEP)
    backward_vectors<F, VECTORS>(x + i, alpha, grad + i, grad_x + i, LANES, sums, s);
  if (i < count) {
    Tail last_x(x + i, count - i), last_grad(grad + i, count - i);
    backward_vectors<F, VECTORS>(last_x.values, alpha, last_grad.values, last_grad.values, LANES, sums, s);
    std::memcpy(grad_x + i, last_grad.values, (count - i) * sizeof(float));
  }
  double totals[4] = {};
  for (int i = 0; i < STEP; i++) totals[i % 4] += sums[i / LANES][i % LANES];
  return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

// work(offset, count, row, piece) for each piece of each row
template <class Work> void for_each_piece(const Shape& shape, int64_t threads, const Work& work) {
  int64_t pieces = parts_of(shape.s, PIECE);
  parallel(shape.n * shape.c * pieces, threads, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
      int64_t row = i / pieces, start = i % pieces * PIECE;
      work(row * shape.s + start, smaller(PIECE, shape.s - start), row % shape.c, i);
    }
  });
}

template <class F>
Outcome forward_rows(const float* x, const float* alpha, float* y, Shape shape, const Settings& s, int64_t threads) {
  Outcome outcome = FINITE;
  for_each_piece(shape, threads, [&](int64_t at, int64_t count, int64_t channel, int64_t) {
    if (!forward_row<F>(x + at, all(alpha[channel]), y + at, count, s)) set(outcome, NOT_FINITE);
  });
  return outcome;
}

template <class F>
Outcome backward_rows(const float* x, const float* alpha, const float* grad, float* grad_x, float* grad_alpha, Shape shape,
                   const Settings& s, int64_t threads) {
  int64_t pieces = parts_of(shape.s, PIECE);
  Buffer sums(shape.n * shape.c * pieces * sizeof(double));
  if (!sums.data) return NO_MEMORY;
  for_each_piece(shape, threads, [&](int64_t at, int64_t count, int64_t channel, int64_t piece) {
    sums.doubles()[piece] = backward_row<F>(x + at, all(alpha[channel]), grad + at, grad_x + at, count, s);
  });
  for (int64_t c = 0; c < shape.c; c++) {
    double total = 0;
    for (int64_t n = 0; n < shape.n; n++)
      for (int64_t p = 0; p < pieces; p++) total += sums.doubles()[(n * shape.c + c) * pieces + p];
    grad_alpha[c] = static_cast<float>(total);
  }
  return FINITE;
}

// ---- Columns: an alpha for each element of a row --------------------------------------------------------------------

// The tensor as rows of `samples` samples, or c * s * samples elements; the last row may be shorter. Tasks are blocks of
// rows times panels of columns.
struct Columns {
  int64_t total, samples, period, padded, rows, rows_per_block, blocks, panels;
  explicit Columns(const Shape& shape) {
    int64_t sample = shape.c * shape.s;
    total = shape.n * sample;
    samples = 1;
    while (sample * samples % STEP) samples++;  // 16 at most
    if (sample * samples > LONGEST_ROW) samples = 1;
    samples = smaller(samples * (sample < 256 ? parts_of(256, sample * samples) : 1), shape.n);
    period = sample * samples;
    padded = parts_of(period, STEP) * STEP;
    rows = parts_of(total, period);
    rows_per_block = parts_of(parts_of(rows, ROWS), MOST_BLOCKS) * ROWS;
    blocks = parts_of(rows, rows_per_block);
    panels = parts_of(period, PIECE);
  }
  void repeat(const float* alpha, const Shape& shape, float* to) const {
    for (int64_t i = 0; i < samples; i++)
      for (int64_t c = 0; c < shape.c; c++)
        for (int64_t s = 0; s < shape.s; s++) *to++ = alpha[c];
    for (int64_t i = period; i < padded; i++) *to++ = 0.f;
  }
  // work(block, first row, end of rows, first column, end of columns)
  template <class Work> void for_each_task(int64_t threads, const Work& work) const {
    parallel(blocks * panels, threads, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; i++) {
        int64_t block = i / panels, row = block * rows_per_block, column = i % panels * PIECE;
        work(block, row, smaller(row + rows_per_block, rows), column, smaller(column + PIECE, period));
      }
    });
  }
  // How many columns of columns ... end there are in a row.
  int64_t count(int64_t row, int64_t column, int64_t end) const {
    int64_t present = smaller(end, total - row * period) - column;
    return present > 0 ? present : 0;
  }
};

template <class F>
Outcome forward_columns(const float* x, const float* alpha, float* y, Shape shape, const Settings& s, int64_t threads) {
  Columns columns(shape);
  Buffer repeated(columns.padded * sizeof(float));
  if (!repeated.data) return NO_MEMORY;
  columns.repeat(alpha, shape, repeated.floats());
  Outcome outcome = FINITE;
  columns.for_each_task(threads, [&](int64_t, int64_t row, int64_t rows_end, int64_t column, int64_t end) {
    const float* own = repeated.floats() + column;
    Finite finite;
    for (; row < rows_end; row++) {
      int64_t count = columns.count(row, column, end), at = row * columns.period + column, i = 0;
      auto alphas = [&](int v) { return load(own + i + v * LANES); };
      for (; i + 4 * LANES <= count; i += 4 * LANES) forward_vectors<F, 4>(x + at + i, alphas, y + at + i, s, finite);
      for (; i + LANES <= count; i += LANES) forward_vectors<F, 1>(x + at + i, alphas, y + at + i, s, finite);
      if (i == count) continue;
      Tail last(x + at + i, count - i);
      forward_vectors<F, 1>(last.values, alphas, last.values, s, finite);
      std::memcpy(y + at + i, last.values, (count - i) * sizeof(float));
    }
    if (!finite.yes()) set(outcome, NOT_FINITE);
  });
  return outcome;
}

template <class F>
Outcome backward_columns(const float* x, const float* alpha, const float* grad, float* grad_x, float* grad_alpha, Shape shape,
                      const Settings& s, int64_t threads) {
  Columns columns(shape);
  int64_t period = columns.period;
  Buffer repeated(columns.padded * sizeof(float)), totals(columns.blocks * period * sizeof(double));
  if (!repeated.data || !totals.data) return NO_MEMORY;
  columns.repeat(alpha, shape, repeated.floats());
  columns.for_each_task(threads, [&](int64_t block, int64_t row, int64_t rows_end, int64_t column, int64_t end) {
    alignas(64) float sums[PIECE];
    const float* own = repeated.floats() + column;
    double* total = totals.doubles() + block * period + column;
    for (int64_t i = 0; i < end - column; i++) total[i] = 0;
    while (row < rows_end) {
      std::memset(sums, 0, sizeof(sums));
      auto rows_at_once = [&](auto together) __attribute__((always_inline)) {
        int64_t count = columns.count(row, column, end), at = row * period + column, i = 0;
        V sum[1];
        for (; i + LANES <= count; i += LANES) {
          sum[0] = load(sums + i);
          backward_vectors<F, together.value>(x + at + i, load(own + i), grad + at + i, grad_x + at + i, period, sum, s);
          store(sums + i, sum[0]);
        }
        for (int64_t r = 0, j = at + i; i < count && r < together.value; r++, j += period) {
          Tail last_x(x + j, count - i), last_grad(grad + j, count - i);
          sum[0] = load(sums + i);
          backward_vectors<F, 1>(last_x.values, load(own + i), last_grad.values, last_grad.values, 0, sum, s);
          store(sums + i, sum[0]);
          std::memcpy(grad_x + j, last_grad.values, (count - i) * sizeof(float));
        }
        row += together.value;
      };
      for (int64_t piece_end = smaller(row + ROWS, rows_end); row < piece_end;) {
        // Whole rows side by side, where there is more to compute than to read: PRelu waits for memory alone.
        constexpr int TOGETHER = F::any_x ? 1 : 4;
        int64_t last = row + TOGETHER - 1;
        if (last < piece_end && columns.count(last, column, end) == end - column) rows_at_once(Constant<TOGETHER>{});
        else rows_at_once(Constant<1>{});
      }
      for (int64_t i = 0; i < end - column; i++) total[i] += sums[i];
    }
  });
  for (int64_t c = 0; c < shape.c; c++) {
    double total = 0;
    for (int64_t block = 0; block < columns.blocks; block++)
      for (int64_t sample = 0; sample < columns.samples; sample++)
        for (int64_t i = 0; i < shape.s; i++) total += totals.doubles()[block * period + (sample * shape.c + c) * shape.s + i];
    grad_alpha[c] = static_cast<float>(total);
  }
  return FINITE;
}

// ---- Which of them --------------------------------------------------------------------------------------------------

Shape simplified(int64_t n, int64_t c, int64_t s) { return c == 1 ? Shape{1, 1, n * s} : Shape{n, c, s}; }
bool in_rows(const Shape& shape) { return shape.c == 1 || shape.s >= SHORT || (shape.s >= STEP && shape.n < 8); }

// action(F{}), F being the function on vectors for these settings
template <class Action> auto with_function(const Settings& s, const Action& action) {
  if (s.base == Base::PRELU) return action(PRelu{});
  return with_base(s.base, [&](auto b) {
    return s.gate == Gate::COSINE ? action(AdaLin<decltype(b), true>{}) : action(AdaLin<decltype(b), false>{});
  });
}

}  // namespace

// NO_MEMORY, or ZERO: all alphas are 0, and y is left to the caller, who takes torch's own phi, or FINITE, or NOT_FINITE:
// y is right except where x is not finite.
EXPORTED int adalin_forward(const Settings* settings, const float* x, const float* alpha, float* y, int64_t n, int64_t c,
                            int64_t s, int64_t threads) {
  bool zero = true;
  for (int64_t i = 0; i < c && zero; i++) zero = alpha[i] == 0.f;
  if (zero) return ZERO;
  if (n * c * s < WORTH_THREADS) threads = 1;
  Shape shape = simplified(n, c, s);
  return with_function(*settings, [&](auto f) {
    using F = decltype(f);
    auto pass = in_rows(shape) ? forward_rows<F> : forward_columns<F>;
    return pass(x, alpha, y, shape, *settings, threads);
  });
}

// FINITE or NO_MEMORY.
EXPORTED int adalin_backward(const Settings* settings, const float* x, const float* alpha, const float* grad, float* grad_x,
                             float* grad_alpha, int64_t n, int64_t c, int64_t s, int64_t threads) {
  if (n * c * s < WORTH_THREADS) threads = 1;
  Shape shape = simplified(n, c, s);
  return with_function(*settings, [&](auto f) {
    using F = decltype(f);
    auto pass = in_rows(shape) ? backward_rows<F> : backward_columns<F>;
    return pass(x, alpha, grad, grad_x, grad_alpha, shape, *settings, threads);
  });
}
