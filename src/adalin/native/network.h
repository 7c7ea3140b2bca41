// A multi-layer perceptron as its kernels see it, behind convolutions if there are any, and where its numbers are.
//
// Parameters are two flat tensors. `weights` holds for each layer its weights, [inputs][outputs padded to 16], and its
// biases; `others` holds alphas and what norms learn. The inputs of a convolution's unit are a patch,
// [kernel][kernel][channels]. Gradients have the same layout. All padding is 0, and so is its
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
  int64_t input;       // the activation's input, [batch][input_stride]; `answer` itself where one follows the other in place
  int64_t normal;      // the norm's result before gain and shift, [batch][padded]
  int64_t deviation;   // 1 / deviation of each sample, [batch]
  int64_t answer;      // the activation's output, [batch][stride]
  int64_t slope;       // its derivative for the input, likewise
  int64_t injected;    // its derivative for alpha, [batch][padded]
  int64_t grad;        // the gradient for `answer`, then for the product, [batch][stride]; neighbours take turns
  INLINE int64_t padded() const { return whole_steps(outputs); }
  INLINE int64_t stride() const { return whole_steps(width) + STEP; }  // the second half may begin anywhere
  INLINE bool in_place() const { return kind == Kind::PLAIN || kind == Kind::ADALIN || kind == Kind::INTERPOLATION; }
  INLINE int64_t input_stride() const { return in_place() ? stride() : padded(); }
  INLINE Settings settings() const {
    auto real = [](double number) { return static_cast<Real>(number); };
    return {base, gate, real(inverse_lipschitz), real(numbers[0]), real(numbers[1]), real(numbers[2])};
  }
};

struct Conv {  // a convolution, an activation, and the largest of each 2 x 2 answers; everything with the channels last
  int64_t height, width, channels, kernel;  // of the images that it reads
  Layer units;
  // Offsets in the workspace:
  int64_t output;         // [batch][pixels][units.width], and a step of 16 behind
  int64_t winner, place;  // [batch][saved]: see conv.h
  int64_t grad;           // of one image, for its output, [pixels][grad_row], and a step of 16 behind
  int64_t sums;           // gradients for weights, biases, alphas
  int64_t turned;         // weights as [kernel][kernel][units][channels padded to 16]
  int64_t alphas;         // [padded]

  INLINE int64_t padded() const { return units.padded(); }
  INLINE int64_t copies() const { return units.width / units.outputs; }
  INLINE int64_t rows() const { return (height - kernel + 1) / 2; }  // after pooling, which leaves out an odd row
  INLINE int64_t columns() const { return (width - kernel + 1) / 2; }
  INLINE int64_t pixels() const { return rows() * columns(); }
  INLINE int64_t outputs() const { return pixels() * units.width; }
  INLINE int64_t saved() const { return pixels() * copies() * padded(); }
  INLINE int64_t inputs() const { return height * width * channels; }
  INLINE int64_t depth() const { return kernel * channels; }  // numbers of a row of a patch
  INLINE int64_t weights() const { return kernel * depth() * padded(); }
  INLINE int64_t strip() const { return 4 * columns() * padded(); }  // two rows of units, before pooling
  INLINE int64_t grad_row() const { return whole_steps(units.width); }
  INLINE int64_t channels_row() const { return whole_steps(channels); }
};

struct Network {
  int64_t depth;
  Layer* layers;
  Real *weights, *others, *weight_grads, *other_grads;
  int64_t weight_count, other_count;
  Real* workspace;
  int64_t batch;  // the largest
  // Offsets in the workspace:
  int64_t transposed[2];  // a gradient or weights, [tallest][padded batch]
  int64_t sums;           // over samples, or a layer's weights for one output, [widest]
  int64_t batches[2];     // inputs of two steps, [batch][stride]; in the second, also gradients for what layer 0 reads
  // Convolutions before the layers, or none:
  int64_t conv_depth;
  Conv* convs;
  int64_t conv_room;      // for one image
  int64_t image_grad;     // for one image, [height][width][channels padded to 16]
  int64_t from_images;    // what the first layer reads of them, in torch's order: [batch][features_stride]
  INLINE const Layer& last() const { return layers[depth - 1]; }
  INLINE int64_t features() const { return layers[0].inputs; }
  INLINE int64_t features_stride() const { return whole_steps(features()) + STEP; }
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
    layer.normal = place(layer.has_norm ? batch * layer.padded() : 0);
    layer.deviation = place(layer.has_norm ? batch : 0);
    layer.answer = place(batch * layer.stride());
    layer.input = layer.in_place() ? layer.answer : place(batch * layer.padded());
    layer.slope = place(batch * layer.stride());
    layer.injected = place(layer.alpha < 0 ? 0 : batch * layer.padded());
    widest = larger(widest, layer.stride());
    tallest = larger(tallest, larger(whole_steps(layer.inputs), layer.padded()));
  }
  net.batch = batch;
  int64_t grads[2] = {place(batch * widest), place(batch * widest)};
  for (int64_t i = 0; i < net.depth; i++) net.layers[i].grad = grads[i % 2];
  for (int64_t& at : net.transposed) at = place(tallest * padded_batch);
  net.sums = place(widest);
  for (int64_t& at : net.batches) at = place(batch * (whole_steps(larger(features, net.features())) + STEP));
  int64_t room = 0;
  for (int64_t i = 0; i < net.conv_depth; i++) {
    Conv& conv = net.convs[i];
    conv.output = place(batch * conv.outputs() + STEP);
    conv.winner = place(batch * conv.saved());
    conv.place = place(batch * conv.saved());
    conv.grad = place(conv.pixels() * conv.grad_row() + STEP);
    conv.sums = place(conv.weights() + 2 * conv.padded());
    conv.turned = place(conv.kernel * conv.kernel * conv.units.outputs * conv.channels_row());
    conv.alphas = place(conv.padded());
    room = larger(room, larger(3 * conv.strip(), 2 * conv.saved() + 4 * conv.pixels() * conv.padded()));
  }
  net.conv_room = place(room);
  net.image_grad = place(net.conv_depth > 0 ? net.convs[0].height * net.convs[0].width * net.convs[0].channels_row() : 0);
  net.from_images = place(net.conv_depth > 0 ? batch * net.features_stride() : 0);
  return length;
}

}  // namespace
