// StartThread: a std::thread, or a status where std::thread would throw. Any thread.
#pragma once

#include <functional>
#include <thread>

#include "absl/status/statusor.h"

namespace quire {

// UNAVAILABLE when the process or its user may have no more threads.
absl::StatusOr<std::thread> StartThread(std::function<void()> run);

}  // namespace quire
