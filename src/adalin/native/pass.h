// One pass of an optimiser over flat tensors: SGD, Adam and AdamW, RMSprop, as torch.optim computes them.
#pragma once
#include "noise.h"

namespace {

enum class Method : int32_t { SGD, ADAM, RMSPROP };

struct Pass {
  Method method;
  int32_t nesterov;
  int64_t decoupled;  // weight decay by itself, not as a part of the gradient: AdamW
  double lr;
  double momentum;  // beta1 of Adam
  double beta;      // beta2 of Adam, alpha of RMSprop
  double epsilon;
  double decay;   // of weights
  double shrink;  // factor of all weights before anything else
  double* steps;  // made so far; a pass adds one
  Perturbation* perturbation;  // of the first part, after everything else; null without
};

struct Part {  // lengths are whole steps of 16
  Real* value;
  const Real* grad;
  Real* first;   // momentum, or mean of gradients; null without
  Real* second;  // mean of squares; null without
  int64_t count;
  int64_t is_weight;
};

// SGD without memory: every step scales the weights and adds a gradient.
INLINE bool is_plain(const Pass& pass) { return pass.method == Method::SGD && pass.momentum == 0; }
INLINE double scale_of_weights(const Pass& pass) { return pass.shrink * (1 - pass.lr * pass.decay); }

INLINE V square_root(V x) {
  for (int i = 0; i < LANES; i++) x[i] = std::sqrt(x[i]);
  return x;
}

struct Descent {
  Real lr, momentum;
  bool nesterov;
  INLINE V operator()(V value, V grad, Real* first, Real*) const {
    if (!first) return value - lr * grad;
    V mean = load(first) * momentum + grad;
    store(first, mean);
    return value - lr * (nesterov ? grad + momentum * mean : mean);
  }
};

struct Adam {
  Real step, root, rest, beta, rest_of_squares, epsilon;
  INLINE V operator()(V value, V grad, Real* first, Real* second) const {
    V mean = load(first), squares = load(second);
    mean = mean + (grad - mean) * rest;
    squares = squares * beta + grad * grad * rest_of_squares;
    store(first, mean);
    store(second, squares);
    return value - step * mean / (square_root(squares) * root + epsilon);
  }
};

struct RMSprop {
  Real lr, momentum, beta, rest, epsilon;
  INLINE V operator()(V value, V grad, Real* first, Real* second) const {
    V squares = load(second) * beta + grad * grad * rest;
    store(second, squares);
    V step = grad / (square_root(squares) + epsilon);
    if (first) {
      step = load(first) * momentum + step;
      store(first, step);
    }
    return value - lr * step;
  }
};

template <class Rule> void sweep(const Rule& rule, const Pass& pass, const Part& part) {
  Real factor = 1, decay = 0;
  if (part.is_weight) {
    factor = static_cast<Real>(pass.decoupled ? pass.shrink * (1 - pass.lr * pass.decay) : pass.shrink);
    decay = static_cast<Real>(pass.decoupled ? 0 : pass.decay);
  }
  auto of = [](Real* moments, int64_t i) { return moments ? moments + i : nullptr; };
  for (int64_t i = 0; i < part.count; i += LANES) {
    V value = load(part.value + i) * factor, grad = load(part.grad + i) + decay * value;
    store(part.value + i, rule(value, grad, of(part.first, i), of(part.second, i)));
  }
}

inline void move(const Pass& pass, const Part* parts, int64_t count) {
  double steps = *pass.steps += 1;
  auto real = [](double number) { return static_cast<Real>(number); };
  auto all_parts = [&](const auto& rule) {
    for (int64_t i = 0; i < count; i++) sweep(rule, pass, parts[i]);
  };
  switch (pass.method) {
    case Method::SGD: return all_parts(Descent{real(pass.lr), real(pass.momentum), pass.nesterov != 0});
    case Method::ADAM:
      return all_parts(Adam{real(pass.lr / (1 - std::pow(pass.momentum, steps))),
                            real(1 / std::sqrt(1 - std::pow(pass.beta, steps))), real(1 - pass.momentum), real(pass.beta),
                            real(1 - pass.beta), real(pass.epsilon)});
    case Method::RMSPROP:
      return all_parts(RMSprop{real(pass.lr), real(pass.momentum), real(pass.beta), real(1 - pass.beta), real(pass.epsilon)});
  }
}

inline void run(const Pass& pass, const Part* parts, int64_t count) {
  move(pass, parts, count);
  if (!pass.perturbation) return;
  perturb(parts[0].value, *pass.perturbation, 0, parts[0].count);
  next_step(*pass.perturbation);
}

}  // namespace
