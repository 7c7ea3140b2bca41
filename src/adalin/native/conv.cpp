// Convolutional layers on their own, for tests: forward and backward for a batch of images.
#include "conv.h"

#include "exported.h"

// `room` has three strips.
EXPORTED void adalin_conv_forward(const Conv* conv, const Real* input, int64_t batch, const Real* weight, const Real* bias,
                                  const Real* alpha, Real* room, Real* winner, Real* place, Real* output) {
  const Conv& c = *conv;
  for (int64_t i = 0; i < batch; i++)
    forward_image(c, input + i * c.inputs(), weight, bias, alpha, room, winner + i * c.saved(), place + i * c.saved(),
                  output + i * c.outputs());
}

// Adds all gradients, but that for the input, [batch][height][width][channels padded to 16], which is written. `room` has
// what `Slopes` take and the turned weights.
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
