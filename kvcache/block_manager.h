// BlockManager: who holds which block of the KV cache. One pool of equal blocks serves all layer
// groups; per block it keeps a reference count, and for full blocks the chained hash under which
// later requests find them (prefix caching). It sees token ids and block tables, never sequences,
// text or devices. Where layers keep a state of each sequence, it also knows who holds which state,
// and the snapshots of states from which later requests begin (state_pool.h). Invariants
// (CheckInvariants): reference count = number of tables holding the block; free, cached-free and
// held blocks partition the pool; a cached block is full, immutable and its tokens match its hash;
// only cached blocks are shared; a snapshot that can be found stands behind a cached block. Used by
// the engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/block_table.h"
#include "kvcache/kv_event_listener.h"
#include "kvcache/kv_layout.h"
#include "kvcache/prefix_index.h"
#include "kvcache/state_pool.h"

namespace quire {

struct BlockManagerConfig {
  int64_t num_blocks = 0;
  int32_t block_size = 16;                  // tokens
  std::vector<KvSpec> groups = {KvSpec{}};  // of the layer groups
  bool enable_prefix_caching = true;
  int64_t num_state_slots = 0;      // 0: no layer keeps a state of a sequence
  int64_t num_reserved_states = 0;  // of them; the most sequences that run at once
  int32_t snapshot_grid = 64;  // tokens; snapshots are taken at multiples of it; of whole blocks
  // Mixed into every hash: model, dtype, adapter, whatever else changes the KV of equal tokens.
  std::string hash_context;
  // Test hook: keeps only this many bits of each index key to force collisions; 0 = all.
  int hash_bits_for_test = 0;
};

// A cached prefix, as FindPrefix saw it.
struct PrefixMatch {
  int64_t num_tokens = 0;       // a multiple of block_size
  int64_t num_blocks = 0;       // blocks that attaching it references, over all groups
  int64_t num_free_blocks = 0;  // those of them that nobody holds now
  // The tokens that blocks without snapshots would give; more than num_tokens if there is no
  // snapshot.
  int64_t num_paged_tokens = 0;
  bool is_refused = false;  // a longer prefix has a snapshot, but no slot is to spare for it
};

struct BlockStats {
  int64_t num_blocks = 0;
  int64_t num_held = 0;         // referenced by at least one table
  int64_t num_cached_free = 0;  // unreferenced, but their contents can still be hit
  int64_t prefix_queried_tokens = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t num_evictions = 0;          // cached blocks that were reused for other contents
  int64_t num_recomputed_tokens = 0;  // their blocks were cached, but not the state after them
  StateStats states = {};
};

// Blocks that a sequence of `num_tokens` holds at most at once, over all groups, when it computes
// at most `max_step_tokens` beyond the tokens whose window was last released.
int64_t MaxBlocksFor(absl::Span<const KvSpec> groups, int32_t block_size, int64_t num_tokens,
                     int64_t max_step_tokens);

class BlockManager {
 public:
  explicit BlockManager(const BlockManagerConfig& config);
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  // The prefix that AttachPrefix would find now. Changes only the table's hashes.
  PrefixMatch FindPrefix(absl::Span<const TokenId> tokens, std::string_view salt,
                         BlockTable* table);

  // Attaches the longest cached prefix of `tokens` to the empty `table` and returns its length in
  // tokens: a multiple of block_size and less than tokens.size(), so that at least one token is
  // computed. `salt` separates tenants: equal tokens under different salts never share a block.
  // If layers keep states, there is a snapshot after the prefix, and the table holds it.
  int64_t AttachPrefix(absl::Span<const TokenId> tokens, std::string_view salt, BlockTable* table);

  // Makes `table` cover `num_tokens` tokens in every group, and gives it a state; all or nothing.
  // False: too few free blocks.
  bool TryGrow(BlockTable* table, int64_t num_tokens);

  // Blocks that TryGrow would take.
  int64_t NumBlocksToGrow(const BlockTable& table, int64_t num_tokens) const;

  // Makes `table` cover no more than the blocks of `num_tokens` tokens. The blocks behind them,
  // whose tokens were tried and rejected, are given back. Published blocks stay: `num_tokens` may
  // not end before them. Later the same places may have other blocks: a runner that has seen the
  // old ones must be shown the new ones (ScheduledSequence::first_new_block).
  void Shrink(BlockTable* table, int64_t num_tokens);

