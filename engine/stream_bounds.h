// StreamBounds: how many continuations have a stream, from Submit until nobody holds that any more:
// while they wait, run, are cancelled, and until their ends are read. scheduler/queue_bounds.h
// bounds those that wait; this bounds the memory of the others, whatever clients do. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "scheduler/request.h"

namespace quire {

class StreamBounds : public std::enable_shared_from_this<StreamBounds> {
 public:
  // The places of one stream; gives them back when destroyed.
  class Places {
   public:
    Places() = default;
    Places(Places&& other) noexcept { *this = std::move(other); }
    Places& operator=(Places&& other) noexcept;
    ~Places() { Release(); }

   private:
    friend class StreamBounds;
    void Release();

    std::shared_ptr<StreamBounds> bounds_;
    uint64_t flow_ = 0;
    int64_t num_ = 0;
  };

  // Held by a shared pointer: streams may outlive who made it.
  explicit StreamBounds(int64_t most) : most_(most) {}

  // RESOURCE_EXHAUSTED when all flows together, or this flow, would have too many with `num` more.
  // Shares are those of QueueBounds. A caller that asks for a whole list takes the places before
  // anybody else asks.
  absl::Status Check(const RequestFlow& flow, int64_t num) const;
  Places Take(const RequestFlow& flow, int64_t num);

  int64_t num_held() const;

 private:
  const int64_t most_;
  mutable absl::Mutex mutex_;
  int64_t num_held_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, int64_t> held_by_ ABSL_GUARDED_BY(mutex_);  // of those with any
};

}  // namespace quire
