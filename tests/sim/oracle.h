// The simulated model: the next token is a function of the prefix (and of which continuation asks),
// and the KV of a position is a fingerprint of the prefix that ends there. ExpectedStream is what a
// continuation must produce when it runs by itself. It is computed without scheduler, blocks or
// cache.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/request.h"

namespace quire::sim {

inline constexpr TokenId kVocabSize = 40;

// Chained fingerprint of a prefix: 64 bits, so accidental equality does not happen.
uint64_t RootPrint(std::string_view salt);
uint64_t NextPrint(uint64_t print, TokenId token);

// What a layer group keeps in a slot for the prefix `print`.
uint64_t SlotTag(uint64_t print, int group);

// The token that follows `print` in continuation `index`: one of those in the mask, if there is
// one.
TokenId SampleToken(uint64_t print, int32_t index, absl::Span<const uint32_t> mask = {});

// The logprob reported for a token that ends the prefix `print`.
float TokenLogprob(uint64_t print);

struct ExpectedStream {
  uint64_t root = 0;             // print of the empty prefix
  std::vector<TokenId> tokens;   // prompt and generated; with kError the last one is not reported
  std::vector<uint64_t> prints;  // [tokens] of the prefixes that end at each token
  int64_t num_prompt_tokens = 0;
  FinishReason reason = FinishReason::kNone;
  TokenId matched_token = -1;

  int64_t num_reported() const {
    return static_cast<int64_t>(tokens.size()) - (reason == FinishReason::kError ? 1 : 0);
  }
};

ExpectedStream Expect(const Request& request, int32_t index, int64_t max_model_len);

}  // namespace quire::sim
