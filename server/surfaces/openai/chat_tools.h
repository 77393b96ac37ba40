// The tools of a chat: what of them the template sees, and how calls of them are found in the
// answer. Pure functions; any thread. What is wrong is the reader's status.
#pragma once

#include "quire/v1/inference.pb.h"
#include "server/surfaces/openai/field_reader.h"
#include "server/text/answer/answer_parser.h"

namespace quire {

// tools and tool_choice: fills in the template's tools. Returns them; null where there are none
// that the model may call.
const JsonTree* FillTools(FieldReader& fields, v1::Messages* messages);

// The same for an answer, in which calls are written as `format` has it; also parallel_tool_calls.
void FillTools(FieldReader& fields, ToolFormat format, v1::Messages* messages,
               AnswerOptions* options);

// A message's tool_calls as templates expect them: OpenAI's clients send the arguments as a text of
// JSON, models see them as JSON. What is no JSON, or too much with `*num_values` from before, stays
// a text.
void DecodeArguments(JsonTree* tool_calls, size_t* num_values);

}  // namespace quire
