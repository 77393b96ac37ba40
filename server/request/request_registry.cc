#include "server/request/request_registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/random_id.h"

namespace quire {

RequestRegistry::Lease& RequestRegistry::Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  registry_ = std::exchange(other.registry_, nullptr);
  key_ = std::move(other.key_);
  return *this;
}

void RequestRegistry::Lease::Release() {
  if (registry_ == nullptr) return;
  absl::MutexLock lock(&registry_->mutex_);
  registry_->requests_.erase(key_);
  const auto running = registry_->num_running_.find(key_.first);
  if (--running->second == 0) registry_->num_running_.erase(running);
  if (registry_->requests_.empty()) registry_->emptied_.SignalAll();
  registry_ = nullptr;
}

absl::StatusOr<RequestRegistry::Lease> RequestRegistry::Enter(
    const Principal& owner, std::string request_id, const std::shared_ptr<CancelToken>& token,
    absl::Time now, IdInUse id_in_use) {
  if (request_id.empty()) request_id = RandomId();
  Key key(owner.name, std::move(request_id));
  absl::MutexLock lock(&mutex_);
  if (id_in_use == IdInUse::kMakeAnother && requests_.contains(key)) {
    absl::StrAppend(&key.second, "-", RandomId());
  }
  if (requests_.contains(key)) {
    return InField("request_id", absl::AlreadyExistsError(absl::StrCat(
                                     "\"", key.second, "\" is in use by a running request")));
  }
  RETURN_IF_ERROR(CheckLimits(owner, now));
  requests_.emplace(key, token);
  ++num_running_[owner.name];
  Lease lease;
  lease.registry_ = this;
  lease.key_ = std::move(key);
  return lease;
}

absl::Status RequestRegistry::CheckLimits(const Principal& owner, absl::Time now) {
  const PrincipalLimits& limits = owner.limits;
  const auto running = num_running_.find(owner.name);
  if (running != num_running_.end() && running->second >= limits.max_concurrent_requests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("\"", owner.name, "\" has ", running->second,
                     " requests running, as many as it may; try again when one has ended"));
  }
  if (limits.max_requests_per_minute == kNoLimit) return absl::OkStatus();
  const absl::Duration wait = rates_.Take(owner.name, limits.max_requests_per_minute, now);
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "\"", owner.name, "\" may begin ", limits.max_requests_per_minute,
      " requests a minute; try again in ", absl::ToInt64Milliseconds(wait) + 1, " ms"));
}

std::vector<RequestRegistry::Key> RequestRegistry::Find(const std::string& request_id) const {
  std::vector<Key> found;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, token] : requests_) {
    if (key.second == request_id) found.push_back(key);
  }
  std::sort(found.begin(), found.end());
  return found;
}

absl::StatusOr<bool> RequestRegistry::Cancel(const Principal& asker, const std::string& request_id,
                                             const std::string& owner) {
  const bool is_admin = asker.roles.Has(Role::kAdmin);
  if (!owner.empty() && owner != asker.name && !is_admin) {
    return InField("principal", CheckRole(asker, Role::kAdmin, "ending another's request"));
  }
  Key key(owner.empty() ? asker.name : owner, request_id);
  if (Cancel(key)) return true;
  if (!owner.empty() || !is_admin) return false;
  const std::vector<Key> others = Find(request_id);
  if (others.size() > 1) {
    constexpr size_t kMaxShown = 8;
    std::vector<std::string> names;
    for (const Key& other : others) {
      if (names.size() < kMaxShown) names.push_back(other.first);
    }
    return InField("principal", absl::FailedPreconditionError(absl::StrCat(
                                    others.size(), " principals run a request with this id: \"",
                                    absl::StrJoin(names, "\", \""), "\"; name one")));
  }
  return !others.empty() && Cancel(others.front());
}

bool RequestRegistry::Cancel(const Key& key) {
  std::shared_ptr<CancelToken> token;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = requests_.find(key);
    if (it == requests_.end()) return false;
    token = it->second;
  }
  token->Cancel();
  return true;
}

std::vector<std::pair<std::string, int64_t>> RequestRegistry::NumRunning() const {
  absl::MutexLock lock(&mutex_);
  return {num_running_.begin(), num_running_.end()};
}

int64_t RequestRegistry::size() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int64_t>(requests_.size());
}

bool RequestRegistry::WaitUntilEmpty(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto is_empty = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return requests_.empty(); };
  return emptied_.Await(&mutex_, deadline, is_empty);
}

}  // namespace quire
