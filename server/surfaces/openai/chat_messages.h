// The messages of a chat in terms of quire.v1.Messages. Pure functions; any thread. What is wrong
// is the reader's status.
#pragma once

#include <string>

#include "quire/v1/inference.pb.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// A message's content: a text, parts or null. What is no text goes to the message's further
// members, in `extra`; then the message has the text of its parts, too, one below the other.
void FillContent(FieldReader& fields, const std::string& field, const JsonTree& content,
                 v1::Message* message, JsonTree* extra);

// messages, chat_template_kwargs, reasoning_effort, add_generation_prompt, continue_final_message.
void FillMessages(FieldReader& fields, v1::Messages* messages);

// What chats may ask for, and this server has not.
void RefuseAbsentOfChats(FieldReader& fields);

}  // namespace quire
