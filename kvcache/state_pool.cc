#include "kvcache/state_pool.h"

#include <vector>

#include "kernels/base/check.h"

namespace quire {
namespace {

constexpr int kGroup = 0;  // of the index; there is no other

}  // namespace

StatePool::StatePool(int64_t num_slots, int64_t num_reserved, int32_t block_size, int key_bits)
    : num_reserved_(num_reserved),
      pool_(num_slots),
      index_(num_slots, block_size, /*num_groups=*/1, key_bits) {
  CHECK_GE(num_reserved, 1);
  CHECK_LE(num_reserved, num_slots);
}

StateSlot StatePool::Take() {
  CHECK_LT(num_live_, num_reserved_);
  ++num_live_;
  return TakeSlot();
}

void StatePool::Release(StateSlot slot) {
  CHECK(!index_.Contains(slot)) << "slot " << slot;
  --num_live_;
  pool_.DropReference(slot, /*worth_keeping=*/false);
}

StateSlot StatePool::TakeForSnapshot() {
  if (HasSpare()) return TakeSlot();
  ++num_refused_;
  return kNoState;
}

void StatePool::Finish(StateSlot slot, const BlockHash& hash, absl::Span<const TokenId> tokens) {
  CHECK_EQ(pool_.num_references(slot), 1);
  if (index_.Insert(kGroup, hash, tokens, slot)) ++num_made_;
  Drop(slot);
}

StateSlot StatePool::Find(const BlockHash& hash, absl::Span<const TokenId> tokens) const {
  const BlockId slot = index_.Find(kGroup, hash, tokens);
  return slot == kNoBlock ? kNoState : slot;
}

bool StatePool::CanHold(StateSlot slot) const {
  return pool_.num_references(slot) > 0 || HasSpare();
}

void StatePool::Hold(StateSlot slot) {
  CHECK(index_.Contains(slot)) << "slot " << slot;
  CHECK(CanHold(slot)) << "slot " << slot;
  if (pool_.num_references(slot) == 0) --num_idle_;
  pool_.AddReference(slot);
  ++num_hits_;
}

void StatePool::Drop(StateSlot slot) {
  const bool is_found = index_.Contains(slot);
  pool_.DropReference(slot, /*worth_keeping=*/is_found);
  if (is_found && pool_.num_references(slot) == 0) ++num_idle_;
}

void StatePool::Forget(const BlockHash& hash, absl::Span<const TokenId> tokens) {
  const StateSlot slot = Find(hash, tokens);
  if (slot == kNoState) return;
  index_.Erase(slot);
  if (pool_.num_references(slot) > 0) return;
  --num_idle_;
  pool_.AddReference(slot);  // among those that are used next
  pool_.DropReference(slot, /*worth_keeping=*/false);
}

void StatePool::ForEachSnapshot(
    const std::function<void(const BlockHash&, absl::Span<const TokenId>)>& visit) const {
  for (StateSlot slot = 0; slot < pool_.num_blocks(); ++slot) {
    if (index_.Contains(slot)) visit(index_.hash(slot), index_.Describe(slot).tokens);
  }
}

StateStats StatePool::stats() const {
  StateStats stats{.num_slots = pool_.num_blocks(),
                   .num_live = num_live_,
                   .num_free = pool_.num_free() - num_idle_,
                   .num_made = num_made_,
                   .num_evicted = num_evicted_,
                   .num_hits = num_hits_,
                   .num_refused = num_refused_};
  stats.num_snapshots = stats.num_slots - stats.num_live - stats.num_free;
  return stats;
}

void StatePool::CheckInvariants(absl::Span<const StateSlot> live,
                                absl::Span<const StateSlot> begun_from,
                                absl::Span<const StateSlot> in_flight) const {
  std::vector<int32_t> num_references(pool_.num_blocks(), 0);
  for (const StateSlot slot : begun_from) ++num_references[slot];
  for (const auto& exclusive : {live, in_flight}) {
    for (const StateSlot slot : exclusive) {
      CHECK_EQ(++num_references[slot], 1) << "slot " << slot;
      CHECK(!index_.Contains(slot)) << "slot " << slot << " can be found while it is written";
    }
  }
  int64_t num_free = 0;
  int64_t num_idle = 0;
  for (StateSlot slot = 0; slot < pool_.num_blocks(); ++slot) {
    CHECK_EQ(pool_.num_references(slot), num_references[slot]) << "slot " << slot;
    if (num_references[slot] > 0) continue;
    ++num_free;
    num_idle += index_.Contains(slot) ? 1 : 0;
  }
  CHECK_EQ(pool_.num_free(), num_free);
  CHECK_EQ(num_idle_, num_idle);
  CHECK_EQ(num_live_, static_cast<int64_t>(live.size()));
  CHECK_GE(num_free + num_live_, num_reserved_) << "reserved slots are held by snapshots";
  index_.CheckInvariants();
}

// Whether the sequences find their reserved slots with one slot less.
bool StatePool::HasSpare() const { return pool_.num_free() + num_live_ > num_reserved_; }

StateSlot StatePool::TakeSlot() {
  const BlockId slot = pool_.Take();
  CHECK_NE(slot, kNoBlock);
  if (index_.Contains(slot)) {
    index_.Erase(slot);
    --num_idle_;
    ++num_evicted_;
  }
  return slot;
}

}  // namespace quire
