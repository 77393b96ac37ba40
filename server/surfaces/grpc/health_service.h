// grpc.health.v1: Check, List and Watch. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "server/call/grpc_call.h"

namespace quire {

class HealthService {
 public:
  // `services` begin as not serving.
  explicit HealthService(const std::vector<std::string>& services);

  // Watchers hear of it.
  void SetServing(const std::string& service, bool serving);

  // Ends all watches, so that no client waits for news from a server that ends.
  void EndWatches(const absl::Status& status);

  // Methods that use this service, which outlives their calls.
  std::vector<GrpcMethod> Methods();

 private:
  struct Watcher {
    GrpcCallRef call;
    std::string service;
  };

  void Check(const GrpcCallRef& call, const std::string& bytes);
  void List(const GrpcCallRef& call);
  void Watch(const GrpcCallRef& call, const std::string& bytes);
  std::string WatchAnswer(const std::string& service) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Watcher> watchers_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_watcher_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
