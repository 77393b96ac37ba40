// After which tokens of a sequence its state is kept, so that later sequences can begin from there.
// Pure function; any thread.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"

namespace quire {

struct SnapshotPolicy {
  int32_t grid = 64;             // tokens; snapshots are taken at multiples of it
  int64_t interval = 1024;       // a multiple of the grid
  int64_t max_per_sequence = 0;  // of those at intervals
};

// A step's part of a sequence.
struct SnapshotDemand {
  int64_t num_prompt_tokens = 0;
  int64_t num_shared_tokens = 0;  // from its beginning, that earlier sequences had, too
  int64_t start = 0;
  int64_t num_new = 0;
};

// After how many tokens of the sequence the step should take snapshots: in start + 1 .. start +
// num_new, multiples of the grid, the most useful first:
// - the last one in the prompt, from which the next turn of a conversation goes on, and the last
//   one before the prompt's end, from which the same prompt does (its last token is computed);
// - the last one that the sequence shares with earlier ones, because later ones may share it, too;
// - the multiples of the interval, which doubles until there are at most max_per_sequence of them.
absl::InlinedVector<int64_t, 2> PlanSnapshots(const SnapshotPolicy& policy,
                                              const SnapshotDemand& demand);

}  // namespace quire
