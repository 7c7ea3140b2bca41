// Forward, backward and training steps of networks.
#include "activations.h"
#include <cstring>

#include "exported.h"
#include "images.h"
#include "loss.h"
#include "pass.h"
#include "product.h"

namespace {

// Rows of a first layer's weights that stay in the nearest cache while a product and an update read them.
constexpr int64_t NEAR = 6272;  // numbers: 56 rows of 112
INLINE int64_t rows_at_once(const Layer& layer) { return larger(8, NEAR / layer.padded() / 8 * 8); }

// ---- Forward --------------------------------------------------------------------------------------------------------

INLINE Batch inputs_of(const Network& net, int64_t i, const Batch& x) {
  if (i == 0) return x;
  const Layer& before = net.layers[i - 1];
  return {net.workspace + before.answer, before.stride(), x.size};
}

// Rows first ... last of a layer's weights: the part of a product that they make.
template <class Start>
INLINE void multiply(const Network& net, const Layer& layer, const Batch& x, int64_t first, int64_t last, const Start& start) {
  int64_t padded = layer.padded();
  product(x.size, padded, last - first, Rows{x.data + first, x.stride},
          Right{net.weights + layer.weight + first * padded, padded}, start,
          Store{net.workspace + layer.input, layer.input_stride()});
}

// A single output, such as a critic's value, would be one real column in sixteen: here it is a sum in 16 lanes. Samples are
// another layer's answers, so there are numbers up to a whole step.
inline void multiply_by_vector(const Network& net, const Layer& layer, const Batch& x) {
  Real *vector = net.workspace + net.sums, *to = net.workspace + layer.input;
  int64_t inputs = whole_steps(layer.inputs), padded = layer.padded();
  for (int64_t k = 0; k < inputs; k++) vector[k] = k < layer.inputs ? net.weights[layer.weight + k * padded] : 0;
  for (int64_t b = 0; b < x.size; b++) {
    V sums[VECTORS] = {};
    for (int64_t k = 0; k < inputs; k += STEP)
      for (int v = 0; v < VECTORS; v++) sums[v] += load(x.data + b * x.stride + k + v * LANES) * load(vector + k + v * LANES);
    for (int64_t c = 0; c < padded; c++) to[b * layer.input_stride() + c] = 0;
    to[b * layer.input_stride()] = static_cast<Real>(total(sums)) + net.weights[layer.bias];
  }
}

inline void linear(const Network& net, const Layer& layer, const Batch& x) {
  int64_t together = x.size < WORTH_ROWS ? 2 * rows_at_once(layer) : DEEPEST_PANEL;
  multiply(net, layer, x, 0, smaller(together, layer.inputs), FromRow{net.weights + layer.bias});
  for (int64_t k = together; k < layer.inputs; k += together)
    multiply(net, layer, x, k, smaller(k + together, layer.inputs), FromMatrix{net.workspace + layer.input, layer.input_stride()});
}

// Without `keep`, no backward pass can follow; without `activated`, the last layer's activation is still to come.
inline void forward(const Network& net, const Batch& x, int64_t first, int64_t last, bool keep = true, bool activated = true) {
  for (int64_t i = first; i < last; i++) {
    const Layer& layer = net.layers[i];
    if (layer.outputs == 1 && i > 0) multiply_by_vector(net, layer, inputs_of(net, i, x));
    else linear(net, layer, inputs_of(net, i, x));
    if (layer.has_norm) normalise(net, layer, x.size);
    if (activated || i + 1 < last) activate(net, layer, x.size, keep);
  }
}

// ---- Backward -------------------------------------------------------------------------------------------------------

// What becomes of a gradient for a layer's weights: it is kept, or it is the step.
struct Keep {
  Real* to;
  INLINE Store at(int64_t offset, int64_t stride) const { return {to + offset, stride}; }
};
struct Descend {
  Real* to;
  Real scale;
  INLINE Scale at(int64_t offset, int64_t stride) const { return {to + offset, stride, scale}; }
};

// Of rows first ... last of a layer's weights.
template <class Rule>
INLINE void weights_backward(const Network& net, const Layer& layer, const Batch& x, int64_t first, int64_t last,
                             const Rule& rule) {
  int64_t padded = layer.padded();
  auto finish = rule.at(layer.weight + first * padded, padded);
  product(last - first, padded, x.size, Columns{x.data + first, x.stride},
          Right{net.workspace + layer.grad, layer.stride()}, FromZeroFor{finish.data, padded}, finish);
}

// Of a layer behind another one, with a single output: the same sums, in a row.
template <class Rule>
inline void vector_backward(const Network& net, const Layer& layer, const Batch& x, const Rule& rule) {
  Real* sums = net.workspace + net.sums;
  product(1, whole_steps(layer.inputs), x.size, Columns{net.workspace + layer.grad, layer.stride()}, Right{x.data, x.stride},
          FromZero{}, Store{sums, 0});
  auto finish = rule.at(layer.weight, layer.padded());
  for (int64_t k = 0; k < layer.inputs; k++)
    for (int64_t c = 0; c < layer.padded(); c += LANES) {
      V sum{};
      if (c == 0) sum[0] = sums[k];
      finish(k, c, sum);
    }
}

template <class Rule>
inline void bias_backward(const Network& net, const Layer& layer, int64_t batch, const Rule& rule) {
  const Real *grad = net.workspace + layer.grad;
  auto own = [&](int64_t b, int64_t c) { return load(grad + b * layer.stride() + c); };
  const Real* sums = sums_over_batch(net, layer.padded(), batch, own);
  auto finish = rule.at(layer.bias, 0);
  for (int64_t c = 0; c < layer.padded(); c += LANES) finish(0, c, load(sums + c));
}

// The gradient for a layer's inputs, [batch][stride] with zeros behind them, from that for its product. What takes less is
// transposed: the gradient and the result, for a few samples, or the weights. The sums are the same.
inline void inputs_backward(const Network& net, const Layer& layer, int64_t batch, Real* to, int64_t stride) {
  int64_t padded = whole_steps(batch), columns = whole_steps(layer.inputs);
  const Real *weights = net.weights + layer.weight, *grad = net.workspace + layer.grad;
  Real *right = net.workspace + net.transposed[0], *result = net.workspace + net.transposed[1];
  auto zeros_behind = [](Real* rows, int64_t row_length, int64_t count, int64_t real, int64_t whole) {
    for (int64_t r = 0; r < count; r++)
      for (int64_t c = real; c < whole; c++) rows[r * row_length + c] = 0;
  };
  if (layer.outputs * layer.inputs < (layer.outputs + layer.inputs) * batch && layer.outputs <= padded) {
    transpose(right, columns, weights, layer.padded(), layer.inputs, layer.outputs);
    zeros_behind(right, columns, layer.outputs, layer.inputs, columns);
    product(batch, columns, layer.outputs, Rows{grad, layer.stride()}, Right{right, columns}, FromZero{}, Store{to, stride});
    return;
  }
  transpose(right, padded, grad, layer.stride(), batch, layer.outputs);
  zeros_behind(right, padded, layer.outputs, batch, padded);
  product(layer.inputs, padded, layer.outputs, Rows{weights, layer.padded()}, Right{right, padded}, FromZero{},
          Store{result, padded});
  transpose(to, stride, result, padded, layer.inputs, batch);
  zeros_behind(to, stride, batch, layer.inputs, columns);
}

// The gradient for a layer's answers becomes that for its product.
inline void before_linear(const Network& net, const Layer& layer, int64_t batch, Real* to_others) {
  Real* grad = net.workspace + layer.grad;
  if (layer.kind == Kind::OUTPUT) return;
  activation_backward(net, layer, grad, batch, to_others);
  if (layer.has_norm) norm_backward(net, layer, grad, batch, to_others);
}

inline void to_layer_before(const Network& net, int64_t i, int64_t batch) {
  const Layer& before = net.layers[i - 1];
  inputs_backward(net, net.layers[i], batch, net.workspace + before.grad, before.stride());
}

// The gradient for what layer 0 reads, [batch][features_stride].
inline const Real* first_inputs_backward(const Network& net, int64_t batch) {
  Real* to = net.workspace + net.batches[1];
  inputs_backward(net, net.layers[0], batch, to, net.features_stride());
  return to;
}

// From the gradient for the outputs to that for the product of layer 0, and on to the images of convolutions. All gradients
// on the way go where `rule` says, but for the weights of layer 0.
template <class Rule> void backward(const Network& net, const Batch& x, const Rule& rule) {
  std::memset(net.other_grads, 0, net.other_count * sizeof(Real));
  for (int64_t i = net.depth - 1; i >= 0; i--) {
    const Layer& layer = net.layers[i];
    before_linear(net, layer, x.size, net.other_grads);
    if (i > 0) to_layer_before(net, i, x.size);  // before the weights change
    bias_backward(net, layer, x.size, rule);
    if (i == 0) break;
    if (layer.outputs == 1) vector_backward(net, layer, inputs_of(net, i, x), rule);
    else weights_backward(net, layer, inputs_of(net, i, x), 0, layer.inputs, rule);
  }
  if (net.conv_depth > 0) images_backward(net, x, first_inputs_backward(net, x.size), rule, net.other_grads, nullptr);
}

inline void gradients_of_all(const Network& net, const Batch& x) {
  Keep keep{net.weight_grads};
  backward(net, x, keep);
  weights_backward(net, net.layers[0], x, 0, net.features(), keep);
}

// ---- Training ---------------------------------------------------------------------------------------------------------

struct Data {
  const Real* inputs;     // [images][features]; with `added`, the products of all images, [images][images]
  const int64_t* labels;  // [images]
  int64_t features;
  // With a Gram matrix, the first layer's weights are scale * (start + inputs' * added), and its products are
  // scale * (start_products + products of images * added) + bias.
  int64_t images;
  Real *start, *start_products, *added;  // `added` is null without
  double* scale;
};

INLINE Batch gather(const Network& net, const Data& data, const int64_t* rows, int64_t count, int64_t which) {
  Real* to = net.workspace + net.batches[which];
  int64_t stride = whole_steps(data.features) + STEP;  // never a multiple of a page, which would crowd the cache
  for (int64_t b = 0; b < count; b++)
    std::memcpy(to + b * stride, data.inputs + rows[b] * data.features, data.features * sizeof(Real));
  return {to, stride, count};
}

// Steps through batches of an order.
struct Batches {
  const int64_t* order;
  int64_t count, size;
  INLINE int64_t steps() const { return (count + size - 1) / size; }
  INLINE const int64_t* rows(int64_t step) const { return order + step * size; }
  INLINE int64_t length(int64_t step) const { return smaller(size, count - step * size); }
};

struct Results {
  int64_t* correct;
  double* losses;
  INLINE void note(int64_t step, const Loss& loss) const {
    correct[step] = loss.correct;
    losses[step] = loss.mean;
  }
};

// What follows the first layer's product, up to the gradient for the outputs.
inline Loss finish_forward(const Network& net, const Data& data, const Batch& x, const int64_t* rows, double scale) {
  if (net.layers[0].has_norm) normalise(net, net.layers[0], x.size);
  activate(net, net.layers[0], x.size, true);
  forward(net, x, 1, net.depth);
  return cross_entropy(net, data.labels, rows, x.size, scale);
}

inline Loss gradients(const Network& net, const Data& data, const int64_t* rows, int64_t count) {
  Batch x = read_images(net, gather(net, data, rows, count, 0));
  linear(net, net.layers[0], x);
  Loss loss = finish_forward(net, data, x, rows, 1. / count);
  if (loss.finite) gradients_of_all(net, x);
  return loss;
}

inline int64_t train_with_memory(const Network& net, const Data& data, const Batches& batches, const Pass& pass,
                                 const Part* parts, const Results& results) {
  for (int64_t step = 0; step < batches.steps(); step++) {
    Loss loss = gradients(net, data, batches.rows(step), batches.length(step));
    if (!loss.finite) return step;
    results.note(step, loss);
    run(pass, parts, 2);
  }
  return batches.steps();
}

// All but the first layer's weights, by plain gradient descent; false where the outputs are not finite.
inline bool descend(const Network& net, const Data& data, const Batch& x, const Batches& batches, int64_t step,
                    const Pass& pass, const Results& results) {
  Loss loss = finish_forward(net, data, x, batches.rows(step), -pass.lr / x.size);
  if (!loss.finite) return false;
  results.note(step, loss);
  backward(net, x, Descend{net.weights, static_cast<Real>(scale_of_weights(pass))});
  for (int64_t i = 0; i < net.other_count; i++) net.others[i] += net.other_grads[i];
  *pass.steps += 1;
  return true;
}

inline int64_t train_on_images(const Network& net, const Data& data, const Batches& batches, const Pass& pass,
                               const Results& results) {
  const Layer& layer = net.layers[0];
  Descend rule{net.weights, static_cast<Real>(scale_of_weights(pass))};
  for (int64_t step = 0; step < batches.steps(); step++) {
    Batch x = read_images(net, gather(net, data, batches.rows(step), batches.length(step), 0));
    linear(net, layer, x);
    if (!descend(net, data, x, batches, step, pass, results)) return step;
    weights_backward(net, layer, x, 0, layer.inputs, rule);
    if (pass.perturbation) {
      perturb(net.weights, *pass.perturbation, 0, net.weight_count);
      next_step(*pass.perturbation);
    }
  }
  return batches.steps();
}

// The first layer's weights are read from memory once in a step: each part of them is updated, and then multiplied with
// the next batch.
inline int64_t train_plainly(const Network& net, const Data& data, const Batches& batches, const Pass& pass,
                             const Results& results) {
  const Layer& layer = net.layers[0];
  Descend rule{net.weights, static_cast<Real>(scale_of_weights(pass))};
  int64_t together = rows_at_once(layer);
  auto perturb_weights = [&](int64_t first, int64_t last) {
    if (pass.perturbation) perturb(net.weights, *pass.perturbation, first, last);
  };
  Batch now = gather(net, data, batches.rows(0), batches.length(0), 0);
  linear(net, layer, now);
  for (int64_t step = 0; step < batches.steps(); step++) {
    if (!descend(net, data, now, batches, step, pass, results)) return step;
    perturb_weights(0, layer.weight);
    perturb_weights(layer.weight + layer.inputs * layer.padded(), net.weight_count);
    Batch next = now;
    bool more = step + 1 < batches.steps();
    if (more) next = gather(net, data, batches.rows(step + 1), batches.length(step + 1), (step + 1) % 2);
    for (int64_t k = 0; k < layer.inputs; k += together) {
      int64_t end = smaller(k + together, layer.inputs);
      weights_backward(net, layer, now, k, end, rule);
      perturb_weights(layer.weight + k * layer.padded(), layer.weight + end * layer.padded());
      if (!more) continue;
      if (k == 0) multiply(net, layer, next, k, end, FromRow{net.weights + layer.bias});
      else multiply(net, layer, next, k, end, FromMatrix{net.workspace + layer.input, layer.input_stride()});
    }
    if (pass.perturbation) next_step(*pass.perturbation);
    now = next;
  }
  return batches.steps();
}

constexpr double SMALLEST_SCALE = 0x1p-20;

inline int64_t train_with_gram(const Network& net, const Data& data, const Batches& batches, const Pass& pass,
                               const Results& results) {
  const Layer& layer = net.layers[0];
  int64_t padded = layer.padded(), together = 2 * rows_at_once(layer);
  Real* z = net.workspace + layer.input;
  int64_t stride = layer.input_stride();
  FromMatrix so_far{z, stride};
  for (int64_t step = 0; step < batches.steps(); step++) {
    const int64_t* rows = batches.rows(step);
    Batch x = gather(net, data, rows, batches.length(step), 0);
    for (int64_t b = 0; b < x.size; b++)
      std::memcpy(z + b * stride, data.start_products + rows[b] * padded, padded * sizeof(Real));
    for (int64_t k = 0; k < data.images; k += together)
      product(x.size, padded, smaller(together, data.images - k), Rows{x.data + k, x.stride},
              Right{data.added + k * padded, padded}, so_far, Store{z, stride});
    Real scale = static_cast<Real>(*data.scale);
    for (int64_t b = 0; b < x.size; b++)
      for (int64_t c = 0; c < padded; c += LANES)
        store(z + b * stride + c, load(z + b * stride + c) * scale + load(net.weights + layer.bias + c));

    if (!descend(net, data, x, batches, step, pass, results)) return step;
    *data.scale *= scale_of_weights(pass);
    if (std::fabs(*data.scale) < SMALLEST_SCALE) {
      scale = static_cast<Real>(*data.scale);
      for (int64_t i = 0; i < layer.inputs * padded; i++) data.start[i] *= scale;
      for (int64_t i = 0; i < data.images * padded; i++) data.start_products[i] *= scale, data.added[i] *= scale;
      *data.scale = 1;
    }
    Real inverse = static_cast<Real>(1 / *data.scale);
    for (int64_t b = 0; b < x.size; b++) {
      Real *to = data.added + rows[b] * padded, *grad = net.workspace + layer.grad + b * layer.stride();
      for (int64_t c = 0; c < padded; c += LANES) store(to + c, load(to + c) + load(grad + c) * inverse);
    }
  }
  return batches.steps();
}

}  // namespace

