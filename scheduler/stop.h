// When a sequence ends by itself. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/types.h"
#include "scheduler/request.h"

namespace quire {

struct StopDecision {
  FinishReason reason = FinishReason::kNone;
  TokenId matched_token = -1;  // of kStop
};

// Whether a sequence ends with `token`, its `num_generated`-th generated token (from 1), when at
// most `max_generated` fit. A stop token among the first min_tokens is taken as an ordinary one.
StopDecision CheckStop(const StopConditions& stop, TokenId token, int64_t num_generated,
                       int64_t max_generated);

}  // namespace quire