  // Enters the full blocks of the first `num_computed` tokens into the prefix cache. `tokens` are
  // the sequence's tokens from its beginning; `salt` as in AttachPrefix. Blocks whose contents
  // another block already caches stay private.
  void Publish(BlockTable* table, absl::Span<const TokenId> tokens, int64_t num_computed,
               std::string_view salt);

  // Gives back blocks of windowed groups that no query at or after position `num_computed` can see.
  void ReleaseOutsideWindow(BlockTable* table, int64_t num_computed);

  // Gives back the snapshot that the sequence began from: its first step is done.
  void ReleaseBeginning(BlockTable* table);

  // A slot for a snapshot of the sequence's state after `boundary` tokens, a multiple of the grid,
  // which a step will compute. kNoState: it is there already, or there is no slot to spare. The
  // last of the tokens may still be unknown, if the device has it.
  StateSlot BeginSnapshot(BlockTable* table, absl::Span<const TokenId> tokens, int64_t boundary,
                          std::string_view salt);
  // The step has written the snapshot, and the blocks up to `boundary` have been published: from
  // now on sequences can begin from it.
  void FinishSnapshot(const BlockTable& table, absl::Span<const TokenId> tokens, int64_t boundary,
                      StateSlot slot);
  // The snapshot was not written, or is not wanted any more.
  void DropSnapshot(StateSlot slot) { states_->Drop(slot); }

  // Gives back the state and all blocks, tails first, so that the beginning of a released chain is
  // evicted last.
  void Release(BlockTable* table);

  // quire::MaxBlocksFor of this manager's groups.
  int64_t MaxBlocksFor(int64_t num_tokens, int64_t max_step_tokens) const {
    return quire::MaxBlocksFor(config_.groups, config_.block_size, num_tokens, max_step_tokens);
  }
  int64_t num_free_blocks() const { return pool_.num_free(); }  // unreferenced, cached included
  BlockStats stats() const;

  // The listener hears of every block that can be found or no longer can, until another is set;
  // null: nobody listens.
  void SetEventListener(KvEventListener* listener) { listener_ = listener; }
  // The blocks that can be found now, parents before their children.
  void ForEachCachedBlock(const std::function<void(const CachedBlock&)>& visit) const;

  // Forgets every unreferenced cached block; returns how many.
  int64_t FlushPrefixCache();

  // CHECKs the invariants of the file comment against all live tables and all snapshots that were
  // begun and are neither finished nor dropped. For tests and idle moments.
  void CheckInvariants(absl::Span<const BlockTable* const> live_tables,
                       absl::Span<const StateSlot> begun_snapshots = {}) const;

 private:
  int num_groups() const { return static_cast<int>(config_.groups.size()); }
  absl::Span<const TokenId> TokensOfBlock(absl::Span<const TokenId> tokens, int64_t index) const {
    return tokens.subspan(index * config_.block_size, config_.block_size);
  }
  int64_t FirstVisibleBlock(int group, int64_t position) const;
  int64_t UsablePrefix(int group, absl::Span<const TokenId> tokens, const BlockTable& table,
                       int64_t num_blocks) const;
  int64_t AgreedPrefix(absl::Span<const TokenId> tokens, const BlockTable& table,
                       int64_t num_blocks) const;
  int64_t UsableStates(absl::Span<const TokenId> tokens, const BlockTable& table,
                       int64_t num_blocks, bool* is_refused) const;
  void ExtendHashes(BlockTable* table, absl::Span<const TokenId> tokens, int64_t num_blocks,
                    std::string_view salt);
  int EventGroup() const;
  void Forget(BlockId block);
  BlockId TakeBlock();
  void AddReference(BlockId block);
  void DropReference(BlockId block);
  void CheckTable(const BlockTable& table, std::vector<int32_t>* num_references) const;
  void CheckStates(absl::Span<const BlockTable* const> live_tables,
                   absl::Span<const StateSlot> begun_snapshots) const;

  const BlockManagerConfig config_;
  BlockHasher hasher_;
  BlockPool pool_;
  PrefixIndex index_;
  std::optional<StatePool> states_;  // where layers keep some
  int64_t num_cached_free_ = 0;
  int64_t prefix_queried_tokens_ = 0;
  int64_t prefix_hit_tokens_ = 0;
  int64_t num_recomputed_tokens_ = 0;
  KvEventListener* listener_ = nullptr;
  int event_group_ = 0;
  int64_t num_evictions_ = 0;
};

}  // namespace quire
