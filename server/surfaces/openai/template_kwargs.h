// What a request tells the chat template beside its messages and tools: chat_template_kwargs, and
// as one of them, as vLLM has it, reasoning_effort. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "quire/v1/inference.pb.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// chat_template_kwargs with `effort`, if there is one, as reasoning_effort. What is no object stays
// as it is, to be refused by its name; without a word of the request an object of nothing.
JsonTree TemplateKwargs(const FieldReader& fields, const std::optional<std::string>& effort);

// The same, to be the messages'; nothing where the request says nothing.
void FillTemplateKwargs(const FieldReader& fields, const std::optional<std::string>& effort,
                        v1::Messages* messages);

}  // namespace quire
