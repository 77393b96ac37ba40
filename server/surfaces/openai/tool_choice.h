// tool_choice: whether a model may call tools, whether it must, and which. Pure functions; any
// thread. Errors become the reader's status.
#pragma once

#include <string>

#include "server/surfaces/openai/field_reader.h"

namespace quire {

struct ToolChoice {
  bool may_call = true;
  bool must_call = false;
  std::string function = {};  // the only one to be called
};

// As chats and as responses write it.
ToolChoice ReadToolChoice(FieldReader& fields);

}  // namespace quire
