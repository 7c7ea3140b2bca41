// Calls a library of kernels as Python does, on numbers that all machines make alike; compares what comes back with plain
// loops in double; and prints a hash of its bits for each case, so that machines can be compared.
//
//     portable build/adalin_v3.so
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "network.h"
#include "pass.h"

namespace {

using Numbers = std::vector<double>;
bool failed = false;

// ---- Numbers, hashes, comparisons -----------------------------------------------------------------------------------

struct Generator {  // 24 random bits at a time, which floats hold exactly
  uint64_t state = 26;
  double next() {  // from -1 to 1
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) / (1 << 23) - 1;
  }
  Numbers many(int64_t count, double scale) {
    Numbers all(count);
    for (double& own : all) own = static_cast<float>(next() * scale);
    return all;
  }
};

struct Floats {  // aligned, and zeros at first
  int64_t count;
  float* data;
  explicit Floats(int64_t count) : count(count) {
    int64_t bytes = whole_steps(count + 1) * static_cast<int64_t>(sizeof(float));
    data = static_cast<float*>(std::memset(std::aligned_alloc(64, bytes), 0, bytes));
  }
  explicit Floats(const Numbers& from) : Floats(static_cast<int64_t>(from.size())) {
    for (int64_t i = 0; i < count; i++) data[i] = static_cast<float>(from[i]);
  }
  Floats(const Floats&) = delete;
  ~Floats() { std::free(data); }
};

struct Hash {  // FNV-1a
  uint64_t value = 14695981039346656037u;
  void add(const void* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) value = (value ^ static_cast<const unsigned char*>(from)[i]) * 1099511628211u;
  }
  void add(const Floats& all) { add(all.data, all.count * sizeof(float)); }
};

void print(const std::string& name, const Hash& hash) {
  std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(hash.value));
}

// The root of the mean squared error must be small beside that of the numbers themselves.
template <class Found> void compare(const std::string& name, const Found& found, const Numbers& expected, double tolerance) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    error += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  if (error <= tolerance * tolerance * size) return;  // a NaN is an error too
  std::fprintf(stderr, "%s: off by %.1e\n", name.c_str(), std::sqrt(error / size));
  failed = true;
}

// ---- Functions in double --------------------------------------------------------------------------------------------

struct Function {
  const char* name;
  Base base;
  double lipschitz;
  double (*phi)(double), (*slope)(double);
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double below(double x) { return std::erfc(-x / std::sqrt(2.)) / 2; }  // the normal distribution
double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

const Function RELU{"relu", Base::RELU, 1, [](double x) { return x > 0 ? x : 0; }, [](double x) { return x > 0 ? 1. : 0; }};
const Function TANH{"tanh", Base::TANH, 1, [](double x) { return std::tanh(x); },
                    [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); }};
const Function GELU{"gelu", Base::GELU, 1.13, [](double x) { return x * below(x); },
                    [](double x) { return below(x) + x * density(x); }};
const Function SILU{"silu", Base::SILU, 1.1, [](double x) { return x * logistic(x); },
                    [](double x) { return logistic(x) * (1 + x * (1 - logistic(x))); }};
const Function SIGMOID{"sigmoid", Base::SIGMOID, 0.25, logistic, [](double x) { return logistic(x) * (1 - logistic(x)); }};
const Function SIN{"sin", Base::SIN, 1, [](double x) { return std::sin(x); }, [](double x) { return std::cos(x); }};
const Function* const FUNCTIONS[] = {&RELU, &TANH, &GELU, &SILU, &SIGMOID, &SIN};

double cosine_gate(const Function& f, double x) { return std::cos(M_PI / 2 * std::fabs(f.slope(x)) / f.lipschitz); }

// ---- The layer ------------------------------------------------------------------------------------------------------

struct Layers {
  int (*forward)(const Settings*, const float*, const float*, float*, int64_t, int64_t, int64_t, int64_t);
  int (*backward)(const Settings*, const float*, const float*, const float*, float*, float*, int64_t, int64_t, int64_t,
                  int64_t);
};