// ---- What Python calls ------------------------------------------------------------------------------------------------

EXPORTED int64_t adalin_plan(Network* net, int64_t batch, int64_t features) { return plan(*net, batch, features); }

// Layers first ... last - 1. What they compute stays in the workspace, where Python may change what follows from it; without
// `keep`, derivatives are not there, and without `activated` the last one's activation is still to come.
EXPORTED void adalin_network_forward(const Network* net, const Real* x, int64_t stride, int64_t batch, int64_t first,
                                     int64_t last, int keep, int activated) {
  Batch inputs{x, stride, batch};
  forward(*net, first == 0 ? read_images(*net, inputs) : inputs, first, last, keep != 0, activated != 0);
}

// A layer's activation, with derivatives.
EXPORTED void adalin_network_activate(const Network* net, int64_t layer, int64_t batch) {
  activate(*net, net->layers[layer], batch, true);
}

// All gradients, from that for the outputs of the last forward pass, in the last layer's `grad`.
EXPORTED void adalin_network_backward(const Network* net, const Real* x, int64_t stride, int64_t batch) {
  gradients_of_all(*net, what_is_read(*net, {x, stride, batch}));
}

// The gradient for the inputs, [batch][features], likewise, and no others.
EXPORTED void adalin_network_inputs_backward(const Network* net, int64_t batch, Real* to) {
  for (int64_t i = net->depth - 1; i >= 0; i--) {
    before_linear(*net, net->layers[i], batch, nullptr);
    if (i > 0) to_layer_before(*net, i, batch);
  }
  const Real* result = first_inputs_backward(*net, batch);
  int64_t features = net->features(), stride = net->features_stride();
  if (net->conv_depth > 0) return images_backward(*net, {nullptr, 0, batch}, result, Keep{nullptr}, nullptr, to);
  for (int64_t b = 0; b < batch; b++) std::memcpy(to + b * features, result + b * stride, features * sizeof(Real));
}

