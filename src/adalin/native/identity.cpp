// What this library is.
#include "exported.h"
#include "parallel.h"
#include "vector.h"

// The hash of its sources, which must be that of the sources beside the Python files.
EXPORTED const char* adalin_sources() { return ADALIN_SOURCES; }
EXPORTED int adalin_lanes() { return LANES; }
EXPORTED int adalin_real_bytes() { return sizeof(Real); }
EXPORTED int adalin_has_threads() { return has_threads(); }

const Bounds adalin_bounds = {0, 1, 110, 14.5};
