// Divides a step's token budget among prompts in progress. Pure function; any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace quire {

struct PrefillDemand {
  int32_t priority = 0;
  int64_t num_wanted = 0;   // tokens still to run
  int64_t num_granted = 0;  // out: tokens of this step
};

// `demands` come in order of service. The first is promised budget / min(demands, max_partial)
// tokens, so that it always gets on; the rest goes to better priorities first and, among equals, to
// the shortest first, so that a short prompt is not stuck behind a long one. Equal prompts are
// served one after the other, which ends each as early as possible.
void DividePrefillBudget(int64_t budget, int64_t max_partial, absl::Span<PrefillDemand> demands);

}  // namespace quire
