// The checks that keep a request from harming the engine: every id in range, every list bounded,
// the sequence within the context. The server's own checks come before and speak of its fields. Any
// thread.
#pragma once

#include "absl/status/status.h"
#include "engine/engine_status.h"
#include "scheduler/request.h"

namespace quire {

inline constexpr int64_t kMaxLogitBias = 1024;     // entries of one request
inline constexpr int64_t kMaxStopTokenIds = 128;   // of one request, end tokens included
inline constexpr int32_t kMaxContinuations = 128;  // n

absl::Status CheckRequest(const Request& request, const ModelInfo& model);

}  // namespace quire
