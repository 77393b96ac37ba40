#include "server/request/retry_pushback.h"

#include <atomic>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quire {

namespace {

constexpr char kPushbackPayload[] = "quire/retry-pushback-ms";
constexpr int64_t kLeastMs = 800;
constexpr int64_t kSpreadMs = 401;  // 800 .. 1200

}  // namespace

absl::Status WithRetryPushback(absl::Status status) {
  if (!absl::IsResourceExhausted(status)) return status;
  static std::atomic<uint64_t> num_refused{0};
  // Steps of 157 visit every delay of the spread, far from the one before.
  const int64_t delay_ms =
      kLeastMs + static_cast<int64_t>(num_refused.fetch_add(1) * 157 % kSpreadMs);
  status.SetPayload(kPushbackPayload, absl::Cord(absl::StrCat(delay_ms)));
  return status;
}

std::optional<int64_t> RetryPushbackMs(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPushbackPayload);
  int64_t delay_ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &delay_ms)) {
    return std::nullopt;
  }
  return delay_ms;
}

}  // namespace quire
