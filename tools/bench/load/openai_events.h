// What a chunk of OpenAI's streams says that a load wants to know. Read in one pass without a tree:
// a load reads a hundred thousand of them a second.
#pragma once

#include <string_view>

#include "tools/bench/load/load_backend.h"

namespace quire::bench {

// `data` is the JSON of a chunk, of a completion or a chat. Each of its pieces of text (content,
// reasoning, arguments of tool calls) counts as a token; texts, ids and logprobs are kept if
// wanted.
void TakeOpenAiChunk(std::string_view data, bool keeps_answer, AnswerSoFar* answer);

// The sentence of an error in OpenAI's JSON, or the body's beginning if it is none.
std::string OpenAiErrorText(std::string_view body);

}  // namespace quire::bench
