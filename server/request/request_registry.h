// RequestRegistry: the requests that are running, by the client's request_id, which is unique among
// them. Admin.Abort looks here; draining waits here for the last one to end. Any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/request/cancel_token.h"

namespace quire {

class RequestRegistry {
 public:
  // Holds a place in the registry; gives it back when destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Release(); }
    const std::string& request_id() const { return request_id_; }

   private:
    friend class RequestRegistry;
    void Release();

    RequestRegistry* registry_ = nullptr;
    std::string request_id_;
  };

  // Enters a request. An empty id gets one chosen here; ALREADY_EXISTS while another request with
  // this id runs.
  absl::StatusOr<Lease> Enter(std::string request_id, const std::shared_ptr<CancelToken>& token);

  // Cancels the request with this id; false when there is none.
  bool Cancel(const std::string& request_id);

  int64_t size() const;

  // Waits until no request is left; false when the deadline came first.
  bool WaitUntilEmpty(absl::Time deadline);

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<CancelToken>> requests_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_chosen_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
