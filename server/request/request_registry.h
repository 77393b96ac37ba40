// RequestRegistry: the requests that are running, by principal and request_id, which is unique
// among the requests of its principal. Limits how many requests a principal has, and how many it
// begins. Admin.Abort looks here; draining waits here for the last one to end. Any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "server/auth/principal.h"
#include "server/request/cancel_token.h"
#include "server/request/request_rate.h"

namespace quire {

// How to treat a request whose id another request of its principal has.
enum class IdInUse : uint8_t { kRefuse, kMakeAnother };

class RequestRegistry {
 public:
  // Holds a place in the registry; gives it back when destroyed.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { Release(); }
    const std::string& request_id() const { return key_.second; }
    const std::string& principal() const { return key_.first; }  // its name

   private:
    friend class RequestRegistry;
    void Release();

    RequestRegistry* registry_ = nullptr;
    std::pair<std::string, std::string> key_;
  };

  // Enters a request of `owner` that begins at `now`. An empty id is replaced by one that nobody
  // can guess. ALREADY_EXISTS while another request of the owner has this id, unless another id is
  // to be made from it then; RESOURCE_EXHAUSTED beyond the owner's limits of concurrent requests
  // and of requests per minute.
  absl::StatusOr<Lease> Enter(const Principal& owner, std::string request_id,
                              const std::shared_ptr<CancelToken>& token, absl::Time now,
                              IdInUse id_in_use = IdInUse::kRefuse);

  // Cancels the request with this id for `asker`. It belongs to the principal `owner`. If `owner`
  // is empty, it is the asker's own request, or else, for an admin, the only request with this id.
  // False when there is none. PERMISSION_DENIED for another's request without the role admin;
  // FAILED_PRECONDITION, naming the principals, when several have one.
  absl::StatusOr<bool> Cancel(const Principal& asker, const std::string& request_id,
                              const std::string& owner);

  int64_t size() const;
  // How many requests run, by the name of their principal; only principals that have any.
  std::vector<std::pair<std::string, int64_t>> NumRunning() const;

  // Waits until no request is left; false when the deadline came first.
  bool WaitUntilEmpty(absl::Time deadline);

 private:
  using Key = std::pair<std::string, std::string>;  // principal, request_id

  absl::Status CheckLimits(const Principal& owner, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Key> Find(const std::string& request_id) const;  // sorted by principal
  bool Cancel(const Key& key);

  mutable absl::Mutex mutex_;
  MonotonicCondVar emptied_;
  absl::flat_hash_map<Key, std::shared_ptr<CancelToken>> requests_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int64_t> num_running_ ABSL_GUARDED_BY(mutex_);  // by principal
  RequestRates rates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
