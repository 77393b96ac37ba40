// Logprobs as messages: token ids get their text. Pure; any thread.
#pragma once

#include <string>

#include "quire/v1/inference.pb.h"
#include "scheduler/scheduler_output.h"
#include "server/tokenizer/tokenizer.h"

namespace quire {

// What `token` adds to a text, with U+FFFD for bytes that are no character by themselves.
std::string TokenText(const Tokenizer& tokenizer, TokenId token);

void FillTokenLogprob(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs,
                      v1::TokenLogprob* message);

}  // namespace quire
