#include "tests/sim/oracle.h"

#include <algorithm>
#include <optional>

#include "tests/sim/sim_constraint.h"

namespace quire::sim {
namespace {

// The finaliser of splitmix64.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool Contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

}  // namespace

uint64_t RootPrint(std::string_view salt) {
  uint64_t print = 0x51ed270b;
  for (char c : salt) print = Mix(print * 31 + static_cast<unsigned char>(c));
  return print;
}

uint64_t NextPrint(uint64_t print, TokenId token) {
  return Mix(print * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(token) + 1);
}

uint64_t SlotTag(uint64_t print, int group) { return Mix(print + static_cast<uint64_t>(group)); }

TokenId SampleToken(uint64_t print, int32_t index, absl::Span<const uint32_t> mask) {
  const uint64_t drawn = Mix(print ^ (0xabcdefu + static_cast<uint64_t>(index)));
  for (uint64_t i = 0; i < kVocabSize; ++i) {
    const uint64_t token = (drawn + i) % kVocabSize;
    if (mask.empty() || (mask[token / 32] >> (token % 32) & 1) != 0) {
      return static_cast<TokenId>(token);
    }
  }
  return -1;  // the mask has nothing: the token will not be the expected one
}

float TokenLogprob(uint64_t print) { return -static_cast<float>(print % 1000) / 100.0f; }

ExpectedStream Expect(const Request& request, int32_t index, int64_t max_model_len) {
  ExpectedStream stream;
  stream.num_prompt_tokens = request.prompt.size();
  stream.root = RootPrint(request.cache_salt);
  uint64_t print = stream.root;
  const auto append = [&](TokenId token) {
    print = NextPrint(print, token);
    stream.tokens.push_back(token);
    stream.prints.push_back(print);
  };
  for (TokenId token : request.prompt) append(token);
  std::optional<Automaton> automaton;
  if (request.constraint != nullptr) {
    automaton = static_cast<const SimConstraints&>(*request.constraint).NewAutomaton();
  }
  for (int64_t num_generated = 1;; ++num_generated) {
    const TokenId token = automaton.has_value() ? SampleToken(print, index, automaton->Mask())
                                                : SampleToken(print, index);
    append(token);
    if (automaton.has_value()) {
      if (automaton->Refuses(token)) {
        stream.reason = FinishReason::kError;
        return stream;
      }
      automaton->Take(token);
    }
    const bool is_stop =
        Contains(request.stop.eos_token_ids, token) || Contains(request.stop.stop_token_ids, token);
    if (is_stop && num_generated > request.stop.min_tokens) {
      stream.reason = FinishReason::kStop;
      stream.matched_token = token;
      return stream;
    }
    if (automaton.has_value() && automaton->is_at_end()) {
      stream.reason = FinishReason::kStop;
      return stream;
    }
    const int64_t length = stream.tokens.size();
    if (num_generated == request.stop.max_tokens || length == max_model_len) {
      stream.reason = FinishReason::kLength;
      return stream;
    }
  }
}

}  // namespace quire::sim
