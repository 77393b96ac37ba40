// StatePool: which sequence holds which slot of recurrent states (kvcache/state_arena.h), and which
// snapshots can be found in them. A slot belongs to a sequence, whose steps write it again and
// again; or to a snapshot, which a step in flight writes and which never changes afterwards. A
// finished snapshot is found by the contents of the block that ends where it was taken. It stays
// until its block is gone or its slot is needed for something else; the least recently used
// snapshot goes first. `num_reserved` of the slots are always available to sequences; while fewer
// sequences run, those slots keep snapshots, too. Invariants: CheckInvariants. One thread.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/types/span.h"
#include "kernels/base/types.h"
#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/prefix_index.h"

namespace quire {

// Each slot counts as one of live, snapshot, free. Counters are since start.
struct StateStats {
  int64_t num_slots = 0;
  int64_t num_live = 0;       // of sequences
  int64_t num_snapshots = 0;  // those that can be found, and those that steps in flight write
  int64_t num_free = 0;
  int64_t num_made = 0;     // snapshots that could be found
  int64_t num_evicted = 0;  // those of them whose slot was needed for something else
  int64_t num_hits = 0;     // sequences that began from a snapshot
  int64_t num_refused = 0;  // snapshots not made, or not begun from, because no slot was to spare
};

class StatePool {
 public:
  // `key_bits` as in PrefixIndex.
  StatePool(int64_t num_slots, int64_t num_reserved, int32_t block_size, int key_bits);

  // Takes a slot for a sequence, and gives it back. At most num_reserved sequences may have one at
  // once, so there always is one.
  StateSlot Take();
  void Release(StateSlot slot);

  // Takes a slot for a snapshot that a step will write; Finish or Drop gives it back. kNoState, and
  // counted as refused, when only reserved slots are left.
  StateSlot TakeForSnapshot();

  // The snapshot has been written: it is the state after the block with these contents. From now on
  // it can be found. If another one of the same contents can be found already, or the key collides,
  // the slot becomes free instead.
  void Finish(StateSlot slot, const BlockHash& hash, absl::Span<const TokenId> tokens);

  // The finished snapshot after the block with these contents, or kNoState.
  StateSlot Find(const BlockHash& hash, absl::Span<const TokenId> tokens) const;

  // A sequence that begins from a finished snapshot holds it until its first step is done. CanHold
  // is false when only reserved slots would be left for the snapshot.
  bool CanHold(StateSlot slot) const;
  void Hold(StateSlot slot);
  void NoteRefused() { ++num_refused_; }  // a sequence was not begun from one because of CanHold

  // Gives back what TakeForSnapshot or Hold gave.
  void Drop(StateSlot slot);

  // The block with these contents is gone, so its snapshot, if there is one, is not found any more.
  void Forget(const BlockHash& hash, absl::Span<const TokenId> tokens);

  // Calls visit(hash, tokens) for the block of each snapshot that can be found.
  void ForEachSnapshot(
      const std::function<void(const BlockHash&, absl::Span<const TokenId>)>& visit) const;

  StateStats stats() const;

  // CHECKs that the slots in use are exactly these: those of sequences; the snapshots that
  // sequences begin from, once for each such sequence; the snapshots that steps in flight write.
  void CheckInvariants(absl::Span<const StateSlot> live, absl::Span<const StateSlot> begun_from,
                       absl::Span<const StateSlot> in_flight) const;

 private:
  bool HasSpare() const;
  StateSlot TakeSlot();

  const int64_t num_reserved_;
  BlockPool pool_;     // slots in place of blocks
  PrefixIndex index_;  // of finished snapshots
  int64_t num_live_ = 0;
  int64_t num_idle_ = 0;  // finished snapshots that nobody holds
  int64_t num_made_ = 0;
  int64_t num_evicted_ = 0;
  int64_t num_hits_ = 0;
  int64_t num_refused_ = 0;
};

}  // namespace quire
