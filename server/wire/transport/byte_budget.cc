#include "server/wire/transport/byte_budget.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire {

ByteBudget::Account::~Account() { CHECK_EQ(held_bytes_, 0); }

bool ByteBudget::Account::Take(int64_t bytes) {
  absl::MutexLock lock(&budget_->mutex_);
  const auto peer = budget_->held_by_peer_.find(peer_);
  const int64_t peer_bytes = peer == budget_->held_by_peer_.end() ? 0 : peer->second;
  if (held_bytes_ + bytes > kSureBytes) {
    const int64_t others_bytes = budget_->held_bytes_ - peer_bytes;
    const int64_t peer_share = std::max<int64_t>(0, budget_->total_bytes_ - others_bytes) / 2;
    const int64_t share = std::max<int64_t>(0, peer_share - (peer_bytes - held_bytes_)) / 2;
    if (held_bytes_ + bytes > share) return false;
  }
  held_bytes_ += bytes;
  budget_->held_bytes_ += bytes;
  budget_->held_by_peer_[peer_] = peer_bytes + bytes;
  return true;
}

void ByteBudget::Account::GiveBack(int64_t bytes) {
  if (bytes == 0) return;
  absl::MutexLock lock(&budget_->mutex_);
  CHECK_GE(held_bytes_, bytes);
  held_bytes_ -= bytes;
  budget_->held_bytes_ -= bytes;
  const auto peer = budget_->held_by_peer_.find(peer_);
  peer->second -= bytes;
  if (peer->second == 0) budget_->held_by_peer_.erase(peer);
}

int64_t ByteBudget::held_bytes() const {
  absl::MutexLock lock(&mutex_);
  return held_bytes_;
}

}  // namespace quire
