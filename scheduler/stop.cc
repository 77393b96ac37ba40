#include "scheduler/stop.h"

#include <algorithm>

#include "kernels/base/check.h"

namespace quire {
namespace {

bool Contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

StopDecision CheckStop(const StopConditions& stop, TokenId token, int64_t num_generated,
                       int64_t max_generated) {
  CHECK_GE(num_generated, 1);
  CHECK_LE(num_generated, max_generated);
  if (num_generated > stop.min_tokens &&
      (Contains(stop.eos_token_ids, token) || Contains(stop.stop_token_ids, token))) {
    return {FinishReason::kStop, token};
  }
  if (num_generated == max_generated) return {FinishReason::kLength, -1};
  return {};
}

}  // namespace quire
