// Mean cross-entropy of a batch, its gradient, and how many answers are right.
#pragma once
#include "network.h"
#include "transpose.h"

namespace {

struct Loss {
  int64_t correct;
  double mean;
  bool finite;  // all outputs are
};

// From the outputs of the last layer for these rows to `scale` times the gradient of their summed cross-entropy, in
// `net.grad`. An image has its lane, so no sum crosses lanes.
inline Loss cross_entropy(const Network& net, const int64_t* labels, const int64_t* rows, int64_t batch, double scale) {
  const Layer& last = net.last();
  int64_t classes = last.outputs, padded = whole_steps(batch);
  const Real* outputs = net.workspace + last.input;
  Real *by_class = net.workspace + net.transposed[0], *totals = net.workspace + net.transposed[1];
  for (int64_t o = 0; o < classes; o++)
    for (int64_t b = batch; b < padded; b++) by_class[o * padded + b] = 0;
  transpose(by_class, padded, outputs, last.padded(), batch, classes);

  I largest{};  // of all outputs, without sign, as bits
  Loss loss{0, 0, true};
  for (int64_t b = 0; b < padded; b += LANES) {
    V top = load(by_class + b);
    I first{};  // the class of the first largest output
    largest = larger_of(largest, bits(magnitude(top)));
    for (int64_t o = 1; o < classes; o++) {
      V own = load(by_class + o * padded + b);
      largest = larger_of(largest, bits(magnitude(own)));
      first = own > top ? I{} + static_cast<Integer>(o) : first;
      top = own > top ? own : top;
    }
    V sum{};
    for (int64_t i = b; i < smaller(b + LANES, batch); i++) {
      loss.correct += first[i - b] == labels[rows[i]];
      loss.mean += static_cast<double>(top[i - b]) - by_class[labels[rows[i]] * padded + i];
    }
    for (int64_t o = 0; o < classes; o++) {
      V e = exp_of_minus(top - load(by_class + o * padded + b)).exp();
      sum += e;
      store(by_class + o * padded + b, e);
    }
    store(totals + b, sum);
    V share = 1 / sum;
    for (int64_t o = 0; o < classes; o++) store(by_class + o * padded + b, load(by_class + o * padded + b) * share);
  }
  loss.finite = !any(largest >= bits(all(std::numeric_limits<Real>::infinity())));

  double product = 1;  // one logarithm for 16 images
  for (int64_t i = 0; i < batch; i++) {
    product *= totals[i];
    if (i % STEP != STEP - 1 && i + 1 < batch) continue;
    loss.mean += std::log(product);
    product = 1;
  }
  loss.mean /= batch;

  Real *grad = net.workspace + net.grad, factor = static_cast<Real>(scale);
  for (int64_t i = 0; i < batch; i++) by_class[labels[rows[i]] * padded + i] -= 1;
  transpose(grad, last.stride(), by_class, padded, classes, batch);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t c = 0; c < last.padded(); c += LANES) {
      V own = load(grad + b * last.stride() + c) * factor;
      store(grad + b * last.stride() + c, is_real(c, classes) ? own : V{});
    }
  return loss;
}

}  // namespace
