// The input of a response, a text or a list of items, as messages of a chat. Pure functions; any
// thread. Errors become the reader's status.
#pragma once

#include <optional>
#include <string>

#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// reasoning.effort; fails if a certain kind of summary is asked for.
std::optional<std::string> ReasoningEffort(FieldReader& fields);

// input, instructions, chat_template_kwargs, reasoning.
void FillInput(FieldReader& fields, ChatPrompt* chat);

}  // namespace quire
