// What is between two products of a network: a norm over the units, and an activation, forward and backward.
#pragma once
#include "network.h"

namespace {

constexpr int VECTORS = STEP / LANES;

// The sum of 16 lanes, in one order on all processors.
INLINE double total(const V (&sums)[VECTORS]) {
  double totals[4] = {};
  for (int i = 0; i < STEP; i++) totals[i % 4] += sums[i / LANES][i % LANES];
  return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

// ---- Norm -----------------------------------------------------------------------------------------------------------

// The mean over a sample's units of term(c), a vector of them; 0 in padding.
template <class Term> INLINE double mean(int64_t units, int64_t padded, const Term& term) {
  V sums[VECTORS] = {};
  for (int64_t c = 0; c < padded; c += STEP)
    for (int v = 0; v < VECTORS; v++) sums[v] += term(c + v * LANES);
  return total(sums) / units;
}

inline void normalise(const Network& net, const Layer& layer, int64_t batch) {
  int64_t units = layer.outputs, padded = layer.padded();
  for (int64_t b = 0; b < batch; b++) {
    Real *x = net.workspace + layer.input + b * layer.input_stride(), *normal = net.workspace + layer.normal + b * padded;
    Real centre = static_cast<Real>(mean(units, padded, [&](int64_t c) { return load(x + c); }));
    auto moved = [&](int64_t c) { return is_real(c, units) ? load(x + c) - centre : V{}; };
    double variance = mean(units, padded, [&](int64_t c) { V own = moved(c); return own * own; });
    Real inverse = static_cast<Real>(1 / std::sqrt(variance + layer.epsilon));
    net.workspace[layer.deviation + b] = inverse;
    for (int64_t c = 0; c < padded; c += LANES) {
      V own = moved(c) * inverse;
      store(normal + c, own);
      if (layer.gain >= 0) own = own * load(net.others + layer.gain + c);
      if (layer.shift >= 0) own = own + load(net.others + layer.shift + c);
      store(x + c, own);
    }
  }
}

// ---- Activations, forward ---------------------------------------------------------------------------------------------

struct Answer {
  V y, slope, injected;  // f, df/dx, df/dalpha
};

template <class B> struct WithGate {
  static INLINE Answer at(V x, V alpha, const Settings& s) {
    Point p = B::at(x, s);
    V g = gate_value(p.room, s.gate), injected = x * g;
    return {p.y + alpha * injected, p.slope + alpha * g, injected};
  }
};

struct LearnedSlope {  // PReLU
  static INLINE Answer at(V x, V alpha, const Settings&) {
    I right = x > 0;
    V slope = right ? all(1) : alpha;
    return {x * slope, slope, right ? V{} : x};
  }
};

template <class B> struct Fixed {
  static INLINE Answer at(V x, V, const Settings& s) {
    Point p = B::at(x, s);
    return {p.y, p.slope, V{}};
  }
};

template <class B> struct Interpolated {
  static INLINE Answer at(V x, V alpha, const Settings& s) {
    Point p = B::at(x, s);
    V share = Logistic(alpha).value, rest = x - p.y;
    return {p.y + share * rest, p.slope + share * (1 - p.slope), rest * (share * (1 - share))};
  }
};

// The kernels of bases take finite numbers only, and may lose a NaN.
INLINE V unless_nan(V x, V y) { return x == x ? y : x; }

// The alphas of the units from column c on; 0 where there are none.
INLINE V alpha_of(const Network& net, const Layer& layer, int64_t c) {
  if (layer.alpha < 0) return V{};
  return layer.alphas == 1 ? all(net.others[layer.alpha]) : load(net.others + layer.alpha + c);
}

// Without `keep`, no derivatives are.
template <class F> void activate(const Network& net, const Layer& layer, int64_t batch, bool keep) {
  const Settings settings = layer.settings();
  int64_t padded = layer.padded(), stride = layer.stride();
  for (int64_t b = 0; b < batch; b++) {
    Real *y = net.workspace + layer.answer + b * stride, *slope = net.workspace + layer.slope + b * stride;
    Real* injected = layer.alpha < 0 ? nullptr : net.workspace + layer.injected + b * padded;
    for (int64_t c = 0; c < padded; c += LANES) {
      V own = load(y + c);
      Answer answer = F::at(own, alpha_of(net, layer, c), settings);
      store(y + c, unless_nan(own, answer.y));
      if (!keep) continue;
      store(slope + c, answer.slope);
      if (injected) store(injected + c, answer.injected);
    }
  }
}

struct Pair { V y[2], slope[2]; };

struct BothSigns {
  static INLINE Pair at(V x) {
    return {{at_least_zero(x), at_least_zero(-x)}, {x > 0 ? all(1) : V{}, x < 0 ? all(-1) : V{}}};
  }
};

struct BothWaves {
  static INLINE Pair at(V x) {
    SinCos both = sin_cos(x);
    return {{both.sin, both.cos}, {both.cos, -both.sin}};
  }
};

// The answers of all units, and behind them, wherever that is, the second ones.
template <class F> void activate_twice(const Network& net, const Layer& layer, int64_t batch) {
  int64_t padded = layer.padded(), stride = layer.stride();
  for (int64_t b = 0; b < batch; b++) {
    const Real* x = net.workspace + layer.input + b * padded;
    Real *y = net.workspace + layer.answer + b * stride, *slope = net.workspace + layer.slope + b * stride;
    for (int64_t c = padded - LANES; c >= 0; c -= LANES) {  // from the end: what is over is overwritten
      V own = load(x + c);
      Pair pair = F::at(own);
      for (int64_t i = 0; i < 2; i++) {
        store(y + i * layer.outputs + c, unless_nan(own, pair.y[i]));
        store(slope + i * layer.outputs + c, pair.slope[i]);
      }
    }
  }
}

// one(F{}) where the activation has one answer, two(F{}) where it has a pair of them.
template <class One, class Two> void with_activation(const Layer& layer, const One& one, const Two& two) {
  switch (layer.kind) {
    case Kind::OUTPUT:
    case Kind::FOREIGN: return;
    case Kind::CRELU: return two(BothSigns{});
    case Kind::FOURIER: return two(BothWaves{});
    case Kind::PLAIN: return with_base(layer.base, [&](auto b) { one(Fixed<decltype(b)>{}); });
    case Kind::INTERPOLATION: return with_base(layer.base, [&](auto b) { one(Interpolated<decltype(b)>{}); });
    case Kind::ADALIN:
      if (layer.base == Base::PRELU) return one(LearnedSlope{});
      return with_base(layer.base, [&](auto b) { one(WithGate<decltype(b)>{}); });
  }
}

inline void activate(const Network& net, const Layer& layer, int64_t batch, bool keep) {
  with_activation(
      layer, [&](auto f) { activate<decltype(f)>(net, layer, batch, keep); },
      [&](auto f) { activate_twice<decltype(f)>(net, layer, batch); });
}

// ---- Backward -------------------------------------------------------------------------------------------------------

constexpr int64_t BLOCK = 16;  // rows that are summed up by themselves, so that long sums keep their digits

// The sums of term(b, c) over a batch, for vectors c of units, in `net.sums`. All of a block's samples are read before the
// next block's, as they lie in memory.
template <class Term> INLINE const Real* sums_over_batch(const Network& net, int64_t padded, int64_t batch, const Term& term) {
  Real* sums = net.workspace + net.sums;
  for (int64_t c = 0; c < padded; c += LANES) store(sums + c, V{});
  for (int64_t first = 0; first < batch; first += BLOCK)
    for (int64_t c = 0; c < padded; c += LANES) {
      V block{};
      for (int64_t b = first; b < smaller(first + BLOCK, batch); b++) block += term(b, c);
      store(sums + c, load(sums + c) + block);
    }
  return sums;
}

// Adds the units' gradients for alphas, [padded].
inline void add_alphas(const Layer& layer, const Real* grads, Real* to_others) {
  if (layer.alpha < 0) return;
  Real* to = to_others + layer.alpha;
  V all_units[VECTORS] = {};
  for (int64_t c = 0; c < layer.padded(); c += LANES) {
    if (layer.alphas == 1) all_units[c / LANES % VECTORS] += load(grads + c);
    else store(to + c, load(to + c) + load(grads + c));
  }
  if (layer.alphas == 1) *to += static_cast<Real>(total(all_units));
}

// The gradient for the activation's output, [batch][stride], becomes that for its input, [batch][padded], in place; adds
// alpha's. `to_others` is null where gradients of parameters are not wanted.
inline void activation_backward(const Network& net, const Layer& layer, Real* grad, int64_t batch, Real* to_others) {
  int64_t padded = layer.padded(), stride = layer.stride();
  const Real *slope = net.workspace + layer.slope, *injected = net.workspace + layer.injected;
  if (layer.kind == Kind::CRELU || layer.kind == Kind::FOURIER) {
    for (int64_t b = 0; b < batch; b++)
      for (int64_t c = 0; c < padded; c += LANES) {
        int64_t at = b * stride + c, second = at + layer.outputs;
        V own = load(grad + at) * load(slope + at) + load(grad + second) * load(slope + second);
        store(grad + at, is_real(c, layer.outputs) ? own : V{});
      }
    return;
  }
  if (layer.alpha < 0 || !to_others) {
    for (int64_t b = 0; b < batch; b++)
      for (int64_t at = b * stride; at < b * stride + padded; at += LANES) store(grad + at, load(grad + at) * load(slope + at));
    return;
  }
  const Real* sums = sums_over_batch(net, padded, batch, [&](int64_t b, int64_t c) {
    V own = load(grad + b * stride + c);
    store(grad + b * stride + c, own * load(slope + b * stride + c));
    return own * load(injected + b * padded + c);
  });
  add_alphas(layer, sums, to_others);
}

inline void norm_backward(const Network& net, const Layer& layer, Real* grad, int64_t batch, Real* to_others) {
  int64_t units = layer.outputs, padded = layer.padded(), stride = layer.stride();
  const Real* normals = net.workspace + layer.normal;
  auto add = [&](int64_t offset, const Real* sums) {
    for (int64_t c = 0; c < padded; c += LANES) store(to_others + offset + c, load(to_others + offset + c) + load(sums + c));
  };
  auto own = [&](int64_t b, int64_t c) { return load(grad + b * stride + c); };
  if (to_others && layer.gain >= 0)
    add(layer.gain, sums_over_batch(net, padded, batch, [&](int64_t b, int64_t c) {
      return own(b, c) * load(normals + b * padded + c);
    }));
  if (to_others && layer.shift >= 0) add(layer.shift, sums_over_batch(net, padded, batch, own));
  for (int64_t b = 0; b < batch; b++) {
    Real* own = grad + b * stride;
    const Real* normal = normals + b * padded;
    auto scaled = [&](int64_t c) {
      return layer.gain < 0 ? load(own + c) : load(own + c) * load(net.others + layer.gain + c);
    };
    Real straight = static_cast<Real>(mean(units, padded, [&](int64_t c) { return scaled(c); }));
    Real along = static_cast<Real>(mean(units, padded, [&](int64_t c) { return scaled(c) * load(normal + c); }));
    Real inverse = net.workspace[layer.deviation + b];
    for (int64_t c = 0; c < padded; c += LANES) {
      V moved = (scaled(c) - straight - load(normal + c) * along) * inverse;
      store(own + c, is_real(c, units) ? moved : V{});
    }
  }
}

}  // namespace