// The loss of what the last forward pass gave for these rows, its gradient in the last layer's `grad`; 0 where it is not finite.
EXPORTED int adalin_network_loss(const Network* net, const int64_t* labels, const int64_t* rows, int64_t count,
                                 int64_t* correct, double* loss) {
  Loss found = cross_entropy(*net, labels, rows, count, 1. / count);
  Results{correct, loss}.note(0, found);
  return found.finite;
}

// All gradients of the mean loss of these rows; 0, and no gradients, where their outputs are not finite.
EXPORTED int adalin_network_gradients(const Network* net, const Data* data, const int64_t* rows, int64_t count,
                                      int64_t* correct, double* loss) {
  Loss found = gradients(*net, *data, rows, count);
  Results{correct, loss}.note(0, found);
  return found.finite;
}

// Steps through the rows of `order`; gives the number of those that were made before outputs were not finite.
EXPORTED int64_t adalin_network_train(const Network* net, const Data* data, const int64_t* order, int64_t count,
                                      int64_t batch, const Pass* pass, const Part* parts, int64_t* correct, double* losses) {
  Batches batches{order, count, batch};
  Results results{correct, losses};
  if (data->added) return train_with_gram(*net, *data, batches, *pass, results);
  if (is_plain(*pass) && net->conv_depth > 0) return train_on_images(*net, *data, batches, *pass, results);
  if (is_plain(*pass)) return train_plainly(*net, *data, batches, *pass, results);
  return train_with_memory(*net, *data, batches, *pass, parts, results);
}

