// Reads the parts of a chunk of OpenAI's streams that a load needs. It reads in one pass without a
// tree, because a load reads a hundred thousand chunks a second.
#pragma once

#include <string_view>

#include "tools/bench/load/load_backend.h"

namespace quire::bench {

// `data` is the JSON of a chunk, of a completion or a chat. Each of its pieces of text (content,
// reasoning, arguments of tool calls) counts as a token; texts, ids and logprobs are kept if
// wanted.
void TakeOpenAiChunk(std::string_view data, bool keeps_answer, AnswerSoFar* answer);

// The sentence of an error in OpenAI's JSON, or the body's beginning if the body is no such JSON.
std::string OpenAiErrorText(std::string_view body);

}  // namespace quire::bench
