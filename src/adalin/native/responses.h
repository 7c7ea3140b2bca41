// TEMPORARY: what activations.h will have.
#pragma once
#include "adalin.h"

namespace {

INLINE int64_t whole_steps(int64_t count) { return (count + STEP - 1) / STEP * STEP; }

enum class Kind : int32_t { OUTPUT, PLAIN, ADALIN, INTERPOLATION, CRELU, FOURIER, FOREIGN };

INLINE I is_real(int64_t c, int64_t units) {
  I lane;
  for (int i = 0; i < LANES; i++) lane[i] = i;
  return lane < static_cast<Integer>(units - c);
}

INLINE V unless_nan(V x, V y) { return x == x ? y : x; }

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

// one(F{}) for an activation with one answer, two(F{}) for one with a pair
template <class One, class Two> void with_activation(Kind kind, Base base, const One& one, const Two& two) {
  switch (kind) {
    case Kind::OUTPUT:
    case Kind::FOREIGN: return;
    case Kind::CRELU: return two(BothSigns{});
    case Kind::FOURIER: return two(BothWaves{});
    case Kind::PLAIN: return with_base(base, [&](auto b) { one(Fixed<decltype(b)>{}); });
    case Kind::INTERPOLATION: return with_base(base, [&](auto b) { one(Interpolated<decltype(b)>{}); });
    case Kind::ADALIN:
      if (base == Base::PRELU) return one(LearnedSlope{});
      return with_base(base, [&](auto b) { one(WithGate<decltype(b)>{}); });
  }
}

}  // namespace