// The first layer's products, without bias, for all images.
EXPORTED void adalin_network_gram_start(const Network* net, const Data* data, const Real* images) {
  int64_t padded = net->layers[0].padded(), features = net->features();
  for (int64_t k = 0; k < features; k += DEEPEST_PANEL) {
    int64_t depth = smaller(DEEPEST_PANEL, features - k);
    Rows left{images + k, features};
    Right right{data->start + k * padded, padded};
    Store to{data->start_products, padded};
    if (k == 0) product(data->images, padded, depth, left, right, FromZero{}, to);
    else product(data->images, padded, depth, left, right, FromMatrix{data->start_products, padded}, to);
  }
}

// The first layer's weights as they are now.
EXPORTED void adalin_network_gram_weights(const Network* net, const Data* data, const Real* images) {
  int64_t padded = net->layers[0].padded(), features = net->features();
  Real *to = net->weights + net->layers[0].weight, scale = static_cast<Real>(*data->scale);
  std::memcpy(to, data->start, features * padded * sizeof(Real));
  for (int64_t k = 0; k < data->images; k += DEEPEST_PANEL)
    product(features, padded, smaller(DEEPEST_PANEL, data->images - k), Columns{images + k * features, features},
            Right{data->added + k * padded, padded}, FromZero{}, Scale{to, padded, 1});
  for (int64_t i = 0; i < features * padded; i++) to[i] *= scale;
}

