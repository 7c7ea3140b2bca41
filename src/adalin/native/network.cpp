// Forward, backward and training steps of networks.
#include "activations.h"
#include <cstring>

#include "exported.h"
#include "loss.h"
#include "pass.h"
#include "product.h"

namespace {

struct Batch {  // inputs in memory
  const Real* data;
  int64_t stride, size;
};

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
          Right{net.weights + layer.weight + first * padded, padded}, start, Store{net.workspace + layer.input, padded});
}

inline void linear(const Network& net, const Layer& layer, const Batch& x) {
  int64_t together = x.size < WORTH_ROWS ? 2 * rows_at_once(layer) : DEEPEST_PANEL;
  multiply(net, layer, x, 0, smaller(together, layer.inputs), FromRow{net.weights + layer.bias});
  for (int64_t k = together; k < layer.inputs; k += together)
    multiply(net, layer, x, k, smaller(k + together, layer.inputs), FromMatrix{net.workspace + layer.input, layer.padded()});
}

inline void after_linear(const Network& net, const Layer& layer, int64_t batch) {
  if (layer.has_norm) normalise(net, layer, batch);
  activate(net, layer, batch);
}

inline void forward(const Network& net, const Batch& x, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; i++) {
    linear(net, net.layers[i], inputs_of(net, i, x));
    after_linear(net, net.layers[i], x.size);
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
          Right{net.workspace + net.grad, layer.stride()}, FromZeroFor{finish.data, padded}, finish);
}

template <class Rule>
inline void bias_backward(const Network& net, const Layer& layer, int64_t batch, const Rule& rule) {
  const Real* grad = net.workspace + net.grad;
  int64_t stride = layer.stride();
  auto finish = rule.at(layer.bias, 0);
  for (int64_t c = 0; c < layer.padded(); c += LANES) {
    V sum{};
    for (int64_t first = 0; first < batch; first += BLOCK) {
      V block{};
      for (int64_t b = first; b < smaller(first + BLOCK, batch); b++) block += load(grad + b * stride + c);
      sum += block;
    }
    finish(0, c, sum);
  }
}

// The gradient for a layer's inputs, transposed: its weights times the transposed gradient for its product.
inline Real* inputs_backward(const Network& net, const Layer& layer, int64_t batch) {
  int64_t padded = whole_steps(batch);
  Real *right = net.workspace + net.transposed[0], *to = net.workspace + net.transposed[1];
  for (int64_t o = 0; o < layer.outputs; o++)
    for (int64_t b = batch; b < padded; b++) right[o * padded + b] = 0;
  transpose(right, padded, net.workspace + net.grad, layer.stride(), batch, layer.outputs);
  product(layer.inputs, padded, layer.outputs, Rows{net.weights + layer.weight, layer.padded()}, Right{right, padded},
          FromZero{}, Store{to, padded});
  return to;
}

// The gradient for a layer's answers, in `net.grad`, becomes that for its product.
inline void before_linear(const Network& net, const Layer& layer, int64_t batch, Real* to_others) {
  Real* grad = net.workspace + net.grad;
  if (layer.kind == Kind::OUTPUT) return;
  activation_backward(net, layer, grad, batch, to_others);
  if (layer.has_norm) norm_backward(net, layer, grad, batch, to_others);
}

inline void take_answers_gradient(const Network& net, const Layer& before, const Real* transposed, int64_t batch) {
  Real* grad = net.workspace + net.grad;
  int64_t width = before.width, stride = before.stride();
  transpose(grad, stride, transposed, whole_steps(batch), width, batch);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t c = width; c < whole_steps(width); c++) grad[b * stride + c] = 0;
}

// From the gradient for the outputs, in `net.grad`, to that for the product of layer 0. All gradients on the way go where
// `rule` says, but for the weights of layer 0.
template <class Rule> void backward(const Network& net, const Batch& x, const Rule& rule) {
  std::memset(net.other_grads, 0, net.other_count * sizeof(Real));
  for (int64_t i = net.depth - 1; i >= 0; i--) {
    const Layer& layer = net.layers[i];
    before_linear(net, layer, x.size, net.other_grads);
    const Real* inputs_gradient = i > 0 ? inputs_backward(net, layer, x.size) : nullptr;  // before the weights change
    bias_backward(net, layer, x.size, rule);
    if (i == 0) return;
    weights_backward(net, layer, inputs_of(net, i, x), 0, layer.inputs, rule);
    take_answers_gradient(net, net.layers[i - 1], inputs_gradient, x.size);
  }
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
  after_linear(net, net.layers[0], x.size);
  forward(net, x, 1, net.depth);
  return cross_entropy(net, data.labels, rows, x.size, scale);
}

