// The input of a response, a text or a list of items, in terms of quire.v1.Messages. Pure
// functions; any thread. What is wrong is the reader's status.
#pragma once

#include "quire/v1/inference.pb.h"
#include "server/openai/field_reader.h"

namespace quire {

// input, instructions, chat_template_kwargs.
void FillInput(FieldReader& fields, v1::Messages* messages);

}  // namespace quire
