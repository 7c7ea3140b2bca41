// A multi-layer perceptron as its kernels see it, and where its numbers are.
//
// Parameters are two flat tensors. `weights` holds for each layer its weights, [inputs][outputs padded to 16], and its
// biases; `others` holds alphas and what norms learn. Gradients have the same layout. All padding is 0, and so is its
// gradient. What a pass needs of the passes before is in a workspace, at offsets that `plan` writes into the layers.
#pragma once
#include "adalin.h"

namespace {

INLINE int64_t whole_steps(int64_t count) { return (count + STEP - 1) / STEP * STEP; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Those lanes of the vector at column `c` that are not padding.
INLINE I is_real(int64_t c, int64_t columns) {
  I lane;
  for (int i = 0; i < LANES; i++) lane[i] = i;
  return lane < static_cast<Integer>(smaller(columns - c, STEP));
}

enum class Kind : int32_t {
  OUTPUT,         // no activation
  PLAIN,          // phi
  ADALIN,         // phi + alpha x g
  INTERPOLATION,  // phi + s (x - phi), s = sigmoid(alpha)
  CRELU,          // relu(x), relu(-x)
  FOURIER,        // sin(x), cos(x)
  FOREIGN,        // Python's, which fills answers and derivatives
};

struct Layer {  // linear, then a norm over the units if there is one, then an activation
  int64_t inputs, outputs, width;  // the activation's answers to one sample: `width`
  int64_t weight, bias;            // offsets in `weights`
  int64_t gain, shift, alpha;      // offsets in `others`, or -1
  int64_t alphas;                  // 1, or one for each unit
  Kind kind;
  Base base;
  Gate gate;
  int32_t has_norm;
  double inverse_lipschitz, numbers[3], epsilon;
  // Offsets in the workspace, for the largest batch:
  int64_t input;       // the activation's input, [batch][padded]
  int64_t normal;      // the norm's result before gain and shift, [batch][padded]
  int64_t deviation;   // 1 / deviation of each sample, [batch]
  int64_t answer;      // the activation's output, [batch][stride]
  int64_t slope;       // its derivative for the input, likewise
  int64_t injected;    // its derivative for alpha, [batch][padded]
  INLINE int64_t padded() const { return whole_steps(outputs); }
  INLINE int64_t stride() const { return whole_steps(width) + STEP; }  // the second half may begin anywhere
  INLINE Settings settings() const {
    auto real = [](double number) { return static_cast<Real>(number); };
    return {base, gate, real(inverse_lipschitz), real(numbers[0]), real(numbers[1]), real(numbers[2])};
  }
};

struct Network {
  int64_t depth;
  Layer* layers;
  Real *weights, *others, *weight_grads, *other_grads;
  int64_t weight_count, other_count;
  Real* workspace;
  int64_t batch;  // the largest
  // Offsets in the workspace:
  int64_t grad;           // for what the layer at hand gave, [batch][widest]
  int64_t transposed[2];  // [widest][padded batch]
  int64_t batches[2];     // inputs of two steps, [batch][stride]
  INLINE const Layer& last() const { return layers[depth - 1]; }
  INLINE int64_t features() const { return layers[0].inputs; }
};

// Lays out the workspace; gives its length. `features`: the longest row that a batch is copied from.
inline int64_t plan(Network& net, int64_t batch, int64_t features) {
  int64_t length = 0, widest = 0, tallest = net.features(), padded_batch = whole_steps(batch);
  auto place = [&](int64_t count) {
    int64_t at = length;
    length += whole_steps(count);
    return at;
  };
  for (int64_t i = 0; i < net.depth; i++) {
    Layer& layer = net.layers[i];
    layer.input = place(batch * layer.padded());
    layer.normal = place(layer.has_norm ? batch * layer.padded() : 0);
    layer.deviation = place(layer.has_norm ? batch : 0);
    layer.answer = place(batch * layer.stride());
    layer.slope = place(batch * layer.stride());
    layer.injected = place(layer.alpha < 0 ? 0 : batch * layer.padded());
    widest = larger(widest, layer.stride());
    tallest = larger(tallest, larger(layer.inputs, layer.padded()));
  }
  net.batch = batch;
  net.grad = place(batch * widest);
  for (int64_t& at : net.transposed) at = place(tallest * padded_batch);
  for (int64_t& at : net.batches) at = place(batch * (whole_steps(features) + STEP));
  return length;
}

}  // namespace
