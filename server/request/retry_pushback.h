// The advice to come back later that a refused request carries: a payload of its status, which each
// transport passes on in its own way (gRPC: trailing metadata grpc-retry-pushback-ms). Any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace quire {

// `status`, with advice to retry after about a second if it is RESOURCE_EXHAUSTED. The delay varies
// by 20 % so that clients refused together do not return together.
absl::Status WithRetryPushback(absl::Status status);

// The delay that `status` advises, in milliseconds.
std::optional<int64_t> RetryPushbackMs(const absl::Status& status);

}  // namespace quire
