// phi, its derivative, and how far the derivative is from L, for every built-in base. Each is a struct with
//
//     static Point at(V x, const Settings& s)
//
// for any finite x. The order is that of Base, which _layer.py repeats.
#pragma once
#ifdef ADALIN_DOUBLE
#include "functions_double.h"
#else
#include "functions.h"
#endif

namespace {

enum class Base : int32_t {
  PRELU,  // ReLU with a gate that is 0 at L and 1 at 0
  RELU, TANH, SIGMOID, GELU, GELU_TANH, SILU, MISH, EXPONENTIAL, LEAKY_RELU, SOFTPLUS, SOFTSIGN, HARDSWISH, HARDTANH,
  SIN, IDENTITY,
};
enum class Gate : int32_t { COSINE, LINEAR, QUADRATIC, NONE };

struct Settings {
  Base base;
  Gate gate;
  Real inverse;  // 1 / L, rounded so that L * (1 / L) is not below 1
  Real a, b, c;  // the base's own numbers
};

struct Point {
  V y, slope;
  V room;  // 1 - |slope| / L, at least 0
};

INLINE Point point(V y, V slope, const Settings& s) { return {y, slope, at_least_zero(1.f - magnitude(slope) * s.inverse)}; }

struct Relu {
  static INLINE Point at(V x, const Settings& s) { return point(at_least_zero(x), x > 0.f ? all(1.f) : V{}, s); }
};

struct Tanh {  // with e = exp(-2|x|): (1 - e) / (1 + e), and 4 e / (1 + e)^2
  static INLINE Point at(V x, const Settings& s) {
    Exp parts = exp_of_minus(magnitude(x) * 2.f);
    V e = parts.exp(), q = 1.f / (e + 1.f), y = -parts.minus_one() * q, slope = 4.f * e * q * q;
    V room = y * y;  // 1 - slope / L for L = 1, without cancellation: the gate keeps its digits near 0
    if (s.inverse != 1.f) room = at_least_zero(room + slope * (1.f - s.inverse));
    return {with_sign_of(y, x), slope, room};
  }
};

struct Logistic {  // 1 / (1 + exp(-x)), with e = exp(-|x|) and q = 1 / (1 + e)
  V units, e, q, value;
  I right;
  INLINE Logistic(V x) {
    units = exp_of_minus(magnitude(x)).units();
    e = units * UNIT;
    q = 1.f / (e + 1.f);
    right = x > 0.f;
    value = right ? q : e * q;
  }
  INLINE V slope() const { return e * q * q; }
  INLINE V times(V x) const { V y = x * q; return right ? y : y * units * UNIT; }  // x * value
};

struct Sigmoid {
  static INLINE Point at(V x, const Settings& s) {
    Logistic l(x);
    return point(l.value, l.slope(), s);
  }
};

struct Gelu {  // with the tail t = Phi(-|x|): y = max(x, 0) - |x| t; phi' is t - |x| pdf on the left, 1 minus that on the right
  static INLINE Point at(V x, const Settings& s) {
    Normal n = normal(x);
    V a = magnitude(x), left = (n.mills - a * static_cast<Real>(0.39894228040143267794)) * n.exp;
    return point(at_least_zero(x) - a * n.mills * n.exp, x > 0.f ? 1.f - left : left, s);
  }
};

struct GeluTanh {  // x / (1 + exp(-u)), u = sqrt(8/pi) (x + 0.044715 x^3), in double: the tail needs u's last digits
  static INLINE Point at(V x, const Settings& s) {
    constexpr double scale = 1.5957691216057308, cubic = scale * 0.044715;
    D z = widen(at_most(at_least(x, -20.f), 20.f)), square = z * z, u = z * (square * cubic + scale);
    V high = narrow(u), low = narrow(u - widen(high));
    I right = x > 0.f;
    V a = positive_at_most(magnitude(high), adalin_bounds.exponent);
    V units = exp_of_minus(a, right ? low : -low).units(), e = units * UNIT, q = 1.f / (e + 1.f);
    V y = right ? x * q : x * q * units * UNIT;
    V slope = (right ? q : e * q) + e * q * q * narrow(z * (square * (3 * cubic) + scale));
    return point(y, slope, s);
  }
};

struct Silu {
  static INLINE Point at(V x, const Settings& s) {
    Logistic l(x);
    return point(l.times(x), l.value + x * l.slope(), s);
  }
};

struct Mish {  // x tanh(log(1 + exp(x))), with e = exp(-|x|): tanh is n / m
  static INLINE Point at(V x, const Settings& s) {
    Logistic l(x);
    V n = l.right ? 2.f * l.e + 1.f : l.e + 2.f;         // on the left without a factor e
    V rest = l.right ? 2.f * l.e * l.e : all(2.f);       // m - n
    V m = l.right ? n + rest : n * l.e + rest, q = 1.f / m;
    V t = n * q;
    V y = l.right ? x * t : x * t * l.units * UNIT;
    t = l.right ? t : t * l.e;
    V slope = t + x * l.value * (rest * q * (t + 1.f));  // 1 - t^2 = (m - n)/m (1 + t)
    return point(y, slope, s);
  }
};

struct Exponential {  // a x where x > 0, else b (exp(c x) - 1)
  static INLINE Point at(V x, const Settings& s) {
    Exp parts = exp_of_minus(at_least_zero(x * -s.c));
    I right = x > 0.f;
    return point(right ? x * s.a : parts.minus_one() * s.b, right ? all(s.a) : parts.exp() * (s.b * s.c), s);
  }
};

struct LeakyRelu {
  static INLINE Point at(V x, const Settings& s) {
    V slope = x > 0.f ? all(1.f) : all(s.a);
    return point(x * slope, slope, s);
  }
};

struct Softplus {  // log(1 + exp(a x)) / a, or x where a x > b; c = 1 / a
  static INLINE Point at(V x, const Settings& s) {
    V z = x * s.a;
    Logistic l(z);
    I straight = z > s.b;
    V y = (at_least_zero(z) + log1p(l.e)) * s.c;
    return point(straight ? x : y, straight ? all(1.f) : l.value, s);
  }
};

struct Softsign {
  static INLINE Point at(V x, const Settings& s) {
    V q = 1.f / (magnitude(x) + 1.f);
    return point(x * q, q * q, s);
  }
};

struct Hardswish {
  static INLINE Point at(V x, const Settings& s) {
    V y = x * (at_most(at_least_zero(x + 3.f), 6.f) * (Real(1) / 6));
    V slope = x * (Real(1) / 3) + 0.5f;
    slope = x >= 3.f ? all(1.f) : x <= -3.f ? V{} : slope;
    return point(y, slope, s);
  }
};

struct Hardtanh {  // between a and b
  static INLINE Point at(V x, const Settings& s) {
    I inside = (x > s.a) & (x < s.b);
    return point(at_most(at_least(x, s.a), s.b), inside ? all(1.f) : V{}, s);
  }
};

struct Sin {
  static INLINE Point at(V x, const Settings& s) {
    SinCos both = sin_cos(x);
    return point(both.sin, both.cos, s);
  }
};

struct Identity {
  static INLINE Point at(V x, const Settings& s) { return point(x, all(1.f), s); }
};

// action(B{})
template <class Action> INLINE auto with_base(Base base, const Action& action) {
  switch (base) {
    case Base::PRELU: return action(Relu{});
    case Base::RELU: return action(Relu{});
    case Base::TANH: return action(Tanh{});
    case Base::SIGMOID: return action(Sigmoid{});
    case Base::GELU: return action(Gelu{});
    case Base::GELU_TANH: return action(GeluTanh{});
    case Base::SILU: return action(Silu{});
    case Base::MISH: return action(Mish{});
    case Base::EXPONENTIAL: return action(Exponential{});
    case Base::LEAKY_RELU: return action(LeakyRelu{});
    case Base::SOFTPLUS: return action(Softplus{});
    case Base::SOFTSIGN: return action(Softsign{});
    case Base::HARDSWISH: return action(Hardswish{});
    case Base::HARDTANH: return action(Hardtanh{});
    case Base::SIN: return action(Sin{});
    case Base::IDENTITY: return action(Identity{});
  }
  __builtin_unreachable();  // Python makes no other
}

}  // namespace
