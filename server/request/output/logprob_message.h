// Logprobs as messages. A token is its id and its bytes; text is made of them by the transport that
// tells it. Pure; any thread.
#pragma once

#include "quire/v1/inference.pb.h"
#include "scheduler/scheduler_output.h"
#include "server/text/tokenizer/tokenizer.h"

namespace quire {

// Id and bytes.
void FillToken(const Tokenizer& tokenizer, TokenId token, v1::TokenLogprob* message);
// With logprob, rank and alternatives.
void FillTokenLogprob(const Tokenizer& tokenizer, TokenId token, const TokenLogprobs& logprobs,
                      v1::TokenLogprob* message);

// Gives each token of an answer its text: its bytes, with U+FFFD for those that are no character.
void AddTokenTexts(v1::GenerateResponse* response);
void AddTokenTexts(v1::GenerateOnceResponse* answer);

}  // namespace quire
