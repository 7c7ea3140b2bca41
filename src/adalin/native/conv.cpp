// Convolutional layers: forward and backward for a batch of images.
#include "conv.h"

#include "exported.h"

// rows: which images of `input` the batch has; null for all in order. `room` has 3 strips.
EXPORTED void adalin_conv_forward(const Conv* conv, const Real* input, const int64_t* rows, int64_t batch, const Real* weight,
                                  const Real* bias, const Real* alpha, Real* room, Real* winner, Real* place, Real* output) {
  const Conv& c = *conv;
  for (int64_t i = 0; i < batch; i++)
    forward_image(c, input + (rows ? rows[i] : i) * c.inputs(), weight, bias, alpha, room, winner + i * c.saved(),
                  place + i * c.saved(), output + i * c.outputs());
}

// All gradients; that for the input only where there is room for it, grad_input [batch][height][width][padded channels].
// `room` is for derivatives, one image's gradient for z and turned weights, all zeros before the first call.
EXPORTED void adalin_conv_backward(const Conv* conv, const Real* input, const int64_t* rows, int64_t batch, const Real* weight,
                                   const Real* alpha, const Real* winner, const Real* place, const Real* grad, int64_t grad_row,
                                   Real* room, Real* grad_weight, Real* grad_bias, Real* grad_alpha, Real* grad_input) {
  const Conv& c = *conv;
  int64_t input_row = whole_steps(c.channels);
  Real *grad_z = room + 2 * c.saved(), *turned = grad_z + 4 * c.pixels() * c.padded();
  if (grad_input) turn_weights(c, weight, turned, input_row);
  std::memset(grad_weight, 0, c.weights() * sizeof(Real));
  std::memset(grad_bias, 0, c.padded() * sizeof(Real));
  std::memset(grad_alpha, 0, c.padded() * sizeof(Real));
  for (int64_t i = 0; i < batch; i++) {
    backward_image(c, input + (rows ? rows[i] : i) * c.inputs(), alpha, winner + i * c.saved(), place + i * c.saved(),
                   grad + i * c.pixels() * grad_row, grad_row, room, grad_z, grad_weight, grad_bias, grad_alpha);
    if (grad_input) input_gradient(c, turned, grad_z, grad_input + i * c.height * c.width * input_row, input_row);
  }
}
