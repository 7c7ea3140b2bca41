// The convolutions before a network's layers: from a batch of images to what the first layer reads, and back.
#pragma once
#include "conv.h"

namespace {

struct Batch {  // inputs in memory
  const Real* data;
  int64_t stride, size;
  const Real* images = nullptr;  // that convolutions made them of
  int64_t images_stride = 0;
};

// Where the first layer reads a batch, after `read_images`.
INLINE Batch what_is_read(const Network& net, const Batch& images) {
  if (net.conv_depth == 0) return images;
  return {net.workspace + net.from_images, net.features_stride(), images.size, images.data, images.stride};
}

// Makes what the first layer reads, in torch's order: all pixels of a channel, then those of the next.
inline Batch read_images(const Network& net, const Batch& images) {
  if (net.conv_depth == 0) return images;
  const Real* input = images.data;
  int64_t stride = images.stride;
  for (int64_t i = 0; i < net.conv_depth; i++) {
    const Conv& c = net.convs[i];
    Real *alphas = net.workspace + c.alphas, *output = net.workspace + c.output;
    for (int64_t v = 0; v < c.padded(); v += LANES) store(alphas + v, alpha_of(net, c.units, v));
    for (int64_t b = 0; b < images.size; b++)
      forward_image(c, input + b * stride, net.weights + c.units.weight, net.weights + c.units.bias, alphas,
                    net.workspace + net.conv_room, net.workspace + c.winner + b * c.saved(),
                    net.workspace + c.place + b * c.saved(), output + b * c.outputs());
    input = output;
    stride = c.outputs();
  }
  const Conv& last = net.convs[net.conv_depth - 1];
  Batch x = what_is_read(net, images);
  for (int64_t b = 0; b < x.size; b++)
    transpose(net.workspace + net.from_images + b * x.stride, last.pixels(), input + b * stride, last.units.width,
              last.pixels(), last.units.width);
  return x;
}

// One image's gradients, from `conv.grad` of the last convolution on; with `input`, sums of those for parameters, and with
// `to` that for the image.
inline void image_backward(const Network& net, const Real* input, int64_t b, Real* to) {
  for (int64_t i = net.conv_depth - 1; i >= 0; i--) {
    const Conv& c = net.convs[i];
    Slopes slopes(c, net.workspace + net.conv_room);
    Real* sums = net.workspace + c.sums;
    differentiate(c, net.workspace + c.winner + b * c.saved(), net.workspace + c.alphas, slopes);
    unpool(c, net.workspace + c.grad, net.workspace + c.place + b * c.saved(), slopes, sums + c.weights(),
           sums + c.weights() + c.padded());
    const Real* own = i == 0 ? input : net.workspace + net.convs[i - 1].output + b * c.inputs();
    if (input) weight_gradient(c, own, slopes.grad_z, sums);
    if (i > 0) input_gradient(c, net.workspace + c.turned, slopes.grad_z, net.workspace + net.convs[i - 1].grad);
    else if (to) input_gradient(c, net.workspace + c.turned, slopes.grad_z, to);
  }
}

// Gradients from that for what the first layer read, [batch][features_stride]. Those for parameters go where `rule` says,
// and for alphas to `to_others`, if x has its images; those for the images to `to`, [batch][height][width][channels].
template <class Rule>
void images_backward(const Network& net, const Batch& x, const Real* grad, const Rule& rule, Real* to_others, Real* to) {
  for (int64_t i = 0; i < net.conv_depth; i++) {
    const Conv& c = net.convs[i];
    std::memset(net.workspace + c.sums, 0, (c.weights() + 2 * c.padded()) * sizeof(Real));
    if (i > 0 || to) turn_weights(c, net.weights + c.units.weight, net.workspace + c.turned);
  }
  const Conv &first = net.convs[0], &last = net.convs[net.conv_depth - 1];
  Real* image_grad = to ? net.workspace + net.image_grad : nullptr;
  for (int64_t b = 0; b < x.size; b++) {
    transpose(net.workspace + last.grad, last.grad_row(), grad + b * net.features_stride(), last.pixels(), last.units.width,
              last.pixels());
    image_backward(net, x.images ? x.images + b * x.images_stride : nullptr, b, image_grad);
    for (int64_t pixel = 0; to && pixel < first.height * first.width; pixel++)
      std::memcpy(to + b * first.inputs() + pixel * first.channels, image_grad + pixel * first.channels_row(),
                  first.channels * sizeof(Real));
  }
  for (int64_t i = 0; x.images && i < net.conv_depth; i++) {
    const Conv& c = net.convs[i];
    const Real *sums = net.workspace + c.sums, *biases = sums + c.weights();
    auto weight = rule.at(c.units.weight, 0);
    auto bias = rule.at(c.units.bias, 0);
    for (int64_t v = 0; v < c.weights(); v += LANES) weight(0, v, load(sums + v));
    for (int64_t v = 0; v < c.padded(); v += LANES) bias(0, v, load(biases + v));
    add_alphas(c.units, biases + c.padded(), to_others);
  }
}

}  // namespace
