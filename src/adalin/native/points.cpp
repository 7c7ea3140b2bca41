// phi, phi' and the gate at each x, for tests of the functions themselves; n is a multiple of 16.
#include "adalin.h"
#include "exported.h"

EXPORTED void adalin_points(const Settings* settings, const float* x, float* y, float* slope, float* gate, int64_t n) {
  with_base(settings->base, [&](auto base) {
    for (int64_t i = 0; i < n; i += LANES) {
      Point p = decltype(base)::at(load(x + i), *settings);
      store(y + i, p.y);
      store(slope + i, p.slope);
      store(gate + i, gate_value(p.room, settings->gate));
    }
  });
}

// Gates of room = 1 - |slope| / L.
EXPORTED void adalin_gate(int gate, const float* room, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += LANES) store(y + i, gate_value(load(room + i), static_cast<Gate>(gate)));
}
