// BlockManager: who holds which block of the KV cache. One pool of equal blocks serves all layer
// groups; per block it keeps a reference count, and for full blocks the chained hash under which
// later requests find them (prefix caching). It sees token ids and block tables, never sequences,
// text or devices. Invariants (CheckInvariants): reference count = number of tables holding the
// block; free, cached-free and held blocks partition the pool; a cached block is full, immutable
// and its tokens match its hash. Used by the engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/base/types.h"

namespace quire {

// What the layers of one group need from the cache.
struct KvGroupConfig {
  int64_t sliding_window = 0;  // tokens a query sees, itself included; 0 = all
};

struct BlockManagerConfig {
  int64_t num_blocks = 0;
  int32_t block_size = 16;  // tokens
  std::vector<KvGroupConfig> groups = {KvGroupConfig{}};
  bool enable_prefix_caching = true;
  // Mixed into every hash: model, dtype, adapter, whatever else changes the KV of equal tokens.
  std::string hash_context;
  // Test hook: keeps only this many bits of each hash to force collisions; 0 = all 256.
  int hash_bits_for_test = 0;
};

// The blocks of one sequence, per layer group: blocks[g][i] holds tokens [i * block_size, ...) of
// group g, or kNoBlock where the group's window has passed it. Filled by BlockManager only; must be
// released.
struct BlockTable {
  std::vector<std::vector<BlockId>> blocks;
  // First block of each group that may still be held (earlier ones slid out of the window).
  std::vector<int64_t> first_held;
  // Leading full blocks whose hash is known (attached or published), and the chain's last hash.
  int64_t num_hashed = 0;
  std::string last_hash;

  bool empty() const { return blocks.empty() || blocks[0].empty(); }
};

struct BlockStats {
  int64_t num_blocks = 0;
  int64_t num_held = 0;         // referenced by at least one table
  int64_t num_cached_free = 0;  // unreferenced, but their contents can still be hit
  int64_t prefix_queried_tokens = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t num_evictions = 0;  // cached blocks that were reused for other contents
};

class BlockManager {
 public:
  explicit BlockManager(const BlockManagerConfig& config);
  ~BlockManager();
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  // Attaches the longest cached prefix of `tokens` to the empty `table` and returns its length in
  // tokens: a multiple of block_size and less than tokens.size(), so that at least one token is
  // computed. `salt` separates tenants: equal tokens under different salts never share a block.
  int64_t AttachPrefix(absl::Span<const TokenId> tokens, std::string_view salt, BlockTable* table);

  // Makes `table` cover `num_tokens` tokens in every group; all or nothing. False: too few free
  // blocks.
  bool TryGrow(BlockTable* table, int64_t num_tokens);

  // Enters the full blocks of the first `num_computed` tokens into the prefix cache. `tokens` are
  // the sequence's tokens from its beginning; `salt` as in AttachPrefix. Blocks whose contents
  // another block already caches stay private.
  void Publish(BlockTable* table, absl::Span<const TokenId> tokens, int64_t num_computed,
               std::string_view salt);

  // Gives back blocks of windowed groups that no query at or after position `num_computed` can see.
  void ReleaseOutsideWindow(BlockTable* table, int64_t num_computed);

  // Gives back all blocks, tails first, so that of a released chain the beginning is evicted last.
  void Release(BlockTable* table);

  // Blocks that a sequence of `num_tokens` holds at most at once, over all groups, when it computes
  // at most `max_step_tokens` per step.
  int64_t MaxBlocksFor(int64_t num_tokens, int64_t max_step_tokens) const;
  int64_t num_free_blocks() const;  // unreferenced, cached ones included
  BlockStats stats() const;

  // Forgets every unreferenced cached block; returns how many.
  int64_t FlushPrefixCache();

  // CHECKs the invariants of the file comment against all live tables. For tests and idle moments.
  void CheckInvariants(absl::Span<const BlockTable* const> live_tables) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire
