// RunOnSmallStack: runs work on a thread whose stack is as small as a server's worker may have, so
// that a parser which calls itself for every level of its input overflows. Any thread.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <functional>

#include "kernels/base/check.h"

namespace quire {

// Sanitizers widen every frame.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr size_t kSmallStackBytes = size_t{2} << 20;
#else
inline constexpr size_t kSmallStackBytes = size_t{256} << 10;
#endif

// Returns when the work is done.
inline void RunOnSmallStack(std::function<void()> work) {
  pthread_attr_t attributes;
  CHECK_EQ(pthread_attr_init(&attributes), 0);
  CHECK_EQ(pthread_attr_setstacksize(&attributes, kSmallStackBytes), 0);
  const auto call = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, &attributes, call, &work), 0);
  CHECK_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

}  // namespace quire
