#include "server/request/request_registry.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/request/field_error.h"

namespace quire {

RequestRegistry::Lease& RequestRegistry::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  registry_ = std::exchange(other.registry_, nullptr);
  request_id_ = std::move(other.request_id_);
  return *this;
}

void RequestRegistry::Lease::Release() {
  if (registry_ == nullptr) return;
  absl::MutexLock lock(&registry_->mutex_);
  registry_->requests_.erase(request_id_);
  registry_ = nullptr;
}

absl::StatusOr<RequestRegistry::Lease> RequestRegistry::Enter(
    std::string request_id, const std::shared_ptr<CancelToken>& token) {
  absl::MutexLock lock(&mutex_);
  while (request_id.empty()) {
    request_id = absl::StrCat("quire-", ++num_chosen_);
    if (requests_.contains(request_id)) request_id.clear();
  }
  if (!requests_.emplace(request_id, token).second) {
    return InField("request_id", absl::AlreadyExistsError(absl::StrCat(
                                     "\"", request_id, "\" is in use by a running request")));
  }
  Lease lease;
  lease.registry_ = this;
  lease.request_id_ = std::move(request_id);
  return lease;
}

bool RequestRegistry::Cancel(const std::string& request_id) {
  std::shared_ptr<CancelToken> token;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = requests_.find(request_id);
    if (it == requests_.end()) return false;
    token = it->second;
  }
  token->Cancel();
  return true;
}

int64_t RequestRegistry::size() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(requests_.size());
}

bool RequestRegistry::WaitUntilEmpty(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_empty = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return requests_.empty(); };
  return mutex_.AwaitWithDeadline(absl::Condition(&is_empty), deadline);
}

}  // namespace quire
