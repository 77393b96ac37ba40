// The messages of a chat in the form that the template sees. Pure functions; any thread. Errors
// become the reader's status.
#pragma once

#include <optional>
#include <string>

#include "server/request/generation.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

JsonTree NewMessage(std::string role, JsonTree content);

// A member of an assistant's tool_calls.
JsonTree NewCall(std::string id, std::string name, JsonTree arguments);

// Adds a part that a client sent to the parts that a template sees, each of type text or thinking.
// A part that is not text fails; a part that is null is left out.
void AddPart(FieldReader& fields, const std::string& field, const JsonTree& part, JsonTree* parts);

// A message's content: a text, null, or parts, each of which becomes one of type text or thinking.
JsonTree ContentOf(FieldReader& fields, const std::string& field, const JsonTree& content);

// The text in the content of a message: the text of its parts, one below the other.
std::string TextOfContent(const JsonTree& message);

// chat_template_kwargs and, as one of them, reasoning_effort, as vLLM has it.
void FillTemplateKwargs(FieldReader& fields, const std::optional<std::string>& effort,
                        ChatPrompt* chat);

// messages, chat_template_kwargs, reasoning_effort, add_generation_prompt, continue_final_message.
void FillMessages(FieldReader& fields, ChatPrompt* chat);

// Refuses features that chats may ask for and that this server does not have.
void RefuseAbsentOfChats(FieldReader& fields);

}  // namespace quire
