// Divides a step's token budget among prompts in progress. Pure function; any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace quire {

struct PrefillDemand {
  int32_t priority = 0;
  int64_t num_wanted = 0;   // tokens still to run
  int64_t num_granted = 0;  // out: tokens of this step
  int64_t flow_time = 0;    // virtual time of its flow (scheduler/fair_queue.h), ..
  int64_t token_time = 1;   // .. and by how much a token moves it
  uint64_t flow = 0;        // its flow; if two have come equally far, the lower number goes first
  bool is_owed = false;     // is promised its share before the flow that is furthest behind
};

// `demands` come in order of service. The first demand of the flow that is furthest behind, or one
// that is owed, is promised budget / min(demands, max_partial) tokens, so that it always gets on.
// The other tokens go, within a flow, to better priorities first and, among equals, to the shortest
// first, so that a short prompt is not stuck behind a long one. Between flows they go to the demand
// whose flow will have come less far when it is done, so that long prompts of one flow are not in
// the way of short ones of another. Equal prompts are served one after the other, which ends each
// as early as possible.
void DividePrefillBudget(int64_t budget, int64_t max_partial, absl::Span<PrefillDemand> demands);

}  // namespace quire
