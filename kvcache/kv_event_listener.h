// KvEventListener: hears which blocks the prefix cache can find, as this changes. If layers are
// kept in several groups of blocks, one group stands for all (BlockManager::event_group). Called on
// the engine's thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "kernels/base/types.h"

namespace quire {

// A block that can be found. Hashes are ShortHash (block_hash.h); the first block of a sequence has
// no parent.
struct CachedBlock {
  std::optional<uint64_t> parent;
  uint64_t hash = 0;
  absl::Span<const TokenId> tokens;  // [block_size]
};

class KvEventListener {
 public:
  virtual ~KvEventListener() = default;
  virtual void OnStored(const CachedBlock& block) = 0;
  virtual void OnRemoved(uint64_t hash) = 0;
  virtual void OnCleared() = 0;  // nothing can be found any more
};

}  // namespace quire
