// The input of a response, a text or a list of items, in terms of quire.v1.Messages. Pure
// functions; any thread. What is wrong is the reader's status.
#pragma once

#include "quire/v1/inference.pb.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// reasoning.effort; fails where a summary of a certain kind is asked for.
std::optional<std::string> ReasoningEffort(FieldReader& fields);

// input, instructions, chat_template_kwargs, reasoning.
void FillInput(FieldReader& fields, v1::Messages* messages);

}  // namespace quire
