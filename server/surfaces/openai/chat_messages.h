// The messages of a chat as the template is to see them. Pure functions; any thread. What is wrong
// is the reader's status.
#pragma once

#include <optional>
#include <string>

#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// Adds a part that clients send to those that a template sees, each of type text or thinking. A
// part that is no text fails; one that is null is left out.
void AddPart(FieldReader& fields, const std::string& field, const JsonTree& part, JsonTree* parts);

// A message's content: a text, null, or parts, each of which becomes one of type text or thinking.
JsonTree ContentOf(FieldReader& fields, const std::string& field, const JsonTree& content);

// What the content of a message says: the text of its parts, one below the other.
std::string TextOfContent(const JsonTree& message);

// chat_template_kwargs, and as one of them, as vLLM has it, reasoning_effort.
void FillTemplateKwargs(FieldReader& fields, const std::optional<std::string>& effort,
                        ChatPrompt* chat);

// messages, chat_template_kwargs, reasoning_effort, add_generation_prompt, continue_final_message.
void FillMessages(FieldReader& fields, ChatPrompt* chat);

// What chats may ask for, and this server has not.
void RefuseAbsentOfChats(FieldReader& fields);

}  // namespace quire