void check_layer(const Layers& kernels, const Function& f, int64_t n, int64_t c, int64_t s) {
  Generator random;
  Numbers x = random.many(n * c * s, 4), alpha = random.many(c, 1), grad = random.many(n * c * s, 1);
  Numbers y(x.size()), grad_x(x.size()), grad_alpha(c);
  for (int64_t i = 0; i < n * c * s; i++) {
    int64_t channel = i / s % c;
    double g = cosine_gate(f, x[i]);
    y[i] = f.phi(x[i]) + alpha[channel] * x[i] * g;
    grad_x[i] = grad[i] * (f.slope(x[i]) + alpha[channel] * g);
    grad_alpha[channel] += grad[i] * x[i] * g;
  }
  Floats own_x(x), own_alpha(alpha), own_grad(grad), own_y(n * c * s), own_grad_x(n * c * s), own_grad_alpha(c);
  Settings settings{f.base, Gate::COSINE, static_cast<float>(1 / f.lipschitz), 0, 0, 0};
  kernels.forward(&settings, own_x.data, own_alpha.data, own_y.data, n, c, s, 1);
  kernels.backward(&settings, own_x.data, own_alpha.data, own_grad.data, own_grad_x.data, own_grad_alpha.data, n, c, s, 1);
  std::string name = std::string("layer-") + f.name + "-" + std::to_string(c) + "x" + std::to_string(s);
  compare(name + " y", own_y.data, y, 1e-6);
  compare(name + " grad_x", own_grad_x.data, grad_x, 1e-6);
  compare(name + " grad_alpha", own_grad_alpha.data, grad_alpha, 1e-6);
  Hash hash;
  hash.add(own_y), hash.add(own_grad_x), hash.add(own_grad_alpha);
  print(name, hash);
}

// ---- Networks -------------------------------------------------------------------------------------------------------

constexpr int64_t SIZES[] = {37, 24, 19, 10}, DEPTH = 3, IMAGES = 50, BATCH = 16, EPOCHS = 2, STEPS = 4 * EPOCHS;

struct Case {
  const char* name;
  Kind kind;
  const Function& function;
  bool norm;
  Method method;
  double lr, momentum, beta, decay;
};

const Case CASES[] = {
    {"relu-sgd", Kind::PLAIN, RELU, false, Method::SGD, 0.1, 0, 0, 0.01},
    {"tanh-momentum", Kind::PLAIN, TANH, false, Method::SGD, 0.05, 0.9, 0, 0.01},
    {"adalin-tanh-sgd", Kind::ADALIN, TANH, false, Method::SGD, 0.1, 0, 0, 0},
    {"adalin-gelu-adam", Kind::ADALIN, GELU, false, Method::ADAM, 0.01, 0.9, 0.999, 0.01},
    {"adalin-sigmoid-rmsprop", Kind::ADALIN, SIGMOID, false, Method::RMSPROP, 0.003, 0, 0.99, 0},
    {"interpolation-silu-adam", Kind::INTERPOLATION, SILU, false, Method::ADAM, 0.01, 0.9, 0.999, 0},
    {"crelu-sgd", Kind::CRELU, RELU, false, Method::SGD, 0.1, 0, 0, 0},
    {"fourier-sgd", Kind::FOURIER, SIN, false, Method::SGD, 0.05, 0, 0, 0},
    {"norm-tanh-sgd", Kind::PLAIN, TANH, true, Method::SGD, 0.1, 0, 0, 0},
};
constexpr double EPSILON = 1e-5;  // of norms and optimisers

bool is_double(Kind kind) { return kind == Kind::CRELU || kind == Kind::FOURIER; }

struct Activated {
  double y[2], slope[2], injected;
};

Activated activation(const Case& own, double x, double alpha) {
  const Function& f = own.function;
  switch (own.kind) {
    case Kind::ADALIN: {
      double g = cosine_gate(f, x);
      return {{f.phi(x) + alpha * x * g}, {f.slope(x) + alpha * g}, x * g};
    }
    case Kind::INTERPOLATION: {
      double share = logistic(alpha), rest = x - f.phi(x);
      return {{f.phi(x) + share * rest}, {f.slope(x) + share * (1 - f.slope(x))}, rest * share * (1 - share)};
    }
    case Kind::CRELU: return {{x > 0 ? x : 0, x < 0 ? -x : 0}, {x > 0 ? 1. : 0, x < 0 ? -1. : 0}, 0};
    case Kind::FOURIER: return {{std::sin(x), std::cos(x)}, {std::cos(x), -std::sin(x)}, 0};
    default: return {{f.phi(x)}, {f.slope(x)}, 0};
  }
}

struct Parameter {
  Numbers value, grad, first, second;
  explicit Parameter(const Numbers& from = {}) : value(from), grad(from.size()), first(grad), second(grad) {}
};

