// Threads of the OpenMP runtime that torch has loaded: a second pool would fight with torch's for the cores. Where there
// is none in the process, everything runs on the calling thread.
#pragma once
#include <cstdint>

extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_thread_num();
__attribute__((weak)) int omp_get_num_threads();
}

namespace {

inline bool has_threads() { return GOMP_parallel && omp_get_thread_num && omp_get_num_threads; }

// body(first, last) for consecutive parts of 0 ... tasks. What a task computes must not depend on the part it is in.
template <class Body> void parallel(int64_t tasks, int64_t threads, const Body& body) {
  if (threads > tasks) threads = tasks;
  if (threads <= 1 || !has_threads()) return body(0, tasks);
  struct Work { const Body& body; int64_t tasks; } work{body, tasks};
  GOMP_parallel(
      [](void* data) {
        const Work& work = *static_cast<Work*>(data);
        int64_t own = omp_get_thread_num(), all = omp_get_num_threads();
        work.body(work.tasks * own / all, work.tasks * (own + 1) / all);
      },
      &work, static_cast<unsigned>(threads), 0);
}

}  // namespace
