// Remembers the token ids of recent short pieces, for one thread: text repeats its words. A fixed
// table in which a piece may live only in one slot and a newer piece takes an older one's place, so
// its size never grows.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "kernels/base/types.h"

namespace quire {

class WordCache {
 public:
  // Appends the ids of `word` and returns true, or returns false when it is not here.
  bool Lookup(std::string_view word, std::vector<TokenId>* ids) const {
    if (slots_ == nullptr || word.size() > kMaxWordBytes) return false;
    const Slot& slot = (*slots_)[SlotOf(word)];
    if (slot.num_bytes != word.size() ||
        std::memcmp(slot.bytes.data(), word.data(), word.size()) != 0) {
      return false;
    }
    ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.num_ids);
    return true;
  }

  // Remembers `word`, which is not empty, if it and its ids are short enough.
  void Insert(std::string_view word, absl::Span<const TokenId> ids) {
    if (word.size() > kMaxWordBytes || ids.size() > kMaxIds) return;
    if (slots_ == nullptr) slots_ = std::make_unique<std::array<Slot, kNumSlots>>();
    Slot& slot = (*slots_)[SlotOf(word)];
    slot.num_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(ids.size());
    std::memcpy(slot.bytes.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), slot.ids.begin());
  }

 private:
  static constexpr size_t kNumSlots = 1 << 14;
  static constexpr size_t kMaxWordBytes = 30;
  static constexpr size_t kMaxIds = 8;

  struct Slot {  // one cache line; num_bytes == 0 means empty
    uint8_t num_bytes = 0;
    uint8_t num_ids = 0;
    std::array<char, kMaxWordBytes> bytes;
    std::array<TokenId, kMaxIds> ids;
  };
  static_assert(sizeof(Slot) == 64);

  static size_t SlotOf(std::string_view word) {
    return absl::Hash<std::string_view>()(word) & (kNumSlots - 1);
  }

  std::unique_ptr<std::array<Slot, kNumSlots>> slots_;  // made when first needed
};

}  // namespace quire