void move(Parameter& own, const Case& by, double step, bool is_weight) {
  for (size_t i = 0; i < own.value.size(); i++) {
    double &value = own.value[i], &first = own.first[i], &second = own.second[i];
    double grad = own.grad[i] + (is_weight ? by.decay * value : 0);
    switch (by.method) {
      case Method::SGD:
        first = by.momentum * first + grad;
        value -= by.lr * first;
        break;
      case Method::ADAM:
        first += (1 - by.momentum) * (grad - first);
        second = by.beta * second + (1 - by.beta) * grad * grad;
        value -= by.lr / (1 - std::pow(by.momentum, step)) * first /
                 (std::sqrt(second / (1 - std::pow(by.beta, step))) + EPSILON);
        break;
      case Method::RMSPROP:
        second = by.beta * second + (1 - by.beta) * grad * grad;
        value -= by.lr * grad / (std::sqrt(second) + EPSILON);
    }
  }
}

struct PlainLayer {
  int64_t inputs, outputs;
  Parameter weight, bias, alpha, gain, shift;
  Numbers x, z, normal;  // of one image
  double deviation = 0;
};

// Rows of inputs go through one after the other.
struct PlainNetwork {
  const Case& own;
  std::vector<PlainLayer> layers;
  int64_t correct = 0;
  double loss = 0, steps = 0;

  PlainNetwork(const Case& own, Generator& random) : own(own) {
    for (int64_t i = 0; i < DEPTH; i++) {
      bool hidden = i + 1 < DEPTH;
      int64_t inputs = SIZES[i] * (i > 0 && is_double(own.kind) ? 2 : 1), outputs = SIZES[i + 1];
      auto learned = [&](bool there, double scale) { return Parameter(there ? random.many(outputs, scale) : Numbers()); };
      Parameter weight(random.many(inputs * outputs, 0.4)), bias(random.many(outputs, 0.1));
      bool has_alpha = own.kind == Kind::ADALIN || own.kind == Kind::INTERPOLATION, norm = hidden && own.norm;
      layers.push_back({inputs, outputs, weight, bias, learned(hidden && has_alpha, 1), learned(norm, 1), learned(norm, 0.1),
                        {}, {}, {}});
    }
  }

  void step(const Numbers& images, const std::vector<int64_t>& labels, const int64_t* rows, int64_t count) {
    correct = 0, loss = 0, steps += 1;
    each([](Parameter& parameter, bool) { parameter.grad.assign(parameter.value.size(), 0); });
    for (int64_t b = 0; b < count; b++) {
      auto first = images.begin() + rows[b] * SIZES[0];
      backward(forward(Numbers(first, first + SIZES[0])), labels[rows[b]], count);
    }
    each([this](Parameter& parameter, bool is_weight) { move(parameter, own, steps, is_weight); });
  }

  template <class Action> void each(const Action& action) {
    for (PlainLayer& layer : layers) {
      action(layer.weight, true), action(layer.bias, true);
      action(layer.alpha, false), action(layer.gain, false), action(layer.shift, false);
    }
  }

  double alpha_of(const PlainLayer& layer, int64_t unit) const {
    return layer.alpha.value.empty() ? 0 : layer.alpha.value[unit];
  }

  Numbers forward(Numbers x) {
    for (PlainLayer& layer : layers) {
      int64_t units = layer.outputs;
      layer.x = x;
      layer.z = layer.bias.value;
      for (int64_t k = 0; k < layer.inputs; k++)
        for (int64_t u = 0; u < units; u++) layer.z[u] += x[k] * layer.weight.value[k * units + u];
      if (&layer == &layers.back()) break;
      if (own.norm) normalise(layer);
      x.assign(units * (is_double(own.kind) ? 2 : 1), 0);
      for (int64_t u = 0; u < units; u++) {
        Activated a = activation(own, layer.z[u], alpha_of(layer, u));
        x[u] = a.y[0];
        if (is_double(own.kind)) x[units + u] = a.y[1];
      }
    }
    return layers.back().z;
  }

  void normalise(PlainLayer& layer) const {
    double mean = 0, variance = 0, units = static_cast<double>(layer.outputs);
    for (double z : layer.z) mean += z / units;
    for (double z : layer.z) variance += (z - mean) * (z - mean) / units;
    layer.deviation = std::sqrt(variance + EPSILON);
    layer.normal = layer.z;
    for (int64_t u = 0; u < layer.outputs; u++) {
      layer.normal[u] = (layer.z[u] - mean) / layer.deviation;
      layer.z[u] = layer.normal[u] * layer.gain.value[u] + layer.shift.value[u];
    }
  }

