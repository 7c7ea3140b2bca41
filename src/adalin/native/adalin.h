// AdaLin on vectors of elements: the gates, the function and its two derivatives.
#pragma once
#include "bases.h"

namespace {

// A gate as a function of room = 1 - |slope| / L: exactly 0 where the slope is steepest and 1 where it is flat.
INLINE V gate_value(V room, Gate gate) {
  switch (gate) {
    case Gate::COSINE: return positive_at_most(sin_of_quarters(room), adalin_bounds.one);  // cos(pi/2 r), r = 1 - room
    case Gate::LINEAR: return room;
    case Gate::QUADRATIC: return room * (2.f - room);
    default: return all(1.f);
  }
}

// f = phi + alpha x g, df/dx = phi' + alpha g, df/dalpha = x g, for a vector of elements; x is finite. The usual gate is known
// to the compiler: without a branch it can mix the instructions of several vectors.
template <class B, bool COSINE> struct AdaLin {
  static constexpr bool any_x = false;
  static INLINE V forward(V x, V alpha, const Settings& s) {
    Point p = B::at(x, s);
    return p.y + x * (alpha * gate_value(p.room, COSINE ? Gate::COSINE : s.gate));
  }
  // The gradient for x; adds the elements' parts of alpha's to `sum`.
  static INLINE V backward(V x, V alpha, V grad, const Settings& s, V& sum) {
    Point p = B::at(x, s);
    V g = gate_value(p.room, COSINE ? Gate::COSINE : s.gate);
    sum = multiply_add(grad, x * g, sum);
    return grad * (p.slope + alpha * g);
  }
};

// PyTorch's own expressions, for its bits, and for any x. (At -inf, alpha = 0 has a limit here.)
struct PRelu {
  static constexpr bool any_x = true;
  static INLINE V forward(V x, V alpha, const Settings&) {
    I limit = (x < -std::numeric_limits<Real>::max()) & (alpha == 0.f);
    V left = limit ? V{} : x * alpha;
    return x > 0.f ? x : left;
  }
  static INLINE V backward(V x, V alpha, V grad, const Settings&, V& sum) {
    sum += x > 0.f ? V{} : x * grad;
    return x > 0.f ? grad : alpha * grad;
  }
};

}  // namespace