inline Loss gradients(const Network& net, const Data& data, const int64_t* rows, int64_t count) {
  Batch x = gather(net, data, rows, count, 0);
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

// The first layer's weights are read from memory once in a step: each part of them is updated, and then multiplied with
// the next batch.
inline int64_t train_plainly(const Network& net, const Data& data, const Batches& batches, const Pass& pass,
                             const Results& results) {
  const Layer& layer = net.layers[0];
  Descend rule{net.weights, static_cast<Real>(scale_of_weights(pass))};
  int64_t together = rows_at_once(layer);
  Batch now = gather(net, data, batches.rows(0), batches.length(0), 0);
  linear(net, layer, now);
  for (int64_t step = 0; step < batches.steps(); step++) {
    if (!descend(net, data, now, batches, step, pass, results)) return step;
    Batch next = now;
    bool more = step + 1 < batches.steps();
    if (more) next = gather(net, data, batches.rows(step + 1), batches.length(step + 1), (step + 1) % 2);
    for (int64_t k = 0; k < layer.inputs; k += together) {
      int64_t end = smaller(k + together, layer.inputs);
      weights_backward(net, layer, now, k, end, rule);
      if (!more) continue;
      if (k == 0) multiply(net, layer, next, k, end, FromRow{net.weights + layer.bias});
      else multiply(net, layer, next, k, end, FromMatrix{net.workspace + layer.input, layer.padded()});
    }
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
  FromMatrix so_far{z, padded};
  for (int64_t step = 0; step < batches.steps(); step++) {
    const int64_t* rows = batches.rows(step);
    Batch x = gather(net, data, rows, batches.length(step), 0);
    for (int64_t b = 0; b < x.size; b++)
      std::memcpy(z + b * padded, data.start_products + rows[b] * padded, padded * sizeof(Real));
    for (int64_t k = 0; k < data.images; k += together)
      product(x.size, padded, smaller(together, data.images - k), Rows{x.data + k, x.stride},
              Right{data.added + k * padded, padded}, so_far, Store{z, padded});
    Real scale = static_cast<Real>(*data.scale);
    for (int64_t b = 0; b < x.size; b++)
      for (int64_t c = 0; c < padded; c += LANES)
        store(z + b * padded + c, load(z + b * padded + c) * scale + load(net.weights + layer.bias + c));

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
      Real *to = data.added + rows[b] * padded, *grad = net.workspace + net.grad + b * layer.stride();
      for (int64_t c = 0; c < padded; c += LANES) store(to + c, load(to + c) + load(grad + c) * inverse);
    }
  }
  return batches.steps();
}

}  // namespace

// ---- What Python calls ------------------------------------------------------------------------------------------------

EXPORTED int64_t adalin_plan(Network* net, int64_t batch, int64_t features) { return plan(*net, batch, features); }

// Layers first ... last - 1. What they compute stays in the workspace, where Python may change what follows from it.
EXPORTED void adalin_network_forward(const Network* net, const Real* x, int64_t batch, int64_t first, int64_t last) {
  forward(*net, {x, net->features(), batch}, first, last);
}

// All gradients, from that for the outputs of the last forward pass, in `net->grad`.
EXPORTED void adalin_network_backward(const Network* net, const Real* x, int64_t batch) {
  gradients_of_all(*net, {x, net->features(), batch});
}

// The gradient for the inputs, [batch][features], likewise, and no others.
EXPORTED void adalin_network_inputs_backward(const Network* net, int64_t batch, Real* to) {
  for (int64_t i = net->depth - 1; i >= 0; i--) {
    before_linear(*net, net->layers[i], batch, nullptr);
    const Real* transposed = inputs_backward(*net, net->layers[i], batch);
    if (i > 0) take_answers_gradient(*net, net->layers[i - 1], transposed, batch);
    else transpose(to, net->features(), transposed, whole_steps(batch), net->features(), batch);
  }
}

// The loss of what the last forward pass gave for these rows, its gradient in `net->grad`; 0 where it is not finite.
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

// One pass of an optimiser.
EXPORTED void adalin_pass(const Pass* pass, const Part* parts, int64_t count) { run(*pass, parts, count); }