  void backward(Numbers outputs, int64_t label, int64_t count) {
    size_t best = 0;
    double total = 0;
    for (size_t o = 0; o < outputs.size(); o++) {
      if (outputs[o] > outputs[best]) best = o;
      total += std::exp(outputs[o]);
    }
    correct += static_cast<int64_t>(best) == label;
    loss += (std::log(total) - outputs[label]) / count;
    Numbers grad(outputs.size());
    for (size_t o = 0; o < outputs.size(); o++) grad[o] = std::exp(outputs[o]) / total / count;
    grad[label] -= 1. / count;
    for (int64_t i = DEPTH - 1; i >= 0; i--) {
      PlainLayer& layer = layers[i];
      if (i + 1 < DEPTH) activation_backward(layer, grad);
      Numbers before(layer.inputs);
      for (int64_t u = 0; u < layer.outputs; u++) {
        layer.bias.grad[u] += grad[u];
        for (int64_t k = 0; k < layer.inputs; k++) {
          layer.weight.grad[k * layer.outputs + u] += layer.x[k] * grad[u];
          before[k] += layer.weight.value[k * layer.outputs + u] * grad[u];
        }
      }
      grad = before;
    }
  }

  void activation_backward(PlainLayer& layer, Numbers& grad) const {
    int64_t units = layer.outputs;
    for (int64_t u = 0; u < units; u++) {
      Activated a = activation(own, layer.z[u], alpha_of(layer, u));
      if (!layer.alpha.value.empty()) layer.alpha.grad[u] += grad[u] * a.injected;
      grad[u] *= a.slope[0];
      if (is_double(own.kind)) grad[u] += grad[units + u] * a.slope[1];
    }
    grad.resize(units);
    if (!own.norm) return;
    double straight = 0, along = 0;
    for (int64_t u = 0; u < units; u++) {
      layer.gain.grad[u] += grad[u] * layer.normal[u];
      layer.shift.grad[u] += grad[u];
      grad[u] *= layer.gain.value[u];
      straight += grad[u] / static_cast<double>(units);
      along += grad[u] * layer.normal[u] / static_cast<double>(units);
    }
    for (int64_t u = 0; u < units; u++) grad[u] = (grad[u] - straight - layer.normal[u] * along) / layer.deviation;
  }
};

// The same numbers in two flat banks, as network.h has them.
struct Banks {
  std::vector<Layer> layers;
  int64_t weights = 0, others = 0;

  explicit Banks(const PlainNetwork& plain) {
    const Case& own = plain.own;
    auto place = [](int64_t& count, int64_t length) { return (count += length) - length; };
    for (const PlainLayer& from : plain.layers) {
      bool hidden = &from != &plain.layers.back();
      Layer layer{};
      layer.inputs = from.inputs, layer.outputs = from.outputs;
      layer.width = from.outputs * (hidden && is_double(own.kind) ? 2 : 1);
      layer.weight = place(weights, layer.inputs * layer.padded());
      layer.bias = place(weights, layer.padded());
      auto other = [&](const Parameter& own) { return own.value.empty() ? -1 : place(others, layer.padded()); };
      layer.gain = other(from.gain), layer.shift = other(from.shift), layer.alpha = other(from.alpha);
      layer.alphas = layer.alpha < 0 ? 1 : layer.outputs;
      layer.kind = hidden ? own.kind : Kind::OUTPUT;
      layer.base = own.function.base, layer.gate = Gate::COSINE;
      layer.has_norm = !from.gain.value.empty();
      layer.inverse_lipschitz = 1 / own.function.lipschitz, layer.epsilon = EPSILON;
      layers.push_back(layer);
    }
  }

  // In the order of the banks, padding included.
  void write(const PlainNetwork& plain, Numbers& to_weights, Numbers& to_others) const {
    to_weights.assign(weights, 0), to_others.assign(others, 0);
    for (int64_t i = 0; i < DEPTH; i++) {
      const PlainLayer& from = plain.layers[i];
      auto row = [](Numbers& to, int64_t at, const double* first, int64_t count) {
        for (int64_t u = 0; at >= 0 && u < count; u++) to[at + u] = first[u];
      };
      int64_t units = from.outputs;
      for (int64_t k = 0; k < from.inputs; k++)
        row(to_weights, layers[i].weight + k * layers[i].padded(), &from.weight.value[k * units], units);
      row(to_weights, layers[i].bias, from.bias.value.data(), units);
      row(to_others, layers[i].alpha, from.alpha.value.data(), units);
      row(to_others, layers[i].gain, from.gain.value.data(), units);
      row(to_others, layers[i].shift, from.shift.value.data(), units);
    }
  }
};

