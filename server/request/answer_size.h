// How large an answer in one piece may become, checked while it grows: a client that asks for more
// than can be sent hears so before the rest is computed.
#pragma once

#include <atomic>
#include <cstddef>

#include "absl/status/status.h"

namespace quire {

// INVALID_ARGUMENT, since asking again does not help.
absl::Status AnswerTooLarge();

// The size of the answers to all requests of a call, which are sent as one. Any thread.
class AnswerSize {
 public:
  // False when it becomes too large.
  bool Add(size_t num_bytes);

 private:
  std::atomic<size_t> num_bytes_{0};
};

}  // namespace quire