// One convolutional layer by itself, for tests. `room` has three strips.
EXPORTED void adalin_conv_forward(const Conv* conv, const Real* input, int64_t batch, const Real* weight, const Real* bias,
                                  const Real* alpha, Real* room, Real* winner, Real* place, Real* output) {
  const Conv& c = *conv;
  for (int64_t i = 0; i < batch; i++)
    forward_image(c, input + i * c.inputs(), weight, bias, alpha, room, winner + i * c.saved(), place + i * c.saved(),
                  output + i * c.outputs());
}

// Adds all its gradients, but that for the input, [batch][height][width][channels padded to 16], which is written. `room`
// has what `Slopes` take and the turned weights.
EXPORTED void adalin_conv_backward(const Conv* conv, const Real* input, int64_t batch, const Real* weight, const Real* alpha,
                                   const Real* winner, const Real* place, const Real* grad, Real* room, Real* grad_weight,
                                   Real* grad_bias, Real* grad_alpha, Real* grad_input) {
  const Conv& c = *conv;
  Slopes slopes(c, room);
  Real* turned = slopes.grad_z + 4 * c.pixels() * c.padded();
  turn_weights(c, weight, turned);
  for (int64_t i = 0; i < batch; i++) {
    differentiate(c, winner + i * c.saved(), alpha, slopes);
    unpool(c, grad + i * c.pixels() * c.grad_row(), place + i * c.saved(), slopes, grad_bias, grad_alpha);
    weight_gradient(c, input + i * c.inputs(), slopes.grad_z, grad_weight);
    input_gradient(c, turned, slopes.grad_z, grad_input + i * c.height * c.width * c.channels_row());
  }
}

// Weights perturbed once.
EXPORTED void adalin_perturb(Real* weights, Perturbation* own, int64_t count) {
  perturb(weights, *own, 0, count);
  next_step(*own);
}

// One pass of an optimiser.
EXPORTED void adalin_pass(const Pass* pass, const Part* parts, int64_t count) { run(*pass, parts, count); }
