// A hash table from 64-bit keys to 32-bit values that is emptied in no time: for what one position
// of a parser has. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace quire {

class StampedTable {
 public:
  void Clear() {
    size_ = 0;
    if (++stamp_ != 0) return;
    for (Slot& slot : slots_) slot.stamp = 0;
    stamp_ = 1;
  }

  // The value of the key, which is zero if the key is new, and whether it is.
  std::pair<uint32_t*, bool> Insert(uint64_t key) {
    if (2 * size_ >= slots_.size()) Grow();
    Slot& slot = slots_[SlotOf(key)];
    if (slot.stamp == stamp_) return {&slot.value, false};
    slot = {key, stamp_, 0};
    ++size_;
    return {&slot.value, true};
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t stamp = 0;
    uint32_t value = 0;
  };

  // That of the key, or a free one.
  size_t SlotOf(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    size_t at = (key * 0x9e3779b97f4a7c15u) >> 40 & mask;
    while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void Grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& slot : old) {
      if (slot.stamp == stamp_) slots_[SlotOf(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;  // a power of two of them
  size_t size_ = 0;
  uint32_t stamp_ = 1;
};

}  // namespace quire