struct Data {  // of network.cpp
  const float* inputs;
  const int64_t* labels;
  int64_t features, images;
  float *start, *start_products, *added;
  double* scale;
};

struct Networks {
  int64_t (*plan)(Network*, int64_t, int64_t);
  int64_t (*train)(const Network*, const Data*, const int64_t*, int64_t, int64_t, const Pass*, const Part*, int64_t*, double*);
};

void check_network(const Networks& kernels, const Case& own) {
  Generator random;
  PlainNetwork plain(own, random);
  Banks banks(plain);
  Numbers weights, others, images = random.many(IMAGES * SIZES[0], 1);
  std::vector<int64_t> labels(IMAGES), order(EPOCHS * IMAGES);
  for (int64_t i = 0; i < IMAGES; i++) labels[i] = i * 7 % SIZES[DEPTH];
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i) * 13 % IMAGES;

  banks.write(plain, weights, others);
  Floats own_weights(weights), own_others(others), weight_grads(banks.weights), other_grads(banks.others);
  Floats moments[2][2] = {{Floats(banks.weights), Floats(banks.others)}, {Floats(banks.weights), Floats(banks.others)}};
  Network net{};
  net.depth = DEPTH, net.layers = banks.layers.data();
  net.weights = own_weights.data, net.others = own_others.data;
  net.weight_grads = weight_grads.data, net.other_grads = other_grads.data;
  net.weight_count = banks.weights, net.other_count = banks.others;
  Floats workspace(kernels.plan(&net, BATCH, SIZES[0])), inputs(images);
  net.workspace = workspace.data;

  double steps = 0;
  Pass pass{own.method, 0, 0, own.lr, own.momentum, own.beta, EPSILON, own.decay, 1, &steps, nullptr};
  auto moment = [&](bool there, int which, int part) { return there ? moments[which][part].data : nullptr; };
  bool has_first = own.momentum != 0, has_second = own.method != Method::SGD;
  Part parts[2] = {{net.weights, net.weight_grads, moment(has_first, 0, 0), moment(has_second, 1, 0), banks.weights, 1},
                   {net.others, net.other_grads, moment(has_first, 0, 1), moment(has_second, 1, 1), banks.others, 0}};
  Data data{inputs.data, labels.data(), SIZES[0], IMAGES, nullptr, nullptr, nullptr, nullptr};

  std::vector<int64_t> correct(STEPS);
  Numbers losses(STEPS), plain_correct, plain_losses;
  int64_t made = 0;
  for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
    const int64_t* rows = &order[epoch * IMAGES];
    made += kernels.train(&net, &data, rows, IMAGES, BATCH, &pass, parts, &correct[made], &losses[made]);
    for (int64_t i = 0; i < IMAGES; i += BATCH) {
      plain.step(images, labels, rows + i, smaller(BATCH, IMAGES - i));
      plain_correct.push_back(static_cast<double>(plain.correct));
      plain_losses.push_back(plain.loss);
    }
  }
  banks.write(plain, weights, others);
  std::string name = own.name;
  compare(name + " steps", &made, {static_cast<double>(STEPS)}, 0);
  compare(name + " correct", correct, plain_correct, 0);
  compare(name + " losses", losses, plain_losses, 1e-6);
  compare(name + " weights", own_weights.data, weights, 2e-6);
  compare(name + " others", own_others.data, others, 2e-6);
  Hash hash;
  hash.add(own_weights), hash.add(own_others);
  print(name, hash);
}

}  // namespace

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
  if (!library) return std::fprintf(stderr, "%s\n", count == 2 ? dlerror() : "give one library"), 2;
  auto take = [&](auto& to, const char* name) {
    void* found = dlsym(library, name);
    if (!found) std::fprintf(stderr, "%s\n", dlerror()), std::exit(2);
    std::memcpy(&to, &found, sizeof found);
  };
  Layers layers;
  Networks networks;
  take(layers.forward, "adalin_forward");
  take(layers.backward, "adalin_backward");
  take(networks.plan, "adalin_plan");
  take(networks.train, "adalin_network_train");
  for (const Function* f : FUNCTIONS) {
    check_layer(layers, *f, 37, 7, 1);
    check_layer(layers, *f, 5, 3, 150);
  }
  for (const Case& own : CASES) check_network(networks, own);
  return failed;
}
