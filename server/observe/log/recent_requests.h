// RecentRequests: the requests that ended last, for people who look at the server: who asked, how
// many tokens, how long, how it ended. It never has what was asked or answered. Bounded in number
// and bytes. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/observe/log/access_entry.h"

namespace quire {

// The interface through which `method` generates: "openai", "quire.v1", "vllm"; empty: it does
// something else.
absl::string_view SurfaceOf(absl::string_view method);

class RecentRequests {
 public:
  struct Request {
    uint64_t number;  // 1, 2, ... as they ended
    absl::Time end;
    AccessEntry entry;
  };

  static constexpr size_t kMaxAccepted = 64;
  // The most requests that the engine never had. They push out no request that it had.
  static constexpr size_t kMaxRefused = 16;
  static constexpr size_t kMaxTextBytes = 128;  // of an id, a name; the rest is cut

  // A call has ended. Calls that do not generate, and calls of unknown callers, are not kept.
  void Add(const AccessEntry& entry, absl::Time end);

  // The last one first.
  std::vector<Request> Read() const;
  // How many were added. While this is the same, Read gives the same.
  uint64_t num_added() const;

 private:
  // The last ones, in no order.
  struct Ring {
    std::vector<Request> requests;
    size_t oldest = 0;
  };
  static void Put(Request request, size_t max_size, Ring* ring);

  mutable absl::Mutex mutex_;
  uint64_t num_added_ ABSL_GUARDED_BY(mutex_) = 0;
  Ring accepted_ ABSL_GUARDED_BY(mutex_);
  Ring refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
