// The changes of the prefix cache in a step, for routers that send requests to the server that has
// their prefix. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "kernels/base/types.h"

namespace quire {

struct KvEvent {
  enum class Kind : uint8_t { kStored, kRemoved, kCleared };
  Kind kind = Kind::kCleared;
  std::optional<uint64_t> parent;  // kStored: the first block's parent; each is the next one's
  std::vector<uint64_t> hashes;    // of kStored or kRemoved blocks
  std::vector<TokenId> tokens;     // kStored: [hashes.size(), block_size]
};

struct KvEventBatch {
  uint64_t sequence = 0;  // one more than in the batch before
  absl::Time time;
  std::vector<KvEvent> events;
};

}  // namespace quire
