// The tools of a response in a chat's terms. Tools that only OpenAI's own servers run are left out
// or refused by name. Pure functions; any thread. Errors become the reader's status.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/surfaces/openai/chat_tools.h"
#include "server/surfaces/openai/field_reader.h"

namespace quire {

// A function that came in a namespace has its own name for the model, made of both names.
struct NamespacedFunction {
  std::string name_space;
  std::string name;
};

struct ResponsesTools {
  ChatTools chat;
  std::string json;  // the list that the answer repeats
  absl::flat_hash_map<std::string, NamespacedFunction> namespaced;  // by the model's name
};

ResponsesTools ReadTools(FieldReader& fields);

}  // namespace quire
