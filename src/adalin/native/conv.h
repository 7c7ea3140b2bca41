// Convolution, activation and 2 x 2 max-pooling of one image after the other, and their gradients.
//
// Everything lies with its channels last. What a layer reads is dense: it has as many channels as it has. Its own units
// are padded to whole steps of 16, here `padded`:
//
//     input   [height][width][channels]                      weight  [kernel][kernel][channels][padded]
//     output  [rows][columns][copies * units]                bias, alpha  [padded]
//     winner, place  [rows][columns][copies][padded]: the pre-activation that had the largest output of its four, the
//                    first of equals, and which of them it was, -1 in padding
//
// `output` is written with whole vectors, and each pixel's padding is overwritten by the next pixel; so it has STEP
// numbers more than it needs at its end. The gradient for `output` has whole steps for each pixel: [rows][columns][...].
//
// Sums for one image run from 0, over its pixels in order, and those of images are added in order.
#pragma once
#include <cstring>

#include "activations.h"
#include "patches.h"
#include "transpose.h"

namespace {

// ---- Activations ----------------------------------------------------------------------------------------------------

// The activation's answers y to `count` pixels' z, and behind them the second ones where there are two.
inline void answer(const Conv& c, const Real* z, const Real* alpha, int64_t count, Real* y) {
  int64_t padded = c.padded(), total = count * padded;
  const Settings settings = c.units.settings();
  auto one = [&](auto f) {
    for (int64_t v = 0; v < padded; v += LANES) {
      V own = load(alpha + v);
      for (int64_t i = v; i < total; i += padded) store(y + i, decltype(f)::at(load(z + i), own, settings).y);
    }
  };
  auto two = [&](auto f) {
    for (int64_t i = 0; i < total; i += LANES) {
      Pair pair = decltype(f)::at(load(z + i));
      for (int64_t copy = 0; copy < 2; copy++) store(y + copy * total + i, pair.y[copy]);
    }
  };
  with_activation(c.units, one, two);
}

// What an image's backward pass makes: derivatives at the winners, for z and for alpha, and the gradient for z,
// [2 * rows][2 * columns][padded].
struct Slopes {
  Real *slope, *injected, *grad_z;
  Slopes(const Conv& c, Real* room) : slope(room), injected(slope + c.saved()), grad_z(injected + c.saved()) {}
};

// The derivatives.
inline void differentiate(const Conv& c, const Real* winner, const Real* alpha, const Slopes& to) {
  int64_t padded = c.padded(), total = c.saved();
  const Settings settings = c.units.settings();
  auto one = [&](auto f) {
    for (int64_t v = 0; v < padded; v += LANES) {
      V own = load(alpha + v);
      for (int64_t i = v; i < total; i += padded) {
        Answer answer = decltype(f)::at(load(winner + i), own, settings);
        store(to.slope + i, answer.slope);
        store(to.injected + i, answer.injected);
      }
    }
  };
  auto two = [&](auto f) {
    for (int64_t i = 0; i < total; i += LANES) {
      store(to.slope + i, decltype(f)::at(load(winner + i)).slope[i / padded % 2]);
      store(to.injected + i, V{});
    }
  };
  with_activation(c.units, one, two);
}

// ---- Pooling --------------------------------------------------------------------------------------------------------

// From two rows of z and of answers y to one row of outputs.
inline void pool(const Conv& c, const Real* z, const Real* y, Real* winner, Real* place, Real* output) {
  int64_t padded = c.padded(), row = 2 * c.columns() * padded, copies = c.copies();
  const int64_t four[4] = {0, padded, row, row + padded};
  for (int64_t column = 0; column < c.columns(); column++, z += 2 * padded, y += 2 * padded)
    for (int64_t copy = 0; copy < copies; copy++, winner += padded, place += padded, output += c.units.outputs)
      for (int64_t v = 0; v < padded; v += LANES) {
        const Real* own = y + copy * c.strip() + v;
        V most = load(own), won = load(z + v), where = {};
        for (int i = 1; i < 4; i++) {
          V next = load(own + four[i]);
          I more = next > most;
          most = more ? next : most;
          won = more ? load(z + four[i] + v) : won;
          where = more ? all(i) : where;
        }
        store(winner + v, won);
        store(place + v, is_real(v, c.units.outputs) ? where : all(-1));
        store(output + v, most);
      }
}

// An image's gradient for z from that for its output; adds sums for biases and alphas.
inline void unpool(const Conv& c, const Real* grad, const Real* place, const Slopes& slopes, Real* grad_bias,
                   Real* grad_alpha) {
  int64_t padded = c.padded(), row = 2 * c.columns() * padded, copies = c.copies();
  for (int64_t v = 0; v < padded; v += LANES) {
    V biases = {}, alphas = {};
    for (int64_t pixel = 0; pixel < c.pixels(); pixel++) {
      V four[4] = {};
      for (int64_t copy = 0; copy < copies; copy++) {
        int64_t at = (pixel * copies + copy) * padded + v;
        V where = load(place + at), own = load(grad + pixel * c.grad_row() + copy * c.units.outputs + v);
        own = where >= 0 ? own : V{};
        alphas += own * load(slopes.injected + at);
        own = own * load(slopes.slope + at);
        biases += own;
        for (int i = 0; i < 4; i++) four[i] += where == all(i) ? own : V{};
      }
      Real* to = slopes.grad_z + pixel / c.columns() * 2 * row + pixel % c.columns() * 2 * padded + v;
      store(to, four[0]);
      store(to + padded, four[1]);
      store(to + row, four[2]);
      store(to + row + padded, four[3]);
    }
    store(grad_bias + v, load(grad_bias + v) + biases);
    store(grad_alpha + v, load(grad_alpha + v) + alphas);
  }
}

// ---- Convolution ----------------------------------------------------------------------------------------------------

// Two rows of pre-activations.
inline void convolve(const Conv& c, const Real* input, const Real* weight, const Real* bias, Real* z) {
  int64_t padded = c.padded(), row = c.width * c.channels;
  for (int64_t i = 0; i < 2; i++)
    patches({z + i * 2 * c.columns() * padded, padded, bias, 0}, {input + i * row, c.channels, 1, row},
            {weight, padded, c.depth() * padded}, {c.kernel, c.depth()}, 2 * c.columns(), padded);
}

// Adds an image's gradients for the weights.
inline void weight_gradient(const Conv& c, const Real* input, const Real* grad_z, Real* grad_weight) {
  int64_t padded = c.padded(), columns = 2 * c.columns(), row = c.width * c.channels;
  for (int64_t k = 0; k < c.kernel; k++) {
    Real* to = grad_weight + k * c.depth() * padded;
    patches({to, padded, to, padded}, {input + k * row, 1, c.channels, row}, {grad_z, padded, columns * padded},
            {2 * c.rows(), columns}, c.depth(), padded);
  }
}

// The weights as [kernel][kernel][units][channels padded to 16], for `input_gradient`.
inline void turn_weights(const Conv& c, const Real* weight, Real* to) {
  for (int64_t i = 0; i < c.kernel * c.kernel; i++)
    transpose(to + i * c.units.outputs * c.channels_row(), c.channels_row(), weight + i * c.channels * c.padded(), c.padded(),
              c.channels, c.units.outputs);
}

// An image's gradient for its input, [height][width][channels padded to 16].
inline void input_gradient(const Conv& c, const Real* turned, const Real* grad_z, Real* grad_input) {
  int64_t padded = c.padded(), rows = 2 * c.rows(), columns = 2 * c.columns();
  int64_t grad_row = c.channels_row(), place = c.units.outputs * grad_row;
  std::memset(grad_input, 0, c.height * c.width * grad_row * sizeof(Real));
  for (int64_t y = 0; y < c.height; y++) {
    int64_t first = y < c.kernel ? 0 : y - c.kernel + 1, last = y < rows ? y : rows - 1;  // rows of grad_z that read y
    for (int64_t k = 0; k < c.kernel && first <= last; k++) {
      Real* to = grad_input + (y * c.width + k) * grad_row;
      patches({to, grad_row, to, grad_row}, {grad_z + first * columns * padded, padded, 1, columns * padded},
              {turned + ((y - first) * c.kernel + k) * place, grad_row, -c.kernel * place},
              {last - first + 1, c.units.outputs}, columns, grad_row);
    }
  }
}

// ---- Images ---------------------------------------------------------------------------------------------------------

inline bool has_nan(const Real* z, int64_t count) {
  I found = {};
  for (int64_t i = 0; i < count; i += LANES) found |= load(z + i) != load(z + i);
  return any(found);
}

// `room` is for two rows of z and their answers.
inline void forward_image(const Conv& c, const Real* input, const Real* weight, const Real* bias, const Real* alpha,
                          Real* room, Real* winner, Real* place, Real* output) {
  int64_t saved = c.saved() / c.rows(), outputs = c.outputs() / c.rows();
  Real *z = room, *y = room + c.strip();
  bool nan = false;
  for (int64_t row = 0; row < c.rows(); row++) {
    convolve(c, input + 2 * row * c.width * c.channels, weight, bias, z);
    answer(c, z, alpha, 4 * c.columns(), y);
    pool(c, z, y, winner + row * saved, place + row * saved, output + row * outputs);
    nan |= has_nan(z, c.strip());
  }
  // Neither comparisons nor all activations let a NaN through, but torch does: so that divergence is seen.
  for (int64_t i = 0; nan && i < c.outputs(); i++) output[i] = std::numeric_limits<Real>::quiet_NaN();
}

}  // namespace
