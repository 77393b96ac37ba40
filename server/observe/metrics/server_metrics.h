// ServerMetrics: the server's counts beside the engine's: calls and how they ended, requests that
// the engine never had, and spans. Counted once a call, never for a token. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace quire {

// Why the engine never had a request.
enum class RefusalReason : uint8_t {
  kQueueFull,       // the engine's queue, or the work pool's
  kPrincipalLimit,  // of concurrent requests, or of requests a minute
  kInvalid,
  kNotAllowed,
  kDuplicateId,
  kNotAdmitting,  // the server drains or the engine has failed
  kCancelled,     // by its client, or its deadline, before the engine had it
  kOther,
};
inline constexpr int kNumRefusalReasons = 8;

// "queue_full", "principal_limit", ...
absl::string_view RefusalName(RefusalReason reason);
// The reason of a refusal with this code; RESOURCE_EXHAUSTED means kQueueFull.
RefusalReason RefusalOf(absl::StatusCode code);

// How a span ends.
enum class SpanOutcome : uint8_t {
  kExported,
  kQueueFull,     // dropped: the collector is slower than the requests
  kExportFailed,  // dropped: the collector is away, or refuses them
};
inline constexpr int kNumSpanOutcomes = 3;

class ServerMetrics {
 public:
  struct GrpcCalls {
    std::string service;
    std::string method;
    absl::StatusCode code;
    uint64_t count;
  };
  struct HttpCalls {
    std::string handler;
    std::string method;
    std::string status;  // "2xx"
    uint64_t count;
  };

  // A gRPC call of `path`, "/package.Service/Method", has ended. There are as many paths as
  // methods.
  void CountGrpcCall(absl::string_view path, absl::StatusCode code);
  // An HTTP call of the route `handler` has ended; "none": it had no route.
  void CountHttpCall(absl::string_view handler, absl::string_view method, int status);
  void CountRefusal(RefusalReason reason) {
    refusals_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  }

  void CountSpans(SpanOutcome outcome, int64_t count) {
    spans_[static_cast<size_t>(outcome)].fetch_add(static_cast<uint64_t>(count),
                                                   std::memory_order_relaxed);
  }

  std::vector<GrpcCalls> grpc_calls() const;
  std::vector<HttpCalls> http_calls() const;
  uint64_t num_refusals(RefusalReason reason) const {
    return refusals_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }
  uint64_t num_spans(SpanOutcome outcome) const {
    return spans_[static_cast<size_t>(outcome)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, kNumRefusalReasons> refusals_ = {};
  std::array<std::atomic<uint64_t>, kNumSpanOutcomes> spans_ = {};
  mutable absl::Mutex mutex_;
  absl::btree_map<std::pair<std::string, absl::StatusCode>, uint64_t> grpc_calls_
      ABSL_GUARDED_BY(mutex_);
  absl::btree_map<std::tuple<std::string, std::string, int>, uint64_t> http_calls_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
